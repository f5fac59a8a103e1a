"""Streams that are parsed once, into a log that their tables read."""
