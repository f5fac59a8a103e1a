"""Sessions on a cluster: how they differ from one on this machine, and whether executors can use a home."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from keyfold.engine import limits
from keyfold.engine.polling import wait_until
from keyfold.errors import HomeUnusable, RunError
from keyfold.kernel.api import SessionApi

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXECUTOR_SECONDS: Final = 60.0
"""How long a start waits for the first executor."""
FEWEST_PARTITIONS: Final = 16
"""State partitions of a table on a cluster, at least: executors that register later find work too."""
# Where Spark looks for the share of the heap that executors have beside it, the first that is set.
_OVERHEAD_FACTORS: Final = ("spark.executor.memoryOverheadFactor", "spark.kubernetes.memoryOverheadFactor")


def is_local(master: str | None) -> bool:
    """Whether a master runs tasks in the driver's own JVM.

    >>> is_local("local[4]"), is_local("spark://host:7077"), is_local("local-cluster[2,1,1024]")
    (True, False, False)
    """
    return master is None or master == "local" or master.startswith("local[")


def executor_memory(given: Mapping[str, str], state: str) -> dict[str, str]:
    """Memory of executors beside their heap: Spark's own share of it, and that of the state stores.

    Without it YARN and Kubernetes would end an executor whose state is in use. For Python apps that Spark
    starts in a pod, its share on Kubernetes is greater, which it says by a setting.

    >>> executor_memory({"spark.executor.memory": "8g"}, "1g")
    {'spark.executor.memoryOverhead': '1843m'}
    """
    factor = next((given[name] for name in _OVERHEAD_FACTORS if name in given), "0.10")
    heap = _mebibytes(given.get("spark.executor.memory", "1g"))
    least = _mebibytes(given.get("spark.executor.minMemoryOverhead", "384m"))
    spark = max(least, int(heap * float(factor)))
    return {"spark.executor.memoryOverhead": f"{spark + _mebibytes(state)}m"}


def _mebibytes(text: str) -> int:
    """An amount of memory as Spark reads it where a number alone means mebibytes.

    >>> _mebibytes("8g"), _mebibytes("8192")
    (8192, 8192)
    """
    return int(text) if text.strip().isdigit() else limits.bytes_of(text) >> 20


def partitions(spark: SparkSession) -> int:
    """The number of state partitions of new tables: the cores, or on a cluster twice those of executors.

    It is fixed at a table's first start, so that start waits for executors: for the first, and on YARN and
    Kubernetes for most of those that were asked for, as long as Spark would wait with the first task.
    """
    context: Any = spark.sparkContext
    if is_local(context.master):
        return int(context.defaultParallelism)
    backend = context._jsc.sc().schedulerBackend()
    wait_until(lambda: executors(spark) and backend.isReady(), EXECUTOR_SECONDS, pause=0.1)
    if not executors(spark):
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


def require_shared_home(spark: SparkSession, kernel: SessionApi, home: str) -> None:
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
