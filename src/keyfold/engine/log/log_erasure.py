"""Removes rows of a key from the files of a log, including its manifests.

No file is overwritten here: the new content of each file is passed to a function that puts it in place.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from keyfold.engine.log import merged
from keyfold.engine.log.key_text import as_text, is_value
from keyfold.engine.log.manifest import Manifest, Part, Reason, part_of
from keyfold.engine.log.row_text import Found, Texts
from keyfold.engine.log.table_log import ROWS_AT_ONCE, TableLog

if TYPE_CHECKING:
    import pyarrow as pa

Put = Callable[[str, bytes], None]
"""Receives the new content of a file of the log, by its name."""


@dataclass
class LogErasure:
    """Rows whose `columns` have these values, as text; for side outputs, whose text has those of `source`."""

    log: TableLog
    columns: Mapping[str, str]
    source: Mapping[str, str]
    put: Put
    texts: Texts = field(default_factory=Texts)
    key: Sequence[str] = ()
    """The columns of the whole key; `columns` may be a subset."""
    stays: Container[int] = ()
    """Batches whose changes stay."""
    left: set[int] = field(default_factory=set)
    """Those of them that have changes of the key."""
    keys: set[tuple[str, ...]] = field(default_factory=set)
    """The keys of erased changes."""
    erased: Counter[str] = field(default_factory=Counter)
    """The number of rows of each kind."""
    by_word: int = 0
    """The number of these found as words in a text without columns, which may belong to other keys."""
    files: int = 0

    def run(self) -> None:
        """Passes on the changed files: parts, then the manifests that list them."""
        own = [found for batch in self.log.own_batches() if (found := self.log.find(batch)) is not None]
        ranges = {of: self.log.merged.manifests(of) for of in self.log.merged.ranges()}
        known = [*own, *(manifest for manifests in ranges.values() for manifest in manifests)]
        staying: defaultdict[str, list[tuple[Part, int]]] = defaultdict(list)
        for manifest in known:
            if manifest.batch in self.stays:
                for part in manifest.of_kind("change"):
                    staying[part.path].append((part, manifest.batch))
        rewritten = self._rewrite(
            {part.path: part for m in known for part in m.parts if self.log.has(part)}, staying
        )
        for manifest in own:
            changed = self._manifest(manifest, rewritten)
            if changed is not manifest:
                self._put(f"{manifest.batch}.json", changed.encode())
        for of, manifests in ranges.items():
            after = [self._manifest(manifest, rewritten) for manifest in manifests]
            if any(new is not old for new, old in zip(after, manifests, strict=True)):
                self._put(of.file, merged.encode(after))

    def _put(self, name: str, content: bytes) -> None:
        self.files += 1
        self.put(name, content)

    def _rewrite(
        self, parts: Mapping[str, Part], staying: Mapping[str, list[tuple[Part, int]]]
    ) -> dict[str, _File]:
        """The files with rows of the key, by name. `staying`: the parts of each that stay, and batches."""
        found = {}
        for path, part in parts.items():
            if (file := self._file(path, part, staying.get(path, ()))) is not None:
                found[path] = file
        return found

    def _file(self, path: str, part: Part, staying: Iterable[tuple[Part, int]]) -> _File | None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        whole = replace(part, first=None)
        schema = self.log.schema(whole)
        batches = list(self.log.part_rows(whole))
        table = pa.Table.from_batches(batches, schema)
        stays = [not mine for mine in self._mine(table, part.kind)]
        for one, batch in staying:
            rows = slice(one.first or 0, (one.first or 0) + one.rows)
            if not all(stays[rows]):
                self.left.add(batch)
                stays[rows] = [True] * one.rows
        if all(stays):
            return None
        self.erased[part.kind] += stays.count(False)
        out = pa.BufferOutputStream()
        pq.write_table(table.filter(pa.array(stays)), out, store_schema=False, row_group_size=ROWS_AT_ONCE)
        content = out.getvalue().to_pybytes()
        self._put(path, content)
        return _File(stays, part_of(path, part.kind, stays.count(True), content))

    def _mine(self, table: pa.Table, kind: str) -> Iterator[bool]:
        needed = set(self.columns) if kind == "change" else {"raw"}
        if not needed <= set(table.column_names):
            return iter([False] * table.num_rows)
        if kind == "change":
            names = dict.fromkeys([*self.columns, *(n for n in self.key if n in table.column_names)])
            return (self._is_mine(row) for row in table.select(list(names)).to_pylist())
        texts = table.select([n for n in ("raw", "stream") if n in table.column_names]).to_pylist()
        found = [self._find(row) for row in texts]
        self.by_word += found.count("word")
        return (one is not None for one in found)

    def _is_mine(self, row: Mapping[str, Any]) -> bool:
        mine = all(is_value(row[name], value) for name, value in self.columns.items())
        if mine and self.key:
            self.keys.add(tuple(as_text(row.get(name)) for name in self.key))
        return mine

    def _find(self, row: Mapping[str, Any]) -> Found | None:
        return self.texts.match(row.get("raw"), row.get("stream"), self.source)

    def _manifest(self, manifest: Manifest, rewritten: Mapping[str, _File]) -> Manifest:
        if not any(part.path in rewritten for part in manifest.parts):
            return manifest
        counts, parts = Counter(manifest.counts), []
        for part in manifest.parts:
            file = rewritten.get(part.path)
            if file is not None:
                left = file.part(part)
                counts[part.kind] -= part.rows - left.rows
                part = left
            if part.rows:
                parts.append(part)
        # The example of a reason may contain text of a row.
        reasons = tuple(Reason(reason.kind, reason.rows, reason.kind) for reason in manifest.reasons)
        return replace(manifest, counts=dict(counts), parts=tuple(parts), reasons=reasons)


@dataclass(frozen=True)
class _File:
    """A rewritten file, and which of its rows stayed."""

    stays: Sequence[bool]
    whole: Part

    def part(self, part: Part) -> Part:
        """The new slice of a part; in a file of merged batches it follows rows of other batches."""
        first = part.first or 0
        rows = sum(self.stays[first : first + part.rows])
        start = None if part.first is None else sum(self.stays[:first])
        return replace(self.whole, rows=rows, first=start)
