"""Reads tables of a keyfold server from any process, with the standard library alone.

```python
from keyfold.client import connect

with connect("http://127.0.0.1:8642") as server:
    totals = server.table("totals")  # or "shop.totals", if the home has several apps
    totals.get("eu", at_least=7, wait="2s")
    totals.rows("n > 100", order_by="n desc", limit=10)
    for found in server.changes("totals", snapshot=True):
        print(found.table, found.batch, found.changes)
```

Values are those of JSON: timestamps are ISO text in UTC, decimals are text. Errors are those of a local read.
"""

from keyfold.client.asynchronous import AsyncClient, AsyncTable, connect_async
from keyfold.client.client import Client, connect
from keyfold.client.feed import Changes
from keyfold.client.mirror import Mirror
from keyfold.client.table import RemotePage, RemotePosition, RemoteTable

__all__ = [
    "AsyncClient",
    "AsyncTable",
    "Changes",
    "Client",
    "Mirror",
    "RemotePage",
    "RemotePosition",
    "RemoteTable",
    "connect",
    "connect_async",
]
