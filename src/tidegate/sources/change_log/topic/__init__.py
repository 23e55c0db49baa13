"""Logs of changes in Kafka topics."""
