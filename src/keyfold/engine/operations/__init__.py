"""What an operation on a home records before it changes anything, and how what was interrupted is finished."""
