"""Groups of datastreams that share tasks: rules for all members, and atomic changes of all members."""
