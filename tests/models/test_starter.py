"""The starter models against their written formulas."""

import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mrc_workbench.data.passages import Passages
from mrc_workbench.data.records import Passage
from mrc_workbench.data.text.analysis import analyze, tokens_of
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models import starter
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer
from mrc_workbench.models.sources import STARTER, find_model
from tests.doubles import PASSAGES, QUESTIONS, texts_of

pytestmark = pytest.mark.slow

KOREAN = Passages.from_passages(PASSAGES).indexed_texts(title=True)
ENGLISH = [
    "The river runs through the old town.",
    "A bridge over the river was built in 1890.",
    "The museum in the old town shows paintings.",
    "Trains leave the station every hour.",
    "The station hall was built by the old railway, and its hall is old.",
]
CORPORA = [
    (KOREAN, texts_of(QUESTIONS), Analyzer.KIWI_BIGRAM),
    (ENGLISH, ["old bridge over the river", "when do trains leave", "old old old station"], Analyzer.WORD),
]
STARTERS = {
    "bi-encoder": lambda: BiEncoder(find_model(STARTER), KOREAN).encode("passage", KOREAN),
    "cross-encoder": lambda: CrossEncoderScorer(find_model(STARTER), KOREAN).score([(KOREAN[0], KOREAN[1])]),
}


def test_samples_passages_of_large_corpus_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starter, "MAX_TEXTS", 3)
    read = starter.tokens_of_some(Analyzer.WORD, ENGLISH)
    assert read.texts() == analyze(Analyzer.WORD, [ENGLISH[0], ENGLISH[2], ENGLISH[4]])
    assert len(starter.tokens_of_some(Analyzer.WORD, ENGLISH[:3])) == 3


def lsa(documents: list[list[str]], dimensions: int) -> dict[str, tuple[float, np.ndarray]]:
    """Weight and vector of every token: idf = ln(N / n) + 1, and V of the exact SVD of the weighted, normed matrix."""
    terms = sorted({token for document in documents for token in document})
    holders = {term: sum(term in document for document in documents) for term in terms}
    idf = {term: math.log(len(documents) / holders[term]) + 1 for term in terms}
    matrix = np.array([[idf[term] * (term in document) for term in terms] for document in documents])
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    v = np.linalg.svd(matrix)[2][:dimensions].T
    return {term: (idf[term], v[row]) for row, term in enumerate(terms)}


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize(("corpus", "questions", "analyzer"), CORPORA)
def test_cosines_match_documented_lsa(corpus: list[str], questions: list[str], analyzer: Analyzer) -> None:
    terms = lsa(analyze(analyzer, corpus), dimensions=len(corpus) - 1)
    texts = [*corpus, *questions]
    known = [{token for token in tokens if token in terms} for tokens in analyze(analyzer, texts)]
    expected = np.array([unit(sum(idf * vector for idf, vector in map(terms.get, tokens))) for tokens in known])
    encoder = BiEncoder(find_model(STARTER), corpus)
    vectors = encoder.encode_passages(texts)
    assert (vectors.shape, vectors.dtype) == ((len(texts), len(corpus) - 1), np.float32)
    np.testing.assert_allclose(vectors @ vectors.T, expected @ expected.T, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_questions(texts), vectors, atol=1e-6)


def test_counts_token_once_and_unknown_text_is_zero() -> None:
    vectors = BiEncoder(find_model(STARTER), ENGLISH).encode_questions(["old town", "Town old old", "zebra", ""])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)
    assert vectors[0] @ vectors[0] == pytest.approx(1)
    assert not vectors[2:].any()


