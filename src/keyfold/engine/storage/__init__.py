"""Files on disk: their layout, durable writes, Spark's checkpoint formats, and the lease on a home."""
