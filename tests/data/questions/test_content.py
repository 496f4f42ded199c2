"""Notes about texts: each problem is reported with its count and examples; a clean set has no note."""

import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.problems import Problem, ProblemCode
from mrc_workbench.data.questions import content
from mrc_workbench.data.questions.content import SIMILARITY, content_notes, find_near_duplicates
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import Part, Split, SplitOptions, split

BIRDS = ("두루미", "수달", "고라니", "올빼미", "청설모", "반딧불이", "도롱뇽", "물총새", "멧돼지", "너구리")
HABITATS = ("철원 들판", "지리산 골짜기", "낙동강 하구", "제주 오름", "설악산 능선")


def text_of(row: int) -> str:
    rng = np.random.default_rng(row)
    words = ["".join(chr(0xAC00 + code) for code in rng.integers(0, 11_000, 3)) for _ in range(15)]
    return f"{BIRDS[row % 10]} {row}번은 {HABITATS[row % 5]}에서 산다. " + " ".join(words)


def make_set(texts: Sequence[str], questions: Sequence[str] | None = None) -> QuestionSet:
    question_texts = questions or [f"{BIRDS[row % 10]} {row}번은 어디에서 사나?" for row in range(len(texts))]
    passages = tuple(Passage(f"p{row}", text) for row, text in enumerate(texts))
    rows = enumerate(question_texts)
    return QuestionSet("set", passages, tuple(Question(f"q{row}", text, relevant=(f"p{row}",)) for row, text in rows))


def notes(question_set: QuestionSet, parts: Split | None = None) -> dict[ProblemCode, Problem]:
    return {note.code: note for note in content_notes(question_set, parts or split(question_set))}


TEXTS = [text_of(row) for row in range(200)]


def test_reports_nothing_for_a_clean_set() -> None:
    assert notes(make_set(TEXTS)) == {}


def test_accepts_sets_without_questions_or_parts() -> None:
    assert notes(QuestionSet("set", make_set(TEXTS).passages, ())) == {}
    assert notes(make_set(TEXTS[:1])) == {}


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
def test_counts_markup_by_kind(text: str, kind: str) -> None:
    notes_by_code = notes(make_set([*TEXTS[:197], *(text.format(original) for original in TEXTS[197:])]))
    assert list(notes_by_code) == [ProblemCode.MARKUP]
    details = notes_by_code[ProblemCode.MARKUP].details
    assert (details["count"], details[kind], details["share"]) == (3, 3, "1.5%")
    assert str(details["examples"]).startswith("p197: ")
    assert len(str(details["examples"]).split(", p")) == 3


@pytest.mark.parametrize(
    "text",
    [
        *("a < b 이고 c > d", "AT&T; R&D", "2 -- 3 | 4", "x == y 라면", "[1] 각주", "<두루미>라는 시", "목차 ······ 3"),
        *("São Tomé, Ångström, naïve façade, voilà”", "«Œuvres» d’été…", "Ærøskøbing þá"),
    ],
)
def test_ignores_signs_that_resemble_markup_or_damage(text: str) -> None:
    assert notes(make_set([f"{text} {original}" for original in TEXTS])) == {}


def test_ignores_markup_below_the_threshold() -> None:
    assert notes(make_set([*TEXTS[:199], f"<b>{TEXTS[199]}</b>"])) == {}


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
def test_reports_mojibake(damage: Callable[[str], str]) -> None:
    notes_by_code = notes(make_set([*TEXTS[:199], damage(TEXTS[199])]))
    assert list(notes_by_code) == [ProblemCode.DAMAGED_TEXT]
    assert notes_by_code[ProblemCode.DAMAGED_TEXT].details["count"] == 1
    assert "p199" in str(notes_by_code[ProblemCode.DAMAGED_TEXT].details["examples"])