def reference_score(module: object, question: str, passage: str) -> float:
    """Compute the score of a pair as the docstring of KernelPooling writes it."""
    number = {token: row for row, token in enumerate(module.vocabulary.tokens)}
    analyzed = analyze(Analyzer(module.analyzer), [question, passage])
    question_terms, passage_terms = ([number[t] for t in dict.fromkeys(tokens) if t in number] for tokens in analyzed)
    vectors = module.vectors.weight.double().tolist()
    weights = [math.exp(weight) for (weight,) in module.term_weights.weight.tolist()]
    total = sum(weights[i] for i in question_terms)

    def cosine(a: Sequence[float], b: Sequence[float]) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True))

    def summed(tokens: list[int]) -> np.ndarray:
        return sum(weights[i] * np.array(vectors[i]) for i in tokens)

    features = [sum(weights[i] / total * math.log2(1 + passage_terms.count(i)) for i in question_terms)]
    for centre in (0.9, 0.7, 0.5, 0.3, 0.1, -0.1):
        soft = 0.0
        for i in question_terms:
            others = [cosine(vectors[i], vectors[j]) for j in passage_terms if j != i]
            near = sum(math.exp(-((similarity - centre) ** 2) / 0.02) for similarity in others)
            soft += weights[i] / total * math.log(1 + near)
        features.append(0.1 * soft)
    features.append(float(unit(summed(question_terms)) @ unit(summed(passage_terms))))
    (row,) = module.score.weight.tolist()
    (bias,) = module.score.bias.tolist()
    return sum(weight * feature for weight, feature in zip(row, features, strict=True)) + bias


@pytest.mark.parametrize("trained", [False, True])
def test_kernel_pooling_matches_formula(trained: bool) -> None:
    import torch

    scorer = CrossEncoderScorer(find_model(STARTER), KOREAN)
    module = scorer.model[0]
    if trained:  # any other weights
        torch.manual_seed(3)
        with torch.no_grad():
            module.term_weights.weight.normal_()
            module.score.weight.normal_()
            module.score.bias.normal_()
    pairs = [(QUESTIONS[5].text, KOREAN[1]), (QUESTIONS[3].text, KOREAN[3]), (QUESTIONS[0].text, KOREAN[2])]
    assert scorer.score(pairs).tolist() == pytest.approx([reference_score(module, *pair) for pair in pairs], abs=1e-4)


def test_scores_do_not_depend_on_batch() -> None:
    scorer = CrossEncoderScorer(find_model(STARTER), KOREAN)
    pairs = [(question, passage) for question in [*texts_of(QUESTIONS), "", "zebra"] for passage in [*KOREAN, ""]]
    together = scorer.score(pairs)
    assert (together.shape, together.dtype) == ((len(pairs),), np.float32)
    assert np.isfinite(together).all()
    assert len(set(together.tolist())) > 10
    np.testing.assert_allclose(together, [scorer.score([pair])[0] for pair in pairs], atol=1e-5)


def test_untrained_cross_encoder_ranks_relevant_first() -> None:
    scorer = CrossEncoderScorer(find_model(STARTER), KOREAN)
    for question in QUESTIONS:
        best = int(np.argmax(scorer.score([(question.text, passage) for passage in KOREAN])))
        assert PASSAGES[best].id in question.relevant


def test_reranker_reuses_tokens_of_bm25(monkeypatch: pytest.MonkeyPatch) -> None:
    questions = [*texts_of(QUESTIONS), ""]
    pairs = [(question, passage) for question in questions for passage in KOREAN]
    plain = CrossEncoderScorer(find_model(STARTER), KOREAN).score(pairs)
    for texts in (KOREAN, questions):
        tokens_of(Analyzer.KIWI_BIGRAM, texts)
    analyzed: list[list[str]] = []

    def analyze_and_note(analyzer: Analyzer, texts: list[str]) -> list[list[str]]:
        analyzed.append(texts)
        return analyze(analyzer, texts)

    monkeypatch.setattr(starter, "analyze", analyze_and_note)
    scorer = CrossEncoderScorer(find_model(STARTER), KOREAN)
    scorer.preload_questions(questions)
    np.testing.assert_array_equal(scorer.score(pairs), plain)
    assert analyzed == []  # not even of no texts, which would load an analyzer
    scorer.score([("what nobody foresaw", KOREAN[0])])
    assert analyzed == [["what nobody foresaw"]]


