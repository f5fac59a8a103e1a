"""The pages of the console, by name: their addresses in the home that `home.py` fills."""

from __future__ import annotations

from typing import Final

SHOP: Final = "/apps/shop"
TOTALS: Final = f"{SHOP}/tables/region_totals"
PAGES: Final = {
    "apps": "/",
    "overview": SHOP,
    "table": TOTALS,
    "filtered": f"{TOTALS}?revenue.gt=1000&order_by=revenue+desc",
    "windows": f"{SHOP}/tables/per_minute?page=home&page=help",
    "failed": f"{SHOP}/tables/visits",
    "key": f"{TOTALS}/keys/africa",
    "explained": f"{TOTALS}/keys/africa/explain?batch=20",
    "unexplained": f"{SHOP}/tables/customers/keys/c3/explain",
    "batches": f"{TOTALS}/batches",
    "failed-batches": f"{SHOP}/tables/visits/batches",
    "pattern": f"{SHOP}/tables/probes/pattern",
    "state": f"{TOTALS}/state",
    "no-state": f"{SHOP}/tables/customers/state",
    "rejected": f"{TOTALS}/side/rejected",
    "late": f"{SHOP}/tables/per_minute/side/late",
    "duplicate": f"{SHOP}/tables/pairs/side/duplicate",
    "topology": f"{SHOP}/topology",
    "health": f"{SHOP}/health",
    "trends": f"{SHOP}/trends?last=1h",
    "savepoints": f"{SHOP}/savepoints",
    "stopped": "/apps/bank",
    "no-rows": "/apps/fresh/tables/empty",
    "no-match": f"{TOTALS}?region=nowhere",
    "no-savepoint": "/apps/bank/savepoints",
    "no-trends": "/apps/bank/trends",
    "no-page": "/apps/shop/nothing",
}
# Pages that say what is wrong; the browser reports their requests that failed.
WRONG: Final = {
    "no-app": "/apps/shap",
    "no-table": f"{SHOP}/tables/region_total",
    "no-key": f"{TOTALS}/keys/afrika",
    "no-pattern": f"{TOTALS}/pattern",
    "no-column": f"{TOTALS}?regoin=eu",
}
