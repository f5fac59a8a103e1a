"""Sessions on a cluster: how they differ from one on this machine, and whether executors can use a home."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine import limits
from keyfold.engine.polling import wait_until
from keyfold.errors import HomeUnusable, RunError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXECUTOR_SECONDS: Final = 60.0
"""How long a start waits for the first executor."""
FEWEST_PARTITIONS: Final = 16
"""State partitions of a table on a cluster, at least: executors that register later find work too."""


def is_local(master: str | None) -> bool:
    """Whether a master runs tasks in the driver's own JVM.

    >>> is_local("local[4]"), is_local("spark://host:7077"), is_local("local-cluster[2,1,1024]")
    (True, False, False)
    """
    return master is None or master == "local" or master.startswith("local[")


def executor_memory(given: Mapping[str, str], state: str) -> dict[str, str]:
    """Memory of executors beside their heap: Spark's own share of it, and that of the state stores.

    Without it YARN and Kubernetes would end an executor whose state is in use.

    >>> executor_memory({"spark.executor.memory": "8g"}, "1g")
    {'spark.executor.memoryOverhead': '1843m'}
    """
    heap = limits.bytes_of(given.get("spark.executor.memory", "1g")) >> 20
    spark = max(384, heap // 10)
    return {"spark.executor.memoryOverhead": f"{spark + (limits.bytes_of(state) >> 20)}m"}


def partitions(spark: SparkSession) -> int:
    """The number of state partitions of new tables: the cores, or on a cluster twice those of executors.

    It is fixed at a table's first start, so that start waits for executors.
    """
    context: Any = spark.sparkContext
    if is_local(context.master):
        return int(context.defaultParallelism)
    if not wait_until(lambda: executors(spark), EXECUTOR_SECONDS, pause=0.1):
        raise RunError(
            f"no executor has registered within {EXECUTOR_SECONDS:g} s",
            given=context.master,
            hint="start workers, or ask for fewer resources: spark.executor.cores, spark.executor.memory",
        )
    return max(FEWEST_PARTITIONS, 2 * int(context.defaultParallelism))


def executors(spark: SparkSession) -> int:
    """How many executors have registered."""
    context: Any = spark.sparkContext
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1


def require_shared_home(spark: SparkSession, kernel: Any, home: str) -> None:
    """Refuses a home that some executor can't read, or whose files the driver can't read.

    `home` is a URI. On a local master the driver's own files are the executors'.
    """
    if is_local(spark.sparkContext.master):
        return
    failures = json.loads(kernel.probeHome(spark._jsparkSession, home, 2 * max(1, executors(spark))))
    if failures:
        shown = "\n".join(f"{host}: {why}" for host, why in sorted(failures.items()))
        raise HomeUnusable(
            "the executors can't use the home, to which they must write state",
            given=f"{home}\n{shown}",
            hint="a home that all machines can access: hdfs://..., s3a://..., or a directory mounted on all "
            "of them (--home URI, or KEYFOLD_HOME)",
        )
