"""`/metrics`, for Prometheus."""

from __future__ import annotations

from typing import Final

from prometheus_client.exposition import choose_encoder

from keyfold.server.answers import Streamed
from keyfold.server.route import Call, Route


def get_metrics(call: Call) -> Streamed:
    """The metrics of all apps of the home and of this server, as text for Prometheus, or as OpenMetrics.

    The figures of apps are those of `keyfold status`, read from what each has written last, so a stopped app
    has them too. `keyfold_app_readable` is 0 for an app of which nothing could be read.
    """
    encode, media = choose_encoder(call.accept)
    return Streamed(media, iter([encode(call.home.metrics)]))


ROUTES: Final = (
    Route(
        "get_metrics",
        "/metrics",
        get_metrics,
        role="reader",
        media=("text/plain", "application/openmetrics-text"),
    ),
)
