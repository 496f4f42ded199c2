import time
from pathlib import Path

from data import audit
from data.read import Format, Reading, read_file


def test_korquad_is_read_whole(korquad: Reading) -> None:
    assert (korquad.format, korquad.encoding, korquad.problems) == (Format.SQUAD, "UTF-8", ())
    assert (korquad.row_count, korquad.paragraph_count) == (5774, 964)
    assert len(korquad.question_set.passages) == 961
    assert len(korquad.question_set.questions) == 5774
    first = korquad.question_set.questions[0]
    assert (first.id, first.answers, first.relevant) == ("6548850-0-0", ("1989년 2월 15일",), ("p1",))


def test_korquad_audit(korquad: Reading) -> None:
    figures = audit(korquad.question_set)
    assert (figures.article_count, figures.unanswerable_count, figures.passages_without_question) == (140, 0, 1)
    assert figures.questions_per_passage.sum() == 5774
    assert figures.answers_not_found == ()
    assert round(figures.overlap.mean, 3) == 0.674


def test_korquad_is_quick(korquad_file: Path) -> None:
    start = time.process_time()
    question_set = read_file(korquad_file).question_set
    read_in = time.process_time() - start
    audit(question_set)
    assert read_in < 1
    assert time.process_time() - start < 3
