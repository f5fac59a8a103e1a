"""A proxy in front of S3 that loses the answer to the first upload: the client sends it again."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

BUCKET = "lossy"
# Of one connection, not of what is sent on.
HOP = {"connection", "host", "transfer-encoding", "content-length", "expect", "date", "server"}


class LossyServer(ThreadingHTTPServer):
    """Passes requests on to `upstream`; `lost` counts the answers that it kept to itself."""

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream, self.lost = urlsplit(upstream), 0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LossyServer

    def _pass_on(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        upstream = http.client.HTTPConnection(self.server.upstream.netloc)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
        upstream.request(self.command, self.path, content, {**headers, "Host": self.headers["Host"]})
        answer = upstream.getresponse()
        body = answer.read()
        upstream.close()
        if self.command == "PUT" and "If-None-Match" in self.headers and not self.server.lost:
            assert answer.status == 200, body
            self.server.lost += 1
            self.close_connection = True
            return
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP:
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(body))
        self.send_header("Content-Length", length or "0")
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def lossy(spark: Any, s3: str) -> Iterator[LossyServer]:
    """A bucket behind the proxy; `s3` is there for its server alone."""
    server = LossyServer(spark.conf.get("fs.s3a.endpoint"))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    with urlopen(Request(f"{address}/{BUCKET}", method="PUT")):
        pass
    spark.conf.set(f"fs.s3a.bucket.{BUCKET}.endpoint", address)
    try:
        yield server
    finally:
        spark.conf.unset(f"fs.s3a.bucket.{BUCKET}.endpoint")
        server.shutdown()
        server.server_close()
