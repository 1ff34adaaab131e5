"""What the measurements of this room run on."""
