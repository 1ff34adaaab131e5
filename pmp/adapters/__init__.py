"""The only rooms of this wing that import Kafka's client libraries; they satisfy `pmp.ports`."""
