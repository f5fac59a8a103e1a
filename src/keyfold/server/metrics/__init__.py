"""The metrics of a home and of its server, for Prometheus."""
