"""Reads homes: apps, tables, keys, side outputs, history, batches, positions and status, without Spark.

```python
from keyfold.read import open_home

with open_home("/srv/shop/.keyfold") as home:
    shop = home.app("shop")
    shop.table("totals").rows(order_by="revenue desc", limit=10)
    shop.status().tables["totals"].rejected
```
"""

from keyfold.read.app import AppReader
from keyfold.read.home import HomeReader, open_home

__all__ = ["AppReader", "HomeReader", "open_home"]
