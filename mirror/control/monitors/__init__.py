"""What monitors ask of the service, and what people allow them. Read `acts.py`."""
