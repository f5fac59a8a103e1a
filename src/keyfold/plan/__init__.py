"""The plan: what an app declares, as plain data. Nothing here knows Spark."""
