"""Kinds that search by themselves, with dictionaries and over windows."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.text.analysis import Analysis
from mrc_workbench.data.text.analyzers import Analyzer, Compounds
from mrc_workbench.data.text.dictionary import DictionaryError, read_dictionary, save
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.sources import find_model
from mrc_workbench.models.windows import WindowOptions
from mrc_workbench.retrieval.comparison.compare import compare, provenance
from mrc_workbench.retrieval.comparison.experiment import Experiment, parse_spec
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.multistage import RerankSpec
from mrc_workbench.retrieval.comparison.spec import ReadingSpec, RetrieverContext, Spec
from mrc_workbench.retrieval.explain import BM25Explainer
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options
from mrc_workbench.retrieval.lexical.terms import find_unmatched_questions
from tests.tiny_models import SENTENCES, build_bi_encoder, build_cross_encoder_base, with_head

LINES = "방시혁\n자동차, 차량, 승용차\n"
DICTIONARY = read_dictionary(LINES.encode())
PASSAGES = (
    Passage("p1", "방시혁 대표는 노래를 만들었다."),
    Passage("p2", "자동차는 도로를 달린다. 차량이 많다."),
    Passage("p3", "승용차가 서 있다."),
    Passage("p4", "책은 사람이 읽는다."),
)
DATASET = QuestionSet(
    "dictionaries",
    PASSAGES,
    (Question("q1", "방시혁은 언제 태어났는가?", (), ("p1",)), Question("q2", "차량은 어디를 달리나?", (), ("p2",))),
)
INVALID_WINDOWS = [{"stride": 5}, {"window_tokens": 5}, {"windows": True, "window_tokens": 5, "stride": 6}]
PLAIN = BM25Spec(name="plain", analyzer=Analyzer.KIWI)


def with_dictionary(reference: str, name: str = "with", **values: object) -> BM25Spec:
    return BM25Spec.model_validate({"name": name, "analyzer": "kiwi", "dictionary": reference, **values})


def key(spec: Spec, base: Path | None = None) -> str:
    return spec.make(RetrieverContext(DATASET, base, depths={spec.name: 5})).key


@pytest.mark.slow
def test_dictionary_fixes_segmentation_and_matches_synonyms() -> None:
    stored = save(DICTIONARY, "words")
    experiment = Experiment(data="x", retriever=(PLAIN, with_dictionary(stored.reference)))
    plain, mended = compare(experiment, DATASET).results
    assert plain.rankings
    assert mended.rankings
    assert set(plain.rankings.indices[0].tolist()) == {-1}  # 방/시/혁, which no passage holds
    assert set(mended.rankings.indices[0].tolist()) == {0, -1}
    assert set(plain.rankings.indices[1].tolist()) == {1, -1}
    assert set(mended.rankings.indices[1].tolist()) == {1, 2, -1}
    assert find_unmatched_questions(DATASET, Analyzer.KIWI).without_relevant_match.tolist() == [0]
    mended_analysis = Analysis(Analyzer.KIWI, dictionary=DICTIONARY)
    assert find_unmatched_questions(DATASET, mended_analysis).without_relevant_match.tolist() == []


@pytest.mark.slow
def test_scores_synonyms_as_same_term() -> None:
    """Counts follow Lucene's SynonymQuery: two synonyms in a passage count twice, here in two passages of four."""
    options = BM25Options(Analyzer.KIWI, dictionary=DICTIONARY)
    explanation = BM25Explainer(PASSAGES, options).explain("차량은?", 1)
    (term,) = explanation.terms
    assert (term.text, term.in_question, term.in_passage, term.passages) == ("자동차", 1, 2, 2)
    length = explanation.length
    mean = explanation.mean_length
    assert mean == pytest.approx((4 + 5 + 3 + 3) / 4)
    expected = math.log(1 + (4 - 2 + 0.5) / (2 + 0.5)) * 2 / (2 + 0.9 * (1 - 0.4 + 0.4 * length / mean))
    assert term.value == pytest.approx(expected)
    text = explanation.passage.text
    assert [text[slice(*span)] for span in term.passage_spans] == ["자동차", "차량"]
    assert explanation.question[slice(*term.question_spans[0])] == "차량"
    rankings = BM25("bm25", PASSAGES, options).search(["차량은?"], 1)
    assert rankings.scores[0, 0] == pytest.approx(expected)


