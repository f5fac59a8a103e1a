"""keyfold keeps a fold per key over a stream, on Spark, from Python.

```python
import keyfold as kf

app = kf.App("shop")
orders = app.stream("orders", kf.files("data/orders"), schema="region string, amount double")
orders.by("region").table("region_totals", orders="count(*)", revenue="sum(amount)")
```
"""

from __future__ import annotations

from keyfold.app import App, Keyed, Stream, Table
from keyfold.errors import DeclarationError, KeyfoldError, QueryError, RunError
from keyfold.folds import fold
from keyfold.patterns import Pattern, no, step
from keyfold.sources import files, lookup, rate, rows, spark

__version__ = "0.1.0"

__all__ = [
    "App",
    "DeclarationError",
    "Keyed",
    "KeyfoldError",
    "Pattern",
    "QueryError",
    "RunError",
    "Stream",
    "Table",
    "__version__",
    "files",
    "fold",
    "lookup",
    "no",
    "rate",
    "rows",
    "spark",
    "step",
]
