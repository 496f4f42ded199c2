import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from data.problems import DataError, ProblemCode
from data.store import CATALOG, CatalogEntry, obtain, read_entry
from tests.data.sample_files import ROWS, as_squad

CONTENT = as_squad(ROWS).encode() + b" " * 200_000


class _Publisher(BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        body = {"/set.json": CONTENT, "/altered.json": b"x" + CONTENT[1:], "/longer.json": CONTENT * 2}
        content = body.get(self.path, CONTENT)
        self.send_response(404 if self.path == "/none.json" else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:1000] if self.path == "/cut.json" else content)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def entry(workspace_folder: Path) -> Iterator[CatalogEntry]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Publisher)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    _Publisher.asked.clear()
    checksum = hashlib.sha256(CONTENT).hexdigest()
    address = f"http://127.0.0.1:{server.server_port}/set.json"
    yield CatalogEntry("set", "A set", "CC0", Path("set.json"), address, checksum, len(CONTENT))
    server.shutdown()
    server.server_close()


def test_a_download_is_kept(entry: CatalogEntry, workspace_folder: Path) -> None:
    steps: list[tuple[int, int]] = []
    assert obtain(entry, lambda done, total: steps.append((done, total))) == CONTENT
    assert steps[-1] == (len(CONTENT), len(CONTENT))
    assert steps == sorted(steps)
    assert (workspace_folder / "downloads" / "set.json").read_bytes() == CONTENT
    assert obtain(entry) == CONTENT
    assert _Publisher.asked == ["/set.json"]


def test_a_folder_of_data_comes_first(entry: CatalogEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "set.json").write_bytes(CONTENT)
    monkeypatch.setenv("MRC_DATA", str(tmp_path))
    assert obtain(entry) == CONTENT
    assert _Publisher.asked == []


def test_altered_copies_are_not_used(
    entry: CatalogEntry, workspace_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (tmp_path, workspace_folder / "downloads"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "set.json").write_bytes(b"altered")
    monkeypatch.setenv("MRC_DATA", str(tmp_path))
    assert obtain(entry) == CONTENT
    assert (workspace_folder / "downloads" / "set.json").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("none.json", ProblemCode.DOWNLOAD_FAILED, "Not Found"),
        ("cut.json", ProblemCode.ALTERED_DOWNLOAD, "1,000 bytes"),
        ("altered.json", ProblemCode.ALTERED_DOWNLOAD, "is not the known file of A set"),
        ("longer.json", ProblemCode.ALTERED_DOWNLOAD, "is not the known file of A set"),
    ],
)
def test_what_is_not_the_known_file_is_refused(
    entry: CatalogEntry, workspace_folder: Path, name: str, code: ProblemCode, words: str
) -> None:
    with pytest.raises(DataError, match=words) as caught:
        obtain(replace(entry, address=entry.address.replace("set.json", name)))
    assert caught.value.problem.code is code
    assert str(caught.value).endswith("Get the file by hand and upload it here.")
    assert not (workspace_folder / "downloads" / "set.json").exists()


def test_a_publisher_out_of_reach(entry: CatalogEntry) -> None:
    with pytest.raises(DataError, match=r"A set could not be downloaded from http://127.0.0.1:9/x \("):
        obtain(replace(entry, address="http://127.0.0.1:9/x"))


def test_the_sample_comes_with_the_program() -> None:
    question_set = read_entry(CATALOG["sample"]).question_set
    assert question_set.name == "Korean sample"
    assert all(question.kind for question in question_set.questions)


def test_the_entry_of_korquad_is_the_real_file(korquad_file: Path) -> None:
    entry = CATALOG["korquad-v1-dev"]
    content = korquad_file.read_bytes()
    assert (len(content), hashlib.sha256(content).hexdigest()) == (entry.size, entry.sha256)
    assert len(read_entry(entry).question_set.questions) == 5774
