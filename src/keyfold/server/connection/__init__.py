"""What a connection may take of the server: bytes, time and descriptors."""
