"""Resources of /v1.

Each module contains the endpoints of one resource, with its request and response bodies. Handlers call
`mirror.control` or read a status. Models convert to and from the values of `mirror.model`. Start with
`status.py`, then `datastreams/datastreams.py`. `fleet_answers.py` lists the queries of other instances.
"""