@pytest.mark.parametrize("compounds", Compounds)
@pytest.mark.parametrize("analyzer", [Analyzer.KIWI, Analyzer.KIWI_BIGRAM])
def test_explanations_sum_to_scores(analyzer: Analyzer, compounds: Compounds) -> None:
    options = BM25Options(analyzer, compounds=compounds, dictionary=DICTIONARY)
    explainer = BM25Explainer(PASSAGES, options)
    questions = ["차량은 도로를 달리나?", "방시혁의 노래", "고속도로"]
    rankings = BM25("bm25", PASSAGES, options).search(questions, 4)
    for question, rows, scores in zip(questions, rankings.indices.tolist(), rankings.scores.tolist(), strict=True):
        for row, score in zip(rows, scores, strict=True):
            if row >= 0:
                assert explainer.explain(question, row).score == pytest.approx(score, rel=1e-5)


def test_caches_rankings_by_dictionary_content(tmp_path: Path) -> None:
    stored = save(DICTIONARY, "words")
    (tmp_path / "same.txt").write_text(f"# the same\n{LINES}", encoding="utf-8")
    (tmp_path / "other.txt").write_text("서울\n", encoding="utf-8")
    same = {key(with_dictionary(stored.reference)), key(with_dictionary("same.txt"), tmp_path)}
    assert len(same) == 1
    others = {
        key(PLAIN),
        key(with_dictionary("other.txt"), tmp_path),
        key(with_dictionary("", compounds="split")),
        key(with_dictionary(stored.reference, compounds="split")),
        key(WindowedBM25Spec(name="w", analyzer=Analyzer.KIWI, dictionary=stored.reference)),
        key(WindowedBM25Spec(name="w", analyzer=Analyzer.KIWI)),
    }
    assert len(others | same) == 7
    assert not {"compounds", "dictionary"} & PLAIN.model_dump(mode="json").keys()  # unless they are set
    values = with_dictionary("words.txt", compounds="both").model_dump(mode="json")
    assert (values["compounds"], values["dictionary"]) == ("both", "words.txt")


def test_provenance_identifies_dictionary_by_content(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text(LINES, encoding="utf-8")
    experiment = Experiment(data="x", retriever=(with_dictionary("words.txt"), with_dictionary("none", "missing")))
    entries = provenance(compare(experiment, DATASET, base=tmp_path), DATASET, tmp_path)["retrievers"]
    assert entries["with"]["dictionary"] == {"reference": "words.txt", "fingerprint": DICTIONARY.fingerprint}
    assert entries["missing"]["dictionary"] == {"reference": "none", "error": "unknown"}


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"dictionary": "dictionary:0000000000000000"}, "unknown"),
        ({"dictionary": "broken.txt"}, "empty_word"),
        ({"dictionary": "words.txt", "analyzer": "bigram"}, "no_use"),
        ({"compounds": "split", "analyzer": "word"}, "no_use"),
    ],
)
def test_unusable_dictionary_fails_only_its_retriever(values: dict[str, str], code: str, tmp_path: Path) -> None:
    (tmp_path / "broken.txt").write_text("가,\n", encoding="utf-8")
    (tmp_path / "words.txt").write_text(LINES, encoding="utf-8")
    broken = BM25Spec.model_validate({"name": "broken", "analyzer": "kiwi", **values})
    plain, failed = compare(Experiment(data="x", retriever=(PLAIN, broken)), DATASET, base=tmp_path).results
    assert plain.scores
    assert isinstance(failed.error, DictionaryError)
    assert (failed.scores, failed.error.code) == (None, code)


