"""Secrets don't show: in descriptions, in the repr of a plan or of settings, in errors."""

from __future__ import annotations

import pytest

import keyfold as kf
from keyfold import settings
from keyfold.errors import BadOption
from keyfold.masking import mask

SECRET = (
    "password",
    "ssl.key.password",
    "passwd",
    "db_pwd",
    "passphrase",
    "api_key",
    "apikey",
    "apiKey",
    "x-api-key",
    "key",
    "fs.s3a.access.key",
    "fs.s3a.secret.key",
    "fs.azure.account.key.acme.blob.core.windows.net",
    "private_key",
    "token",
    "authToken",
    "sessionToken",
    "credentials",
    "google.cloud.auth.service.account.json.credential",
    "auth",
    "http.auth.header",
    "Authorization",
    "kafka.sasl.jaas.config",
    "client_secret",
    "sas",
    "signature",
)
PLAIN = (
    "header",
    "maxFilesPerTrigger",
    "keystore",
    "keyspace",
    "ssl.keystore.location",
    "key_columns",
    "author",
    "user",
    "subscribe",
    "kafka.bootstrap.servers",
    "spark.sql.shuffle.partitions",
    "spark.sql.session.timeZone",
    "basic",
)


@pytest.mark.parametrize("name", SECRET)
def test_a_value_is_masked_where_its_name_says_that_it_is_secret(name: str) -> None:
    app = kf.App("shop")
    source = kf.spark("feed", "x://h/p", **{name: "s3cret"})
    app.stream("s", source).by("a").table("t", n="count(*)").to(source)
    for text in (*map(app.describe, ("text", "json", "mermaid")), repr(app.spec()), repr(source)):
        assert "s3cret" not in text
        assert "***" in text
    assert dict(source.options) == {name: "s3cret"}, "what Spark is given stays"


@pytest.mark.parametrize("name", PLAIN)
def test_a_value_is_shown_where_nothing_says_that_it_is_secret(name: str) -> None:
    app = kf.App("shop")
    app.stream("s", kf.spark("feed", **{name: "shown"})).by("a").table("t", n="count(*)")
    assert "shown" in app.describe()
    assert "shown" in repr(app.spec())


def test_the_repr_of_a_source_masks_the_password_of_its_address() -> None:
    assert "s3cret" not in repr(kf.spark("delta", "x://u:s3cret@h/p"))


def test_secrets_inside_a_value_are_masked() -> None:
    login = 'org.apache.PlainLoginModule required username="bob" password="s3cret";'
    app = kf.App("shop")
    app.stream("s", kf.spark("feed", url="jdbc:x://h/db?user=bob&password=s3cret", how=login))
    assert "s3cret" not in app.describe()
    assert "bob" in app.describe()


def test_the_repr_of_settings_does_not_show_what_spark_is_given() -> None:
    assert "s3cret" not in repr(settings.load(spark={"spark.hadoop.fs.s3a.secret.key": "s3cret"}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"spark": ["spark.my.password=s3cret"]},
        {"spark": '{"spark.my.password": "s3cret"'},
        {"spark_password": "s3cret"},
    ],
)
def test_a_setting_that_is_refused_does_not_show_its_secrets(wrong: dict[str, object]) -> None:
    with pytest.raises(BadOption) as refused:
        settings.load(**wrong)
    assert "s3cret" not in str(refused.value)


def test_a_secret_that_spark_cannot_take_is_not_shown() -> None:
    with pytest.raises(BadOption) as refused:
        kf.spark("feed", password=[b"s3cret"])
    assert "s3cret" not in str(refused.value)
    with pytest.raises(BadOption, match="shown"):
        kf.spark("feed", other=["shown"])


def test_passwords_of_addresses_are_masked() -> None:
    assert mask("postgresql://bob:s3cret@host/db") == "postgresql://bob:***@host/db"
    assert (
        mask("jdbc:x://h/db?user=bob&password=s3cret&ssl=true")
        == "jdbc:x://h/db?user=bob&password=***&ssl=true"
    )
    assert mask("s3a://bucket/path@2024") == "s3a://bucket/path@2024"


def test_the_whole_password_of_an_address_is_masked_and_so_is_what_a_header_bears() -> None:
    assert mask("https://bob:pa@ss@host/path") == "https://bob:***@host/path"
    assert mask("Authorization: Bearer hunter8") == "Authorization: Bearer ***"
