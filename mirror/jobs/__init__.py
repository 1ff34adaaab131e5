"""Jobs that run once and then end, such as copy, verify and translate. Jobs use the cluster clients of an
`EngineContext`."""
