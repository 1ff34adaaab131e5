"""Implementations of `pmp.ports`; the only modules of this package that import Kafka clients."""
