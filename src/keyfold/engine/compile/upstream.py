"""The tables of an app that are compiled already, as the tables that read them see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from keyfold.engine.internal_columns import visible
from keyfold.errors import BadExpression
from keyfold.plan import nodes, tree
from keyfold.plan.nodes import AppSpec, TableSpec

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class ChangeSchema:
    """The columns of a table's changes, and which of them are its key."""

    schema: StructType
    keys: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """The columns beside the key."""
        return visible(self.schema.names[1 + len(self.keys) :])


@dataclass(frozen=True)
class Upstream:
    """The tables of an app that are compiled already."""

    app: AppSpec
    schemas: dict[str, ChangeSchema]

    def __getitem__(self, table: str) -> ChangeSchema:
        if table not in self.schemas:
            raise BadExpression(f"{table}, which this table reads, can't be compiled", where=self.app.name)
        return self.schemas[table]

    def table(self, name: str) -> TableSpec:
        """The declaration of a table."""
        return next(table for table in self.app.tables if table.name == name)

    def is_retracted(self, table: str) -> bool:
        """Whether another table reads the changelog as a retracting stream: changes then have the old row."""
        if table in self.app.read_outside:
            return True
        read = (node for other in self.app.tables for node in tree.reads(other.input))
        return any(isinstance(node, nodes.Changes) and node.table == table for node in read)
