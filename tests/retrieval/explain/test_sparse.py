"""The terms of a sparse encoder's score: they sum to it, and it is known which of them stand nowhere."""

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SparseEncoder

from data.records import Passage
from models.encoders.sparse_encoder import SparseTextEncoder
from models.precision import Precision
from models.sources import find_model
from retrieval.explain.duel import WEIGHED, weighed_table
from retrieval.explain.encoders import SparseExplanation, term_contributions
from tests.hub import SENTENCES, build_sparse_encoder

pytestmark = pytest.mark.slow
QUESTION = "한강은 언제 서울을 지나"
PASSAGES = [Passage("p1", SENTENCES[1], "한강은"), Passage("p2", SENTENCES[2])]


@pytest.fixture(scope="module", params=[False, True], ids=["splade", "inference-free"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_sparse_encoder(tmp_path_factory.mktemp("model") / "tiny", inference_free=request.param)


def explained(folder: Path, row: int) -> SparseExplanation:
    encoder = SparseTextEncoder(find_model(str(folder)), [], precision=Precision.FLOAT32)
    return term_contributions(encoder, QUESTION, PASSAGES[row])


def test_values_are_products_and_sum_to_the_library_s_score(folder: Path) -> None:
    model = SparseEncoder(str(folder), device="cpu")
    texts = [f"한강은\n{SENTENCES[1]}", SENTENCES[2]]
    scores = model.similarity(model.encode_query([QUESTION]), model.encode_document(texts)).numpy()[0]
    for row, score in enumerate(scores):
        found = explained(folder, row)
        assert found.score == pytest.approx(score, rel=1e-5)
        assert bool(found.terms) == (score > 0)  # the words of a question that nothing reads may not be there
        assert [term.value for term in found.terms] == sorted((t.value for t in found.terms), reverse=True)
        assert all(term.value == term.question * term.passage > 0 for term in found.terms)


def test_expansion_is_what_stands_in_neither_text(folder: Path) -> None:
    found = explained(folder, 0)
    terms = {term.text: term for term in found.terms}
    tokenizer = SparseEncoder(str(folder), device="cpu").tokenizer
    asked, held = (
        {tokenizer.decode([id_]) for id_ in tokenizer(text, add_special_tokens=False)["input_ids"]}
        for text in (QUESTION, f"한강은\n{SENTENCES[1]}")
    )
    for text, term in terms.items():
        assert bool(term.question_spans) == (text in asked), text
        assert bool(term.passage_spans) == (text in held), text
        assert term.is_expansion == (text not in asked | held)
    assert found.by_expansion == pytest.approx(sum(t.value for t in found.terms if t.text not in asked | held))
    for term in found.terms:
        assert all(QUESTION[start:end] == term.text.removeprefix("##") for start, end in term.question_spans)
        assert all(found.passage.text[a:b] == term.text.removeprefix("##") for a, b in term.passage_spans)


def test_letters_are_shaded_by_what_they_add(folder: Path) -> None:
    found = explained(folder, 0)
    in_passage = sum(term.value * sum(b - a for a, b in term.passage_spans) for term in found.terms)
    shaded = [*found.title_pieces(), *found.text_pieces()]
    assert sum(len(text) * weight for text, weight in shaded) == pytest.approx(in_passage)
    assert "".join(text for text, _ in found.title_pieces()) == "한강은"
    assert "".join(text for text, _ in found.question_pieces()) == QUESTION


def test_the_table_of_two_sums_to_both_scores(folder: Path) -> None:
    right, wrong = explained(folder, 0), explained(folder, 1)
    table = weighed_table(right, wrong)
    assert tuple(table.columns) == WEIGHED
    assert table["term"].is_unique
    assert set(table["term"]) == {term.text for one in (right, wrong) for term in one.terms}
    assert table["right"].sum() == pytest.approx(right.score)
    assert table["wrong"].sum() == pytest.approx(wrong.score)
    np.testing.assert_allclose(table["right"], table["asked"] * table["held_right"], rtol=1e-6)
    np.testing.assert_allclose(table["difference"], table["right"] - table["wrong"], atol=1e-9)
    nowhere = table[table["kind"] == "expansion"]
    assert not (nowhere["in_right"] | nowhere["in_wrong"]).any()
    assert (table["difference"].abs().diff().dropna() <= 1e-9).all()
