"""What becomes of calls that take long or that a stop cuts off."""
