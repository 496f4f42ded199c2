"""Notes about texts: a kind of text is reported with its count and examples, and an ordinary set has no note."""

import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.problems import Problem, ProblemCode
from mrc_workbench.data.questions import content
from mrc_workbench.data.questions.content import SIMILARITY, content_notes, near_duplicates
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import Part, Split, SplitOptions, split

BIRDS = ("두루미", "수달", "고라니", "올빼미", "청설모", "반딧불이", "도롱뇽", "물총새", "멧돼지", "너구리")
PLACES = ("철원 들판", "지리산 골짜기", "낙동강 하구", "제주 오름", "설악산 능선")


def text_of(row: int) -> str:
    rng = np.random.default_rng(row)
    words = ["".join(chr(0xAC00 + code) for code in rng.integers(0, 11_000, 3)) for _ in range(15)]
    return f"{BIRDS[row % 10]} {row}번은 {PLACES[row % 5]}에서 산다. " + " ".join(words)


def made(texts: Sequence[str], questions: Sequence[str] | None = None) -> QuestionSet:
    asked = questions or [f"{BIRDS[row % 10]} {row}번은 어디에서 사나?" for row in range(len(texts))]
    passages = tuple(Passage(f"p{row}", text) for row, text in enumerate(texts))
    return QuestionSet(
        "set", passages, tuple(Question(f"q{row}", q, relevant=(f"p{row}",)) for row, q in enumerate(asked))
    )


def notes(question_set: QuestionSet, parts: Split | None = None) -> dict[ProblemCode, Problem]:
    return {note.code: note for note in content_notes(question_set, parts or split(question_set))}


TEXTS = [text_of(row) for row in range(200)]


def test_an_ordinary_set_has_no_note() -> None:
    assert notes(made(TEXTS)) == {}


def test_a_set_of_passages_alone_and_an_empty_part_are_no_fault() -> None:
    assert notes(QuestionSet("set", made(TEXTS).passages, ())) == {}
    assert notes(made(TEXTS[:1])) == {}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("<p>{}</p>", "html"),
        ('<td class="x">{}', "html"),
        ("{}<br/>", "html"),
        ("{}&nbsp;&nbsp;끝", "entities"),
        ("{} &#8220;끝&#8221;", "entities"),
        ("| 이름 | 값 |\n|---|:--|\n| {} | 1 |", "tables"),
        ("[[두루미|새]] {}", "wiki"),
        ("== 이름 ==\n{}", "wiki"),
    ],
)
def test_markup_is_counted_by_kind(text: str, kind: str) -> None:
    found = notes(made([*TEXTS[:197], *(text.format(one) for one in TEXTS[197:])]))
    assert list(found) == [ProblemCode.MARKUP]
    details = found[ProblemCode.MARKUP].details
    assert (details["count"], details[kind], details["share"]) == (3, 3, "1.5%")
    assert str(details["examples"]).startswith("p197: ")
    assert len(str(details["examples"]).split(", p")) == 3


@pytest.mark.parametrize(
    "text",
    ["a < b 이고 c > d", "AT&T; R&D", "2 -- 3 | 4", "x == y 라면", "[1] 각주", "<두루미>라는 시", "목차 ······ 3"],
)
def test_signs_that_are_no_markup(text: str) -> None:
    assert notes(made([f"{text} {one}" for one in TEXTS])) == {}


def test_a_little_markup_is_no_note() -> None:
    assert notes(made([*TEXTS[:199], f"<b>{TEXTS[199]}</b>"])) == {}


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text + "\ufffd\ufffd",
        lambda text: text.encode().decode("latin-1"),
        lambda text: text.encode().decode("cp1252", "replace").replace("\ufffd", ""),
        lambda text: text.encode("cp949", "ignore").decode("latin-1"),
        lambda text: text + " don" + "’".encode().decode("cp1252") + "t",
        lambda text: text + " Jos" + "é".encode().decode("latin-1"),
    ],
)
def test_damaged_characters_are_reported(damage: Callable[[str], str]) -> None:
    found = notes(made([*TEXTS[:199], damage(TEXTS[199])]))
    assert list(found) == [ProblemCode.DAMAGED_TEXT]
    assert found[ProblemCode.DAMAGED_TEXT].details["count"] == 1
    assert "p199" in str(found[ProblemCode.DAMAGED_TEXT].details["examples"])


