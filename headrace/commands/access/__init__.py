"""Commands that manage access to the service. Read token.py first."""
