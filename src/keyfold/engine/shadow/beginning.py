"""The start of a shadow run: the state of the table, and the batches of its streams already in it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.log.manifest import Manifest
from keyfold.engine.log.readers import Use, offset
from keyfold.engine.log.retention import totals
from keyfold.engine.log.shared_streams import SharedStreams
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.recovery.definition import meaning_of
from keyfold.engine.recovery.definition_changes import Readers, TableChange, compare
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.errors import BadOption
from keyfold.plan import tree

Positions = Mapping[str, int]
"""The newest batch of each stream that a table has read."""

_LET_RUN: Final = "let the app run first"


@dataclass(frozen=True)
class Beginning:
    """What a shadow run starts with, and what it then reads, step by step."""

    change: TableChange
    state: int | None
    """The batch of the table whose state it starts with; None: it starts empty."""
    after: Positions
    steps: tuple[Positions, ...]
    """How far the table had read after each of its batches."""
    batches: int
    """The number of batches of its streams in the run."""
    unchanged: int
    """The newest batch of the table before these batches; -1 if there is none."""
    whole: bool
    """Whether the table itself had read nothing before these batches, or the run starts with its state."""


def refusal(compiled: Compiled, shared: SharedStreams) -> str | None:
    """Why no recorded batches of a table can be run; None if they can be."""
    spec = compiled.spec
    if read := list(dict.fromkeys(node.table for node in tree.reads(spec.input))):
        return f"it reads the table {', '.join(read)}; a shadow run reads what streams have recorded"
    logs = shared.of(spec)
    for stream in tree.queried_sources(shared.spec, spec):
        if stream.name in logs:
            continue
        if stream.history_ms is None:
            return f"stream {stream.name} records no rows: declare it with history=, such as history='7 days'"
        return f"it reads the source of stream {stream.name} itself, since it began before history="
    return None


def beginning(
    shared: SharedStreams,
    home: AppHome,
    stored: StoredApp,
    compiled: Compiled,
    change: TableChange,
    view: int | None,
    number: int,
) -> Beginning:
    """The start of a run of the last `number` recorded batches. `view`: the batch of its view."""
    search = _Search(home, stored, compiled, change, shared.uses(compiled.spec), view)
    return search.find(number)


@dataclass
class _Search:
    home: AppHome
    stored: StoredApp
    compiled: Compiled
    change: TableChange
    uses: Sequence[Use]
    view: int | None
    recorded: dict[str, list[Manifest]] = field(default_factory=dict)
    pruned: dict[str, int] = field(default_factory=dict)

    @property
    def table_home(self) -> TableHome:
        return self.home.table(self.change.was or self.change.table)

    def find(self, number: int) -> Beginning:
        known = self._positions()
        for use in self.uses:
            log = TableLog(use.upstream(self.home).log_files)
            upto = known[self.view][use.table] if self.view is not None else None
            self.pruned[use.table] = totals(log).upto
            self._require_read(log, use.table, upto)
            found = list(log.after(self.pruned[use.table]))
            self.recorded[use.table] = [m for m in found if upto is None or m.batch <= upto]
        self._require_recorded(number)
        start = {
            s: found[-min(number, len(found))].batch - 1 if found else self.pruned[s]
            for s, found in self.recorded.items()
        }
        began = self.stored.table(self.compiled.spec.name).initial
        reaches = all(start[s] <= self.pruned[s] < 0 or not self.recorded[s] for s in start)
        whole = reaches and began is None
        change = _by_state(self.home, self.stored, self.compiled, self.change)
        states = [b for b in known if change is not None and self.table_home.spark.keeps_state(b)]
        before = [b for b, read in known.items() if all(read[s] <= start[s] for s in start)]
        kept = [b for b in before if b in states]
        if change is not None and kept:
            return self._after(change, max(kept), known, known[max(kept)])
        if change is not None and not whole and self.change.rebuilt is None:
            self._refuse_old_state(states, known)
        anew = self._after(self.change, None, known, start)
        return replace(anew, whole=whole, unchanged=max(before, default=-1))

    def _positions(self) -> dict[int, Positions]:
        """How far the table had read after each batch that its checkpoint still lists."""
        if self.view is None:
            return {}
        listed = sorted(int(n) for n in self.table_home.spark.storage.list("offsets") if n.isdecimal())
        # Under the numbers that these uses had when the table began.
        names = (name.partition("-") for name in self.table_home.storage.list("inputs"))
        numbers = {stream: int(number) for number, _, stream in names}
        uses = [replace(use, number=numbers.get(use.table, use.number)) for use in self.uses]
        return {
            batch: {use.table: offset(use, self.table_home, batch) for use in uses}
            for batch in listed
            if batch <= self.view
        }

    def _after(
        self, change: TableChange, state: int | None, known: Mapping[int, Positions], after: Positions
    ) -> Beginning:
        steps = [read for batch, read in known.items() if batch > (-1 if state is None else state)]
        steps = [read for read in steps if any(read[s] > after[s] for s in after)]
        # Batches of which the table no longer records where they ended are run one by one.
        first = steps[0] if steps else _ends(self.recorded)
        unread = sorted(
            (m.at, stream, m.batch)
            for stream, found in self.recorded.items()
            for m in found
            if after[stream] < m.batch <= first[stream]
        )
        single, read = [], dict(after)
        if state is None:
            for _, stream, batch in unread:
                read = {**read, stream: batch}
                single.append(read)
        ordered = list(dict.fromkeys(tuple(sorted(step.items())) for step in (*single, *steps)))
        batches = [m for s, found in self.recorded.items() for m in found if m.batch > after[s]]
        return Beginning(
            change,
            state,
            after,
            tuple(map(dict, ordered)),
            len(batches),
            -1 if state is None else state,
            True,
        )

    def _require_read(self, log: TableLog, stream: str, upto: int | None) -> None:
        last = max((of.last for of in log.merged.ranges()), default=-1)
        if upto is not None and last > upto:
            raise BadOption(
                f"{self.compiled.name} has not read batches of stream {stream} that were merged since",
                given=f"read up to batch {upto}, merged up to {last}",
                hint="start the app, and let it read them (keyfold run APP.py --drain)",
            )

    def _require_recorded(self, number: int) -> None:
        most = max((len(found) for found in self.recorded.values()), default=0)
        if number > most:
            streams = ", ".join(self.recorded)
            raise BadOption(
                f"only {most:,} recorded batches of {streams}, which {self.compiled.name} reads, exist",
                given=f"--shadow {number}",
                hint=f"--shadow {most}; history= of the stream keeps more" if most else _LET_RUN,
            )

    def _refuse_old_state(self, states: Sequence[int], known: Mapping[int, Positions]) -> None:
        hints = []
        if states:
            read = known[min(states)]
            most = max(sum(m.batch > read[s] for m in found) for s, found in self.recorded.items())
            hints += [f"--shadow {most}, or fewer"] if most else []
        if all(upto < 0 for upto in self.pruned.values()):
            hints.append(f"or all of them, --shadow {max(map(len, self.recorded.values()))}")
        raise BadOption(
            f"the state that {self.compiled.name} had before these batches is no longer there",
            given=f"states of batches {min(states)} to {max(states)} are" if states else "none is retained",
            hint="; ".join(hints) or _LET_RUN,
        )


def _ends(recorded: Mapping[str, Sequence[Manifest]]) -> dict[str, int]:
    return {stream: found[-1].batch if found else -1 for stream, found in recorded.items()}


def _by_state(
    home: AppHome, stored: StoredApp, compiled: Compiled, change: TableChange
) -> TableChange | None:
    """How the table continues from the existing state; None if the state can't follow.

    Unlike a start, a shadow run may apply new conditions and columns of the input to an old state: the
    differences then show their effect on these batches.
    """
    if change.kind in ("new", "removed"):
        return None
    if change.kind != "incompatible" and change.rebuilt is None:
        return change
    name = change.was or change.table
    old, now = stored.tables[name], meaning_of(compiled)
    operators = home.table(name).spark.operators()
    if len(operators) > 1 or old.state != json.loads(compiled.state_schema):
        return None
    input_ = {part: text for part, text in now.items() if _of_input(part)}
    kept = {part: text for part, text in old.meaning.items() if not _of_input(part)}
    found = compare(replace(old, meaning={**kept, **input_}), now, compiled, Readers(), len(operators))
    return None if found.kind == "incompatible" else replace(found, was=change.was)


def _of_input(part: str) -> bool:
    """Whether a part of a table's meaning is a condition, or a column of a step before the table."""
    stage, _, rest = part.partition(":")
    return part.startswith("where:") or (stage.isdecimal() and rest.startswith(("where:", "column:")))
