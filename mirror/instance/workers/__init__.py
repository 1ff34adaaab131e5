"""The worker processes of an instance, and the datastreams that end them."""
