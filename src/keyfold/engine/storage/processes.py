"""Identities of processes, as leases record them: process and host, and whether the process still runs."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")


def this_host() -> dict[str, Any]:
    """The scope in which this process's pid is valid: a host between two boots, or a container on it.

    Containers of one host share its boot id, and often its name, but number their processes separately.
    """
    known: dict[str, Any] = {"name": socket.gethostname()}
    try:
        return {**known, "boot": _BOOT.read_text().strip(), "pids": os.readlink(_NAMESPACE)}
    except OSError:
        return known


def same_host(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether a pid of one means the same process on the other. A host may change its name while it runs."""
    if "boot" in one and "boot" in other:
        return bool(one["boot"] == other["boot"] and one.get("pids") == other.get("pids"))
    return dict(one) == dict(other)


def identity(pid: int) -> dict[str, Any]:
    """A pid with its start time, since pids are reused.

    The time is in ticks since boot where the system provides that, because the time of day may be set.
    """
    import psutil

    try:
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        return {"pid": pid, "boot": _BOOT.read_text().strip(), "ticks": int(ticks)}
    except (OSError, IndexError):
        return {"pid": pid, "started": psutil.Process(pid).create_time()}


def alive(known: Mapping[str, Any] | None) -> Any:
    """The process of an `identity`, if it still runs."""
    import psutil

    if not known:
        return None
    try:
        process, now = psutil.Process(int(known["pid"])), identity(int(known["pid"]))
        # Killed, but not yet reaped by its parent.
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
    except psutil.NoSuchProcess:
        return None
    # A time of day is computed from the clock, and differs slightly each time.
    if "started" in now and "started" in known:
        return process if abs(now["started"] - known["started"]) <= 1 else None
    return process if now == known else None


def end_orphan(jvm: Mapping[str, Any] | None, seconds: float) -> None:
    """Waits up to `seconds` for a JVM whose Python process is gone, then kills it; never our own."""
    import psutil

    process = alive(jvm)
    if process is None or process.pid == _own_jvm():
        return
    try:
        process.wait(seconds)
    except psutil.NoSuchProcess:
        return
    except psutil.TimeoutExpired:
        process.kill()
        process.wait()


def _own_jvm() -> int | None:
    """The JVM of this process, which outlives handles."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    return jvm_pid(gateway) if gateway is not None else None


def jvm_pid(gateway: Any) -> int:
    """The pid of the JVM behind a Py4J gateway."""
    return int(gateway.jvm.java.lang.ProcessHandle.current().pid())
