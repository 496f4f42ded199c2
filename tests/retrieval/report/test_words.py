"""The words of the report: intervals in a sentence, splits and few questions, and settings of every kind."""

from pathlib import Path
from typing import Any

import pytest

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import SplitOptions, split
from mrc_workbench.retrieval.analysis.evidence import evidence
from mrc_workbench.retrieval.comparison.compare import Comparison, compare, provenance
from mrc_workbench.retrieval.comparison.experiment import KINDS, Experiment, store_measured
from mrc_workbench.retrieval.outside.adapt import measure
from mrc_workbench.retrieval.report import words
from mrc_workbench.retrieval.report.exports import markdown_table, save
from mrc_workbench.retrieval.report.report import report, setup_lines
from tests.data.split.worlds import chain, faq, set_of, tangle
from tests.doubles import PASSAGES, small_set
from tests.retrieval.compared import experiment_of
from tests.search_server import scored


@pytest.mark.parametrize(
    ("difference", "ends", "expected"),
    [
        (0.232, (0.177, 0.286), ("17.7", "28.6")),  # 23.2 points ahead
        (-0.02, (-0.03, -0.01), ("1.0", "3.0")),  # 2 points behind
        (0.01, (-0.005, 0.025), ("−0.5", "2.5")),
        (-0.01, (-0.025, 0.005), ("−0.5", "2.5")),
        (0.0, (-0.0001, 0.0001), ("0.0", "0.0")),
    ],
)
def test_interval_follows_difference(difference: float, ends: tuple[float, float], expected: tuple[str, str]) -> None:
    assert tuple(words.difference_interval(difference, *ends).values()) == expected


WORDS = {"name": "words", "kind": "bm25", "analyzer": "word"}


def published(*parts: str) -> QuestionSet:
    return set_of(([row] for row in range(len(parts))), len(parts), parts=parts)


def described(question_set: QuestionSet, language: str = "en") -> str:
    return words.describe_split(split(question_set), words.translator(language))


def test_describes_sampled_splits() -> None:
    counts = "Drawn split (seed 0): 140 training, 20 validation and 40 test questions."
    assert described(faq(100, 2)) == f"{counts} No relevant passage is in two parts."
    titled = set_of(([row] for row in range(200)), 200, titles=["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"])
    assert described(titled).endswith("No article is in two parts.")
    assert described(chain(323)).endswith(
        "so the parts share as few relevant passages as possible. "
        "No test question shares a relevant passage with a training question."
    )
    assert "each was drawn by itself. 40 of 40 test questions share a relevant passage" in described(tangle(200))


def test_describes_published_splits() -> None:
    assert described(published("train", "validation", "test")) == (
        "Published split: 1 training, 1 validation and 1 test questions. "
        "No test question shares a relevant passage with a training question."
    )
    sampled = described(published(*["train"] * 160, *["validation"] * 40))
    assert "The published validation questions are the test questions." in sampled
    assert "The validation questions were drawn from the training questions (seed 0)." in sampled


@pytest.mark.parametrize("language", words.LANGUAGES)
def test_warns_about_few_questions_in_each_language(language: str) -> None:
    say = words.translator(language)
    for of in ("compared", "train", "validation", "test"):
        assert words.few_questions_warning(20, of, say) == ""
        assert "19" in words.few_questions_warning(19, of, say)
    assert words.few_questions_warning(20, "training", say, "mix") == ""
    assert "mix" in words.few_questions_warning(3, "training", say, "mix")
    datasets = (faq(100, 2), chain(323), tangle(200), published("train", "test"))
    assert all(described(dataset, language) for dataset in datasets)


@pytest.mark.slow
def test_report_warns_beside_headline() -> None:
    compared = compare(experiment_of(WORDS, split="test"), chain(30))
    text = report(compared, "ko")
    say = words.translator("ko")
    assert compared.split is not None
    assert str(words.few_questions_warning(6, "compared", say)) in text
    assert text.count(str(words.describe_split(compared.split, say))) == 2  # beside the headline and among the settings
    everything = report(compare(experiment_of(WORDS), chain(30)), "ko")
    assert str(words.few_questions_warning(30, "compared", say) or ": 30.") not in everything
    assert everything.count(str(words.describe_split(compared.split, say))) == 1


def test_table_caption_describes_split_and_warns() -> None:
    compared = compare(experiment_of(WORDS, split="test"), chain(30))
    table = markdown_table(compared, evidence(compared))
    assert "test part, split drawn so that parts share few passages, seed 0; 0 of 6 test questions share" in table
    assert "Too few questions are compared: 6. With fewer than 20" in table


def test_describes_strict_split_as_grouped() -> None:
    assert split(chain(60), SplitOptions(strict=True)).description == "drawn by passage, seed 0"


URL = "http://127.0.0.1:9/search?q={query}"
RECORDED = {"seconds_per_query": 0.5, "unknown_passages": 3, "rising_scores": 2}
SPECS: list[dict[str, Any]] = [
    {"kind": "bm25", "analyzer": "word", "title_weight": 0.5, "fb_docs": 2, "selected_on": "test"},
    {"kind": "bm25-windows", "analyzer": "word", "sentences": 2, "dictionary": "none.txt"},
    {"kind": "dense", "windows": True, "window_tokens": 64},
    {"kind": "sparse", "model": "no such model!"},
    {"kind": "late", "model": "no such model!", "bits": 2},
    {"kind": "hybrid", "retrievers": ["bm25", "dense"], "weights": [0.25, 0.75]},
    {"kind": "learned", "retrievers": ["bm25", "dense"]},
    {"kind": "rerank", "first_stage": "bm25"},
    {"kind": "run", "path": "none.trec", "recorded": RECORDED},
    {"kind": "milvus", "search": "hybrid", "fusion": "weighted", "weights": [0.25, 0.75]},
    {"kind": "http", "url": URL, "method": "GET", "ids": "hits", "headers": {"reference": "x"}, "timeout": 2.5},
    {"kind": "plugin", "entry": "none", "options": {"k1": 1.2, "exact": True, "fields": ["title", "text"]}},
]


def compared() -> Comparison:
    specs = [{"name": spec["kind"], **spec} for spec in SPECS]
    return Comparison(Experiment.model_validate({"data": "small", "retriever": specs}), small_set(), ())


def test_covers_settings_of_every_kind() -> None:
    assert [spec["kind"] for spec in SPECS] == [kind.model_fields["kind"].default for kind in KINDS]


@pytest.mark.parametrize("language", words.LANGUAGES)
def test_names_settings_of_every_kind(language: str) -> None:
    lines = dict(setup_lines(provenance(compared()), words.translator(language)))
    assert set(lines) >= {spec["kind"] for spec in SPECS}
    assert lines["plugin"].endswith("options k1=1.2, exact=true, fields=title, text")
    assert lines["run"].endswith("recorded seconds_per_query=0.5, unknown_passages=3, rising_scores=2")
    assert "headers reference=x" in lines["http"]
    assert "weights 0.25, 0.75" in lines["hybrid"]
    assert "dictionary none.txt" in lines["bm25-windows"]
    assert "model starter " in lines["dense"]


@pytest.mark.slow
def test_writes_report_with_measured_retriever(tmp_path: Path) -> None:
    def search(query: str, k: int) -> list[tuple[str, int]]:
        return scored(PASSAGES, query, k)

    spec = store_measured(measure(search, small_set(), 10, name="Mine"), small_set())
    comparison = compare(Experiment(data="small", retriever=(spec,)), small_set())
    save(comparison, tmp_path / "out", provenance(comparison))
    assert "recorded seconds_per_query=" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
