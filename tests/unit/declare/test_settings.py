"""Settings, from arguments and from the environment."""

import re
from pathlib import Path

import pytest

from keyfold import settings
from keyfold.errors import BadOption
from keyfold.settings import Settings, load


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in Settings.model_fields:
        monkeypatch.delenv(f"KEYFOLD_{name.upper()}", raising=False)


def test_the_defaults():
    made = load()
    assert made.model_dump() == {
        "home": Path(".keyfold"),
        "local": None,
        "views": "sqlite",
        "view_lag": 2,
        "master": None,
        "spark": {},
        "kafka": {},
        "driver_memory": "4g",
        "state_memory": "1g",
        "batch_files": 20_000,
        "batch_bytes": "4g",
        "lease_seconds": 15.0,
        "missing_files": "fail",
        "kernel_dir": None,
        "class_archive": True,
        "jvm_launcher": "direct",
    }


def test_every_setting_says_what_it_is():
    assert all(field.description for field in Settings.model_fields.values())


def test_settings_that_nobody_should_need_work_and_are_not_listed(tmp_path):
    assert set(Settings.model_fields) - settings.INTERNAL == set(settings.public_settings())
    assert load(kernel_dir=tmp_path).kernel_dir == tmp_path
    with pytest.raises(BadOption, match="one of: home, local") as refused:
        load(nothing_like_it=1)
    assert not any(name in str(refused.value) for name in settings.INTERNAL)


def test_arguments_come_before_the_environment(monkeypatch):
    monkeypatch.setenv("KEYFOLD_HOME", "/from/env")
    monkeypatch.setenv("KEYFOLD_VIEWS", "none")
    made = load(home="/from/argument", master=None)
    assert (made.home, made.views) == (Path("/from/argument"), "none")


def test_an_empty_variable_counts_as_not_set(monkeypatch):
    monkeypatch.setenv("KEYFOLD_HOME", "")
    assert load().home == Path(".keyfold")


def test_the_home_directory_is_found(monkeypatch):
    monkeypatch.setenv("HOME", "/somewhere")
    assert load(home="~/state").home == Path("/somewhere/state")


def test_spark_settings_become_text(monkeypatch):
    assert load(spark={"spark.a": True, "spark.b": 3}).spark == {"spark.a": "true", "spark.b": "3"}
    monkeypatch.setenv("KEYFOLD_SPARK", '{"spark.c": false}')
    assert load().spark == {"spark.c": "false"}


def test_spark_settings_that_are_no_json_are_refused(monkeypatch):
    monkeypatch.setenv("KEYFOLD_SPARK", "spark.a=b")
    with pytest.raises(BadOption, match=r"(?s)spark.*KEYFOLD_SPARK="):
        load()


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://host/db",
        "postgresql://bob@host:5432/db?sslmode=require",
        "postgresql://bob:s3%40cret@[::1]:5432/db",
        "postgresql://one:1,two:2/db",
        "postgresql:///db?host=/var/run/postgresql",
    ],
)
def test_views_can_be_in_a_database(address, monkeypatch):
    monkeypatch.setenv("KEYFOLD_VIEWS", address)
    assert load().views == address
    assert load(views=address.replace("postgresql", "postgres", 1)).views == address
    assert "s3" not in repr(load())


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://bob:s3cret@host",
        "postgresql://bob:s3/cret@host/db",
        "postgresql://bob:s3@cret@host/db",
        "postgresql://bob:s3 cret@host/db",
        "postgresql://bob:s3cret@/",
    ],
)
def test_an_address_that_can_not_be_read_is_refused_without_its_password(address, monkeypatch):
    monkeypatch.setenv("KEYFOLD_VIEWS", address)
    with pytest.raises(
        BadOption, match=r"(?s)'views'.*postgresql://user@host:port/database.*KEYFOLD_VIEWS"
    ) as refusal:
        load()
    assert "s3" not in str(refusal.value)
    assert "cret" not in str(refusal.value)


def test_other_stores_are_refused():
    with pytest.raises(BadOption, match=r"(?s)views.*argument of start.*given: mysql"):
        load(views="mysql")


@pytest.mark.parametrize("home", ["/a b/state", "file:/a b/state", "file:///a b/state"])
def test_a_home_is_a_path_or_a_uri_of_the_local_disk(home):
    assert load(home=home).home == Path("/a b/state")


def test_what_can_be_lost_is_in_the_home_unless_said_otherwise(tmp_path):
    assert load(home=tmp_path).local_directory == tmp_path
    assert load(home=tmp_path, local=tmp_path / "local").local_directory == tmp_path / "local"


@pytest.mark.parametrize("home", ["s3a://bucket/state", "hdfs://host/state/"])
def test_a_home_that_is_not_local_is_a_uri_with_local_files_elsewhere(home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load(home=home).home == home.rstrip("/")
    assert load(home=home).local_directory == tmp_path / ".keyfold"
    assert load(home=home, local="views").local_directory == tmp_path / "views"


@pytest.mark.parametrize("setting", [{"home": "file://host/state"}, {"local": "s3a://bucket/x"}])
def test_a_directory_of_another_host_is_refused(setting):
    with pytest.raises(BadOption, match="path on a local disk"):
        load(**setting)


@pytest.mark.parametrize("memory", ["4", "much", "0g", "4 gb", ""])
def test_memory_needs_a_unit(memory):
    with pytest.raises(BadOption, match="driver_memory"):
        load(driver_memory=memory)


def test_a_boolean_is_true_or_false(monkeypatch):
    monkeypatch.setenv("KEYFOLD_CLASS_ARCHIVE", "maybe")
    with pytest.raises(
        BadOption, match=r"(?s)'class_archive': must be true or false.*_ARCHIVE.*given: maybe"
    ):
        load()


def test_an_unknown_setting_is_refused_and_the_nearest_suggested():
    with pytest.raises(BadOption, match=r"(?s)unknown setting 'veiws'.*did you mean 'views'"):
        load(veiws="none")


@pytest.mark.parametrize("name", ["secruity.protocol", "kafka.security.protocol"])
def test_a_misspelt_setting_of_kafka_s_clients_is_refused_and_the_nearest_suggested(name, monkeypatch):
    with pytest.raises(BadOption, match=r"did you mean 'security\.protocol'") as refused:
        load(kafka={name: "geheim", "sasl.password": "geheim"})
    assert "geheim" not in str(refused.value)
    monkeypatch.setenv("KEYFOLD_KAFKA", f'{{"{name}": "SSL"}}')
    with pytest.raises(BadOption, match=r"(?s)'security\.protocol'.*KEYFOLD_KAFKA"):
        load()
    assert load(kafka={name: "SSL", "interceptor.classes": "my.Interceptor"}).kafka[name] == "SSL"


def test_settings_cannot_change():
    with pytest.raises(ValueError, match="frozen"):
        load().home = Path("x")


def test_every_setting_is_read_somewhere():
    source = Path(settings.__file__).parent
    code = "".join(file.read_text("utf-8") for file in source.rglob("*.py"))
    read = set(re.findall(r"\b(?:settings|wanted|self)\.(?!settings\b)(\w+)", code))
    assert set(Settings.model_fields) - read == set()
