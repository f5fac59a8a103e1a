"""An OAuth server on loopback: signed tokens for one client's credentials, and the keys that check them."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

AUDIENCE = "kafka"


class TokenServer:
    """Where tokens are asked for, and where brokers find the keys."""

    def __init__(self, client: str, secret: str) -> None:
        self.client, self.secret, self.url = client, secret, ""
        self.issued = 0
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def token(self, authorization: str) -> dict[str, Any] | None:
        """A token for the credentials in a header; None if they are wrong."""
        given = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        if given != f"{self.client}:{self.secret}":
            return None
        self.issued += 1
        now = int(time.time())
        claims = {"sub": self.client, "aud": AUDIENCE, "iat": now, "exp": now + 600, "jti": str(self.issued)}
        signed = ".".join(
            _encoded(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "1"}, claims)
        )
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        token = f"{signed}.{_encoded(signature)}"
        return {"access_token": token, "token_type": "Bearer", "expires_in": 600}

    def keys(self) -> dict[str, Any]:
        """The public key, as a JSON Web Key Set."""
        numbers = self._key.public_key().public_numbers()
        n, e = (_encoded(x.to_bytes((x.bit_length() + 7) // 8, "big")) for x in (numbers.n, numbers.e))
        return {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", "n": n, "e": e}]}


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@contextmanager
def serving(client: str, secret: str) -> Iterator[TokenServer]:
    """A server that answers on loopback."""
    tokens = TokenServer(client, secret)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send(200, tokens.keys())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            found = tokens.token(self.headers.get("Authorization", ""))
            self.send(200 if found else 401, found or {"error": "invalid_client"})

        def send(self, status: int, answer: dict[str, Any]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    tokens.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield tokens
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
