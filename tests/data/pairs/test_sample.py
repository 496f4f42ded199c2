"""The sentence pairs that come with the project."""

import csv
import re
import unicodedata
from collections import Counter
from itertools import combinations

import pytest

from data.workspace import PROJECT

FOLDER = PROJECT / "data" / "pairs" / "sample"
SCORED, LABELLED = "korean_sts.tsv", "korean_nli.tsv"
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
def test_parts_are_of_their_size_and_share_no_sentence(name: str, counts: dict[str, int]) -> None:
    rows = rows_of(name)
    assert Counter(row["part"] for row in rows) == counts
    parts = [set(sentences_of([row for row in rows if row["part"] == part], name)) for part in counts]
    assert not any(one & other for one, other in combinations(parts, 2))


def test_scores_fill_their_scale_in_every_part() -> None:
    rows = rows_of(SCORED)
    assert list(rows[0]) == ["sentence1", "sentence2", "score", "part"]
    allowed = {f"{step / 5:.1f}" for step in range(26)}
    assert {row["score"] for row in rows} == allowed
    for part in ("train", "dev", "test"):
        scores = [float(row["score"]) for row in rows if row["part"] == part]
        fifths = Counter(min(int(score), 4) for score in scores)
        assert all(0.15 <= fifths[fifth] / len(scores) <= 0.25 for fifth in range(5)), (part, fifths)


def test_a_scored_sentence_stands_once() -> None:
    sentences = sentences_of(rows_of(SCORED), SCORED)
    assert len(set(sentences)) == len(sentences)


def test_each_premise_has_one_hypothesis_of_every_label() -> None:
    rows = rows_of(LABELLED)
    assert list(rows[0]) == ["premise", "hypothesis", "label", "part"]
    assert set(Counter(row["premise"] for row in rows).values()) == {3}
    pairs = Counter((row["premise"], row["label"]) for row in rows)
    assert set(pairs.values()) == {1}
    assert {label for _, label in pairs} == {"entailment", "neutral", "contradiction"}
    hypotheses = {row["hypothesis"] for row in rows}
    assert len(hypotheses) == len(rows)
    assert not hypotheses & {row["premise"] for row in rows}


def test_a_negation_is_no_sign_of_a_label() -> None:
    negated = Counter(row["label"] for row in rows_of(LABELLED) if NEGATION.search(row["hypothesis"]))
    total = negated.total()
    assert all(0.25 <= count / total <= 0.42 for count in negated.values()), negated


def test_the_two_files_share_no_sentence() -> None:
    scored, labelled = (set(sentences_of(rows_of(name), name)) for name in (SCORED, LABELLED))
    assert not scored & labelled