def test_explains_auto_analyzer_without_dictionary_support() -> None:
    english = QuestionSet("e", (Passage("p", "some words"),), (Question("q", "words", (), ("p",)),))
    spec = BM25Spec(name="auto", compounds=Compounds.SPLIT)
    (failed,) = compare(Experiment(data="x", retriever=(spec,)), english).results
    assert isinstance(failed.error, DictionaryError)
    assert failed.error.details == {"analyzer": "english", "what": "compounds = split"}


@pytest.mark.parametrize("kind", ["dense", "rerank"])
def test_stores_window_options_only_if_enabled(kind: str) -> None:
    """Rankings from before windows keep their key."""
    values = {"name": "A", "kind": kind, **({"first_stage": "BM25"} if kind == "rerank" else {})}
    plain = parse_spec(values)
    windowed = parse_spec(values | {"windows": True, "stride": 64})
    assert isinstance(plain, ReadingSpec)
    assert isinstance(windowed, ReadingSpec)
    assert not {"windows", "window_tokens", "stride"} & plain.model_dump(mode="json").keys()
    assert plain.window_options is None
    dumped = windowed.model_dump(mode="json")
    assert (dumped["windows"], dumped["stride"], "window_tokens" in dumped) == (True, 64, False)
    assert windowed.window_options == WindowOptions(0, 64)
    assert parse_spec(dumped) == windowed


@pytest.mark.parametrize("values", INVALID_WINDOWS)
def test_rejects_invalid_window_options(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="windows"):
        parse_spec({"name": "A", "kind": "dense", **values})


@pytest.mark.slow
def test_scores_long_passages_by_best_window(tmp_path: Path) -> None:
    words = " ".join(SENTENCES).split()
    rng = np.random.default_rng(0)
    passages = tuple(Passage(f"p{n}", " ".join(rng.choice(words, 300 if n % 2 else 20))) for n in range(8))
    questions = tuple(Question(f"q{n}", " ".join(rng.choice(words, 5)), (), (f"p{n}",)) for n in range(8))
    bi = build_bi_encoder(tmp_path / "bi")
    cross = with_head(build_cross_encoder_base(tmp_path / "cross", segment_types=1))
    exact: dict[str, Any] = {"windows": True, "precision": Precision.FLOAT32}
    specs = (
        BM25Spec(name="BM25"),
        DenseSpec(name="Dense", model=str(bi), **exact),
        RerankSpec(name="R", first_stage="BM25", model=str(cross), rerank_top_k=8, weight=1.0, **exact),
    )
    comparison = compare(Experiment(data="long", ks=(8,), retriever=specs), QuestionSet("long", passages, questions))
    assert [result.error for result in comparison.results] == [None] * 3
    encoder = BiEncoder(find_model(str(bi)), [], precision=Precision.FLOAT32)
    question_vectors = encoder.encode_questions([question.text for question in questions])
    rankings = comparison.rankings["Dense"]
    for row, passage in enumerate(passages):
        windows = encoder.windows_of([passage.text], np.zeros(1, dtype=np.int64), WindowOptions()).windows_of(0)
        read = [passage.text, *(window.text(passage.text) for window in windows[1:])]
        best = (encoder.encode_passages(read) @ question_vectors.T).max(axis=0)
        here = rankings.indices == row
        np.testing.assert_allclose(rankings.scores[here], best[np.nonzero(here)[0]], atol=1e-5)
    scorer = CrossEncoderScorer(find_model(str(cross)), [], precision=Precision.FLOAT32)
    reranked = comparison.rankings["R"]
    for row, question in enumerate(questions):
        listed = comparison.rankings["BM25"].indices[row]
        candidates = listed[listed >= 0].tolist()
        pairs = [(question.text, passages[candidate].text) for candidate in candidates]
        scores = scorer.score_windows(pairs, [0] * len(pairs), WindowOptions())
        order = [candidates[candidate] for candidate in np.lexsort((candidates, -scores))]
        assert reranked.indices[row, : len(order)].tolist() == order
