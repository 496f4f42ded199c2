"""Scores told in the letters of both texts: by the tokens that answered each other, and sentence by sentence."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.data.records import Passage
from mrc_workbench.data.text.marking import IndexedText, sentence_spans
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.sources import find_model
from mrc_workbench.models.token_encoder import TokenEncoder
from mrc_workbench.models.windows import WindowOptions
from mrc_workbench.retrieval.dense import LateInteraction
from mrc_workbench.retrieval.explain.encoders import LateExplanation, TokenMatch, sentence_contributions, token_matches
from tests.doubles import PASSAGES, KeywordEncoder
from tests.retrieval.compared import hits_of
from tests.tiny_models import SENTENCES

WORDS = " ".join(SENTENCES).split()
LONG = Passage("long", " ".join(WORDS * 2), "한강")
CORPUS = [*PASSAGES, LONG]
TEXTS = [f"{passage.title}\n{passage.text}" if passage.title else passage.text for passage in CORPUS]
PASSAGE = Passage("p", "세종은 한글을 만들었다. 한강은 서울을 지난다! 산은 높다.", "세종")


def encoder_of(tiny_model: str, dimensions: int = 0) -> TokenEncoder:
    windows = WindowOptions(tokens=10)
    source = find_model(tiny_model)
    encoder = TokenEncoder(source, TEXTS, precision=Precision.FLOAT32, dimensions=dimensions, windows=windows)
    encoder.model.max_seq_length = 24
    return encoder


@pytest.mark.slow
@pytest.mark.parametrize("dimensions", [0, 7])
def test_matches_sum_to_ranking_score(tiny_model: str, dimensions: int) -> None:
    encoder = encoder_of(tiny_model, dimensions)
    question = " ".join(WORDS[3:7])
    rankings = LateInteraction("late", CORPUS, encoder).search([question], len(CORPUS))
    again = encoder_of(tiny_model, dimensions)
    again.fit(TEXTS, np.array([len(item.title) + bool(item.title) for item in CORPUS]))
    scores = {row: token_matches(again, question, passage).score for row, passage in enumerate(CORPUS)}
    assert hits_of(rankings) == [pytest.approx(scores, abs=2e-3)]


@pytest.mark.slow
def test_matches_nearest_token_with_correct_spans(tiny_model: str) -> None:
    question = " ".join(WORDS[:3])
    explained = token_matches(encoder_of(tiny_model), question, LONG)
    text = explained.passage.text
    matches = explained.visible_matches
    assert "".join(question[slice(*match.question_span)] for match in matches) == question.replace(" ", "")
    same = [m for m in matches if question[slice(*m.question_span)] == text[slice(*m.passage_span)]]
    assert same  # the passage holds every word of the question
    assert all(match.cosine >= match.above >= 0 for match in explained.matches)
    assert max(match.passage_span[1] for match in explained.matches) <= len(text)


@pytest.mark.slow
def test_pieces_cover_both_texts(tiny_model: str) -> None:
    explained = token_matches(encoder_of(tiny_model), " ".join(WORDS[:3]), LONG)
    question_pieces = explained.question_matches()
    title = explained.title_matches()
    text = explained.text_matches()
    assert "".join(piece for piece, _ in question_pieces) == explained.question
    assert ("".join(piece for piece, _ in title), "".join(piece for piece, _ in text)) == (LONG.title, LONG.text)
    numbered = [numbers for piece, numbers in question_pieces if piece != " "]
    assert numbered == [(number,) for number in range(len(explained.visible_matches))]
    for number, match in enumerate(explained.visible_matches):
        if match.passage_span[0] < match.passage_span[1]:
            answered = "".join(piece for piece, numbers in (*title, *text) if number in numbers)
            assert answered == explained.passage.text[slice(*match.passage_span)]


def test_piece_lists_all_its_matches() -> None:
    visible = (TokenMatch((0, 2), (3, 5), 0.9, 0.4), TokenMatch((2, 4), (4, 6), 0.8, 0.1))
    hidden = TokenMatch((0, 0), (3, 4), 0.1, 0.0)
    explained = LateExplanation("가나다라", IndexedText("제목\n본문이다", 3), (*visible, hidden))
    assert explained.visible_matches == visible
    assert explained.question_matches() == [("가나", (0,)), ("다라", (1,))]
    assert explained.title_matches() == [("제목", ())]
    assert explained.text_matches() == [("본", (0,)), ("문", (0, 1)), ("이", (1,)), ("다", ())]
    assert explained.score == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("세종은 왕이다. 한강은 서울을 지난다!\n산은 높다", ["세종은 왕이다.", "한강은 서울을 지난다!", "산은 높다"]),
        ('He said "hi." She left (at 3.5 km). ', ['He said "hi."', "She left (at 3.5 km)."]),
        ("本です。これは「本」です！?", ["本です。", "これは「本」です！", "?"]),
        ("  one line \n\n two\nx", ["one line", "two", "x"]),
        ("No mark", ["No mark"]),
        ("...", ["..."]),
        ("", []),
        (" \n ", []),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert [text[start:end] for start, end in sentence_spans(text)] == sentences


@settings(deadline=None, max_examples=60)
@given(st.text("한글이다ab .!?\n。\"')", max_size=30))
def test_sentences_cover_text_without_overlap(text: str) -> None:
    spans = sentence_spans(text)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert "".join("".join(text[start:end] for start, end in spans).split()) == "".join(text.split())


def test_scores_each_sentence() -> None:
    explanation = sentence_contributions(KeywordEncoder(), "한강과 서울", PASSAGE)
    text = explanation.passage.text
    sentence_scores = [(text[slice(*sentence.span)], sentence.cosine) for sentence in explanation.sentences]
    assert sentence_scores == [
        ("세종", 0),
        ("세종은 한글을 만들었다.", 0),
        ("한강은 서울을 지난다!", pytest.approx(1)),
        ("산은 높다.", 0),
    ]
    assert explanation.score == pytest.approx(2 / np.sqrt(2 * 5))  # two of the five keywords of the whole passage
    assert len(sentence_contributions(KeywordEncoder(), "한강", PASSAGE, title=False).sentences) == 3


@pytest.mark.slow
def test_sentence_cosines_equal_model(tiny_model: str) -> None:
    from sentence_transformers import SentenceTransformer

    explanation = sentence_contributions(BiEncoder(find_model(tiny_model), ()), "한강은 어디로 가는가?", PASSAGE)
    model = SentenceTransformer(tiny_model, device="cpu")
    text = explanation.passage.text
    sentences = [text[slice(*sentence.span)] for sentence in explanation.sentences]
    question, whole, *parts = model.encode(["한강은 어디로 가는가?", text, *sentences], normalize_embeddings=True)
    assert explanation.score == pytest.approx(float(question @ whole), abs=1e-5)
    cosines = [sentence.cosine for sentence in explanation.sentences]
    assert cosines == pytest.approx([float(question @ part) for part in parts], abs=1e-5)
    assert len(set(cosines)) == 4
