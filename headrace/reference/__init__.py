"""The settings as a file: tables and keys of the classes (`sections`), an example (`example`), and the origin
of each value (`origins`).
"""
