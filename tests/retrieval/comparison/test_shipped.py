"""The token vectors that come with the sample: they reproduce its metrics, and serve no other dataset."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data import cache
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import CATALOG, read_entry
from mrc_workbench.models.inference import Precision, TokenLayers
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.retrieval.comparison.compare import build_context
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import LateSpec
from mrc_workbench.retrieval.comparison.spec import CachedRetriever, RetrieverContext
from mrc_workbench.retrieval.dense import max_sim
from mrc_workbench.retrieval.measures import DEFAULT_KS, evaluate
from mrc_workbench.retrieval.rankings import Rankings, top_k

pytestmark = pytest.mark.skipif(not DEFAULT.path, reason="the package of the base is not for this machine")
SAMPLE = read_entry(CATALOG["sample"]).question_set
QUESTIONS = [question.text for question in SAMPLE.questions]
SHIPPED_LATE = LateSpec(name="Late", model=DEFAULT.reference, windows=True)


def late_encoder(questions: QuestionSet, **values: object) -> TokenEncoder:
    return SHIPPED_LATE.model_copy(update=values).encoder(RetrieverContext(questions))


@pytest.mark.slow
@pytest.mark.packaged
def test_shipped_token_vectors_reproduce_shipped_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    (late,) = build_context(Experiment(data="sample", retriever=(SHIPPED_LATE,)), SAMPLE).retrievers.values()
    assert isinstance(late, CachedRetriever)
    assert late.is_cached(QUESTIONS, late.depth)
    shipped = late.search(QUESTIONS, late.depth)

    encoded_sides: list[str] = []
    encode = TokenEncoder.encode

    def encode_and_note(self: TokenEncoder, side: str, *rest: Any) -> list[np.ndarray]:
        encoded_sides.append(side)
        return encode(self, side, *rest)

    monkeypatch.setattr(TokenEncoder, "encode", encode_and_note)
    passages = late_encoder(SAMPLE).encode_passages(
        SAMPLE.passages.indexed_texts(title=True), SAMPLE.passages.title_lengths(title=True)
    )
    assert encoded_sides == []
    rows = np.arange(0, len(QUESTIONS), 10)  # encoding all of them takes half a minute
    texts = [QUESTIONS[row] for row in rows]
    query_vectors = late_encoder(SAMPLE, precision=Precision.FLOAT32).encode_questions(texts)
    rankings = top_k(max_sim(query_vectors, passages), late.depth)
    np.testing.assert_allclose(rankings.scores, shipped.scores[rows], atol=1e-3)
    of_rows = Rankings(shipped.indices[rows], shipped.scores[rows])
    some = SAMPLE.with_questions(rows)
    for measure, value in evaluate(of_rows, some, DEFAULT_KS).means().items():
        assert evaluate(rankings, some, DEFAULT_KS).means()[measure] == pytest.approx(value, abs=0.005), measure


@pytest.mark.packaged
def test_uses_shipped_token_vectors_only_for_same_passages_and_model() -> None:
    def is_shipped(questions: QuestionSet, **values: object) -> bool:
        passages = questions.passages
        key = late_encoder(questions, **values).key_of_passages(
            passages.indexed_texts(title=True), passages.title_lengths(title=True)
        )
        return cache.sample_path("token-vectors", key).is_file()

    assert is_shipped(SAMPLE)
    changed = [replace(SAMPLE.passages[0], text=SAMPLE.passages[0].text + "."), *[*SAMPLE.passages][1:]]
    assert not is_shipped(QuestionSet("changed", changed, SAMPLE.questions))
    assert not is_shipped(QuestionSet("fewer", [*SAMPLE.passages][1:], ()))
    for values in ({"dimensions": 128}, {"layers": TokenLayers.LAST}, {"window_tokens": 64}):
        assert not is_shipped(SAMPLE, **values), values
