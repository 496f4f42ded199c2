"""Tests of the cache: results are computed once, and again if a file is damaged; cache detect damage."""

import json
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from mrc_workbench.data import cache
from mrc_workbench.data import workspace as workspace_module
from mrc_workbench.data.cache import cached_arrays, is_intact, seal, sealing
from mrc_workbench.data.workspace import workspace

ARRAYS = {"numbers": np.arange(50, dtype=np.int32), "shares": np.linspace(0, 1, 7)}


def compute() -> cache.Arrays:
    return ARRAYS


def compute_nothing() -> cache.Arrays:
    raise AssertionError("computed again")


def cached_file(kind: str) -> Path:
    (path,) = (workspace() / "cache" / kind).glob("*.npz")
    return path


def assert_same(arrays: cache.Arrays) -> None:
    assert arrays.keys() == ARRAYS.keys()
    for name, values in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], values)
        assert arrays[name].dtype == values.dtype


def test_computes_arrays_once() -> None:
    cached_arrays("kind", "key", compute, store=False)
    assert not (workspace() / "cache").exists()
    assert_same(cached_arrays("kind", "key", compute))
    assert_same(cached_arrays("kind", "key", compute_nothing))
    assert [path.name for path in (workspace() / "cache" / "kind").iterdir()] == ["key.npz"]
    with pytest.raises(AssertionError, match="computed again"):
        cached_arrays("kind", "other", compute_nothing)


def test_disabling_the_cache_affects_only_this_thread() -> None:
    with cache.without_caching(), ThreadPoolExecutor(1) as others:
        assert_same(cached_arrays("kind", "key", compute))
        assert not (workspace() / "cache").exists()
        others.submit(cached_arrays, "kind", "key", compute).result()
        with pytest.raises(AssertionError, match="computed again"):
            cached_arrays("kind", "key", compute_nothing)
    assert_same(cached_arrays("kind", "key", compute_nothing))


def damaged(whole: bytes) -> Iterator[bytes]:
    """Yield truncated files, files with a changed byte, and files of other kinds."""
    contents = whole.index(b"PK\x01\x02")
    yield from (whole[:length] for length in range(0, len(whole), 5))
    changes = [(position, whole[position] ^ 0xFF) for position in range(0, contents, 5)]
    for position, value in [*changes, (contents + 8, 1), (contents + 10, 99)]:  # encrypted, unknown compression
        yield whole[:position] + bytes([value]) + whole[position + 1 :]
    yield from (b"", b"text", b"\x80\x04N.", b"\x93NUMPY")


def test_recomputes_damaged_file() -> None:
    cached_arrays("kind", "key", compute)
    whole = cached_file("kind").read_bytes()
    for content in damaged(whole):
        cached_file("kind").write_bytes(content)
        assert_same(cached_arrays("kind", "key", compute))
        assert cached_file("kind").read_bytes() == whole


def test_logs_unwritable_cache_folder_once(caplog: pytest.LogCaptureFixture) -> None:
    for kind in ("kind", "sort"):
        (workspace() / "cache" / kind).parent.mkdir(parents=True, exist_ok=True)
        (workspace() / "cache" / kind).write_text("a file, where the folder should be")
    for kind, key in (("kind", "a"), ("kind", "b"), ("sort", "a"), ("kind", "c")):
        assert_same(cached_arrays(kind, key, compute))
    messages = [record.getMessage().partition(": ")[0] for record in caplog.records]
    assert messages == [f"results are not cached in {workspace() / 'cache' / kind}" for kind in ("kind", "sort")]


def test_different_parts_have_different_keys() -> None:
    parts: list[tuple[object, ...]] = [("a",), ("a", "b"), ("ab",), (["a", "b"],), ("a", ["b"]), (1,), ("1",), (None,)]
    parts += [("\ud800",), ("?",), ({"a": 1},), (["a", 1],)]
    assert len({cache.key_of(*values) for values in parts}) == len(parts)
    assert cache.key_of({"a": 1, "b": 2}) == cache.key_of({"b": 2, "a": 1})


CONTENT = bytes(range(256)) * 10


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    seal(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "inner" / "weights").write_bytes(CONTENT)
    (folder / "empty").touch()
    seal(folder)
    return folder


def test_seal_appends_signature_size_and_digest(file: Path) -> None:
    content = file.read_bytes()
    size = len(CONTENT).to_bytes(8, "little")
    assert content == CONTENT + b"mrc-seal" + size + xxhash.xxh3_128(CONTENT).digest()
    assert is_intact(file)


def test_truncated_or_flipped_file_is_not_intact(file: Path) -> None:
    whole = bytearray(file.read_bytes())
    for content in (*(whole[:length] for length in range(0, len(whole), 7)), whole + b"\0"):
        file.write_bytes(content)
        assert not is_intact(file), len(content)
    file.write_bytes(whole)
    assert is_intact(file)
    for position in (*range(0, len(whole), 37), *range(len(CONTENT), len(whole))):
        whole[position] ^= 1 << position % 8
        file.write_bytes(whole)
        assert not is_intact(file), position
        whole[position] ^= 1 << position % 8


