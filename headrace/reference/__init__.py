"""Reference of the settings file: its tables and keys from the settings classes (`sections`), an example file
(`example`), and the origin of each value (`origins`).
"""
