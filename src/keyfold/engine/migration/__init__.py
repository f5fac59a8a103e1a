"""A table's state, log and view as a changed definition has them."""
