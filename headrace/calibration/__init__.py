"""What one core of this host copies, measured with one worker between two brokers of its own.

May import stack/, the copy without a service, and mirror. Read `measure.py` first.
"""
