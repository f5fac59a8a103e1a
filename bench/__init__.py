"""Measurements: keyfold beside Spark's built-in aggregation, as ratios of one run."""