def _decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def test_reports_decomposed_passages_and_lost_matches() -> None:
    notes_by_code = notes(make_set([_decomposed(text) for text in TEXTS]))
    assert list(notes_by_code) == [ProblemCode.DECOMPOSED_CHARACTERS]
    details = notes_by_code[ProblemCode.DECOMPOSED_CHARACTERS].details
    assert (details["passages"], details["questions"]) == (200, 0)
    assert float(str(details["lost"]).rstrip("%")) > 70, "only pairs of digits match as they are"


def test_loses_no_match_if_both_sides_are_decomposed() -> None:
    questions = [_decomposed(question.text) for question in make_set(TEXTS).questions]
    notes_by_code = notes(make_set([_decomposed(text) for text in TEXTS], questions))
    assert notes_by_code[ProblemCode.DECOMPOSED_CHARACTERS].details["lost"] == "0.0%"


def test_reports_decomposed_latin_characters() -> None:
    texts = [f"Café number {row} in Zürich serves crêpes {row * 7}" for row in range(100)]
    rng = np.random.default_rng(0)
    texts = [f"{text} " + "".join(chr(97 + c) for c in rng.integers(0, 26, 60)) for text in texts]
    questions = [f"Which café in Zürich is number {row}?" for row in range(100)]
    details = notes(make_set([_decomposed(t) for t in texts], questions))[ProblemCode.DECOMPOSED_CHARACTERS].details
    assert details["lost"] == "40.0%", "café and Zürich of five shared words: café, in, zürich, number, the figure"


def test_reports_full_width_characters_if_matches_are_lost() -> None:
    wide_digits = {ord("0") + digit: 0xFF10 + digit for digit in range(10)}
    wide = [text.translate(wide_digits) for text in TEXTS]
    notes_by_code = notes(make_set(wide))
    assert list(notes_by_code) == [ProblemCode.FULL_WIDTH]
    assert notes_by_code[ProblemCode.FULL_WIDTH].details["lost"] != "0.0%"
    same = [question.text.translate(wide_digits) for question in make_set(TEXTS).questions]
    assert notes(make_set(wide, same)) == {}, "both sides have the same form"


def _parts(train: Sequence[int], test: Sequence[int], passages: int) -> Split:
    rows = {Part.TRAIN: np.array(train), Part.VALIDATION: np.array([], dtype=np.int64), Part.TEST: np.array(test)}
    return Split(SplitOptions(), np.arange(passages, dtype=np.int32), rows)


def test_reports_near_duplicates_in_corpus_and_across_parts() -> None:
    texts = [*TEXTS[:190], *(TEXTS[row].replace("산다", "살았다") for row in range(10))]
    question_set = make_set(texts)
    notes_by_code = notes(question_set, _parts(range(100), range(100, 200), 200))
    assert notes_by_code[ProblemCode.NEAR_DUPLICATES].details["count"] == 10
    assert str(notes_by_code[ProblemCode.NEAR_DUPLICATES].details["examples"]).startswith("p190 ≈ p0, ")
    across = notes_by_code[ProblemCode.NEAR_DUPLICATE_PARTS].details
    assert (across["count"], across["tested"], across["share"]) == (10, 100, "10.0%")
    within = notes(question_set, _parts(range(100, 190), [*range(100), *range(190, 200)], 200))
    assert ProblemCode.NEAR_DUPLICATE_PARTS not in within


def test_reports_questions_repeated_across_parts() -> None:
    questions = [question.text for question in make_set(TEXTS).questions]
    questions[150] = questions[3].replace("사나?", "사나요?")
    questions[151] = questions[4].upper()
    questions[152] = questions[5].replace("5번", "6번")
    notes_by_code = notes(make_set(TEXTS, questions), _parts(range(100), range(100, 200), 200))
    assert list(notes_by_code) == [ProblemCode.REPEATED_QUESTIONS]
    details = notes_by_code[ProblemCode.REPEATED_QUESTIONS].details
    assert details["count"] == 2, "another number is another question"
    assert "q150" in str(details["examples"])
    assert "(q3)" in str(details["examples"])


