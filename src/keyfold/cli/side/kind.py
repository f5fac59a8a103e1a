"""A kind of side output, as the commands of `keyfold side` see it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from keyfold.errors import BadOption

if TYPE_CHECKING:
    from keyfold.engine.log.manifest import Kind


@dataclass(frozen=True)
class Wanted:
    """Which rows are to be shown."""

    batches: Sequence[int] = ()
    """Those of these batches alone, if there are any."""
    reason: str | None = None
    """Those whose reason has this text."""
    limit: int | None = None
    """The newest ones."""

    def require(self, kind: str, known: Collection[str]) -> None:
        """Refuses an option that a kind of side output does not have."""
        given = {"--batch": bool(self.batches), "--reason": self.reason is not None}
        for name, is_given in given.items():
            if is_given and name not in known:
                hint = f"{' or '.join(sorted({'--limit', *known}))}, or no option"
                raise BadOption(f"{name} is not an option for {kind} rows", given=name, hint=hint)


class SideKind(ABC):
    """Lists, shows and replays the rows of one kind."""

    name: ClassVar[Kind]
    options: ClassVar[Collection[str]]
    """Those of `show`, beside `--limit`."""
    replay_hint: ClassVar[str] = ""
    """What to do instead, if rows of this kind can't be replayed."""

    @abstractmethod
    def list(self, name: str, home: str | None, json: bool) -> None:
        """Prints how many rows there are."""

    @abstractmethod
    def show(self, name: str, wanted: Wanted, home: str | None, json: bool) -> None:
        """Prints rows."""

    def replay(self, name: str, batches: Sequence[int], home: str | None, json: bool) -> None:
        """Sends rows to be folded after all."""
        del batches, home, json
        raise BadOption(f"{self.name} rows can't be replayed", given=name, hint=self.replay_hint)
