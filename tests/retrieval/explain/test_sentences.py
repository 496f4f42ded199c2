"""Sentences of a passage, and the cosine of the question with each."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.records import Passage
from models.encoders.bi_encoder import BiEncoder
from models.sources import find_model
from retrieval.explain.encoders import sentence_contributions
from tests.doubles import KeywordEncoder
from tests.hub import build_bi_encoder
from text.marking import sentence_spans

PASSAGE = Passage("p", "세종은 한글을 만들었다. 한강은 서울을 지난다! 산은 높다.", "세종")


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
def test_sentences_hold_every_letter_once(text: str) -> None:
    spans = sentence_spans(text)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert "".join("".join(text[start:end] for start, end in spans).split()) == "".join(text.split())


def test_each_sentence_has_its_own_cosine() -> None:
    explanation = sentence_contributions(KeywordEncoder(), "한강과 서울", PASSAGE)
    text = explanation.passage.text
    told = [(text[slice(*sentence.span)], sentence.cosine) for sentence in explanation.sentences]
    assert told == [
        ("세종", 0),
        ("세종은 한글을 만들었다.", 0),
        ("한강은 서울을 지난다!", pytest.approx(1)),
        ("산은 높다.", 0),
    ]
    assert explanation.score == pytest.approx(2 / np.sqrt(2 * 5))  # two of the five keywords of the whole passage
    assert len(sentence_contributions(KeywordEncoder(), "한강", PASSAGE, title=False).sentences) == 3


@pytest.mark.slow
def test_the_cosines_are_those_of_the_model(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    folder = build_bi_encoder(tmp_path / "bert")
    explanation = sentence_contributions(BiEncoder(find_model(str(folder)), ()), "한강은 어디로 가는가?", PASSAGE)
    model = SentenceTransformer(str(folder), device="cpu")
    text = explanation.passage.text
    sentences = [text[slice(*sentence.span)] for sentence in explanation.sentences]
    question, whole, *parts = model.encode(["한강은 어디로 가는가?", text, *sentences], normalize_embeddings=True)
    assert explanation.score == pytest.approx(float(question @ whole), abs=1e-5)
    told = [sentence.cosine for sentence in explanation.sentences]
    assert told == pytest.approx([float(question @ part) for part in parts], abs=1e-5)
    assert len(set(told)) == 4
