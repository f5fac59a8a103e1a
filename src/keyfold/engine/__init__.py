"""Where declarations meet Spark: session, compile, run, and what each batch does."""
