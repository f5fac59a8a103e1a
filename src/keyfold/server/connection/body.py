"""Reads the body of a request, which is neither endless nor waited for without an end."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import Request

from keyfold.errors import QueryError

SECONDS: Final = 30.0
"""How long a body may take to come."""


async def read_body(request: Request, most: int, what: str = "body") -> bytes:
    """The body, of at most so many bytes."""
    content = bytearray()
    try:
        async with asyncio.timeout(SECONDS):
            async for part in request.stream():
                content += part
                if len(content) > most:
                    given, hint = f"more than {most:,} bytes", "several requests"
                    raise QueryError(f"the {what} is too large", reason="too_large", given=given, hint=hint)
    except TimeoutError:
        given = f"{len(content):,} bytes in {SECONDS:g} seconds"
        raise QueryError(f"the {what} did not come in time", reason="too_slow", given=given) from None
    return bytes(content)
