"""confluent-kafka, where records are handled one by one beside the mirror or an independent client is wanted.

Its settings, its errors in our words, its log. Samplers, rollups and audits use it; the mirror does not.
"""
