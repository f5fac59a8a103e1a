"""Where an app's files are, who may write them, and Spark's checkpoint formats."""
