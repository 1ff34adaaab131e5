"""Jobs that end by themselves, such as copy, verify and translate. The jobs use the cluster clients of an
engine."""
