"""Implementations of the interfaces in `pmp.ports`; the only modules of this package that import Kafka
clients."""
