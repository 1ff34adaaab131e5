"""What measurements of the service run on. Start with guarded.py."""
