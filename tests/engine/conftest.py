"""What the engine's tests share. They need Java and PySpark, and use one JVM per process."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "jvm: starts Spark")
