"""An OAuth server on loopback: signed tokens for one client's credentials, and the keys that check them."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.kafka.json_server import JsonHandler, answering

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

    class Handler(JsonHandler):
        def do_GET(self) -> None:
            self.send(200, tokens.keys())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            found = tokens.token(self.headers.get("Authorization", ""))
            self.send(200 if found else 401, found or {"error": "invalid_client"})

    with answering(Handler) as tokens.url:
        yield tokens
