"""Tests of datasets: of the catalog, stored by users, and shared ones, which users only read."""

import gc
import hashlib
import io
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mrc_workbench.data import store
from mrc_workbench.data.cache import cached_arrays
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.judgements import load_remarks, mark_negative
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.store import CATALOG, CatalogEntry, find, load, save_question_set, stored
from mrc_workbench.data.workspace import acting_as, shared_workspace, user_of, workspace
from mrc_workbench.workbench.cli import main
from tests.data.sample_files import ROWS, as_squad
from tests.doubles import small_set

SET_PASSAGES = (Passage("a", "서울은\n수도", "서울"), Passage("b", "부산"))
SET_QUESTIONS = (Question("1", "수도는?", ("서울", "한양"), ("a", "b"), "keyword"), Question("2", "왜?"))
SET = QuestionSet("../이름: 질문/들", SET_PASSAGES, SET_QUESTIONS)


def test_loads_stored_question_set(workspace_folder: Path) -> None:
    stored_set = save_question_set(SET, source="질문.csv")
    assert (stored_set.key, stored_set.name, stored_set.source) == (SET.fingerprint[:16], SET.name, "질문.csv")
    assert (stored_set.passages, stored_set.questions) == (2, 2)
    assert load(stored_set.key) == SET
    assert stored() == [stored_set]
    assert [path.name for path in (workspace_folder / "datasets").iterdir()] == [stored_set.key]


def test_records_the_last_used_set(workspace_folder: Path) -> None:
    assert store.last_used() == ""
    for key in ("0123456789abcdef", "fedcba9876543210"):
        store.record_last_used(key)
        assert store.last_used() == key
    assert [path.name for path in workspace_folder.iterdir()] == ["last_used.json"], "written atomically"


def test_stores_aliases(workspace_folder: Path) -> None:
    aliased = replace(SET, aliases={"사본 1": "a", "c": "b"})
    stored_set = save_question_set(aliased)
    assert load(stored_set.key) == aliased
    assert dict(load(stored_set.key).aliases) == {"사본 1": "a", "c": "b"}
    store.rename(stored_set.key, "renamed")
    assert load(stored_set.key).aliases == aliased.aliases
    plain = save_question_set(replace(SET, name="plain", questions=()))
    assert not (workspace_folder / "datasets" / plain.key / "aliases.parquet").exists()
    assert load(plain.key).aliases == {}


def aliases_of(*targets: str | None) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"alias": ["c"], "passage": pa.array(targets, pa.string())}), out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("aliases.parquet", lambda _: aliases_of("nowhere")),
        ("aliases.parquet", lambda _: aliases_of(None)),
        ("aliases.parquet", lambda _: b"PAR1"),
        ("questions.parquet", lambda _: b"PAR1"),
        ("passages.arrow", lambda old: old[:-9]),
        ("passages.arrow", lambda old: old.replace("부산".encode(), "울산".encode())),
    ],
)
def test_rejects_damaged_files(workspace_folder: Path, name: str, damage: Callable[[bytes], bytes]) -> None:
    stored_set = save_question_set(replace(SET, aliases={"c": "b"}))
    path = workspace_folder / "datasets" / stored_set.key / name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=f"The stored dataset {stored_set.key} cannot be read"):
        load(stored_set.key)


def test_ignores_damaged_record_of_last_used_set(workspace_folder: Path) -> None:
    path = workspace_folder / "last_used.json"
    for note in ("", "{", "[]", "{}", "\x00", "[" * 100_000):
        store.record_last_used("0123456789abcdef")
        path.write_text(note, encoding="utf-8")
        assert store.last_used() == ""
    path.unlink()
    path.mkdir()
    store.record_last_used("0123456789abcdef")  # an unwritable file is ignored
    assert store.last_used() == ""


@pytest.mark.parametrize("names", [["questions.parquet"], ["passages.arrow", "passages.json"]])
def test_rejects_content_of_another_set(workspace_folder: Path, names: list[str]) -> None:
    stored_set = save_question_set(SET)
    other = save_question_set(QuestionSet("other", (*SET.passages, Passage("c", "대구")), SET.questions[:1]))
    folder = workspace_folder / "datasets"
    for name in names:
        (folder / stored_set.key / name).write_bytes((folder / other.key / name).read_bytes())
    with pytest.raises(DataError, match=r"\(its content differs from the stored one\)\. Remove it and read its source"):
        load(stored_set.key)


def test_reads_passages_without_a_seal(workspace_folder: Path) -> None:
    stored_set = save_question_set(SET)
    (workspace_folder / "datasets" / stored_set.key / "passages.json").unlink()
    assert load(stored_set.key) == SET


def test_opens_sets_stored_as_parquet(workspace_folder: Path) -> None:
    stored_set = save_question_set(SET)
    folder = workspace_folder / "datasets" / stored_set.key
    rows = {name: [getattr(passage, name) for passage in SET.passages] for name in ("id", "text", "title")}
    pq.write_table(pa.table(rows), folder / "passages.parquet", compression="zstd")
    for name in ("passages.arrow", "passages.json"):
        (folder / name).unlink()
    assert load(stored_set.key) == SET


