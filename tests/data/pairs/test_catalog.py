"""The catalog of pairs: what comes with the program, and what is got from its publisher."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from data.pairs.audit import split_pairs
from data.pairs.reading import PairOptions
from data.pairs.records import PARTS, PairKind
from data.pairs.store import find
from data.problems import DataError, ProblemCode
from data.split import Part
from data.store import PAIR_CATALOG, CatalogEntry, PairEntry, read_pair_entry


def content(score: int) -> bytes:
    rows = [f"가 {row}\t나 {row}\t{(row + score) % 6}" for row in range(12)]
    return "\n".join(["sentence1\tsentence2\tscore", *rows]).encode()


@pytest.fixture
def entry(workspace_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PairEntry:
    """A set of two files that lie in a folder of data, each under its checksum; no publisher answers."""
    files = []
    for place, name in enumerate(("one.tsv", "two.tsv")):
        (tmp_path / name).write_bytes(content(place))
        checksum = hashlib.sha256(content(place)).hexdigest()
        files.append(
            CatalogEntry(name, name, "CC0", Path(name), f"http://127.0.0.1:9/{name}", checksum, len(content(0)))
        )
    monkeypatch.setenv("MRC_DATA", str(tmp_path))
    options = PairOptions(kind=PairKind.SCORED, scale=(0, 5), parts=(Part.TRAIN, Part.TEST))
    return PairEntry("both", "Both files", "CC0", tuple(files), options)


def test_several_files_are_one_set_under_its_title(entry: PairEntry) -> None:
    reading = read_pair_entry(entry)
    assert (reading.pairs.name, reading.pairs.scale, entry.size) == ("Both files", (0, 5), 2 * len(content(0)))
    assert reading.pairs.published.tolist() == [PARTS.index(Part.TRAIN)] * 12 + [PARTS.index(Part.TEST)] * 12


def test_a_file_that_cannot_be_got_is_told(entry: PairEntry, tmp_path: Path) -> None:
    (tmp_path / "two.tsv").write_bytes(b"altered")
    with pytest.raises(DataError, match=r"two\.tsv could not be downloaded") as error:
        read_pair_entry(entry)
    assert error.value.problem.code is ProblemCode.DOWNLOAD_FAILED


def test_progress_is_that_of_the_whole_set(entry: PairEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[int, int]] = []

    def obtained(file: CatalogEntry, on_progress: object) -> bytes:
        assert callable(on_progress)
        on_progress(file.size, file.size)
        return content(0)

    monkeypatch.setattr("data.store.obtain", obtained)
    read_pair_entry(entry, lambda done, total: steps.append((done, total)))
    assert steps == [(entry.size // 2, entry.size), (entry.size, entry.size)]


@pytest.mark.parametrize("entry", PAIR_CATALOG.values(), ids=lambda entry: entry.id)
def test_every_entry_says_what_it_is(entry: PairEntry) -> None:
    assert entry.licence in ("CC0 1.0", "CC BY-SA 4.0")
    assert entry.options.kind is not None
    assert len(entry.options.parts) in (0, len(entry.files))
    for file in entry.files:
        assert file.path.is_absolute() or file.address.startswith("https://raw.githubusercontent.com/")


@pytest.mark.parametrize("id_", ["sample-sts", "sample-nli"])
def test_the_samples_come_with_the_program(id_: str) -> None:
    entry = PAIR_CATALOG[id_]
    reading = read_pair_entry(entry)
    assert (reading.pairs.kind, reading.left_out) == (entry.options.kind, 0)
    assert all(len(split_pairs(reading.pairs)[part]) for part in PARTS)
    assert find(id_).fingerprint == reading.pairs.fingerprint


def test_files_and_entries_are_found(entry: PairEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find("one.tsv", tmp_path).name == find(str(tmp_path / "one.tsv")).name == "one"
    monkeypatch.setitem(PAIR_CATALOG, "both", replace(entry, title="Both"))
    assert find("both").name == "Both"
    with pytest.raises(DataError, match=r"no set of sentence pairs none\.tsv\..*one of: sample-sts, sample-nli"):
        find("none.tsv", tmp_path)
