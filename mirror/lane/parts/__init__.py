"""Parts of a lane: reading, the queue, the ownership of the destination, and observations. Pure."""