@pytest.mark.parametrize("path", ["relative", "absolute", "run"])
@pytest.mark.parametrize("room", [None, "models.starter", "models.starter.bi_encoder", "retrieval.starter.bi_encoder"])
def test_round_trips_saved_models(room: str | None, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those whose modules stood elsewhere when they were saved."""
    from mrc_workbench.models.starter import AnalyzedEmbedding, KernelPooling

    monkeypatch.setenv("MRC_WORKSPACE", str(tmp_path))
    bi_encoder = BiEncoder(find_model(STARTER), ENGLISH)
    cross_encoder = CrossEncoderScorer(find_model(STARTER), ENGLISH)
    bi_encoder.model.save_pretrained(str(tmp_path / "runs" / "bi" / "model"))
    cross_encoder.model.save_pretrained(str(tmp_path / "runs" / "cross" / "model"))
    for listed in (tmp_path / "runs").glob("*/model/modules.json") if room else ():
        (module,) = json.loads(listed.read_text(encoding="utf-8"))
        module["type"] = f"{room}.{module['type'].rpartition('.')[2]}"
        listed.write_text(json.dumps([module]), encoding="utf-8")
    named = {"relative": "runs/{}/model", "absolute": str(tmp_path / "runs" / "{}" / "model"), "run": "{}"}[path]
    base = tmp_path if path == "relative" else None
    other_corpus = ["a corpus of other words"]
    bi_again = BiEncoder(find_model(named.format("bi"), base), other_corpus)
    cross_again = CrossEncoderScorer(find_model(named.format("cross"), base), other_corpus)
    assert type(bi_again.model[0]) is AnalyzedEmbedding
    assert type(cross_again.model[0]) is KernelPooling
    np.testing.assert_array_equal(bi_again.encode_passages(ENGLISH), bi_encoder.encode_passages(ENGLISH))
    pairs = [("old river", text) for text in ENGLISH]
    np.testing.assert_array_equal(cross_again.score(pairs), cross_encoder.score(pairs))
    assert bi_again.fingerprint != bi_encoder.fingerprint


def test_builds_starter_once(tmp_path: Path) -> None:
    first = BiEncoder(find_model(STARTER), ENGLISH)
    vectors = first.encode_passages(["the old river", "a train"])
    (folder,) = (tmp_path / "workspace" / "cache" / "starters").iterdir()
    written = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert any(path.name == "model.safetensors" for path in written)
    second = BiEncoder(find_model(STARTER), ENGLISH)
    np.testing.assert_array_equal(second.model.encode(["the old river"], normalize_embeddings=True)[0], vectors[0])
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()} == written


def test_rejects_corpus_without_words() -> None:
    with pytest.raises(ValueError, match="no word to build a starter model from"):
        BiEncoder(find_model(STARTER), ["...", "?!"]).encode_questions(["a"])


def test_starter_retrieves_passages_of_its_corpus() -> None:
    from mrc_workbench.retrieval.dense import Dense

    retriever = Dense("starter", [*PASSAGES, Passage("p6", "...")], BiEncoder(find_model(STARTER), KOREAN))
    rows = retriever.search(texts_of(QUESTIONS), 1).indices[:, 0].tolist()
    assert rows[:5] == [0, 1, 2, 3, 4]
    assert rows[5] in (1, 2)


@pytest.mark.parametrize("kind", STARTERS)
def test_rebuilds_damaged_starter(kind: str) -> None:
    expected = STARTERS[kind]()
    (folder,) = (workspace() / "cache" / "starters").iterdir()
    whole = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for path, content in whole.items():
        middle = len(content) // 2
        for damaged in (None, b"", content[:middle], content[:middle] + b"\0" * (len(content) - middle)):
            if damaged == content:
                continue
            path.unlink()
            if damaged is not None:
                path.write_bytes(damaged)
            np.testing.assert_array_equal(STARTERS[kind](), expected)
            assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == whole
    shutil.rmtree(folder)
    folder.mkdir()
    np.testing.assert_array_equal(STARTERS[kind](), expected)
