"""Commands that read tables, logs and side outputs."""
