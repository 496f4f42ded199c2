from hypothesis import given
from hypothesis import strategies as st

from data.records import Maker, Passage, Question, QuestionSet, as_trained, made_by, model_of, without

PASSAGES = (
    Passage("a", "서울은 수도이다. 한강이 흐른다. 산이 많다.", "서울"),
    Passage("b", "부산은 항구이다. 바다가 있다.", "부산"),
    Passage("c", "산이 많다.", "서울"),
)
short = st.text("ab .", min_size=1, max_size=8)


def of(*questions: Question) -> QuestionSet:
    return QuestionSet("set", PASSAGES, questions)


def test_a_hidden_sentence_is_taken_out_of_its_own_passage_only() -> None:
    asked = of(Question("1", "산이 많다.", relevant=("a",), made="sentence", hidden=True))
    trained = as_trained(asked)
    assert list(trained.passages.texts) == ["서울은 수도이다. 한강이 흐른다.", PASSAGES[1].text, PASSAGES[2].text]
    assert list(trained.passages.titles) == ["서울", "부산", "서울"]
    assert list(asked.passages) == list(PASSAGES)
    assert trained.corpus_fingerprint != asked.corpus_fingerprint


def test_where_a_title_asks_no_passage_has_one() -> None:
    trained = as_trained(of(Question("1", "서울", relevant=("a", "c"), made="title", hidden=True)))
    assert list(trained.passages.titles) == ["", "", ""]
    assert list(trained.passages.texts) == [passage.text for passage in PASSAGES]


def test_nothing_is_taken_out_for_questions_that_are_not_hidden() -> None:
    asked = of(Question("1", "산이 많다.", relevant=("a",), made="sentence"), Question("2", "강은?", relevant=("a",)))
    assert as_trained(asked) is asked


def test_passages_that_differed_by_the_sentence_alone_are_both_kept() -> None:
    passages = (Passage("a", "같은 글. 다른 글."), Passage("b", "같은 글."))
    made = Question("1", "다른 글.", relevant=("a",), made="sentence", hidden=True)
    assert list(as_trained(QuestionSet("set", passages, (made,))).passages.texts) == ["같은 글.", "같은 글."]


@given(st.text("ab .\n", max_size=60), st.lists(short, max_size=4))
def test_what_was_taken_out_is_gone(text: str, sentences: list[str]) -> None:
    rest = without(text, sentences)
    assert not any(sentence in rest for sentence in sentences if sentence.strip())
    assert len(rest) <= len(text)


@given(st.text(max_size=40))
def test_without_a_sentence_a_text_is_itself(text: str) -> None:
    assert without(text, []) == without(text, [" "]) == text


def test_what_a_question_was_made_by() -> None:
    assert [made_by(maker, "x/y") for maker in Maker] == ["title", "sentence", "model: x/y"]
    assert [model_of(made_by(maker, "x/y")) for maker in Maker] == ["", "", "x/y"]


def test_a_made_question_is_other_content_and_counted() -> None:
    asked, made = Question("1", "강은?", relevant=("a",)), Question("1", "강은?", relevant=("a",), made="title")
    assert of(asked).fingerprint != of(made).fingerprint
    assert of(asked).made == {}
    assert of(made, Question("2", "산은?", relevant=("b",), made="title"), Question("3", "왜?")).made == {"title": 2}


def test_a_question_that_was_asked_has_the_fingerprint_it_always_had() -> None:
    assert of(Question("1", "강은?", ("한강",), ("a",), "what")).fingerprint == (
        "c1792cd627ab92893ac348de74b6a6fd2866305964e5f9f77e5e1071d6cfde4f"
    )
