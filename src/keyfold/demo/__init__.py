"""The demo: a shop app, a generator of its input, and a recount that verifies the result."""
