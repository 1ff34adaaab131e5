"""Bug reports that are reproduced, and their table."""
