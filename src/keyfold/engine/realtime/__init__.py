"""Tables in Spark's real-time mode: their queries, and the task slots that they hold."""
