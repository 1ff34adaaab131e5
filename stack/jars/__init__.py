"""The jars of the servers and the Java that runs them: found on this machine or fetched, every byte
checked.

Read `jar_sets.py`; `python -m stack.jars` is the command. `coordinates.py` reads the committed lists in
`artefacts/`, which `lists.py` renews; `download.py` fetches, with `ivy.py` and `certificates.py` where the
wheel of PySpark must resolve; `java.py` chooses the Java. Imports `process` and what is below it.
"""
