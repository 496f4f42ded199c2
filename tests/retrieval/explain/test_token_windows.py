"""The window of a long passage that gave it its score."""

from pathlib import Path

import numpy as np
import pytest

from data.records import Passage
from models.encoders.bi_encoder import BiEncoder
from models.encoders.cross_encoder import CrossEncoderScorer
from models.precision import Precision
from models.sources import find_model
from models.windows import WindowOptions
from retrieval.dense import Dense
from retrieval.explain.encoders import dense_windows, reranker_windows
from tests.hub import SENTENCES, build_bi_encoder, build_cross_encoder_base, with_head

pytestmark = pytest.mark.slow
WORDS = " ".join(SENTENCES).split()
LONG = Passage("long", " ".join(np.random.default_rng(0).choice(WORDS, 300)), "세종")
SHORT = Passage("short", SENTENCES[1])


@pytest.mark.parametrize("options", [WindowOptions(), WindowOptions(20, 20)])
def test_the_best_window_has_the_score_of_the_search(tmp_path: Path, options: WindowOptions) -> None:
    source = find_model(str(build_bi_encoder(tmp_path / "model")))
    encoder = BiEncoder(source, [], precision=Precision.FLOAT32)
    found = Dense("dense", [SHORT, LONG], encoder, windows=options).search([SENTENCES[3]], 2)
    explained = dense_windows(encoder, SENTENCES[3], LONG, options)
    assert explained is not None
    score = found.scores[0, found.indices[0].tolist().index(1)]
    assert explained.score == pytest.approx(score, abs=1e-3)  # the first, as it was read, may end within a word
    window, cosine = explained.windows[explained.best].window, explained.windows[explained.best].score
    vectors = encoder.encode_passages([f"세종\n{LONG.text[window.start - 3 : window.end - 3]}"])
    assert cosine == pytest.approx(float(vectors[0] @ encoder.encode_questions([SENTENCES[3]])[0]), abs=1e-5)
    assert cosine == max(one.score for one in explained.windows)
    assert dense_windows(encoder, SENTENCES[3], SHORT, options) is None


def test_a_reranker_s_best_window_has_its_score(tmp_path: Path) -> None:
    source = find_model(str(with_head(build_cross_encoder_base(tmp_path / "model", segment_types=1))))
    scorer = CrossEncoderScorer(source, [], precision=Precision.FLOAT32)
    explained = reranker_windows(scorer, SENTENCES[3], LONG, WindowOptions())
    assert explained is not None
    (score,) = scorer.score_windows([(SENTENCES[3], explained.text)], [3], WindowOptions())
    assert explained.score == pytest.approx(float(score), abs=1e-6)
    assert reranker_windows(scorer, SENTENCES[3], SHORT, WindowOptions()) is None
