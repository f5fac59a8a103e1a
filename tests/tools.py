"""The programs in tools/, as modules."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[1] / "tools"


def tool(name: str) -> types.ModuleType:
    """A program of tools/, which finds the modules beside it, as it does when it runs."""
    if str(TOOLS) not in sys.path:
        sys.path.append(str(TOOLS))
    return importlib.import_module(name)
