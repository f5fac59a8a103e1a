"""Arrow, loaded when it is first used: reading a row needs none of it, and loading takes half a second."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name == "compute":
        return importlib.import_module("pyarrow.compute")
    return getattr(importlib.import_module("pyarrow"), name)
