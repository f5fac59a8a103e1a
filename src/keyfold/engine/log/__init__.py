"""A table's log: the changes and side outputs of each batch, published by one manifest."""
