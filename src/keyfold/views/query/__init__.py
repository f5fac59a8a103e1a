"""The language of `where` and `order_by`."""
