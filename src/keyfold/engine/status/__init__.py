"""The status of a running app: metrics, backlog, failures."""
