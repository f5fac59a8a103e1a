"""Every operation on a stopped app, with every kind of source: followed by new input and a start."""
