"""What tables begin with before their stream, `initial=`: rows of files, or the state of a savepoint."""
