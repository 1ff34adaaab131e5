"""Service addresses and credentials of commands. Start with `quick.py`.

Nothing here imports pydantic or the settings of another package: that takes ten times as long as most calls.
"""
