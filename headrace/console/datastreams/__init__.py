"""Datastreams on the command line: `fields.py` has their options, `manifests.py` reads their files,
`difference.py` and `changes.py` say what would change, `conditions.py` waits.
"""
