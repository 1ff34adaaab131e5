"""Commands of who may call the service. Read token.py first."""
