"""What goes round librdkafka itself, in any of its clients."""
