"""Events as Parquet or text, made once: so many keys, a value, a time; two files a batch."""

from __future__ import annotations

import multiprocessing
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

HOME = Path(__file__).parent / "data"
FILES_PER_BATCH = 2


def events(keys: int, rows: int, batch: int, hot: bool = False, step_us: int = 1000) -> Path:
    """A directory of events over so many keys, a step of time apart; with `hot`, one key holds half."""
    place = HOME / f"{keys}-{rows}-{batch}{'-hot' if hot else ''}{'' if step_us == 1000 else f'-{step_us}us'}"
    return _made(place, keys, rows, batch, hot, step_us)


def each(keys: int, batch: int) -> Path:
    """A directory of one event per key."""
    return _made(HOME / f"each-{keys}-{batch}", keys, keys, batch, None, 1000)


def repeated(place: Path, times: int) -> Path:
    """A directory with each of its files so many times, as links: a long run of batches on little disk."""
    long = place if times == 1 else place.with_name(f"{place.name}-{times}-times")
    if not long.exists():
        aside = long.with_name(f".{long.name}")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        for number in range(times):
            for file in place.glob("*.parquet"):
                (aside / f"{number:03d}-{file.name}").hardlink_to(file)
        aside.rename(long)
    return long


def text(format: str, keys: int, rows: int, batch: int) -> Path:
    """The same events as lines of CSV, with headers, or of JSON."""
    place = HOME / f"{format}-{keys}-{rows}-{batch}"
    if not place.exists():
        aside = place.with_name(f".{place.name}")
        aside.mkdir(parents=True, exist_ok=True)
        for file in sorted(events(keys, rows, batch).glob("*.parquet")):
            _write_text(pq.read_table(file), aside / f"{file.stem}.{format}", format)
        aside.rename(place)
    return place


def _write_text(table: pa.Table, file: Path, format: str) -> None:
    # Spark's reader takes times in this form, and so does everybody's.
    at = pc.strftime(table["at"], format="%Y-%m-%dT%H:%M:%SZ")
    columns = table.set_column(2, "at", at)
    if format == "csv":
        csv.write_csv(columns, file, csv.WriteOptions(quoting_style="none"))
        return
    values = zip(*(columns[name].to_pylist() for name in ("key", "amount", "at")), strict=True)
    with file.open("w") as out:
        out.writelines(f'{{"key":"{key}","amount":{amount},"at":"{at}"}}\n' for key, amount, at in values)


def _made(place: Path, keys: int, rows: int, batch: int, hot: bool | None, step_us: int) -> Path:
    if not place.exists():
        aside = place.with_name(f".{place.name}")
        aside.mkdir(parents=True, exist_ok=True)
        # In a process of its own, so that what it holds does not count as the driver's memory.
        child = multiprocessing.get_context("spawn").Process(
            target=_write, args=(aside, keys, rows, batch, hot, step_us)
        )
        child.start()
        child.join()
        if child.exitcode:
            raise RuntimeError(f"the events for {place.name} could not be made")
        aside.rename(place)
    return place


def _write(place: Path, keys: int, rows: int, batch: int, hot: bool | None, step_us: int) -> None:
    """`hot` of None: each key once."""
    random = np.random.default_rng(1)
    names = pa.array([f"key-{i:07d}" for i in range(keys)])
    size = batch // FILES_PER_BATCH
    start = np.datetime64("2026-01-01T00:00:00", "us")
    for number in range(rows // size):
        chosen = np.arange(size) + number * size if hot is None else random.integers(0, keys, size)
        if hot:
            chosen[random.random(size) < 0.5] = 7 % keys
        key = pa.DictionaryArray.from_arrays(pa.array(chosen, type=pa.int32()), names).cast(pa.string())
        at = start + ((np.arange(size) + number * size) * step_us).astype("timedelta64[us]")
        columns = {
            "key": key,
            "amount": random.random(size) * 100,
            "at": pa.array(at, type=pa.timestamp("us", tz="UTC")),
        }
        pq.write_table(pa.table(columns), place / f"{number:05d}.parquet")
