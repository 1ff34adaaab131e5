"""Parts of a lane, by owner: reading, the queue, and the ownership of the destination. Pure."""
