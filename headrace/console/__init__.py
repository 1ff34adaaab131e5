"""What commands share: `terminal.py` prints, `escapes.py` keeps what comes from outside from commanding a
terminal, `durations.py` parses, `client.py` calls a running service over REST.
"""
