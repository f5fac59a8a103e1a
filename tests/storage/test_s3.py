"""Storage on S3: moto's server on loopback."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from keyfold.engine import session
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.remote import SparkStorage
from keyfold.errors import HomeUnusable
from tests.storage.conftest import s3a_client, s3a_settings
from tests.storage.contract import StorageContract
from tests.storage.home_contract import FEW, HomeContract, shop
from tests.storage.killed_driver import goes_on_as_if_it_had_not
from tests.storage.lease_contract import LeaseContract
from tests.storage.lossy import lossy

pytestmark = pytest.mark.jvm
roots = count()


class TestSparkStorageOnS3(StorageContract):
    @pytest.fixture
    def storage(self, spark: Any, s3: str) -> SparkStorage:
        return SparkStorage(session.kernel(spark), spark, f"{s3}/contract/{next(roots)}")


class TestHomeOnS3(HomeContract):
    points = FEW

    @pytest.fixture
    def root(self, s3: str) -> str:
        return f"{s3}/home/{next(roots)}"


class TestLeaseOnS3(LeaseContract):
    @pytest.fixture
    def home(self, spark: Any, s3: str, tmp_path: Path) -> AppHome:
        return AppHome(
            tmp_path / "shop", SparkStorage(session.kernel(spark), spark, f"{s3}/lease/{next(roots)}")
        )


def test_an_upload_whose_answer_was_lost_counts(spark: Any, s3: str) -> None:
    """The first request succeeds without an answer, and its repetition is refused."""
    with lossy(spark, s3) as address:
        storage = SparkStorage(session.kernel(spark), spark, f"s3a://lossy/{next(roots)}")
        assert storage.put_new("f", b"mine")
        assert address.lost == 1
        assert not storage.put_new("f", b"other")
        assert storage.read("f") == b"mine"


def test_a_bucket_without_conditional_uploads_is_refused(spark: Any, s3: str) -> None:
    key = "fs.s3a.bucket.other.create.conditional.enabled"
    spark.conf.set(key, "false")
    try:
        with pytest.raises(OSError, match=r"fs\.s3a\.create\.conditional\.enabled"):
            SparkStorage(session.kernel(spark), spark, "s3a://other/x")
    finally:
        spark.conf.unset(key)


def test_a_bucket_for_which_there_are_no_credentials_is_refused(spark: Any, s3: str, tmp_path: Path) -> None:
    key = "fs.s3a.bucket.locked.aws.credentials.provider"
    spark.conf.set(key, "software.amazon.awssdk.auth.credentials.SystemPropertyCredentialsProvider")
    try:
        with pytest.raises(HomeUnusable, match="credentials") as caught:
            shop(tmp_path / "in").start(spark=spark, home="s3a://locked/x", local=tmp_path / "local")
    finally:
        spark.conf.unset(key)
    assert "check the address, the credentials" in (caught.value.hint or "")


@pytest.mark.timeout(600)
def test_a_driver_that_is_killed_on_s3_goes_on_in_another_process_as_if_it_had_not(
    spark: Any, s3: str, tmp_path: Path
) -> None:
    settings = s3a_settings(spark.conf.get("fs.s3a.endpoint"))
    own = {f"spark.hadoop.{name}": value for name, value in settings.items()}
    goes_on_as_if_it_had_not(spark, f"{s3}/killed", tmp_path, {**own, **s3a_client()})
