"""What tests of declarations share."""

import pytest

import keyfold as kf


@pytest.fixture
def app():
    return kf.App("shop")
