"""Side outputs: what the commands of `keyfold side` do with each kind."""
