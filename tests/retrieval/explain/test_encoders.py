"""Why a model gives a passage its score."""

import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SparseEncoder

from mrc_workbench.data.passages import Passages
from mrc_workbench.data.records import Passage, QuestionSet
from mrc_workbench.data.text.analysis import analyze
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.text.marking import weighted_pieces
from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer, SparseTextEncoder
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.sources import STARTER, find_model
from mrc_workbench.models.windows import WindowOptions
from mrc_workbench.retrieval.dense import Dense
from mrc_workbench.retrieval.explain import encoders
from mrc_workbench.retrieval.explain.standing import WEIGHED, weighted_term_table
from tests.doubles import texts_of
from tests.retrieval.compared import hits_of
from tests.tiny_models import SENTENCES, build_bi_encoder, build_cross_encoder_base, build_sparse_encoder, with_head

pytestmark = pytest.mark.slow

ENGLISH = [
    Passage("p1", "The river runs through the old town.", "River"),
    Passage("p2", "A bridge over the river was built in 1890."),
    Passage("p3", "The museum in the old town shows paintings.", "Museum"),
    Passage("p4", "Trains leave the station every hour."),
    Passage("p5", "The station hall was built by the old railway, and its hall is old."),
]
VOCABULARY = ["the", "old", "river", "station", "zebra", "Hall", "museum", "1890", ",", "town"]
WORDS = st.lists(st.sampled_from(VOCABULARY), max_size=8).map(" ".join)
ExplainerAndEncoder = tuple[encoders.StaticExplainer, BiEncoder]
QUESTION = "한강은 언제 서울을 지나"
PASSAGES = [Passage("p1", SENTENCES[1], "한강은"), Passage("p2", SENTENCES[2])]
LONG_TEXT = " ".join(SENTENCES).split()
LONG = Passage("long", " ".join(np.random.default_rng(0).choice(LONG_TEXT, 300)), "세종")
SHORT = Passage("short", SENTENCES[1])


def sums(explanation: encoders.StaticExplanation) -> list[float]:
    sides = (explanation.question_tokens, explanation.passage_tokens)
    return [sum(token.value for token in tokens) for tokens in sides]


def trained_copy(folder: Path, passages: tuple[Passage, ...]) -> Path:
    """Save a starter with other weights, as a training leaves it."""
    import torch

    model = BiEncoder(find_model(STARTER), Passages.from_passages(passages).indexed_texts(title=True)).model
    torch.manual_seed(0)
    with torch.no_grad():
        model[0].embedding.weight.add_(torch.randn_like(model[0].embedding.weight) * 0.05)
    model.save_pretrained(str(folder), create_model_card=False)
    return folder


@pytest.mark.usefixtures("stored_work")
@pytest.mark.parametrize("trained", [False, True])
def test_values_sum_to_retriever_cosine(sample: QuestionSet, tmp_path: Path, trained: bool) -> None:
    model = str(trained_copy(tmp_path / "model", sample.passages)) if trained else STARTER
    retriever = Dense("dense", sample.passages, BiEncoder(find_model(model), sample.passages.indexed_texts(title=True)))
    questions = texts_of(sample.questions[::24])
    rankings = retriever.search(questions, 10)
    explainer = encoders.static_explainer(model, sample.passages)
    assert explainer is not None
    for question, hits in zip(questions, hits_of(rankings), strict=True):
        assert len(hits) == 10
        for row, score in hits.items():
            explanation = explainer.explain(question, row)
            assert [explanation.score, *sums(explanation)] == pytest.approx([score] * 3, abs=1e-5)


@pytest.fixture(scope="module")
def english() -> ExplainerAndEncoder:
    corpus = Passages.from_passages(ENGLISH).indexed_texts(title=True)
    encoder = BiEncoder(find_model(STARTER), corpus)
    encoder.load()
    explainer = encoders.static_explainer(STARTER, ENGLISH)
    assert explainer is not None
    return explainer, encoder


@settings(deadline=None, max_examples=50)
@given(question=WORDS, row=st.integers(0, 4))
def test_values_sum_to_cosine_of_random_questions(english: ExplainerAndEncoder, question: str, row: int) -> None:
    explainer, encoder = english
    passage = Passages.from_passages(ENGLISH).indexed_texts(title=True)[row]
    cosine = float(encoder.encode_questions([question])[0] @ encoder.encode_passages([passage])[0])
    assert sums(explainer.explain(question, row)) == pytest.approx([cosine, cosine], abs=1e-5)


