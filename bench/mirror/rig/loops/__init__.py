"""Traffic of one mirror over three event loops, without Kafka: the cost of receiving and sending itself."""
