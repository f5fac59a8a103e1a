"""Sources and formats: streams as DataFrames, and the names of their files."""
