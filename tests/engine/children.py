"""How tests of the engine run expressions, in their own process and in those of apps that they start."""

from __future__ import annotations

import json
import os
from typing import Final

MODE: Final = "spark.sql.codegen.factoryMode"
INTERPRETED: Final = {MODE: "NO_CODEGEN"}


def environment() -> dict[str, str]:
    """Children interpret expressions, as most modules do: the compiler of a new JVM is cold."""
    return {**os.environ, "KEYFOLD_SPARK": json.dumps(INTERPRETED)}
