"""A comparison that grew trains only what is new, and opens as it was, or is told to be none."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.records import Passage, QuestionSet
from data.workspace import workspace, write_json
from language import comparison
from language.comparison import Measured, Refusal, Request, compare
from language.fertility import Fertility, HeldOut, fertility
from language.morphemes import Split, TokenizerKind
from language.prepared import PreparedTokenizer, load_tokenizer
from language.texts import LanguageError, PassageCorpus
from language.train import Sample, train_on
from models.hub import ModelError
from tests.language.test_train import SENTENCES, prepared

TEXTS = [*dict.fromkeys(SENTENCES)][:200]
ONE = Request((TokenizerKind.BPE,), (Split.WORDS,), (1_000,))


def corpus_of(texts: list[str]) -> PassageCorpus:
    passages = [Passage(str(row), text) for row, text in enumerate(texts)]
    return PassageCorpus(QuestionSet("sentences", passages, ()))  # type: ignore[arg-type]


CORPUS = corpus_of(TEXTS)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """What was trained: split, kind and vocabulary."""
    found: list[tuple[str, str, int]] = []

    def noted(material: Any, kind: TokenizerKind, vocabulary: int, *told: Any) -> Any:
        found.append((material.sample.split, kind, vocabulary))
        return train_on(material, kind, vocabulary, *told)

    monkeypatch.setattr(comparison, "train_on", noted)
    return found


def figures(found: list[Measured]) -> list[dict[str, Any]]:
    return [{**one.as_dict(), "seconds": 0, "tokens_per_second": 0, "seconds_to_train": 0} for one in found]


def test_what_was_trained_is_not_trained_again(trained: list[tuple[str, str, int]], tmp_path: Path) -> None:
    first = compare(CORPUS, ONE)
    grown = replace(ONE, vocabularies=(1_000, 1_200), splits=tuple(Split))
    second = compare(CORPUS, grown, out=tmp_path)
    new = [("words", "bpe", 1200), ("morphemes", "bpe", 1000), ("morphemes", "bpe", 1200)]
    assert trained == [("words", "bpe", 1000), *new]
    assert [one.name for one in second] == [f"bpe-{split}-{size}" for split in Split for size in (1000, 1200)]
    assert second[0] == replace(first[0], name="bpe-words-1000")  # the seconds it took, too
    for one in second:
        options = one.trained
        folder = tmp_path / f"{options['kind']}-{options['split']}-{options['vocabulary']}"
        assert sorted(path.name for path in folder.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]
        assert load_tokenizer(folder).trained == options


def test_it_comes_out_as_if_it_had_been_trained_at_once(trained: list[tuple[str, str, int]]) -> None:
    compare(CORPUS, ONE)
    both = replace(ONE, vocabularies=(1_000, 1_200))
    grown = figures(compare(CORPUS, both))
    for path in (workspace() / "cache").rglob("figures.json"):
        path.unlink()
    assert figures(compare(CORPUS, both)) == grown
    assert len(trained) == 4


@pytest.mark.parametrize(
    ("texts", "changed"),
    [(TEXTS[1:], {}), (TEXTS, {"lowercase": True}), (TEXTS, {"seed": 1}), (TEXTS, {"held_out": 0.2})],
)
def test_another_text_or_sample_is_trained_anew(
    texts: list[str], changed: dict[str, Any], trained: list[tuple[str, str, int]]
) -> None:
    compare(CORPUS, ONE)
    compare(corpus_of(texts), replace(ONE, sample=Sample(**changed)))
    assert len(trained) == 2


def test_what_is_damaged_is_trained_anew(trained: list[tuple[str, str, int]]) -> None:
    compare(CORPUS, ONE)
    (path,) = (workspace() / "cache").rglob("tokenizer.json")
    path.write_text("{", encoding="utf-8")
    compare(CORPUS, ONE)
    assert len(trained) == 2


def test_progress_tells_what_is_done_and_ends_at_one(trained: list[tuple[str, str, int]]) -> None:
    told: list[tuple[str, float]] = []
    noted: Callable[[str, float], None] = lambda name, share: told.append((name, share))  # noqa: E731
    compare(CORPUS, ONE)
    compare(CORPUS, replace(ONE, vocabularies=(1_000, 1_200), against=("no/such/model",)), on_progress=noted)
    assert [share for _, share in told] == sorted(share for _, share in told)
    assert told[-2:] == [("bpe-1200", pytest.approx(2 / 3)), ("no/such/model", 1.0)]


@pytest.mark.parametrize(
    ("raised", "kind", "code", "details"),
    [
        (ModelError("hub_unreachable", "no network", model="m"), ModelError, "hub_unreachable", {"model": "m"}),
        (LanguageError("no_tokenizer", "none", name="m"), LanguageError, "no_tokenizer", {"name": "m"}),
        (OSError("it is torn\nhere"), LanguageError, "not_loaded", {"name": "m", "reason": "it is torn"}),
        (ValueError(), LanguageError, "not_loaded", {"name": "m", "reason": "ValueError"}),
    ],
)
def test_why_a_model_has_no_figures_is_a_code_with_its_details(
    raised: Exception, kind: type, code: str, details: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(reference: str) -> None:
        raise raised

    monkeypatch.setattr(comparison, "find_tokenizer", refuse)
    (one,) = compare(CORPUS, Request((), (), (), ("m",)))
    assert one.figures is None
    assert one.refusal is not None
    found = one.refusal.failure
    assert (type(found), found.code, found.details) == (kind, code, details)
    assert Refusal.of(found) == one.refusal


GONE = ModelError("model_not_found", "there is none", model="../gone")


def measured(tokenizer: PreparedTokenizer, figures: Fertility) -> list[Measured]:
    without_morphemes = Fertility(**{**asdict(figures), "precision": None, "recall": None, "f1": None})
    return [
        Measured("bpe", tokenizer.trained, figures),
        Measured("../gone", {}, None, Refusal.of(GONE)),
        Measured("some/model", {}, without_morphemes),
    ]


@pytest.fixture(scope="module")
def tokenizer() -> PreparedTokenizer:
    return prepared(TokenizerKind.BPE)


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
