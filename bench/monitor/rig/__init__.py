"""What they run on."""
