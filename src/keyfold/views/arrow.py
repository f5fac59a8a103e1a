"""Lazy access to pyarrow: reading a row doesn't need it, and importing it takes half a second."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name == "compute":
        return importlib.import_module("pyarrow.compute")
    return getattr(importlib.import_module("pyarrow"), name)
