"""Parts of a lane: reading, ownership of the destination partition, and observations. Pure."""
