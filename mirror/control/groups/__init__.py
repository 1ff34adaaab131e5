"""Groups of datastreams that share tasks: common rules, and atomic changes of all members."""
