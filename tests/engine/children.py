"""The environment of apps that tests of the engine run in processes of their own, to kill them."""

from __future__ import annotations

import json
import os

from tests.engine.conftest import INTERPRETED


def environment() -> dict[str, str]:
    """As most modules here, children interpret expressions: in a new JVM, the compiler comes cold as well."""
    return {**os.environ, "KEYFOLD_SPARK": json.dumps(INTERPRETED)}
