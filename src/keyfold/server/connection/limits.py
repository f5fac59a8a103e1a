"""`Limits`: what a connection may take of the server before anybody has shown a token."""

from __future__ import annotations

import resource
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The limits of connections."""

    head_bytes: int = 60_000 + 65_536
    """How long the address and the headers of a request may be together."""
    head_seconds: float = 20
    """How long they may take to come, from the beginning of a connection or of the request."""
    request_seconds: float = 45
    """How long the rest may take, whoever reads it; routes that read a body give up before and say so."""
    connections: int = 5_000
    reserve: int | None = None
    """The descriptors that are kept for files; by default a part of those that the process may have."""

    @property
    def descriptors(self) -> float:
        """The first descriptor that a connection may not have."""
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if most == resource.RLIM_INFINITY:
            return float("inf")
        return most - (min(256, most // 2) if self.reserve is None else self.reserve)
