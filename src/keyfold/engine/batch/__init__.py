"""What each batch does, and the side outputs it writes."""
