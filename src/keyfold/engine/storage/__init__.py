"""Files on disk: their layout, durable writes, Spark's checkpoint formats, and the lock on a home."""
