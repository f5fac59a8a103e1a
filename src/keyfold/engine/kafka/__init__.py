"""Kafka: the connector's jars, a broker for development, clients, and the exactly-once sink."""