def test_maps_passages_into_memory(workspace_folder: Path) -> None:
    stored_set = save_question_set(SET)
    gc.collect()  # garbage of other tests
    before = pa.total_allocated_bytes()
    passages = store.passages_of(stored_set.key)
    gc.collect()
    assert pa.total_allocated_bytes() <= before
    assert passages[1] == SET.passages[1]
    assert load(stored_set.key).passages == passages


def test_finds_a_set_by_every_reference(workspace_folder: Path, tmp_path: Path) -> None:
    stored_set = save_question_set(SET)
    (tmp_path / "file.csv").write_text("question,context\na?,b\n")
    assert find("file.csv", tmp_path).name == "file"
    assert find(str(tmp_path / "file.csv")).name == "file"
    assert find(stored_set.key) == SET
    assert find(SET.name) == SET
    assert len(find("sample").questions) >= 100
    with pytest.raises(DataError) as caught:
        find("nothing.csv", tmp_path)
    assert str(caught.value).endswith(f"one of: sample, korquad-v1-dev, {SET.name} ({stored_set.key}).")


def test_stores_optional_question_fields(workspace_folder: Path) -> None:
    first, *others = SET.questions
    generated = QuestionSet("generated", SET.passages, (replace(first, generator="sentence", hidden=True), *others))
    stored_set = save_question_set(generated)
    assert (stored_set.generated, save_question_set(SET).generated) == (1, 0)
    assert load(stored_set.key).questions == generated.questions
    assert load(stored_set.key).generated_counts == {"sentence": 1}
    with_fields = replace(first, starts=(3, -1), rejected=(SET.passages[0].id,))
    stored_set = save_question_set(QuestionSet(SET.name, SET.passages, (with_fields, *others)))
    assert load(stored_set.key).questions == (with_fields, *others)
    assert stored_set.key == save_question_set(SET).key, "claims of a file are no content"


def test_opens_sets_stored_under_earlier_names(workspace_folder: Path) -> None:
    first, *others = SET.questions
    generated = replace(SET, questions=(replace(first, generator="sentence", hidden=True), *others))
    stored_set = save_question_set(generated)
    folder = workspace_folder / "datasets" / stored_set.key
    note = json.loads((folder / "set.json").read_text())
    note["made"] = note.pop("generated")
    (folder / "set.json").write_text(json.dumps(note))
    table = pq.read_table(folder / "questions.parquet")
    earlier = ["made" if name == "generator" else name for name in table.column_names]
    pq.write_table(table.rename_columns(earlier), folder / "questions.parquet")
    assert stored() == [stored_set]
    assert load(stored_set.key).questions == generated.questions
    assert load(stored_set.key).fingerprint == stored_set.fingerprint


CONTENT = as_squad(ROWS).encode() + b" " * 200_000


class _Publisher(BaseHTTPRequestHandler):
    requested_paths: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.requested_paths.append(self.path)
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
    _Publisher.requested_paths.clear()
    checksum = hashlib.sha256(CONTENT).hexdigest()
    address = f"http://127.0.0.1:{server.server_port}/set.json"
    yield CatalogEntry("set", "A set", "CC0", Path("set.json"), address, checksum, len(CONTENT))
    server.shutdown()
    server.server_close()


def test_stores_a_download(entry: CatalogEntry, workspace_folder: Path) -> None:
    steps: list[tuple[int, int]] = []
    assert store.fetch(entry, lambda done, total: steps.append((done, total))) == CONTENT
    assert steps[-1] == (len(CONTENT), len(CONTENT))
    assert steps == sorted(steps)
    assert (workspace_folder / "downloads" / "set.json").read_bytes() == CONTENT
    assert store.fetch(entry) == CONTENT
    assert _Publisher.requested_paths == ["/set.json"]


def test_prefers_data_folder_and_ignores_altered_copies(
    entry: CatalogEntry, workspace_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "set.json").write_bytes(CONTENT)
    monkeypatch.setenv("MRC_DATA", str(tmp_path))
    assert store.fetch(entry) == CONTENT
    assert _Publisher.requested_paths == []
    for folder in (tmp_path, workspace_folder / "downloads"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "set.json").write_bytes(b"altered")
    assert store.fetch(entry) == CONTENT
    assert (workspace_folder / "downloads" / "set.json").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("none.json", ProblemCode.DOWNLOAD_FAILED, "Not Found"),
        ("cut.json", ProblemCode.ALTERED_DOWNLOAD, "1,000 bytes"),
        ("altered.json", ProblemCode.ALTERED_DOWNLOAD, "is not the known A set"),
        ("longer.json", ProblemCode.ALTERED_DOWNLOAD, "is not the known A set"),
    ],
)
def test_rejects_download_with_another_checksum(
    entry: CatalogEntry, workspace_folder: Path, name: str, code: ProblemCode, words: str
) -> None:
    with pytest.raises(DataError, match=words) as caught:
        store.fetch(replace(entry, address=entry.address.replace("set.json", name)))
    assert caught.value.problem.code is code
    assert str(caught.value).endswith("Download the file yourself and upload it here.")
    assert not (workspace_folder / "downloads" / "set.json").exists()
    with pytest.raises(DataError, match=r"A set could not be downloaded from http://127.0.0.1:9/x \("):
        store.fetch(replace(entry, address="http://127.0.0.1:9/x"))  # out of reach


