"""What every process of Headrace is set up with: signals, logs, cores, garbage collection, REST, compiled
modules. Imports nothing of the other rooms.
"""
