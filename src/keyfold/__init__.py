"""keyfold keeps a fold per key over a stream, on Spark, from Python.

```python
import keyfold as kf

app = kf.App("shop")
orders = app.stream("orders", kf.files("data/orders"), schema="region string, amount double")
orders.by("region").table("region_totals", orders="count(*)", revenue="sum(amount)")
```
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from keyfold.declare import App, KeyedStream, Stream, Table
from keyfold.declare.folds import fold
from keyfold.declare.initial import initial, savepoint
from keyfold.declare.kafka import kafka
from keyfold.declare.message_formats import avro, protobuf
from keyfold.declare.patterns import Pattern, no, step
from keyfold.declare.sources import files, lookup, rate, rows, spark
from keyfold.errors import DeclarationError, KeyfoldError, QueryError, RunError

if TYPE_CHECKING:
    from keyfold.engine.handle import Handle
    from keyfold.engine.kafka.reading import read_changes
    from keyfold.engine.state_reading import read_state
    from keyfold.engine.table_reading import read_table
    from keyfold.views.reader import TableReader

__version__ = "0.1.0"

__all__ = [
    "App",
    "DeclarationError",
    "Handle",
    "KeyedStream",
    "KeyfoldError",
    "Pattern",
    "QueryError",
    "RunError",
    "Stream",
    "Table",
    "TableReader",
    "__version__",
    "avro",
    "files",
    "fold",
    "initial",
    "kafka",
    "lookup",
    "no",
    "protobuf",
    "rate",
    "read_changes",
    "read_state",
    "read_table",
    "rows",
    "savepoint",
    "spark",
    "step",
]

# Imported on first use: declaring an app needs neither Spark nor SQLite.
_LATER = {
    "Handle": "keyfold.engine.handle",
    "TableReader": "keyfold.views.reader",
    "read_changes": "keyfold.engine.kafka.reading",
    "read_state": "keyfold.engine.state_reading",
    "read_table": "keyfold.engine.table_reading",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'keyfold' has no attribute {name!r}")
