"""`Serving`: the server of a home, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from keyfold.server.address import Listening
from keyfold.server.auth.policy import Policy, policy_of
from keyfold.server.connection.limits import Limits

if TYPE_CHECKING:
    import uvicorn

    from keyfold.read import HomeReader
    from keyfold.server.served_home import ServedHome

_LOG: Final = logging.getLogger("keyfold.server")
_STOP_SECONDS: Final = 2
"""How long requests may take to end when the server is stopped."""


class Serving:
    """Serves a home until `stop`. What it needs is loaded in its thread, beside the caller's work."""

    def __init__(
        self,
        reader: HomeReader,
        listening: Listening,
        policy: Policy | None = None,
        limits: Limits | None = None,
    ) -> None:
        """`policy`: by default that of the address, which needs tokens unless it is this machine's own."""
        self._reader, self._listening, self._limits = reader, listening, limits or Limits()
        self._policy = policy or policy_of(listening)
        self._server: uvicorn.Server | None = None
        self._home: ServedHome | None = None
        self._lock = threading.Lock()
        self._stopped = False
        self.error: BaseException | None = None
        """What ended the server, if it was not stopped."""
        self._thread = threading.Thread(target=self._serve, name="keyfold-server", daemon=True)

    @property
    def url(self) -> str:
        """The address for a browser."""
        return self._listening.url

    def start(self) -> None:
        """Returns at once; clients that come before it is up wait."""
        self._thread.start()

    def ended(self, seconds: float) -> bool:
        """Whether the server has ended, after waiting for that at most so long."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Ends the server; running requests have a moment to end, feeds are closed."""
        with self._lock:
            self._stopped = True
            if self._server is not None and self._home is not None:
                self._home.watch.closed = True
                self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(_STOP_SECONDS + 3)
        self._listening.socket.close()

    def _serve(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.error = error
            _LOG.warning("the HTTP server has ended: %s: %s", type(error).__name__, error)

    def _run(self) -> None:
        import uvicorn

        from keyfold.read.tokens import TokenReader
        from keyfold.server.application import application
        from keyfold.server.connection.protocol import bounded
        from keyfold.server.served_home import ServedHome

        home, at = ServedHome(self._reader), self._listening
        app = application(home, self._policy, TokenReader(self._reader.directory))
        config = uvicorn.Config(
            app,
            http=bounded(self._limits),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            # A proxy's word for the client's address is not asked for.
            proxy_headers=False,
            ssl_certfile=None if at.tls is None else at.tls.certificate,
            ssl_keyfile=None if at.tls is None else at.tls.key,
            timeout_keep_alive=60,
            # How many are taken in at once; each may need a descriptor of the reserve.
            backlog=128,
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
        with self._lock:
            if self._stopped:
                return
            self._home, self._server = home, uvicorn.Server(config)
        try:
            self._server.run(sockets=[at.socket])
        finally:
            home.close()
