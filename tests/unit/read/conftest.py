"""A home as a run leaves it, and a way to call the commands that read it."""

from tests.cli.conftest import cli, home, shop, two_apps

__all__ = ["cli", "home", "shop", "two_apps"]