def test_values_match_formula(english: ExplainerAndEncoder) -> None:
    explainer, encoder = english
    module = encoder.model[0]
    number = module.tokenizer.get_vocab()
    weights = module.embedding.weight.detach().double().numpy()
    passage = Passages.from_passages(ENGLISH).indexed_texts(title=True)[4]
    texts = analyze(Analyzer(module.analyzer), ["old old hall zebra", passage])
    question_tokens, passage_tokens = (list(dict.fromkeys(tokens)) for tokens in texts)
    question_vectors = {token: weights[number[token]] for token in question_tokens if token in number}
    passage_vectors = {token: weights[number[token]] for token in passage_tokens}
    question_sum = sum(question_vectors.values())
    passage_sum = sum(passage_vectors.values())
    lengths = np.linalg.norm(question_sum) * np.linalg.norm(passage_sum)
    explanation = explainer.explain("old old hall zebra", 4)
    values = {token.text: token.value for token in explanation.question_tokens if token.known}
    expected = {token: vector @ passage_sum / lengths for token, vector in question_vectors.items()}
    assert values == pytest.approx(expected)
    values = {token.text: token.value for token in explanation.passage_tokens}
    expected = {token: vector @ question_sum / lengths for token, vector in passage_vectors.items()}
    expected["its (it)"] = expected.pop("it")  # a stem beside the word of the text
    assert values == pytest.approx(expected)


def test_returns_tokens_with_spans(english: ExplainerAndEncoder) -> None:
    explanation = english[0].explain("Zebra, old river old", 0)
    known_and_spans = {token.text: (token.known, token.spans) for token in explanation.question_tokens}
    expected = {"old": (True, ((7, 10), (17, 20))), "river": (True, ((11, 16),)), "zebra": (False, ((0, 5),))}
    assert known_and_spans == expected
    values = {token.text: token.value for token in explanation.passage_tokens}
    assert explanation.title_pieces() == [("River", pytest.approx(values["river"]))]
    assert ("river", pytest.approx(values["river"])) in explanation.text_pieces()
    first, *_ = weighted_pieces(explanation.question, explanation.weights[0], 0, len(explanation.question))
    assert first == ("Zebra, ", 0)
    ordered = [token.value for token in explanation.passage_tokens]
    assert ordered == sorted(ordered, reverse=True)


@pytest.mark.parametrize("question", ["zebra", "", "?"])
def test_unknown_question_scores_0(english: ExplainerAndEncoder, question: str) -> None:
    explanation = english[0].explain(question, 0)
    assert explanation.score == 0
    assert not any(token.known for token in explanation.question_tokens)
    assert {token.value for token in explanation.passage_tokens} == {0}


@pytest.mark.usefixtures("stored_work")
def test_composes_decomposed_hangul(sample: QuestionSet) -> None:
    BiEncoder(find_model(STARTER), sample.passages.indexed_texts(title=True)).load()
    explainer = encoders.static_explainer(STARTER, sample.passages)
    assert explainer is not None
    question = sample.questions[0].text
    assert explainer.explain(unicodedata.normalize("NFD", question), 0) == explainer.explain(question, 0)