def test_sample_needs_no_download() -> None:
    question_set = store.read_entry(CATALOG["sample"]).question_set
    assert question_set.name == "Korean sample"
    assert all(question.kind for question in question_set.questions)


def test_korquad_entry_matches_the_published_file(korquad_file: Path) -> None:
    entry = CATALOG["korquad-v1-dev"]
    content = korquad_file.read_bytes()
    assert (len(content), hashlib.sha256(content).hexdigest()) == (entry.size, entry.sha256)
    assert len(store.read_entry(entry).question_set.questions) == 5774


ALICE = user_of("https://id.example.org", "alice")
BOB = user_of("https://id.example.org", "bob")
OWN = QuestionSet("own", (Passage("a", "서울은 수도이다"),), (Question("1", "수도는?", ("서울",), ("a",)),))


@pytest.fixture
def shared(tmp_path: Path) -> str:
    """The key of a set that the operator imported by a command."""
    file = tmp_path / "everybody.json"
    passages = {passage.id: passage for passage in small_set().passages}
    questions = small_set().questions
    rows = [{"question": question.text, "context": passages[question.relevant[0]].text} for question in questions]
    file.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    assert main(["data", "import", str(file)]) == 0
    (stored_set,) = stored()
    return stored_set.key


def file_contents(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_only_the_operator_changes_shared_sets(shared: str) -> None:
    before = file_contents(shared_workspace() / "datasets")
    with acting_as(ALICE):
        with pytest.raises(DataError):
            store.remove(shared)
        with pytest.raises(DataError):
            store.rename(shared, "mine")
        mark_negative(load(shared).fingerprint, "1", "2")
        assert len(load_remarks(load(shared).fingerprint)) == 1
    with acting_as(BOB):
        assert len(load_remarks(load(shared).fingerprint)) == 0
    assert file_contents(shared_workspace() / "datasets") == before
    assert not (shared_workspace() / "remarks").exists()
    store.remove(shared)
    assert stored() == []
    with acting_as(ALICE):  # results belong to the user
        cached_arrays("rankings", "key", lambda: {"one": np.zeros(1)})
        assert (workspace() / "cache" / "rankings" / "key.npz").is_file()
    assert not (shared_workspace() / "cache").exists()


def test_hides_sets_of_other_users(shared: str) -> None:
    with acting_as(ALICE):
        own = save_question_set(OWN).key
        before = file_contents(workspace())
    with acting_as(BOB):
        assert [stored_set.key for stored_set in stored()] == [shared]
        for reference in (own, "own", f"../../{ALICE}/datasets/{own}", f"../users/{ALICE}/datasets/{own}"):
            for attempt in (load, store.passages_of, store.remove, find):
                with pytest.raises(DataError):
                    attempt(reference)
    with acting_as(ALICE):
        assert file_contents(workspace()) == before
        assert load(own) == OWN


def test_renaming_changes_only_the_name() -> None:
    stored_set = save_question_set(small_set(), source="a.csv")
    store.rename(stored_set.key, "  새\n이름 ")
    assert stored() == [replace(stored_set, name="새 이름")]
    assert load(stored_set.key).name == "새 이름"
    assert load(stored_set.key).fingerprint == stored_set.fingerprint
    assert [path.name for path in (workspace() / "datasets").iterdir()] == [stored_set.key]


@pytest.mark.parametrize("name", ["../../evil", "/etc/passwd", "a\0b", "x" * 1000, "CON", ".."])
def test_rename_never_treats_a_name_as_a_path(name: str) -> None:
    stored_set = save_question_set(small_set())
    before = sorted(path.name for path in workspace().parent.iterdir())
    store.rename(stored_set.key, name)
    (renamed,) = stored()
    assert renamed.key == stored_set.key
    assert len(renamed.name) <= 100
    assert renamed.name.isprintable()
    assert sorted(path.name for path in workspace().parent.iterdir()) == before
    assert [path.name for path in (workspace() / "datasets").iterdir()] == [stored_set.key]


@pytest.mark.parametrize("name", ["", "  ", "\n\t", "\u200b"])
def test_rejects_empty_name(name: str) -> None:
    stored_set = save_question_set(small_set())
    with pytest.raises(ValueError, match="a name needs"):
        store.rename(stored_set.key, name)
    assert stored() == [stored_set]


@pytest.mark.parametrize("key", ["0123456789abcdef", "..", "../datasets", ""])
def test_rejects_renaming_unknown_set(key: str) -> None:
    save_question_set(small_set())
    with pytest.raises(DataError, match="There is no dataset"):
        store.rename(key, "new")