@pytest.mark.parametrize("text", ["São Tomé, Ångström, naïve façade, voilà”", "«Œuvres» d’été…", "Ærøskøbing þá"])
def test_letters_with_accents_are_no_damage(text: str) -> None:
    assert notes(made([f"{text} {one}" for one in TEXTS])) == {}


def _decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def test_decomposed_passages_and_what_a_search_would_lose() -> None:
    found = notes(made([_decomposed(text) for text in TEXTS]))
    assert list(found) == [ProblemCode.DECOMPOSED_LETTERS]
    details = found[ProblemCode.DECOMPOSED_LETTERS].details
    assert (details["passages"], details["questions"]) == (200, 0)
    assert float(str(details["lost"]).rstrip("%")) > 70, "only pairs of digits match as they are"


def test_what_is_decomposed_on_both_sides_matches() -> None:
    questions = [_decomposed(question.text) for question in made(TEXTS).questions]
    found = notes(made([_decomposed(text) for text in TEXTS], questions))
    assert found[ProblemCode.DECOMPOSED_LETTERS].details["lost"] == "0.0%"


def test_decomposed_latin_letters() -> None:
    texts = [f"Café number {row} in Zürich serves crêpes {row * 7}" for row in range(100)]
    rng = np.random.default_rng(0)
    texts = [f"{text} " + "".join(chr(97 + c) for c in rng.integers(0, 26, 60)) for text in texts]
    questions = [f"Which café in Zürich is number {row}?" for row in range(100)]
    details = notes(made([_decomposed(text) for text in texts], questions))[ProblemCode.DECOMPOSED_LETTERS].details
    assert details["lost"] == "40.0%", "café and Zürich of five shared words: café, in, zürich, number, the figure"


def test_full_width_letters_are_reported_where_words_are_lost() -> None:
    wide = [text.translate({ord("0") + d: 0xFF10 + d for d in range(10)}) for text in TEXTS]
    found = notes(made(wide))
    assert list(found) == [ProblemCode.FULL_WIDTH]
    assert found[ProblemCode.FULL_WIDTH].details["lost"] != "0.0%"
    same = [
        question.text.translate({ord("0") + d: 0xFF10 + d for d in range(10)}) for question in made(TEXTS).questions
    ]
    assert notes(made(wide, same)) == {}, "both sides have the same form"


def _parts(train: Sequence[int], test: Sequence[int], passages: int) -> Split:
    rows = {Part.TRAIN: np.array(train), Part.VALIDATION: np.array([], dtype=np.int64), Part.TEST: np.array(test)}
    return Split(SplitOptions(), np.arange(passages, dtype=np.int32), rows)


def test_near_duplicates_in_the_corpus_and_across_parts() -> None:
    texts = [*TEXTS[:190], *(TEXTS[row].replace("산다", "살았다") for row in range(10))]
    question_set = made(texts)
    found = notes(question_set, _parts(range(100), range(100, 200), 200))
    assert found[ProblemCode.NEAR_DUPLICATES].details["count"] == 10
    assert str(found[ProblemCode.NEAR_DUPLICATES].details["examples"]).startswith("p190 ≈ p0, ")
    across = found[ProblemCode.NEAR_DUPLICATE_PARTS].details
    assert (across["count"], across["tested"], across["share"]) == (10, 100, "10.0%")
    within = notes(question_set, _parts(range(100, 190), [*range(100), *range(190, 200)], 200))
    assert ProblemCode.NEAR_DUPLICATE_PARTS not in within


def test_repeated_questions_across_parts() -> None:
    questions = [question.text for question in made(TEXTS).questions]
    questions[150] = questions[3].replace("사나?", "사나요?")
    questions[151] = questions[4].upper()
    questions[152] = questions[5].replace("5번", "6번")
    found = notes(made(TEXTS, questions), _parts(range(100), range(100, 200), 200))
    assert list(found) == [ProblemCode.REPEATED_QUESTIONS]
    details = found[ProblemCode.REPEATED_QUESTIONS].details
    assert details["count"] == 2, "another number is another question"
    assert "q150" in str(details["examples"])
    assert "(q3)" in str(details["examples"])