def test_explains_only_built_starters(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no starter was built from these 5 passages yet"):
        encoders.static_explainer(STARTER, ENGLISH)
    with pytest.raises(ModelError):
        encoders.static_explainer(str(tmp_path / "nothing here"), ENGLISH)
    assert encoders.static_explainer(str(build_bi_encoder(tmp_path / "bert")), ENGLISH) is None


def test_starter_depends_on_title(sample: QuestionSet) -> None:
    BiEncoder(find_model(STARTER), Passages.from_passages(ENGLISH).indexed_texts(title=False)).load()
    explainer = encoders.static_explainer(STARTER, ENGLISH, title=False)
    assert explainer is not None
    assert explainer.explain("river", 0).title_pieces() == []
    with pytest.raises(FileNotFoundError):
        encoders.static_explainer(STARTER, ENGLISH, title=True)


def test_does_not_import_torch() -> None:
    BiEncoder(find_model(STARTER), Passages.from_passages(ENGLISH).indexed_texts(title=True)).load()
    program = (
        "import sys; from mrc_workbench.data.records import Passage; "
        "from mrc_workbench.retrieval.explain.encoders import static_explainer; "
        f"explainer = static_explainer('starter', {ENGLISH!r}); "
        "print(round(explainer.explain('old river', 0).score, 6), "
        "sorted({'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True)
    explainer = encoders.static_explainer(STARTER, ENGLISH)
    assert explainer is not None
    assert done.stdout.strip() == f"{round(explainer.explain('old river', 0).score, 6)} []"


@pytest.fixture(scope="module", params=[False, True], ids=["splade", "inference-free"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_sparse_encoder(tmp_path_factory.mktemp("model") / "tiny", inference_free=request.param)


def explained(folder: Path, row: int) -> encoders.SparseExplanation:
    encoder = SparseTextEncoder(find_model(str(folder)), [], precision=Precision.FLOAT32)
    return encoders.term_contributions(encoder, QUESTION, PASSAGES[row])


def test_values_are_products_that_sum_to_library_score(folder: Path) -> None:
    model = SparseEncoder(str(folder), device="cpu")
    texts = [f"한강은\n{SENTENCES[1]}", SENTENCES[2]]
    scores = model.similarity(model.encode_query([QUESTION]), model.encode_document(texts)).numpy()[0]
    for row, score in enumerate(scores):
        explanation = explained(folder, row)
        assert explanation.score == pytest.approx(score, rel=1e-5)
        assert bool(explanation.terms) == (score > 0)  # the words of a question that nothing reads may not be there
        assert [term.value for term in explanation.terms] == sorted((t.value for t in explanation.terms), reverse=True)
        assert all(term.value == term.question * term.passage > 0 for term in explanation.terms)


def test_expansion_terms_are_in_neither_text(folder: Path) -> None:
    explanation = explained(folder, 0)
    terms = {term.text: term for term in explanation.terms}
    tokenizer = SparseEncoder(str(folder), device="cpu").tokenizer
    question_words, passage_words = (
        {tokenizer.decode([id_]) for id_ in tokenizer(text, add_special_tokens=False)["input_ids"]}
        for text in (QUESTION, f"한강은\n{SENTENCES[1]}")
    )
    for text, term in terms.items():
        assert bool(term.question_spans) == (text in question_words), text
        assert bool(term.passage_spans) == (text in passage_words), text
        assert term.is_expansion == (text not in question_words | passage_words)
    expansion = [term.value for term in explanation.terms if term.text not in question_words | passage_words]
    assert explanation.by_expansion == pytest.approx(sum(expansion))
    for term in explanation.terms:
        assert all(QUESTION[start:end] == term.text.removeprefix("##") for start, end in term.question_spans)
        assert all(explanation.passage.text[a:b] == term.text.removeprefix("##") for a, b in term.passage_spans)


def test_pieces_have_contributions(folder: Path) -> None:
    explanation = explained(folder, 0)
    in_passage = sum(term.value * sum(b - a for a, b in term.passage_spans) for term in explanation.terms)
    shaded = [*explanation.title_pieces(), *explanation.text_pieces()]
    assert sum(len(text) * weight for text, weight in shaded) == pytest.approx(in_passage)
    assert "".join(text for text, _ in explanation.title_pieces()) == "한강은"
    pieces = weighted_pieces(explanation.question, explanation.weights[0], 0, len(explanation.question))
    assert "".join(text for text, _ in pieces) == QUESTION


def test_weighted_term_table_sums_to_both_scores(folder: Path) -> None:
    right = explained(folder, 0)
    wrong = explained(folder, 1)
    table = weighted_term_table(right, wrong)
    assert tuple(table.columns) == WEIGHED
    assert table["term"].is_unique
    assert set(table["term"]) == {term.text for explanation in (right, wrong) for term in explanation.terms}
    assert table["right"].sum() == pytest.approx(right.score)
    assert table["wrong"].sum() == pytest.approx(wrong.score)
    np.testing.assert_allclose(table["right"], table["question_weight"] * table["right_weight"], rtol=1e-6)
    np.testing.assert_allclose(table["difference"], table["right"] - table["wrong"], atol=1e-9)
    nowhere = table[table["kind"] == "expansion"]
    assert not (nowhere["in_right"] | nowhere["in_wrong"]).any()
    assert (table["difference"].abs().diff().dropna() <= 1e-9).all()


@pytest.mark.parametrize("options", [WindowOptions(), WindowOptions(20, 20)])
def test_best_window_score_equals_search_score(tmp_path: Path, options: WindowOptions) -> None:
    source = find_model(str(build_bi_encoder(tmp_path / "model")))
    encoder = BiEncoder(source, [], precision=Precision.FLOAT32)
    rankings = Dense("dense", [SHORT, LONG], encoder, windows=options).search([SENTENCES[3]], 2)
    explained = encoders.dense_windows(encoder, SENTENCES[3], LONG, options)
    assert explained is not None
    score = rankings.scores[0, rankings.indices[0].tolist().index(1)]
    assert explained.score == pytest.approx(score, abs=1e-3)  # the first, as it was read, may end within a word
    window = explained.windows[explained.best].window
    vectors = encoder.encode_passages([f"세종\n{LONG.text[window.start - 3 : window.end - 3]}"])
    assert explained.score == pytest.approx(float(vectors[0] @ encoder.encode_questions([SENTENCES[3]])[0]), abs=1e-5)
    assert explained.score == max(window_score.score for window_score in explained.windows)
    assert encoders.dense_windows(encoder, SENTENCES[3], SHORT, options) is None


def test_best_reranker_window_has_reranker_score(tmp_path: Path) -> None:
    source = find_model(str(with_head(build_cross_encoder_base(tmp_path / "model", segment_types=1))))
    scorer = CrossEncoderScorer(source, [], precision=Precision.FLOAT32)
    explained = encoders.reranker_windows(scorer, SENTENCES[3], LONG, WindowOptions())
    assert explained is not None
    (score,) = scorer.score_windows([(SENTENCES[3], explained.text)], [3], WindowOptions())
    assert explained.score == pytest.approx(float(score), abs=1e-6)
    assert encoders.reranker_windows(scorer, SENTENCES[3], SHORT, WindowOptions()) is None
