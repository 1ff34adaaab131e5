"""One mirror's traffic over three event loops, without Kafka: what receiving and sending itself costs."""
