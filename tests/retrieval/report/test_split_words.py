"""How a split is described, and few questions warned of, in both languages."""

import pytest

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import SplitOptions, split
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.report.exports import markdown_table
from mrc_workbench.retrieval.report.report import evidence, report
from mrc_workbench.retrieval.report.words import LANGUAGES, catalog, few_taught_words, few_words, split_words, words_of
from tests.data.split.worlds import chain, faq, set_of, tangle
from tests.retrieval.compared import experiment_of

WORDS = {"name": "words", "kind": "bm25", "analyzer": "word"}


def published(*parts: str) -> QuestionSet:
    return set_of(([row] for row in range(len(parts))), len(parts), parts=parts)


def described(question_set: QuestionSet, language: str = "en") -> str:
    return split_words(split(question_set), words_of(language))


def test_drawn_splits_are_described() -> None:
    assert described(faq(100, 2)) == (
        "Drawn split (seed 0): 140 training, 20 validation and 40 test questions. No relevant passage is in two parts."
    )
    titled = set_of(([row] for row in range(200)), 200, titles=["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"])
    assert described(titled).endswith("No article is in two parts.")
    assert described(chain(323)).endswith(
        "so the parts share as few relevant passages as possible. "
        "No test question shares a relevant passage with a training question."
    )
    assert "each was drawn by itself. 40 of 40 test questions share a relevant passage" in described(tangle(200))


def test_published_splits_are_described() -> None:
    assert described(published("train", "validation", "test")) == (
        "Published split: 1 training, 1 validation and 1 test questions. "
        "No test question shares a relevant passage with a training question."
    )
    drawn = described(published(*["train"] * 160, *["validation"] * 40))
    assert "The published validation questions are the test questions." in drawn
    assert "The validation questions were drawn from the training questions (seed 0)." in drawn


@pytest.mark.parametrize("language", LANGUAGES)
def test_few_questions_are_warned_of_in_each_language(language: str) -> None:
    say = words_of(language)
    for of in ("compared", "train", "validation", "test"):
        assert few_words(20, of, say) == ""
        assert "19" in few_words(19, of, say)
    assert few_taught_words("mix", 20, say) == ""
    assert "mix" in few_taught_words("mix", 3, say)
    assert all(described(one, language) for one in (faq(100, 2), chain(323), tangle(200), published("train", "test")))


def test_both_languages_say_the_same() -> None:
    keys = [{key for key in catalog(language) if key.startswith("split.")} for language in LANGUAGES]
    assert keys[0] == keys[1]


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_report_warns_beside_the_headline(language: str) -> None:
    compared = compare(experiment_of(WORDS, split="test"), chain(30))
    text, say = report(compared, language), words_of(language)
    assert compared.parts is not None
    assert str(few_words(6, "compared", say)) in text
    assert text.count(str(split_words(compared.parts, say))) == 2  # beside the headline and among the settings
    everything = report(compare(experiment_of(WORDS), chain(30)), language)
    assert str(few_words(30, "compared", say) or ": 30.") not in everything
    assert everything.count(str(split_words(compared.parts, say))) == 1


def test_the_table_tells_the_split_and_warns() -> None:
    compared = compare(experiment_of(WORDS, split="test"), chain(30))
    table = markdown_table(compared, evidence(compared))
    assert "test part, split drawn so that parts share few passages, seed 0; 0 of 6 test questions share" in table
    assert "Too few questions are compared: 6. With fewer than 20" in table


def test_strict_split_is_described_as_grouped() -> None:
    assert split(chain(60), SplitOptions(strict=True)).description == "drawn by passage, seed 0"
