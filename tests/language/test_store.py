"""A comparison of tokenizers on disk opens as it was, or is told to be none."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from data.workspace import write_json
from language import comparison
from language.comparison import Measured, Refusal
from language.fertility import Fertility, HeldOut, fertility
from language.morphemes import TokenizerKind
from language.prepared import PreparedTokenizer
from models.hub import ModelError
from tests.language.test_merges import trained
from tests.language.test_train import SENTENCES

GONE = ModelError("model_not_found", "there is none", model="../gone")


def measured(tokenizer: PreparedTokenizer, figures: Fertility) -> list[Measured]:
    without_morphemes = Fertility(**{**figures.as_dict(), "precision": None, "recall": None, "f1": None})
    return [
        Measured("bpe", tokenizer.trained, figures),
        Measured("../gone", {}, None, Refusal.of(GONE)),
        Measured("some/model", {}, without_morphemes),
    ]


@pytest.fixture(scope="module")
def tokenizer() -> PreparedTokenizer:
    return trained(TokenizerKind.BPE)


@pytest.fixture
def folder(tokenizer: PreparedTokenizer, tmp_path: Path) -> Path:
    found = measured(tokenizer, fertility(tokenizer, HeldOut.of(SENTENCES[:20])))
    for place in (0, 2):
        own = tmp_path / comparison.TOKENIZERS / comparison.folder_of(found[place], place)
        own.mkdir(parents=True)
        tokenizer.tokenizer.save(str(own / "tokenizer.json"))
    comparison.keep_comparison(tmp_path, "documents", found, [np.array([3, 0, 5]), np.array([1])], 7)
    return tmp_path


def test_it_opens_as_it_was(folder: Path, tokenizer: PreparedTokenizer) -> None:
    expected = measured(tokenizer, fertility(tokenizer, HeldOut.of(SENTENCES[:20])))
    kept = comparison.load_comparison(folder)
    assert (kept.corpus, kept.counted, [*kept.failed]) == ("documents", 7, ["../gone"])
    reason = kept.failed["../gone"]
    assert (type(reason), reason.code, str(reason)) == (ModelError, "model_not_found", "there is none")
    assert reason.details == {"model": "../gone"}
    first, last = kept.tokenizers
    assert (first.is_trained, last.is_trained) == (True, False)
    assert asdict(first.measured) == asdict(expected[0]) | {"figures": asdict(first.figures)}
    changing = {"tokens_per_second": 0.0}
    for ours, theirs in ((first, expected[0]), (last, expected[2])):
        assert theirs.figures is not None
        assert asdict(ours.figures) | changing == asdict(theirs.figures) | changing
    assert [first.occurrences.tolist(), last.occurrences.tolist()] == [[3, 0, 5], [1]]
    assert first.load().pieces(SENTENCES[0]) == tokenizer.pieces(SENTENCES[0])


def test_the_name_of_a_model_is_no_path(folder: Path) -> None:
    first, last = comparison.load_comparison(folder).tokenizers
    assert [first.folder, last.folder] == [folder / "tokenizers" / name for name in ("bpe-words-1000", "model-2")]


@pytest.mark.parametrize("name", ["scores.json", "occurrences.npz"])
def test_a_damaged_or_half_written_folder_is_told_as_such(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b'{"tokenizers": 3')
    with pytest.raises(ValueError, match=folder.name):
        comparison.load_comparison(folder)
    (folder / name).unlink()
    with pytest.raises(ValueError, match=folder.name):
        comparison.load_comparison(folder)


def test_figures_of_another_version_are_told_as_such(folder: Path) -> None:
    told = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    del told["tokenizers"][0]["figures"]["f1"]
    write_json(folder / "scores.json", told)
    with pytest.raises(ValueError, match="of this version"):
        comparison.load_comparison(folder)