def test_samples_a_large_corpus_with_all_relevant_passages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "MAX_CHECKED_PASSAGES", 50)
    whole = make_set(TEXTS)
    some = whole.with_questions(range(150, 190))
    rows = content._checked_rows(some)
    assert len(rows) == 50
    assert {*range(150, 190)} <= {*rows.tolist()}
    texts = [f"<p>{text}</p>" if 150 <= row < 190 else text for row, text in enumerate(TEXTS)]
    details = notes(make_set(texts).with_questions(range(150, 190)))[ProblemCode.MARKUP].details
    assert (details["count"], details["checked"]) == (40, 50)
    assert str(details["examples"]).startswith("p150: ")


def random_texts(count: int, first: int, alphabet_size: int, length: int = 300) -> list[str]:
    rng = np.random.default_rng(first)
    return ["".join(chr(first + code) for code in rng.integers(0, alphabet_size, length)) for _ in range(count)]


def similarity(a: str, b: str, shingle: int = 5) -> float:
    first, second = ({text[at : at + shingle] for at in range(len(text) - shingle + 1)} for text in (a, b))
    return len(first & second) / len(first | second)


@pytest.mark.parametrize(("first", "alphabet_size"), [(0xAC00, 11_000), (ord("a"), 26), (0x4E00, 5_000), (0x3041, 80)])
def test_finds_the_same_pairs_as_exact_similarity(first: int, alphabet_size: int) -> None:
    texts = random_texts(400, first, alphabet_size)
    rng = np.random.default_rng(1)
    for row in range(100):
        changed = list(texts[row])
        for at in rng.integers(0, 300, row // 8):
            changed[int(at)] = chr(first + int(rng.integers(alphabet_size)))
        texts[300 + row] = "".join(changed)
    expected = {(row, 300 + row) for row in range(100) if similarity(texts[row], texts[300 + row]) >= SIMILARITY}
    duplicates = find_near_duplicates(texts)
    assert 40 <= len(expected) <= 80
    assert {(a, b) for a, b in duplicates.pairs.tolist()} == expected
    assert duplicates.duplicate_count == len(expected)


def test_ignores_case_spaces_and_composition() -> None:
    text = "Zürich 두루미는 겨울에 철원 들판으로 날아온다. It stays until March."
    variants = [text, text.upper(), text.replace(" ", "\n "), unicodedata.normalize("NFD", text)]
    assert find_near_duplicates([*variants, "전혀 다른 글이다, 아주."]).clusters.tolist() == [0, 0, 0, 0, 1]


def test_ignores_short_and_empty_texts() -> None:
    assert find_near_duplicates(["", "", "가", "가", "    "]).duplicate_count == 0
    assert find_near_duplicates([]).duplicate_count == 0
    assert find_near_duplicates(["가나다라마", "가나다라마"]).duplicate_count == 1


def test_texts_with_other_numbers_are_not_duplicates() -> None:
    texts = ["What did the company earn in the year 2019?", "What did the company earn in the year 2018?"]
    assert find_near_duplicates(texts, shingle_length=3, min_number_similarity=0).duplicate_count == 1
    assert find_near_duplicates(texts, shingle_length=3).duplicate_count == 0


def test_tolerates_a_few_other_numbers() -> None:
    (text,) = random_texts(1, 0xAC00, 11_000)
    versions = [f"{text} 1998 2003 2010 인구 {count}" for count in (5120, 5133)]
    assert find_near_duplicates(versions).duplicate_count == 1
    assert find_near_duplicates(versions, min_number_similarity=1).duplicate_count == 0


def test_limits_the_pairs_of_many_copies() -> None:
    texts = [random_texts(1, 0xAC00, 11_000)[0] + chr(0xAC00 + number) for number in range(600)]
    duplicates = find_near_duplicates(texts)
    assert duplicates.duplicate_count == 599
    assert len(duplicates.pairs) < 10 * len(texts)


@given(st.lists(st.text(max_size=40), max_size=12))
def test_takes_any_texts(texts: list[str]) -> None:
    duplicates = find_near_duplicates(texts)
    assert len(duplicates.clusters) == len(texts)
    assert all(a < b for a, b in duplicates.pairs.tolist())
