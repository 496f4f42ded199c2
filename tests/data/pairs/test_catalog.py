"""The catalog of pairs, with packaged and downloaded sets, and stored sets."""

import csv
import hashlib
import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mrc_workbench.data.pairs import FILE, Label, PairKind, PairSet, audit_pairs, open_pairs, split_pairs, write_pairs
from mrc_workbench.data.pairs.store import (
    PAIR_CATALOG,
    PairEntry,
    PairReading,
    PairReadOptions,
    find,
    load,
    read_pair_entry,
    save_pairs,
    stored,
)
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.split import PARTS, Part
from mrc_workbench.data.store import CatalogEntry
from mrc_workbench.data.workspace import PROJECT, LimitError, acting_as, user_of
from tests.data.layouts.written import refuses


def content(score: int) -> bytes:
    rows = [f"가 {row}\t나 {row}\t{(row + score) % 6}" for row in range(12)]
    return "\n".join(["sentence1\tsentence2\tscore", *rows]).encode()


@pytest.fixture
def entry(workspace_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PairEntry:
    """A set of two files in a data folder with their checksums; the publisher is not reachable."""
    files = []
    for index, name in enumerate(("one.tsv", "two.tsv")):
        (tmp_path / name).write_bytes(content(index))
        checksum = hashlib.sha256(content(index)).hexdigest()
        address = f"http://127.0.0.1:9/{name}"
        files.append(CatalogEntry(name, name, "CC0", Path(name), address, checksum, len(content(0))))
    monkeypatch.setenv("MRC_DATA", str(tmp_path))
    options = PairReadOptions(kind=PairKind.SCORED, scale=(0, 5), parts=(Part.TRAIN, Part.TEST))
    return PairEntry("both", "Both files", "CC0", tuple(files), options)


def test_reads_an_entry_with_several_files(entry: PairEntry) -> None:
    reading = read_pair_entry(entry)
    assert (reading.pairs.name, reading.pairs.scale, entry.size) == ("Both files", (0, 5), 2 * len(content(0)))
    assert reading.pairs.published.tolist() == [PARTS.index(Part.TRAIN)] * 12 + [PARTS.index(Part.TEST)] * 12


def test_reports_a_failed_download(entry: PairEntry, tmp_path: Path) -> None:
    (tmp_path / "two.tsv").write_bytes(b"altered")
    with refuses(ProblemCode.DOWNLOAD_FAILED, r"two\.tsv could not be downloaded"):
        read_pair_entry(entry)


def test_reports_progress_over_all_files(entry: PairEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[int, int]] = []

    def obtained(file: CatalogEntry, on_progress: object) -> bytes:
        assert callable(on_progress)
        on_progress(file.size, file.size)
        return content(0)

    monkeypatch.setattr("mrc_workbench.data.pairs.store.fetch", obtained)
    read_pair_entry(entry, lambda done, total: steps.append((done, total)))
    assert steps == [(entry.size // 2, entry.size), (entry.size, entry.size)]


@pytest.mark.parametrize("entry", PAIR_CATALOG.values(), ids=lambda entry: entry.id)
def test_every_entry_is_complete(entry: PairEntry) -> None:
    assert entry.licence in ("CC0 1.0", "CC BY-SA 4.0")
    assert entry.options.kind is not None
    assert len(entry.options.parts) in (0, len(entry.files))
    for file in entry.files:
        assert file.path.is_absolute() or file.address.startswith("https://raw.githubusercontent.com/")


@pytest.mark.parametrize("id_", ["sample-sts", "sample-nli"])
def test_samples_are_included(id_: str) -> None:
    entry = PAIR_CATALOG[id_]
    reading = read_pair_entry(entry)
    assert (reading.pairs.kind, reading.left_out) == (entry.options.kind, 0)
    assert all(len(split_pairs(reading.pairs)[part]) for part in PARTS)
    assert find(id_).fingerprint == reading.pairs.fingerprint


def test_finds_files_and_entries(entry: PairEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find("one.tsv", tmp_path).name == find(str(tmp_path / "one.tsv")).name == "one"
    monkeypatch.setitem(PAIR_CATALOG, "both", replace(entry, title="Both"))
    assert find("both").name == "Both"
    with pytest.raises(DataError, match=r"no dataset of sentence pairs none\.tsv\..*one of: sample-sts, sample-nli"):
        find("none.tsv", tmp_path)


ENTRIES = ("korsts", "kornli-xnli", "klue-sts-dev", "klue-nli-dev")
FILES = [file for id_ in ENTRIES for file in PAIR_CATALOG[id_].files]


def given_file(file: CatalogEntry) -> Path:
    path = Path(os.environ.get("MRC_DATA", "")) / file.path
    if not path.is_file():
        pytest.skip(f"needs {file.path} in the folder that MRC_DATA names")
    return path


def reading(id_: str) -> PairReading:
    for file in PAIR_CATALOG[id_].files:
        given_file(file)
    return read_pair_entry(PAIR_CATALOG[id_])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.path.name)
def test_entry_matches_the_published_file(file: CatalogEntry) -> None:
    content = given_file(file).read_bytes()
    assert (len(content), hashlib.sha256(content).hexdigest()) == (file.size, file.sha256)


@pytest.mark.parametrize(
    ("id_", "kind", "rows"),
    [
        ("korsts", PairKind.SCORED, (5749, 1500, 1379)),
        ("kornli-xnli", PairKind.LABELLED, (0, 2490, 5010)),
        ("klue-sts-dev", PairKind.SCORED, (0, 519, 0)),
        ("klue-nli-dev", PairKind.LABELLED, (0, 3000, 0)),
    ],
)
def test_reads_every_row_into_its_published_part(id_: str, kind: PairKind, rows: tuple[int, ...]) -> None:
    result = reading(id_)
    assert (result.pairs.kind, result.pairs.name, result.left_out) == (kind, PAIR_CATALOG[id_].title, 0)
    assert tuple(len(split_pairs(result.pairs)[part]) for part in PARTS) == rows
    assert all(file.problems == () for file in result.files)


def test_reads_korsts_with_literal_quotes() -> None:
    pairs = reading("korsts").pairs
    rows = []
    for file in PAIR_CATALOG["korsts"].files:
        with given_file(file).open(encoding="utf-8", newline="") as lines:
            rows += list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    for index, name in enumerate(("sentence1", "sentence2")):
        assert list(pairs.texts[index]) == [row[name].strip() for row in rows]
    assert pairs.values.tolist() == pytest.approx([float(row["score"]) for row in rows], abs=1e-6)
    assert sum('"' in text for text in pairs.sentences) > 0


def test_measures_leaks_between_korsts_parts() -> None:
    pairs = reading("korsts").pairs
    result = audit_pairs(pairs)
    rows = split_pairs(pairs)
    train, test = (set(pairs.at(rows[part]).sentences) for part in (Part.TRAIN, Part.TEST))
    train_test_leak = result.leaks[Part.TRAIN, Part.TEST]
    assert train_test_leak.sentences == len(train & test) == 153
    test_pairs = zip(*(column.at(rows[Part.TEST]) for column in pairs.texts), strict=True)
    assert len(train_test_leak.rows) == sum(bool(train & set(row)) for row in test_pairs) == 166


def test_reads_klue_scores_from_rounded_labels() -> None:
    pairs = reading("klue-sts-dev").pairs
    content = json.loads(given_file(PAIR_CATALOG["klue-sts-dev"].files[0]).read_text(encoding="utf-8"))
    assert pairs.values.tolist() == pytest.approx([row["labels"]["label"] for row in content], abs=1e-6)


@pytest.mark.parametrize("id_", ["kornli-xnli", "klue-nli-dev"])
def test_labels_are_balanced_as_published(id_: str) -> None:
    pairs = reading(id_).pairs
    assert set(audit_pairs(pairs).labels.values()) == {len(pairs) // 3}
    assert Label.NEUTRAL == 1


FOLDER = PROJECT / "data" / "pairs" / "sample"
SCORED = "korean_sts.tsv"
LABELLED = "korean_nli.tsv"
SENTENCES = {SCORED: ("sentence1", "sentence2"), LABELLED: ("premise", "hypothesis")}
NEGATION = re.compile("않|없|못|아니|안 ")


def rows_of(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def sentences_of(rows: list[dict[str, str]], name: str) -> list[str]:
    return [row[column] for row in rows for column in SENTENCES[name]]


@pytest.mark.parametrize("name", SENTENCES)
def test_lines_are_clean(name: str) -> None:
    content = (FOLDER / name).read_bytes().decode("utf-8")
    assert content.endswith("\n")
    assert "\r" not in content
    assert '"' not in content
    assert unicodedata.is_normalized("NFC", content)
    for line in content.removesuffix("\n").split("\n"):
        cells = line.split("\t")
        assert len(cells) == 4, line
        assert all(cell and cell == " ".join(cell.split()) for cell in cells), line


@pytest.mark.parametrize(
    ("name", "counts"),
    [(SCORED, {"train": 180, "dev": 50, "test": 70}), (LABELLED, {"train": 180, "dev": 45, "test": 75})],
)
def test_sample_parts_have_expected_sizes_and_share_no_sentence(name: str, counts: dict[str, int]) -> None:
    rows = rows_of(name)
    assert Counter(row["part"] for row in rows) == counts
    parts = [set(sentences_of([row for row in rows if row["part"] == part], name)) for part in counts]
    assert not any(part_sentences & other for part_sentences, other in combinations(parts, 2))


def test_scores_fill_their_scale_in_every_part() -> None:
    rows = rows_of(SCORED)
    assert list(rows[0]) == ["sentence1", "sentence2", "score", "part"]
    allowed = {f"{step / 5:.1f}" for step in range(26)}
    assert {row["score"] for row in rows} == allowed
    for part in ("train", "dev", "test"):
        scores = [float(row["score"]) for row in rows if row["part"] == part]
        fifths = Counter(min(int(score), 4) for score in scores)
        assert all(0.15 <= fifths[fifth] / len(scores) <= 0.25 for fifth in range(5)), (part, fifths)


def test_each_premise_has_a_hypothesis_of_every_label() -> None:
    rows = rows_of(LABELLED)
    assert list(rows[0]) == ["premise", "hypothesis", "label", "part"]
    assert set(Counter(row["premise"] for row in rows).values()) == {3}
    pairs = Counter((row["premise"], row["label"]) for row in rows)
    assert set(pairs.values()) == {1}
    assert {label for _, label in pairs} == {"entailment", "neutral", "contradiction"}
    hypotheses = {row["hypothesis"] for row in rows}
    assert len(hypotheses) == len(rows)
    assert not hypotheses & {row["premise"] for row in rows}


def test_negation_does_not_predict_the_label() -> None:
    negated = Counter(row["label"] for row in rows_of(LABELLED) if NEGATION.search(row["hypothesis"]))
    total = negated.total()
    assert all(0.25 <= count / total <= 0.42 for count in negated.values()), negated


def test_samples_repeat_no_scored_sentence() -> None:
    scored, labelled = (sentences_of(rows_of(name), name) for name in (SCORED, LABELLED))
    assert len({*scored}) == len(scored)
    assert not {*scored} & {*labelled}


RATED = PairSet.from_columns(
    "../이름: 짝/들", PairKind.SCORED, [["가", "나\n다"], ["라", "가"]], [0.5, 5], published=[2, -1], scale=(0, 5)
)
SETS = (
    RATED,
    PairSet.from_columns("판정", PairKind.LABELLED, [["가", "나"], ["다", "라"]], [0, 2]),
    PairSet.from_columns("셋", PairKind.TRIPLETS, [["가"], ["나"], ["다"]], published=[1]),
    PairSet.from_columns("번역", PairKind.PARALLEL, [["가"], ["a"]]),
    PairSet.from_columns("문장", PairKind.SENTENCES, [["가", "나"]]),
)


@pytest.mark.parametrize("pairs", SETS, ids=lambda pairs: pairs.kind)
def test_loads_stored_pairs(workspace_folder: Path, pairs: PairSet) -> None:
    stored_pairs = save_pairs(pairs, source="짝.tsv")
    assert (stored_pairs.key, stored_pairs.name, stored_pairs.source) == (pairs.fingerprint[:16], pairs.name, "짝.tsv")
    assert (stored_pairs.kind, stored_pairs.rows, stored_pairs.scale) == (pairs.kind, len(pairs), pairs.scale)
    again = load(stored_pairs.key)
    assert (again.name, again.kind, again.scale, again.texts) == (pairs.name, pairs.kind, pairs.scale, pairs.texts)
    assert (again.values.tolist(), again.values.dtype) == (pairs.values.tolist(), pairs.values.dtype)
    assert (again.published.tolist(), again.published.dtype) == (pairs.published.tolist(), np.int8)
    assert again.fingerprint == pairs.fingerprint
    assert stored() == [stored_pairs]
    assert [path.name for path in (workspace_folder / "pairs").iterdir()] == [stored_pairs.key]


@pytest.mark.parametrize(
    "damage",
    [
        lambda old: old[:-9],
        lambda _: b"ARROW1",
        lambda old: old.replace("라".encode(), "마".encode()),
        lambda old: old.replace(b'"scored"', b'"parallel"'),
        lambda old: old.replace(b'"scored"', b'"unknown"'),
    ],
)
def test_rejects_changed_content(workspace_folder: Path, damage: Callable[[bytes], bytes]) -> None:
    stored_pairs = save_pairs(RATED)
    path = workspace_folder / "pairs" / stored_pairs.key / FILE
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=f"The stored dataset of sentence pairs {stored_pairs.key} cannot be read"):
        load(stored_pairs.key)


def test_maps_sentences_into_memory(tmp_path: Path) -> None:
    many = PairSet.from_columns("많은 짝", PairKind.PARALLEL, [["문장"] * 200_000, ["a sentence"] * 200_000])
    write_pairs(tmp_path, many)
    before = pa.total_allocated_bytes()
    opened = open_pairs(tmp_path, many.name)
    assert pa.total_allocated_bytes() - before <= 200_000  # a byte a row: the parts
    assert opened.texts[1][199_999] == "a sentence"
    assert opened.at(np.array([70_000])).sentences == ["문장", "a sentence"]


def test_rejects_sets_above_the_limit(workspace_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER_PAIRS", "1")
    with acting_as(user_of("https://id.example.org", "alice")):
        with pytest.raises(LimitError, match="the set has 2 pairs, and may have 1") as error:
            save_pairs(RATED)
        assert error.value.code == "pairs"
        assert stored() == []
    save_pairs(RATED)
