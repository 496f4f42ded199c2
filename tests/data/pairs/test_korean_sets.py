"""The public Korean sets as they are: their rows, their quotes, and what their parts share."""

import csv
import hashlib
import json
import os
from pathlib import Path

import pytest

from data.pairs.audit import audit_pairs, split_pairs
from data.pairs.reading import PairReading
from data.pairs.records import PARTS, Label, PairKind
from data.split import Part
from data.store import PAIR_CATALOG, CatalogEntry, read_pair_entry

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
def test_an_entry_is_the_real_file(file: CatalogEntry) -> None:
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
def test_every_row_is_read_into_its_published_part(id_: str, kind: PairKind, rows: tuple[int, ...]) -> None:
    found = reading(id_)
    assert (found.pairs.kind, found.pairs.name, found.left_out) == (kind, PAIR_CATALOG[id_].title, 0)
    assert tuple(len(split_pairs(found.pairs)[part]) for part in PARTS) == rows
    assert all(file.problems == () for file in found.files)


def test_korsts_is_what_python_reads_of_it_with_quotes_as_letters() -> None:
    pairs = reading("korsts").pairs
    rows = []
    for file in PAIR_CATALOG["korsts"].files:
        with given_file(file).open(encoding="utf-8", newline="") as lines:
            rows += list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    for place, name in enumerate(("sentence1", "sentence2")):
        assert list(pairs.texts[place]) == [row[name].strip() for row in rows]
    assert pairs.values.tolist() == pytest.approx([float(row["score"]) for row in rows], abs=1e-6)
    assert sum('"' in text for text in pairs.sentences) > 0


def test_what_the_parts_of_korsts_share() -> None:
    pairs = reading("korsts").pairs
    figures, rows = audit_pairs(pairs), split_pairs(pairs)
    train, test = (set(pairs.at(rows[part]).sentences) for part in (Part.TRAIN, Part.TEST))
    found = figures.leaks[Part.TRAIN, Part.TEST]
    assert found.sentences == len(train & test) == 153
    told = zip(*(column.at(rows[Part.TEST]) for column in pairs.texts), strict=True)
    assert len(found.rows) == sum(bool(train & set(row)) for row in told) == 166


def test_klue_scores_are_the_rounded_labels() -> None:
    pairs = reading("klue-sts-dev").pairs
    content = json.loads(given_file(PAIR_CATALOG["klue-sts-dev"].files[0]).read_text(encoding="utf-8"))
    assert pairs.values.tolist() == pytest.approx([row["labels"]["label"] for row in content], abs=1e-6)


@pytest.mark.parametrize("id_", ["kornli-xnli", "klue-nli-dev"])
def test_labels_are_balanced_as_published(id_: str) -> None:
    pairs = reading(id_).pairs
    assert set(audit_pairs(pairs).labels.values()) == {len(pairs) // 3}
    assert Label.NEUTRAL == 1
