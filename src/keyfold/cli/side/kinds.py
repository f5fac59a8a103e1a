"""The kinds of side outputs that `keyfold side` knows; a new one is a module here and an entry."""

from __future__ import annotations

from typing import Final

from keyfold.cli.side.duplicate import DuplicateRows
from keyfold.cli.side.kind import SideKind
from keyfold.cli.side.late import LateRows
from keyfold.cli.side.rejected import RejectedRows

KINDS: Final[dict[str, SideKind]] = {
    kind.name: kind for kind in (RejectedRows(), LateRows(), DuplicateRows())
}


def kind_of(name: str) -> SideKind:
    """The kind of that name."""
    from keyfold.plan.validate import arguments

    return KINDS[arguments.one_of(name, KINDS, "the kind of side output")]
