"""The initial content of tables, `initial=`: rows of files, or the state of a savepoint."""
