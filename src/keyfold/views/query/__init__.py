"""The query language of views: `where` and `order_by`."""
