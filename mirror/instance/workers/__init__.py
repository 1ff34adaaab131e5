"""Worker processes of an instance, isolation of datastreams that crash workers, and learned copying costs."""
