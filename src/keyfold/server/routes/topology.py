"""`/api/apps/{app}/topology`: the streams, lookups, tables and sinks of an app, and what reads what."""

from __future__ import annotations

from typing import Final

from keyfold.read.topology import Topology
from keyfold.server.route import OF_APP, Call, Route


def get_topology(call: Call) -> Topology:
    """The streams, lookups, tables and sinks of an app, and which reads which, as its last start declared it.

    Tables that the app no longer declares are not in it.
    """
    return call.app.topology()


ROUTES: Final = (Route("get_topology", f"{OF_APP}/topology", get_topology, Topology, role="reader"),)
