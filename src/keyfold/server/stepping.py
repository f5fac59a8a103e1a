"""Steps of iterators in threads, for streams that are written by blocking code."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, TypeVar

from starlette.concurrency import run_in_threadpool

T = TypeVar("T")
END: Final = object()
"""What `step` returns after the last item."""


async def step(items: Iterator[T]) -> T | object:
    """The next item. If the caller is cancelled, the step ends first: nobody else may use the iterator."""
    running = asyncio.ensure_future(run_in_threadpool(next, items, END))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


async def close(items: Iterator[object]) -> None:
    """Ends an iterator before its end, if it is a generator; it releases what it holds."""
    if (closing := getattr(items, "close", None)) is not None:
        await run_in_threadpool(closing)
