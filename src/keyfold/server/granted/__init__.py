"""What a token may read: a home, its apps and their views without all else; routes know of no tokens."""
