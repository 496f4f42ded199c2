"""Windows as values of a retriever, from an experiment to its rankings."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from data.records import Passage, Question, QuestionSet
from models.encoders.bi_encoder import BiEncoder
from models.encoders.cross_encoder import CrossEncoderScorer
from models.precision import Precision
from models.sources import find_model
from models.windows import WindowOptions
from retrieval.comparison.compare import compare
from retrieval.comparison.experiment import Experiment, of_kind
from retrieval.comparison.first_stage import BM25Spec, DenseSpec
from retrieval.comparison.multistage import RerankSpec
from retrieval.comparison.spec import ReadingSpec
from tests.hub import SENTENCES, build_bi_encoder, build_cross_encoder_base, with_head


@pytest.mark.parametrize("kind", ["dense", "rerank"])
def test_windows_are_told_only_where_they_are_wanted(kind: str) -> None:
    """What was kept before there were windows is found by the same key."""
    values = {"name": "A", "kind": kind, **({"first": "BM25"} if kind == "rerank" else {})}
    plain, windowed = of_kind(values), of_kind(values | {"windows": True, "stride": 64})
    assert isinstance(plain, ReadingSpec)
    assert isinstance(windowed, ReadingSpec)
    assert not {"windows", "window_tokens", "stride"} & plain.model_dump(mode="json").keys()
    assert plain.window_options is None
    told = windowed.model_dump(mode="json")
    assert (told["windows"], told["stride"], "window_tokens" in told) == (True, 64, False)
    assert windowed.window_options == WindowOptions(0, 64)
    assert of_kind(told) == windowed


@pytest.mark.parametrize(
    "values", [{"stride": 5}, {"window_tokens": 5}, {"windows": True, "window_tokens": 5, "stride": 6}]
)
def test_windows_with_gaps_or_unwanted_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="windows"):
        of_kind({"name": "A", "kind": "dense", **values})


@pytest.mark.slow
def test_an_experiment_reads_long_passages_by_their_best_windows(tmp_path: Path) -> None:
    words = " ".join(SENTENCES).split()
    rng = np.random.default_rng(0)
    passages = tuple(Passage(f"p{n}", " ".join(rng.choice(words, 300 if n % 2 else 20))) for n in range(8))
    questions = tuple(Question(f"q{n}", " ".join(rng.choice(words, 5)), (), (f"p{n}",)) for n in range(8))
    bi, cross = (
        build_bi_encoder(tmp_path / "bi"),
        with_head(build_cross_encoder_base(tmp_path / "cross", segment_types=1)),
    )
    experiment = Experiment(
        data="long",
        ks=(8,),
        retriever=(
            BM25Spec(name="BM25"),
            DenseSpec(name="Dense", model=str(bi), windows=True, precision=Precision.FLOAT32),
            RerankSpec(
                name="R", first="BM25", model=str(cross), depth=8, weight=1.0, windows=True, precision=Precision.FLOAT32
            ),
        ),
    )
    question_set = QuestionSet("long", passages, questions)
    comparison = compare(experiment, question_set)
    assert [result.error for result in comparison.results] == [None] * 3
    encoder = BiEncoder(find_model(str(bi)), [], precision=Precision.FLOAT32)
    asked = encoder.encode_questions([question.text for question in questions])
    found = comparison.rankings["Dense"]
    for row, passage in enumerate(passages):
        windows = encoder.windows_of([passage.text], np.zeros(1, dtype=np.int64), WindowOptions()).of(0)
        read = [passage.text, *(window.text(passage.text) for window in windows[1:])]
        best = (encoder.encode_passages(read) @ asked.T).max(axis=0)
        here = found.indices == row
        np.testing.assert_allclose(found.scores[here], best[np.nonzero(here)[0]], atol=1e-5)
    scorer = CrossEncoderScorer(find_model(str(cross)), [], precision=Precision.FLOAT32)
    reranked = comparison.rankings["R"]
    for row, question in enumerate(questions):
        listed = comparison.rankings["BM25"].indices[row]
        candidates = listed[listed >= 0].tolist()
        pairs = [(question.text, passages[place].text) for place in candidates]
        scores = scorer.score_windows(pairs, [0] * len(pairs), WindowOptions())
        order = [candidates[place] for place in np.lexsort((candidates, -scores))]
        assert reranked.indices[row, : len(order)].tolist() == order
