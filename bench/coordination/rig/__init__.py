"""A service under steady traffic that records when records arrive in each partition."""
