"""What tokens add to a starter's cosine: both sums are the cosine the retriever gave, and torch stays away."""

import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.passages import Passages
from data.records import Passage, QuestionSet
from data.store import CATALOG, read_entry
from data.workspace import PROJECT
from models.encoders.bi_encoder import BiEncoder
from models.hub import ModelError
from models.sources import STARTER, find_model
from retrieval.dense import Dense
from retrieval.explain.encoders import StaticExplainer, StaticExplanation, static_explainer
from tests.doubles import texts_of
from tests.hub import build_bi_encoder
from text.analysis import analyze
from text.analyzers import Analyzer

pytestmark = pytest.mark.slow

ENGLISH = [
    Passage("p1", "The river runs through the old town.", "River"),
    Passage("p2", "A bridge over the river was built in 1890."),
    Passage("p3", "The museum in the old town shows paintings.", "Museum"),
    Passage("p4", "Trains leave the station every hour."),
    Passage("p5", "The station hall was built by the old railway, and its hall is old."),
]


@pytest.fixture(scope="module")
def sample() -> QuestionSet:
    return read_entry(CATALOG["sample"]).question_set


def as_vectors(explanation: StaticExplanation) -> tuple[float, float]:
    return (
        sum(token.value for token in explanation.question_tokens),
        sum(token.value for token in explanation.passage_tokens),
    )


def trained_copy(folder: Path, passages: tuple[Passage, ...]) -> Path:
    """Save a starter with other weights, as a training leaves it."""
    import torch

    model = BiEncoder(find_model(STARTER), Passages.of(passages).indexed_texts(title=True)).model
    torch.manual_seed(0)
    with torch.no_grad():
        model[0].embedding.weight.add_(torch.randn_like(model[0].embedding.weight) * 0.05)
    model.save_pretrained(str(folder), create_model_card=False)
    return folder


@pytest.mark.parametrize("trained", [False, True])
def test_values_sum_to_the_cosine_of_the_retriever(sample: QuestionSet, tmp_path: Path, trained: bool) -> None:
    model = str(trained_copy(tmp_path / "model", sample.passages)) if trained else STARTER
    retriever = Dense("dense", sample.passages, BiEncoder(find_model(model), sample.passages.indexed_texts(title=True)))
    questions = texts_of(sample.questions[::24])
    rankings = retriever.search(questions, 10)
    explainer = static_explainer(model, sample.passages)
    assert explainer is not None
    assert (rankings.indices >= 0).all()
    for question, rows, scores in zip(questions, rankings.indices.tolist(), rankings.scores.tolist(), strict=True):
        for row, score in zip(rows, scores, strict=True):
            explanation = explainer.explain(question, row)
            assert explanation.score == pytest.approx(score, abs=1e-5)
            assert as_vectors(explanation) == pytest.approx((score, score), abs=1e-5)


@pytest.fixture(scope="module")
def english() -> tuple[StaticExplainer, BiEncoder]:
    corpus = Passages.of(ENGLISH).indexed_texts(title=True)
    encoder = BiEncoder(find_model(STARTER), corpus)
    encoder.load()
    explainer = static_explainer(STARTER, ENGLISH)
    assert explainer is not None
    return explainer, encoder


WORDS = st.lists(
    st.sampled_from(["the", "old", "river", "station", "zebra", "Hall", "museum", "1890", ",", "town"]), max_size=8
).map(" ".join)


@settings(deadline=None, max_examples=50)
@given(question=WORDS, row=st.integers(0, 4))
def test_values_sum_to_the_cosine_of_any_question(
    english: tuple[StaticExplainer, BiEncoder], question: str, row: int
) -> None:
    explainer, encoder = english
    passage = Passages.of(ENGLISH).indexed_texts(title=True)[row]
    cosine = float(encoder.encode_questions([question])[0] @ encoder.encode_passages([passage])[0])
    assert as_vectors(explainer.explain(question, row)) == pytest.approx((cosine, cosine), abs=1e-5)


