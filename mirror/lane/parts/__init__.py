"""Parts of a lane: reading, the ownership of the destination, and observations. Pure."""
