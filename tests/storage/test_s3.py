"""Storage on S3: moto's server on loopback."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from keyfold.engine import session
from keyfold.engine.storage.remote import SparkStorage
from tests.storage.contract import StorageContract

pytestmark = pytest.mark.jvm
roots = count()


class TestSparkStorageOnS3(StorageContract):
    @pytest.fixture
    def storage(self, spark: Any, s3: str) -> SparkStorage:
        return SparkStorage(session.kernel(spark), spark, f"{s3}/contract/{next(roots)}")


def test_a_bucket_without_conditional_uploads_is_refused(spark: Any, s3: str) -> None:
    key = "fs.s3a.bucket.other.create.conditional.enabled"
    spark.conf.set(key, "false")
    try:
        with pytest.raises(OSError, match=r"fs\.s3a\.create\.conditional\.enabled"):
            SparkStorage(session.kernel(spark), spark, "s3a://other/x")
    finally:
        spark.conf.unset(key)
