"""Declarations as plain data: the nodes of a plan, their validation and their description. No Spark."""