def test_a_value_is_the_written_formula(english: tuple[StaticExplainer, BiEncoder]) -> None:
    explainer, encoder = english
    module = encoder.model[0]
    number = module.tokenizer.get_vocab()
    weights = module.embedding.weight.detach().double().numpy()
    passage = Passages.of(ENGLISH).indexed_texts(title=True)[4]
    asked, held = (list(dict.fromkeys(tokens)) for tokens in analyze(Analyzer.WORD, ["old old hall zebra", passage]))
    asked_vectors = {token: weights[number[token]] for token in asked if token in number}
    held_vectors = {token: weights[number[token]] for token in held}
    asked_sum, held_sum = sum(asked_vectors.values()), sum(held_vectors.values())
    lengths = np.linalg.norm(asked_sum) * np.linalg.norm(held_sum)
    explanation = explainer.explain("old old hall zebra", 4)
    values = {token.text: token.value for token in explanation.question_tokens if token.known}
    assert values == pytest.approx({token: vector @ held_sum / lengths for token, vector in asked_vectors.items()})
    values = {token.text: token.value for token in explanation.passage_tokens}
    assert values == pytest.approx({token: vector @ asked_sum / lengths for token, vector in held_vectors.items()})


def test_tokens_are_told_with_their_places(english: tuple[StaticExplainer, BiEncoder]) -> None:
    explanation = english[0].explain("Zebra, old river old", 0)
    told = {token.text: (token.known, token.spans) for token in explanation.question_tokens}
    assert told == {"zebra": (False, ((0, 5),)), "old": (True, ((7, 10), (17, 20))), "river": (True, ((11, 16),))}
    values = {token.text: token.value for token in explanation.passage_tokens}
    assert explanation.title_pieces() == [("River", pytest.approx(values["river"]))]
    assert ("river", pytest.approx(values["river"])) in explanation.text_pieces()
    assert explanation.question_pieces()[0] == ("Zebra, ", 0)
    ordered = [token.value for token in explanation.passage_tokens]
    assert ordered == sorted(ordered, reverse=True)


@pytest.mark.parametrize("question", ["zebra", "", "?"])
def test_a_question_of_which_nothing_is_known_has_no_score(
    english: tuple[StaticExplainer, BiEncoder], question: str
) -> None:
    explanation = english[0].explain(question, 0)
    assert explanation.score == 0
    assert not any(token.known for token in explanation.question_tokens)
    assert {token.value for token in explanation.passage_tokens} == {0}


def test_loose_letters_are_composed(sample: QuestionSet) -> None:
    BiEncoder(find_model(STARTER), sample.passages.indexed_texts(title=True)).load()
    explainer = static_explainer(STARTER, sample.passages)
    assert explainer is not None
    question = sample.questions[0].text
    assert explainer.explain(unicodedata.normalize("NFD", question), 0) == explainer.explain(question, 0)


def test_only_a_starter_that_was_built_is_explained(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no starter was built of these 5 passages yet"):
        static_explainer(STARTER, ENGLISH)
    with pytest.raises(ModelError):
        static_explainer(str(tmp_path / "nothing here"), ENGLISH)
    assert static_explainer(str(build_bi_encoder(tmp_path / "bert")), ENGLISH) is None


def test_the_title_is_part_of_the_starter(sample: QuestionSet) -> None:
    BiEncoder(find_model(STARTER), Passages.of(ENGLISH).indexed_texts(title=False)).load()
    explainer = static_explainer(STARTER, ENGLISH, title=False)
    assert explainer is not None
    assert explainer.explain("river", 0).title_pieces() == []
    with pytest.raises(FileNotFoundError):
        static_explainer(STARTER, ENGLISH, title=True)


def test_no_torch_is_imported() -> None:
    BiEncoder(find_model(STARTER), Passages.of(ENGLISH).indexed_texts(title=True)).load()
    program = (
        "import sys; from data.records import Passage; from retrieval.explain.starter import static_explainer; "
        f"explainer = static_explainer('starter', {ENGLISH!r}); "
        "print(round(explainer.explain('old river', 0).score, 6), "
        "sorted({'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True)
    explainer = static_explainer(STARTER, ENGLISH)
    assert explainer is not None
    assert done.stdout.strip() == f"{round(explainer.explain('old river', 0).score, 6)} []"
