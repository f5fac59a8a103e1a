"""How a running app is doing."""
