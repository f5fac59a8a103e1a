"""What an operation records before it changes a home, and how an interrupted one is finished."""
