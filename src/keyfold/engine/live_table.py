"""Tables of a running app, which can also be read as Spark DataFrames."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from keyfold.engine.followers.follower import Follower
from keyfold.engine.storage.known_since import KnownSince
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.views.contract import ViewStore
from keyfold.views.reader import TableReader, Wait

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class LiveTable(TableReader):
    """A table's view, and its rows as a DataFrame."""

    def __init__(
        self,
        store: ViewStore,
        name: str,
        spark: SparkSession,
        followers: Sequence[Follower] = (),
        plan: Callable[[], StoredApp] = StoredApp,
    ) -> None:
        super().__init__(store, name)
        self._spark, self._followers, self._plan = spark, followers, plan

    @property
    def since(self) -> dict[str, KnownSince]:
        """Since which batch and time columns that a migration added cover rows; others cover all."""
        return dict(self._plan().table(self.table).since)

    def _reach(self, at_least: int | None, wait: Wait) -> None:
        with ExitStack() as asked:
            for follower in self._followers:
                asked.enter_context(follower.announce_wait(at_least if isinstance(at_least, int) else -1))
            super()._reach(at_least, wait)

    def df(self, **options: Any) -> DataFrame:
        """The view's rows now, as a Spark DataFrame; takes what `rows` takes."""
        from pyspark.sql.types import StructType

        columns = (*self.schema.keys, *self.schema.columns)
        fields = [
            {"name": c.name, "type": c.type.to_json(), "nullable": True, "metadata": {}} for c in columns
        ]
        schema = StructType.fromJson(json.loads(json.dumps({"type": "struct", "fields": fields})))
        rows = [tuple(row[c.name] for c in columns) for row in self.rows(**options)]
        return self._spark.createDataFrame(rows, schema)
