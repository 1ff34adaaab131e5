"""Our own Kafka client for threads that ask and wait: one event loop in a thread beside them."""
