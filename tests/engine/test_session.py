"""Sessions of keyfold's own."""

from __future__ import annotations

import pytest

from keyfold.testing import shared_session

pytestmark = pytest.mark.jvm


def test_hadoops_settings_have_their_values_and_no_origins() -> None:
    settings = shared_session()._jsc.hadoopConfiguration()
    assert settings.get("fs.defaultFS") == "file:///"
    assert settings.getPropertySources("fs.defaultFS") is None
    copied = shared_session()._jsparkSession.sessionState().newHadoopConf()
    assert copied.getPropertySources("io.file.buffer.size") is None
