"""Jobs that end by themselves, such as copy, verify and translate. They use the cluster clients of an
engine."""
