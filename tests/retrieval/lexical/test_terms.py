"""Terms, fields and words cut wrongly."""

import pytest

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.store import CATALOG, read_entry
from mrc_workbench.data.text.analysis import analyze
from mrc_workbench.data.text.analyzers import Analyzer, morphemes
from mrc_workbench.data.text.dictionary import Dictionary, Word, with_words
from mrc_workbench.retrieval.lexical.terms import OF_ANY_LANGUAGE, CutWord, Evidence, cut_words, readings, unmatched
from tests.doubles import small_set


def test_readings_are_those_of_every_analyzer_for_the_text() -> None:
    found = readings("한글을 만든 King")
    assert list(found) == list(OF_ANY_LANGUAGE)
    assert Analyzer.AUTO not in found
    assert found[Analyzer.WHITESPACE] == ["한글을", "만든", "King"]
    assert found[Analyzer.BIGRAM] == ["한글", "글을", "만든", "ki", "in", "ng"]
    assert readings("")[Analyzer.KIWI] == []
    assert readings("Running", Analyzer.ENGLISH)[Analyzer.ENGLISH] == ["run"]
    assert next(iter(readings("The shoes are running."))) is Analyzer.ENGLISH
    assert Analyzer.GERMAN not in readings("The shoes are running.")


def test_questions_without_a_shared_term_counted_by_hand() -> None:
    passages = (Passage("p1", "alpha beta", "gamma"), Passage("p2", "delta", ""), Passage("p3", "epsilon", ""))
    questions = (
        Question("q1", "Beta?", (), ("p1",)),
        Question("q2", "beta?", (), ("p2",)),  # only another passage has it
        Question("q3", "zeta eta", (), ("p3",)),  # none has
        Question("q4", "gamma", (), ("p1",)),  # only in the title
        Question("q5", "epsilon zeta", (), ("p2", "p3")),  # one of two is enough
        Question("q6", "?!", (), ("p2",)),  # no term at all
    )
    asked = QuestionSet("terms", passages, questions)
    rows = unmatched(asked, Analyzer.WORD)
    assert (rows.own.tolist(), rows.anywhere.tolist()) == ([1, 2, 5], [2, 5])
    rows = unmatched(asked, Analyzer.WORD, title=False)
    assert (rows.own.tolist(), rows.anywhere.tolist()) == ([1, 2, 3, 5], [2, 3, 5])


@pytest.mark.slow
@pytest.mark.parametrize("analyzer", [*OF_ANY_LANGUAGE, Analyzer.ENGLISH])
@pytest.mark.parametrize(
    "question_set", [small_set(), read_entry(CATALOG["sample"]).question_set], ids=["small", "sample"]
)
def test_they_are_those_whose_sets_of_tokens_do_not_meet(question_set: QuestionSet, analyzer: Analyzer) -> None:
    question_set = question_set.with_questions(question_set.answerable[:120])
    passages = [set(tokens) for tokens in analyze(analyzer, question_set.passages.indexed_texts(title=True))]
    questions = [set(tokens) for tokens in analyze(analyzer, [question.text for question in question_set.questions])]
    own = [
        row
        for row, question in enumerate(question_set.questions)
        if not any(questions[row] & passages[question_set.row_of_passage[id_]] for id_ in question.relevant)
    ]
    anywhere = [row for row, tokens in enumerate(questions) if not tokens & set().union(*passages)]
    found = unmatched(question_set, analyzer)
    assert (found.own.tolist(), found.anywhere.tolist()) == (own, anywhere)


# enough of each particle that they are known as such
_PARTICLES = " ".join(
    f"{noun}{particle}" for noun in ("학교", "서울", "한글", "사람", "나라", "책") for particle in "은는이가을를의에"
)
PASSAGE = Passage("p1", f"방시혁 대표는 노래를 만들었다. {_PARTICLES}", "방시혁")
OTHER = Passage("p2", f"고속도로를 달린다. {_PARTICLES}", "도로")


def cut(text: str) -> list[str]:
    (found,) = morphemes([text])
    return [token for token, _ in found]


def of(*questions: tuple[str, str]) -> QuestionSet:
    asked = (Question(f"q{row}", text, (), (passage,)) for row, (text, passage) in enumerate(questions))
    return QuestionSet("cut", (PASSAGE, OTHER), tuple(asked))


def found(question_set: QuestionSet, dictionary: Dictionary | None = None) -> dict[str, CutWord]:
    return {one.word: one for one in cut_words(question_set, dictionary)}


@pytest.mark.slow
def test_a_word_that_is_read_in_two_ways() -> None:
    question = "방시혁은 어느 학교를 다녔는가?"
    assert cut(question)[:3] == ["방", "시", "혁"]  # what Kiwi makes of it
    assert "방시혁" in cut(PASSAGE.text)
    told = found(of((question, "p1"), ("고속도로를 무엇이 달리나?", "p2"), ("방시혁은 언제 태어났는가?", "p1")))
    assert told["방시혁"] == CutWord("방시혁", Evidence.DIFFERS, ("방", "시", "혁"), ("방시혁",), (0, 2))
    assert "고속도로" not in told


@pytest.mark.slow
def test_it_is_told_without_its_passage_by_its_pieces() -> None:
    told = found(of(("방시혁은 어느 학교를 다녔는가?", "p2")))
    assert told["방시혁"] == CutWord("방시혁", Evidence.PIECES, ("방", "시", "혁"), (), (0,))


@pytest.mark.slow
def test_an_unknown_word_and_the_order_and_what_a_dictionary_mends_is_not_proposed_again() -> None:
    asked = of(("콩도르세는 누구인가?", "p2"), ("콩도르세의 책은?", "p2"), ("방시혁은 어느 학교를 다녔는가?", "p1"))
    told = cut_words(asked)
    assert [(one.word, one.evidence, one.questions) for one in told] == [
        ("방시혁", Evidence.DIFFERS, (2,)),
        ("콩도르세", Evidence.UNKNOWN, (0, 1)),
    ]
    assert "방시혁" not in found(asked, with_words(Dictionary(), [Word(one.word) for one in told]))


@pytest.mark.slow
def test_the_work_is_told_and_other_scripts_and_empty_texts_are_passed_over() -> None:
    shares: list[float] = []
    others = ["?!", "東京タワーは高い。", "What is it?"]
    passages = (PASSAGE, *(Passage(f"o{row}", text) for row, text in enumerate(others)), Passage("x", "x"))
    asked = [("서울은?", "p1"), *((text, f"o{row}") for row, text in enumerate(others)), ("?", "x")]
    questions = tuple(Question(f"q{row}", text, (), (passage,)) for row, (text, passage) in enumerate(asked))
    assert cut_words(QuestionSet("x", passages, questions), on_progress=shares.append) == []
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert cut_words(QuestionSet("none", (PASSAGE,), ())) == []
