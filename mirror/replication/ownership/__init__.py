"""Ownership of lanes: start positions, producer ids, transactions and checkpoints."""
