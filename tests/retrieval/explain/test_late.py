"""A late score is told by the tokens that answered each other, in the letters of both texts."""

from pathlib import Path

import numpy as np
import pytest

from data.records import Passage
from models.encoders.token_encoder import TokenEncoder
from models.precision import Precision
from models.sources import find_model
from models.windows import WindowOptions
from retrieval.explain.encoders import LateExplanation, TokenMatch, token_matches
from retrieval.late import Late
from tests.doubles import PASSAGES
from tests.hub import SENTENCES, build_bi_encoder
from text.analysis import IndexedText

pytestmark = pytest.mark.slow
WORDS = " ".join(SENTENCES).split()
LONG = Passage("long", " ".join(WORDS * 2), "한강")
CORPUS = [*PASSAGES, LONG]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_bi_encoder(tmp_path_factory.mktemp("model") / "tiny")


def encoder_of(folder: Path, dimensions: int = 0) -> TokenEncoder:
    texts = [f"{passage.title}\n{passage.text}" if passage.title else passage.text for passage in CORPUS]
    windows, source = WindowOptions(tokens=10), find_model(str(folder))
    encoder = TokenEncoder(source, texts, precision=Precision.FLOAT32, dimensions=dimensions, windows=windows)
    encoder.model.max_seq_length = 24
    return encoder


@pytest.mark.parametrize("dimensions", [0, 7])
def test_the_matches_come_to_the_score_of_the_ranking(folder: Path, dimensions: int) -> None:
    encoder, question = encoder_of(folder, dimensions), " ".join(WORDS[3:7])
    found = Late("late", CORPUS, encoder).search([question], len(CORPUS))
    scores = dict(zip(found.indices[0].tolist(), found.scores[0].tolist(), strict=True))
    again = encoder_of(folder, dimensions)
    again.fit(
        [f"{one.title}\n{one.text}" if one.title else one.text for one in CORPUS],
        np.array([len(one.title) + bool(one.title) for one in CORPUS]),
    )
    for row, passage in enumerate(CORPUS):
        assert token_matches(again, question, passage).score == pytest.approx(scores[row], abs=2e-3)


def test_every_match_is_the_nearest_token_and_stands_in_the_letters_it_names(folder: Path) -> None:
    question = " ".join(WORDS[:3])
    explained = token_matches(encoder_of(folder), question, LONG)
    assert isinstance(explained, LateExplanation)
    text = explained.passage.text
    asked = [question[slice(*match.asked)] for match in explained.matches if match.asked[0] < match.asked[1]]
    assert "".join(asked) == question.replace(" ", "")
    same = [match for match in explained.matches if question[slice(*match.asked)] == text[slice(*match.answered)] != ""]
    assert same  # the passage holds every word of the question
    assert all(match.cosine >= match.above >= 0 for match in explained.matches)
    assert max(match.answered[1] for match in explained.matches) <= len(text)


def test_both_texts_are_cut_into_the_pieces_of_the_matches_and_nothing_is_lost(folder: Path) -> None:
    explained = token_matches(encoder_of(folder), " ".join(WORDS[:3]), LONG)
    asked, title, text = explained.asked_matches(), explained.title_matches(), explained.text_matches()
    assert "".join(piece for piece, _ in asked) == explained.question
    assert ("".join(piece for piece, _ in title), "".join(piece for piece, _ in text)) == (LONG.title, LONG.text)
    assert [places for piece, places in asked if piece != " "] == [(place,) for place in range(len(explained.told))]
    for place, match in enumerate(explained.told):
        if match.answered[0] < match.answered[1]:
            answered = "".join(piece for piece, places in (*title, *text) if place in places)
            assert answered == explained.passage.text[slice(*match.answered)]


def test_a_piece_that_answered_twice_names_both_matches() -> None:
    of = (
        TokenMatch((0, 2), (3, 5), 0.9, 0.4),
        TokenMatch((2, 4), (4, 6), 0.8, 0.1),
        TokenMatch((0, 0), (3, 4), 0.1, 0.0),
    )
    explained = LateExplanation("가나다라", IndexedText("제목\n본문이다", 3), of)
    assert explained.told == of[:2]
    assert explained.asked_matches() == [("가나", (0,)), ("다라", (1,))]
    assert explained.title_matches() == [("제목", ())]
    assert explained.text_matches() == [("본", (0,)), ("문", (0, 1)), ("이", (1,)), ("다", ())]
    assert explained.score == pytest.approx(0.6)
