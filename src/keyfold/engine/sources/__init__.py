"""Sources as streaming DataFrames."""
