"""The demo: a shop with a generator of its own, and a recount in plain Python of what keyfold says."""
