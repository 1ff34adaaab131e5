"""The jars of the servers and their Java: found on this machine or fetched, with verified checksums.

Read `jar_sets.py`; `python -m stack.jars` is the command. `coordinates.py` reads the committed lists in
`artefacts/`, which `lists.py` renews; `download.py` fetches jars, with `ivy.py` (the resolver in the PySpark
wheel) and `certificates.py`; `java.py` selects the Java. Imports `process` and the modules below it.
"""
