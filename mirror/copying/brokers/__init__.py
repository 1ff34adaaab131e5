"""What an engine knows of the brokers that it talks to."""
