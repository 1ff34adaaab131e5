"""Worker processes of an instance, and isolation of datastreams that crash workers."""