def test_detects_damage_that_keeps_size_and_time(file: Path) -> None:
    assert is_intact(file)
    before = file.stat()
    with file.open("r+b") as handle:
        handle.seek(100)
        handle.write(b"other")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    assert not is_intact(file)


def test_missing_or_unsealed_file_is_not_intact(tmp_path: Path) -> None:
    assert not is_intact(tmp_path / "nothing")
    assert not is_intact(tmp_path)
    for content in (b"", CONTENT):
        (tmp_path / "plain").write_bytes(content)
        assert not is_intact(tmp_path / "plain")
        assert not cache.is_sealed(tmp_path / "plain")
    seal(tmp_path / "plain")
    assert cache.is_sealed(tmp_path / "plain")


def test_digests_a_file_once_until_it_is_replaced(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    digest = cache._digest

    def record(path: Path, size: int) -> bytes:
        read.append(path)
        return digest(path, size)

    monkeypatch.setattr(cache, "_digest", record)
    assert all(is_intact(file) for _ in range(5))
    assert read == [file]
    copy = file.with_name("copy")
    copy.write_bytes(file.read_bytes())
    copy.replace(file)
    assert all(is_intact(file) for _ in range(5))
    assert read == [file, file]


def test_numpy_reads_sealed_arrays(tmp_path: Path) -> None:
    array = np.arange(1000, dtype=np.float32).reshape(50, 20)
    with sealing(tmp_path / "a.npy") as new:
        np.save(new, array)
    for mode in (None, "r"):
        np.testing.assert_array_equal(np.load(tmp_path / "a.npy", mmap_mode=mode), array)
    assert is_intact(tmp_path / "a.npy")


def test_folder_is_intact_if_all_its_files_are(folder: Path) -> None:
    assert is_intact(folder)
    for name in ("config.json", "inner/weights", "empty", cache.SEAL):
        path = folder / name
        whole = path.read_bytes()
        for damaged in (b"", whole[:-1], whole + b"x", b"[" * 100_000, b"{}"):
            if damaged != whole:
                path.write_bytes(damaged)
                assert not is_intact(folder), (name, damaged[:10])
        path.unlink()
        assert not is_intact(folder)
        path.write_bytes(whole)
        assert is_intact(folder)


def test_failed_write_keeps_the_old_file(file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(FileNotFoundError), sealing(file) as new:
        new.rename(new.with_name("elsewhere"))
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_flushes_sealed_file_before_renaming_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[tuple[str, bool]] = []
    target = tmp_path / "sealed"
    for module in (cache, workspace_module):
        monkeypatch.setattr(module, "to_disk", lambda path: forced.append((path.name, target.exists())))
    with sealing(target) as new:
        new.write_bytes(CONTENT)
    assert forced == [("sealed", False), (tmp_path.name, True)]
    forced.clear()
    target.unlink()
    with sealing(target) as new:
        new.mkdir()
        (new / "inner").write_bytes(CONTENT)
    before = [name for name, there in forced if not there]
    assert before.index("inner") < before.index(cache.SEAL)
    assert forced[-1] == (tmp_path.name, True)


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the path of a socket has a length limit
    try:
        with socket.socket(socket.AF_UNIX) as unix_socket:
            unix_socket.bind(path.name)
    finally:
        os.chdir(here)


@pytest.mark.parametrize("put", [os.mkfifo, _socket, lambda path: path.symlink_to("/dev/zero")])
def test_special_files_are_not_intact_and_never_block(put: Any, folder: Path, file: Path) -> None:
    for path in (file, folder / "config.json", folder / "inner" / "weights", folder / cache.SEAL):
        content = path.read_bytes()
        path.unlink()
        put(path)
        assert not is_intact(folder if folder in path.parents else path), path
        path.unlink()
        path.write_bytes(content)
    assert is_intact(folder)
    assert is_intact(file)


def test_seal_must_list_every_file(folder: Path) -> None:
    listed = json.loads((folder / cache.SEAL).read_text())
    for name in listed:
        others = {other: entry for other, entry in listed.items() if other != name}
        (folder / cache.SEAL).write_text(json.dumps(others))
        assert not is_intact(folder), name
        assert is_intact(folder, unsealed_names=[name])
        (folder / cache.SEAL).write_text(json.dumps({name: listed[name]}))
        assert not is_intact(folder), name
    (folder / cache.SEAL).write_text(json.dumps(listed | {"../file": [0, ""]}))
    assert not is_intact(folder)
    (folder / cache.SEAL).write_text(json.dumps(listed))
    (folder / ".left-by-a-system").touch()
    assert is_intact(folder)
    (folder / "another").touch()
    assert not is_intact(folder)
