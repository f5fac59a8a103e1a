"""What a start can be told beside the app, its home and its settings, by commands and tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from keyfold.engine.startup_phases import Tell, brief
from keyfold.errors import HomeLocked


@dataclass(frozen=True)
class StartOptions:
    """How a start differs from the usual one, in which an app reads its sources in a user's process."""

    feeds: Mapping[str, Path] = field(default_factory=dict)
    """Directories of JSON rows in place of streams' sources."""
    changelog: bool = False
    """Whether to keep the changes of each batch."""
    tell: Tell = brief
    alone: bool = False
    """Whether the process ends with this run."""
    standby: Callable[[HomeLocked], None] | None = None
    """Called again and again while another process holds the home, in place of an error.

    The start continues when that process has ended. Spark is up by then.
    """
    recorded: bool = False
    """Whether tables read what streams have recorded, and streams read nothing; no status is written."""
