"""The only modules of this package that import Kafka client libraries; they implement `pmp.ports`."""