def test_of_a_large_corpus_relevant_passages_and_some_others_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "MOST_PASSAGES", 50)
    whole = made(TEXTS)
    some = whole.with_questions(range(150, 190))
    rows = content._checked_rows(some)
    assert len(rows) == 50
    assert {*range(150, 190)} <= {*rows.tolist()}
    texts = [f"<p>{text}</p>" if 150 <= row < 190 else text for row, text in enumerate(TEXTS)]
    details = notes(made(texts).with_questions(range(150, 190)))[ProblemCode.MARKUP].details
    assert (details["count"], details["checked"]) == (40, 50)
    assert str(details["examples"]).startswith("p150: ")


def random_texts(count: int, first: int, letters: int, length: int = 300) -> list[str]:
    rng = np.random.default_rng(first)
    return ["".join(chr(first + code) for code in rng.integers(0, letters, length)) for _ in range(count)]


def similarity(a: str, b: str, shingle: int = 5) -> float:
    first, second = ({text[at : at + shingle] for at in range(len(text) - shingle + 1)} for text in (a, b))
    return len(first & second) / len(first | second)


@pytest.mark.parametrize(("first", "letters"), [(0xAC00, 11_000), (ord("a"), 26), (0x4E00, 5_000), (0x3041, 80)])
def test_finds_the_pairs_of_the_exact_similarity(first: int, letters: int) -> None:
    texts = random_texts(400, first, letters)
    rng = np.random.default_rng(1)
    for row in range(100):
        changed = list(texts[row])
        for at in rng.integers(0, 300, row // 8):
            changed[int(at)] = chr(first + int(rng.integers(letters)))
        texts[300 + row] = "".join(changed)
    expected = {(row, 300 + row) for row in range(100) if similarity(texts[row], texts[300 + row]) >= SIMILARITY}
    found = near_duplicates(texts)
    assert 40 <= len(expected) <= 80
    assert {(a, b) for a, b in found.pairs.tolist()} == expected
    assert found.repeated == len(expected)


def test_case_spaces_and_composition_do_not_count() -> None:
    text = "Zürich 두루미는 겨울에 철원 들판으로 날아온다. It stays until March."
    variants = [
        text,
        text.upper(),
        text.replace(" ", "\n "),
        unicodedata.normalize("NFD", text),
        "전혀 다른 글이다, 아주.",
    ]
    assert near_duplicates(variants).cluster.tolist() == [0, 0, 0, 0, 1]


def test_short_and_empty_texts_are_no_duplicates() -> None:
    assert near_duplicates(["", "", "가", "가", "    "]).repeated == 0
    assert near_duplicates([]).repeated == 0
    assert near_duplicates(["가나다라마", "가나다라마"]).repeated == 1


def test_other_numbers_make_another_text() -> None:
    texts = ["What did the company earn in the year 2019?", "What did the company earn in the year 2018?"]
    assert near_duplicates(texts, shingle=3, numbers=0).repeated == 1
    assert near_duplicates(texts, shingle=3).repeated == 0


def test_a_few_other_numbers_make_no_other_text() -> None:
    (text,) = random_texts(1, 0xAC00, 11_000)
    versions = [f"{text} 1998 2003 2010 인구 {count}" for count in (5120, 5133)]
    assert near_duplicates(versions).repeated == 1
    assert near_duplicates(versions, numbers=1).repeated == 0


def test_many_copies_give_few_pairs() -> None:
    texts = [random_texts(1, 0xAC00, 11_000)[0] + chr(0xAC00 + number) for number in range(600)]
    found = near_duplicates(texts)
    assert found.repeated == 599
    assert len(found.pairs) < 10 * len(texts)


@given(st.lists(st.text(max_size=40), max_size=12))
def test_takes_any_texts(texts: list[str]) -> None:
    found = near_duplicates(texts)
    assert len(found.cluster) == len(texts)
    assert all(a < b for a, b in found.pairs.tolist())
