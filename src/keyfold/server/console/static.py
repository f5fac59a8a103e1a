"""`Console`: sends the page of the console and its files."""

from __future__ import annotations

import gzip
import mimetypes
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

BUILT: Final = Path(__file__).parent / "built"
"""Where the build puts the console; a checkout that has not built it has no such directory."""
_ASSETS: Final = "/assets/"
_CSP: Final = (
    b"default-src 'self'; style-src 'self'; script-src 'self'; object-src 'none'; "
    b"form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
_FOREVER: Final = b"public, max-age=31536000, immutable"
_NOT_BUILT: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>keyfold</title>
<h1>The console is not built in this checkout</h1>
<p>Run <code>make console</code> there, and start the server again. The HTTP API is served without it:
<a href="/api/apps">/api/apps</a>, described by <a href="/api/openapi.json">/api/openapi.json</a>.</p>
</html>
"""


@dataclass(frozen=True)
class File:
    """A file of the console, as it is sent."""

    media: bytes
    body: bytes
    cache: bytes | None = None
    status: int = 200

    @cached_property
    def zipped(self) -> bytes:
        """The file as gzip has it."""
        return gzip.compress(self.body, mtime=0)


class Console:
    """Answers `/`, `/apps/...` by the page and `/assets/...` by its files; all else is another app's."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, built = app, BUILT
        self._page, self._assets = _page(built), _assets(built)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._file(scope["path"]) if scope["method"] in ("GET", "HEAD") else None
        if found is None:
            await self._app(scope, receive, send)
            return
        body, headers = found.body, [(b"content-type", found.media), (b"vary", b"accept-encoding")]
        if _takes_gzip(scope):
            body = found.zipped
            headers.append((b"content-encoding", b"gzip"))
        headers.append((b"content-length", str(len(body)).encode()))
        headers.append((b"content-security-policy", _CSP))
        if found.cache is not None:
            headers.append((b"cache-control", found.cache))
        await send({"type": "http.response.start", "status": found.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _file(self, path: str) -> File | None:
        if is_page(path):
            return self._page
        return self._assets.get(path)


def is_page(path: str) -> bool:
    """Whether an address is one of the console's pages: the same below `/api` has its data."""
    return path in ("/", "/apps") or path.startswith("/apps/")


def _page(built: Path) -> File:
    html = b"text/html; charset=utf-8"
    try:
        return File(html, (built / "index.html").read_bytes())
    except FileNotFoundError:
        return File(html, _NOT_BUILT.encode(), status=503)


def _assets(built: Path) -> dict[str, File]:
    """The files whose names have a hash of what is in them, by address."""
    found = sorted(file for file in (built / "assets").glob("*") if file.is_file())
    return {_ASSETS + file.name: File(_media(file), file.read_bytes(), _FOREVER) for file in found}


def _media(file: Path) -> bytes:
    # What a machine's own list of types says of scripts may be wrong, and nosniff refuses them then.
    known = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
    return (
        known.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    ).encode()


def _takes_gzip(scope: Scope) -> bool:
    given = b",".join(value for name, value in scope["headers"] if name == b"accept-encoding")
    return b"gzip" in given
