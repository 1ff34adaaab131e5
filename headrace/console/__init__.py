"""Code that commands share.

`terminal.py` prints, `escapes.py` escapes control characters of untrusted text, `durations.py` parses
durations, `option_groups.py` defines groups of options, and `client.py` calls a running service over REST.
"""
