"""Service under steady traffic, with the arrival times of each partition."""
