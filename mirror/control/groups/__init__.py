"""Datastreams that share tasks: common rules, and changes of all or none."""
