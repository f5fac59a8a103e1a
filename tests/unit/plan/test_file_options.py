"""Options of files: one that Spark would ignore is refused."""

from __future__ import annotations

import pytest

import keyfold as kf
from keyfold.errors import BadOption


@pytest.mark.parametrize(
    ("format", "option", "said"),
    [
        ("csv", "seperator", "unknown option 'seperator' of csv files"),
        ("csv", "headr", "did you mean 'header'?"),
        ("json", "maxFilePerTrigger", "did you mean 'maxFilesPerTrigger'?"),
        ("json", "sep", "it is an option of csv files"),
        ("parquet", "multiLine", "it is an option of json files"),
    ],
)
def test_an_option_that_files_do_not_have_is_refused(format: str, option: str, said: str) -> None:
    with pytest.raises(BadOption) as error:
        kf.files("data", format=format, **{option: "x"})
    assert said in str(error.value)


def test_options_are_taken_in_any_case_and_those_of_file_systems_as_they_are() -> None:
    options: dict[str, object] = {
        "MULTILINE": True,
        "maxfilespertrigger": 1,
        "fs.s3a.endpoint": "x",
        "api_key": "y",
    }
    assert dict(kf.files("data", **options).options) == {
        "MULTILINE": "true",
        "maxfilespertrigger": "1",
        "fs.s3a.endpoint": "x",
        "api_key": "y",
    }
