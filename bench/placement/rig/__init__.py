"""What the measurements of placement run on."""
