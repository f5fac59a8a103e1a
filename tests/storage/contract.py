"""What every storage does: a storage's test class inherits these tests and gives the fixture `storage`."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event

import pytest

from keyfold.engine.storage.contract import Storage

WRITERS = 4


class StorageContract:
    """The tests; `storage` is empty at the start of each."""

    @pytest.fixture
    def storage(self) -> Storage:
        raise NotImplementedError

    def test_what_was_written_is_read(self, storage: Storage) -> None:
        every_byte = bytes(range(256)) * 3
        storage.put("a", every_byte)
        storage.put("deep/er/b", b"")
        assert storage.read("a") == every_byte
        assert storage.read("deep/er/b") == b""

    def test_a_file_that_is_not_there_is_not_found(self, storage: Storage) -> None:
        storage.put("a/b", b"x")
        for name in ("b", "a/c", "c/d"):
            with pytest.raises(FileNotFoundError):
                storage.read(name)

    def test_all_files_below_a_directory_are_found_with_their_sizes(self, storage: Storage) -> None:
        for name, content in (("a/b/one", b"1"), ("a/two", b"22"), ("a/.hidden", b"x"), ("b", b"333")):
            storage.put(name, content)
        assert [(file.name, file.bytes) for file in storage.files("a")] == [("b/one", 1), ("two", 2)]
        assert [file.name for file in storage.below("a").files()] == ["b/one", "two"]
        assert storage.files("nowhere") == ()

    def test_a_copy_is_equal_and_lives_longer_than_the_first(self, storage: Storage, tmp_path: Path) -> None:
        storage.put("a/first", b"content")
        storage.copy("a/first", "copies/deep/second")
        storage.delete("a/first")
        assert storage.read("copies/deep/second") == b"content"
        assert storage.sha256("copies/deep/second") == hashlib.sha256(b"content").hexdigest()
        for act in (storage.sha256, lambda name: storage.copy(name, "x")):
            with pytest.raises(FileNotFoundError):
                act("a/first")
        (tmp_path / "local").write_bytes(b"sent")
        storage.send(tmp_path / "local", "copies/third")
        assert storage.read("copies/third") == b"sent"
        assert [file.name for file in storage.files()] == ["copies/deep/second", "copies/third"]

    def test_a_put_replaces_what_has_the_name(self, storage: Storage) -> None:
        storage.put("f", b"first, and longer")
        storage.put("f", b"second")
        assert storage.read("f") == b"second"
        storage.put("f", b"third", durable=False)
        assert storage.read("f") == b"third"
        assert storage.list() == ["f"]

    def test_a_file_is_read_whole_while_it_is_replaced(self, storage: Storage) -> None:
        contents = [letter * 10_000 for letter in (b"a", b"b")]
        storage.put("f", contents[0])
        replaced = Event()

        def replace() -> None:
            for turn in range(20):
                storage.put("f", contents[turn % 2], durable=False)
            replaced.set()

        with ThreadPoolExecutor(1) as thread:
            thread.submit(replace)
            while not replaced.is_set():
                assert storage.read("f") in contents

    def test_put_new_writes_a_name_once(self, storage: Storage) -> None:
        assert storage.put_new("log/1.json", b"first") is True
        assert storage.put_new("log/1.json", b"second") is False
        assert storage.put_new("log/1.json", b"first") is False
        assert storage.read("log/1.json") == b"first"
        assert storage.list("log") == ["1.json"]
        storage.delete("log/1.json")
        assert storage.put_new("log/1.json", b"third") is True
        assert storage.read("log/1.json") == b"third"

    def test_put_new_respects_what_put_wrote(self, storage: Storage) -> None:
        storage.put("f", b"put")
        assert storage.put_new("f", b"new") is False
        assert storage.read("f") == b"put"

    def test_of_several_writers_of_a_new_file_one_succeeds(self, storage: Storage) -> None:
        together = Barrier(WRITERS)

        def write(writer: int, name: str) -> bool:
            together.wait()
            return storage.put_new(name, f"writer {writer}".encode() * 100)

        with ThreadPoolExecutor(WRITERS) as threads:
            for attempt in range(10):
                name = f"race/{attempt}"
                done = list(threads.map(write, range(WRITERS), [name] * WRITERS))
                assert sum(done) == 1, done
                assert storage.read(name) == f"writer {done.index(True)}".encode() * 100
        assert storage.list("race") == sorted(map(str, range(10)))

    def test_a_directory_lists_the_names_in_it(self, storage: Storage) -> None:
        for name in ("b", "a", "d/1", "d/e/2"):
            storage.put(name, b"")
        assert storage.list() == ["a", "b", "d"]
        assert storage.list("d") == ["1", "e"]
        assert storage.list("d/e") == ["2"]
        assert storage.list("nowhere") == []
        assert storage.list("a") == [], "a file has nothing in it"

    def test_names_with_a_dot_first_are_not_listed(self, storage: Storage) -> None:
        storage.put(".hidden", b"")
        storage.put("seen", b"")
        assert storage.list() == ["seen"]
        assert storage.read(".hidden") == b""

    def test_a_file_or_a_whole_directory_is_deleted(self, storage: Storage) -> None:
        for name in ("a", "ab", "d/1", "d/e/2", "d2/1"):
            storage.put(name, b"x")
        storage.delete("a")
        storage.delete("d")
        assert storage.list() == ["ab", "d2"]
        assert storage.list("d") == []
        storage.delete("a")
        storage.delete("never/there")
        assert storage.read("d2/1") == b"x"

    def test_names_may_have_spaces_signs_and_letters_of_any_alphabet(self, storage: Storage) -> None:
        for name in ("a b", "100%", "k=v", "ü", "x+y"):
            assert storage.put_new(f"odd/{name}", name.encode())
            assert storage.read(f"odd/{name}") == name.encode()
        assert storage.list("odd") == sorted(("a b", "100%", "k=v", "ü", "x+y"))
        storage.delete("odd/100%")
        assert "100%" not in storage.list("odd")

    @pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "../a", "a/../b", "."])
    def test_a_name_stays_below_the_root(self, storage: Storage, name: str) -> None:
        for use in (
            storage.read,
            storage.delete,
            lambda n: storage.put(n, b""),
            lambda n: storage.put_new(n, b""),
        ):
            with pytest.raises(ValueError, match="not a name below the root"):
                use(name)

    def test_what_killed_writers_left_is_swept(self, storage: Storage) -> None:
        storage.put("d/.f.1234.tmp", b"half")
        storage.put("d/f", b"whole")
        storage.sweep("d")
        storage.sweep("nowhere")
        with pytest.raises(FileNotFoundError):
            storage.read("d/.f.1234.tmp")
        assert storage.read("d/f") == b"whole"

    def test_a_directory_is_a_storage_of_its_own(self, storage: Storage) -> None:
        below = storage.below("a/b")
        assert below.list() == []
        assert below.put_new("c/d", b"x")
        assert storage.read("a/b/c/d") == b"x"
        assert below.uri("c") == storage.uri("a/b/c")

    def test_a_file_is_fetched_to_the_local_disk(self, storage: Storage) -> None:
        content = bytes(range(256)) * 1000
        storage.put("d/part-0.parquet", content)
        with storage.fetch("d/part-0.parquet") as path:
            assert path.name == "part-0.parquet"
            assert path.read_bytes() == content
        with pytest.raises(FileNotFoundError), storage.fetch("d/none"):
            pass
        assert storage.list("d") == ["part-0.parquet"]

    def test_a_uri_has_its_scheme(self, storage: Storage) -> None:
        scheme, _, rest = storage.uri().partition(":")
        assert scheme in ("file", "hdfs", "s3a")
        assert rest.startswith("//")
        assert storage.uri("a/b") == f"{storage.uri()}/a/b"

    def test_a_directory_can_be_there_before_its_files(self, storage: Storage) -> None:
        storage.directory("empty/er")
        storage.directory("empty/er")
        assert storage.list("empty/er") == []
        storage.put("empty/er/a", b"x")
        assert storage.list("empty/er") == ["a"]

    def test_the_size_is_that_of_all_files_below(self, storage: Storage) -> None:
        assert storage.size("nothing") == 0
        storage.put("d/a", b"12")
        storage.put("d/e/b", b"345")
        assert (storage.size("d/a"), storage.size("d")) == (2, 5)
        assert storage.below("d").size() == 5
