"""What commands share: `terminal.py` prints, `durations.py` parses, `client.py` calls a running service
over REST.
"""
