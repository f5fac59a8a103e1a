"""A home on a local disk, with the suite that runs on other storages too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.home_contract import HomeContract

pytestmark = pytest.mark.jvm


class TestLocalHome(HomeContract):
    @pytest.fixture
    def root(self, tmp_path: Path) -> str:
        return str(tmp_path / "home")
