"""Starts an app: takes its home, has its tables begin with their initial rows, and starts the queries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from keyfold.engine.handle import Handle
from keyfold.engine.initial.begin import begin
from keyfold.engine.startup.home import hold_home
from keyfold.engine.startup.launch import launch
from keyfold.engine.startup.options import StartOptions
from keyfold.plan.nodes import AppSpec

_USUAL: Final = StartOptions()


def start(
    spec: AppSpec,
    *,
    spark: Any = None,
    home: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    options: StartOptions = _USUAL,
) -> Handle:
    """Starts every table of the app and returns at once. `spark`: a session, or settings for one."""
    with hold_home(spec, spark, home, settings, options) as held:
        begin(held)
        return launch(held)
