"""BM25 with the analyzer of the corpus's language."""

import os
from pathlib import Path

import pytest

from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.workspace import read_json, write_json
from mrc_workbench.retrieval.comparison.compare import Comparison, compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, MilvusSpec, TermSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.spec import Materials
from mrc_workbench.retrieval.comparison.store import ComparisonJob, keep
from mrc_workbench.retrieval.explain import BM25Explainer, WindowedBM25Explainer
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options, WindowedBM25

DATA = Path(os.environ.get("MRC_DATA", ""))
PASSAGES = (
    Passage("p1", "The runners were running through the parks of the town.", "Sports"),
    Passage("p2", "She baked some breads. The ovens were very hot in the mornings.", "Baking"),
    Passage("p3", "There is nothing about either of them in this passage.", "Nothing"),
)
ASKED = QuestionSet("english", PASSAGES, (Question("q", "Who runs in a park?", (), ("p1",)),))


def compared(question_set: QuestionSet, *specs: TermSpec) -> Comparison:
    return compare(Experiment(data="x", ks=(1, 10), retriever=specs), question_set)


def test_a_stem_finds_other_forms_of_its_word() -> None:
    bm25 = BM25("bm25", PASSAGES)
    assert bm25.analysis.analyzer is Analyzer.ENGLISH
    assert bm25.search(["run", "oven bread"], 3).indices[:, 0].tolist() == [0, 1]
    words = BM25("bm25", PASSAGES, BM25Options(Analyzer.WORD))
    assert words.search(["run"], 3).indices.tolist() == [[-1, -1, -1]]


def test_the_language_is_that_of_the_passages_and_not_of_their_windows() -> None:
    spanish = "Los visitantes pueden comprar sus entradas por internet o en la puerta de la casa."
    passages = [Passage("p1", "The museum is open. It is in the old town. " * 20), Passage("p2", spanish)]
    windowed = WindowedBM25("bm25", passages)
    assert windowed.search(["museums"], 2).indices[0, 0] == 0
    assert WindowedBM25Explainer(passages).explain("museums", 0).score > 0


def test_explained_are_the_words_of_the_question_with_their_stems() -> None:
    explained = BM25Explainer(PASSAGES).explain("Who runs?", 0)
    run = next(term for term in explained.terms if term.text == "runs (run)")
    assert [explained.passage.text[slice(*span)] for span in run.passage_spans] == ["running"]
    assert run.value > 0
    assert explained.score == pytest.approx(BM25("bm25", PASSAGES).search(["Who runs?"], 1).scores[0, 0], rel=1e-6)


@pytest.mark.parametrize("kind", [BM25Spec, WindowedBM25Spec])
def test_stored_rankings_of_words_are_not_read_for_stems(kind: type[TermSpec]) -> None:
    materials = Materials(ASKED)
    keys = {
        kind(name="A", analyzer=analyzer, stop_words=stop_words).make(materials).key
        for analyzer, stop_words in [
            *((one, False) for one in (Analyzer.AUTO, Analyzer.WORD, Analyzer.ENGLISH, Analyzer.GERMAN)),
            (Analyzer.AUTO, True),
        ]
    }
    assert len(keys) == 5


def test_stop_words_are_an_option_that_a_stored_experiment_leaves_out_by_default() -> None:
    assert "stop_words" not in BM25Spec(name="A").model_dump(mode="json")
    assert BM25Spec(name="A", stop_words=True).model_dump(mode="json")["stop_words"] is True
    plain, without = compared(ASKED, BM25Spec(name="A"), BM25Spec(name="B", stop_words=True)).results
    assert plain.rankings is not None
    assert without.rankings is not None
    assert [int((one.rankings.indices >= 0).sum()) for one in (plain, without)] == [3, 1]


def test_an_experiment_tells_the_analyzer_that_was_detected() -> None:
    materials = Materials(ASKED)
    assert BM25Spec(name="A").resolved(materials)["analyzer"] == "english"
    assert MilvusSpec(name="A").resolved(materials)["analyzer"] == "english"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "analyzer", "least"),
    [
        ("vaswani.beir.zip", Analyzer.ENGLISH, 0.43),
        ("cranfield.beir.zip", Analyzer.ENGLISH, 0.36),
        ("xquad.ru.json", Analyzer.RUSSIAN, 0.95),
        ("jaquad_dev.json", Analyzer.JAPANESE, 0.93),
    ],
)
def test_bm25_by_default_on_sets_of_other_languages(file: str, analyzer: Analyzer, least: float) -> None:
    if not (DATA / file).is_file():
        pytest.skip(f"needs {file} in the folder that MRC_DATA names")
    (result,) = compared(read_file(DATA / file).question_set, BM25Spec(name="BM25")).results
    assert result.scores is not None
    assert round(result.scores.means()["ndcg@10"], 4) >= least
    question_set = read_file(DATA / file).question_set
    assert BM25Options().analysis(question_set.passages.indexed_texts(title=True)).analyzer is analyzer


@pytest.mark.parametrize("earlier", ["word", "bigram"])
def test_a_comparison_without_languages_is_not_taken_for_one_with_them(earlier: str) -> None:
    experiment = Experiment(data="x", ks=(1, 10), retriever=(BM25Spec(name="BM25"),))
    job = ComparisonJob.of(experiment, ASKED.fingerprint)
    keep(compare(experiment, ASKED), job.folder)
    assert ComparisonJob.of(experiment, ASKED.fingerprint).folder == job.folder
    path = job.folder / "provenance.json"
    made = read_json(path)
    assert made.pop("languages_version")
    made["retrievers"]["BM25"]["analyzer"] = earlier
    write_json(path, made)
    assert ComparisonJob.of(experiment, ASKED.fingerprint).folder != job.folder
    made["retrievers"]["BM25"]["analyzer"] = "kiwi+bigram"
    write_json(path, made)
    assert ComparisonJob.of(experiment, ASKED.fingerprint).folder == job.folder
