"""What a user writes: an app, its streams and its tables. Declaring checks arguments and touches nothing."""

from __future__ import annotations

from keyfold.app.app import App
from keyfold.app.keyed import Keyed
from keyfold.app.stream import Stream
from keyfold.app.table import Table

__all__ = ["App", "Keyed", "Stream", "Table"]
