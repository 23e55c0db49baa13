"""A change log in Kafka topics."""
