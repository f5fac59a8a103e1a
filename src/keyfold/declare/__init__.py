"""The API for declaring apps, streams and tables. Declaring checks arguments and has no other effect."""

from __future__ import annotations

from keyfold.declare.app import App
from keyfold.declare.keyed_stream import KeyedStream
from keyfold.declare.stream import Stream
from keyfold.declare.table import Table

__all__ = ["App", "KeyedStream", "Stream", "Table"]
