"""What is recorded of a state, so that two states can be compared: a count and a checksum of its parts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class FamilyDigest:
    """What one column family of one operator holds; the order of its rows does not matter."""

    operator: int
    family: str
    rows: int
    checksum: str
