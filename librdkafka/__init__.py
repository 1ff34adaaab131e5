"""confluent-kafka for code that handles single records beside the mirror, or needs an independent client.

Contains its settings, the translation of its errors, and its log. Samplers, rollups and the monitor use it;
the mirror does not.
"""
