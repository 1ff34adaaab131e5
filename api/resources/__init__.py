"""Resources of /v1: each module holds the endpoints of one resource with its bodies and responses.

Handlers call `mirror.control` or read a status; models convert to and from the values of `mirror.model`. Read
`status.py` first, then `datastreams/datastreams.py`. `fleet_answers.py` lists the queries of other instances.
"""
