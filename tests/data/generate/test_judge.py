"""A language model judges passages, at a server that speaks the protocol; kappa against scikit-learn's own sums."""

import json
import random
import unicodedata

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mrc_workbench.data.generate import PromptLanguage, QuestionsError
from mrc_workbench.data.generate.judge import (
    JudgeOptions,
    ModelJudged,
    ToJudge,
    agreement,
    asked_text,
    judge_with_model,
    verdict_in,
    verdicts_of_models,
    with_model,
)
from mrc_workbench.data.questions.judgements import Judged, Verdict, path_of
from mrc_workbench.data.records import Passage
from mrc_workbench.models.llm import Endpoint, EndpointError
from tests.chat_server import KEY, MODEL, ChatServer, chat_server
from tests.doubles import PASSAGES, small_set

CORPUS = small_set().corpus_fingerprint
QUESTION = "한글을  만든 왕은?"
WANTED = [ToJudge(QUESTION, passage) for passage in PASSAGES]
RIGHT, WRONG, UNSURE = Verdict


def knows(text: str) -> str:
    """Right where the passage names the king, and unsure of the last one."""
    return "<think>WRONG?</think>Right." if "세종은" in text else "UNSURE" if "도서관" in text else "WRONG"


def judged(server: ChatServer, key: str = KEY, wanted: list[ToJudge] = WANTED, model: str = MODEL) -> ModelJudged:
    return judge_with_model(CORPUS, wanted, JudgeOptions(model), Endpoint(server.address, key))


def test_each_passage_is_judged_once_and_kept_under_the_models_name() -> None:
    with chat_server(knows) as server:
        assert judged(server, wanted=WANTED[:2]) == ModelJudged(2)
        assert judged(server) == judged(server) == ModelJudged(5)
        assert len(server.asked) == 5, "what it judged before is not asked again"
        assert {request["temperature"] for request in server.asked} == {0}
    ids = dict(zip((one.id for one in PASSAGES), (RIGHT, WRONG, WRONG, WRONG, UNSURE), strict=True))
    assert verdicts_of_models(CORPUS) == {MODEL: {("한글을 만든 왕은?", id_): told for id_, told in ids.items()}}
    kept = path_of("judgements", CORPUS, ".jsonl").read_text(encoding="utf-8")
    assert KEY not in kept
    assert server.address not in kept


def test_whoever_stops_it_keeps_what_was_judged_and_goes_on() -> None:
    def stop_after_two(done: int, _: int) -> None:
        if done >= 2:
            raise KeyboardInterrupt

    with chat_server(knows) as server:
        one_by_one = JudgeOptions(MODEL, concurrency=1)
        with pytest.raises(KeyboardInterrupt):
            judge_with_model(CORPUS, WANTED, one_by_one, Endpoint(server.address, KEY), stop_after_two)
        assert 2 <= len(verdicts_of_models(CORPUS)[MODEL]) <= 3
        told: list[tuple[int, int]] = []
        judge_with_model(CORPUS, WANTED, one_by_one, Endpoint(server.address, KEY), lambda *of: told.append(of))
        assert told[0][0] >= 2, "it goes on where it was"
        assert told[-1] == (5, 5)
        assert len(server.asked) <= 6


def test_an_answer_without_a_verdict_is_told_and_asked_for_again() -> None:
    with chat_server(lambda text: "글쎄요" if "한강은" in text else knows(text)) as server:
        assert judged(server) == ModelJudged(4, 1, None, "글쎄요")
        server.reply = knows
        assert judged(server) == ModelJudged(5)
        with pytest.raises(EndpointError) as caught:
            judged(server, key="wrong", model="another")
        assert caught.value.code == "key"
    with pytest.raises(QuestionsError):
        JudgeOptions(" ")


ONE_VERDICT = {
    RIGHT: [
        "RIGHT",
        "right.",
        "**Right**",
        "  RIGHT\n",
        "ＲＩＧＨＴ",
        "RIGHT입니다",
        "`RIGHT`입니다.",
        "“RIGHT”",
        "RIGHT이다",
    ],
    WRONG: ["WRONG", "**wrong**", "'wrong'", "[WRONG]", "ＷＲＯＮＧ。", "WRONG임", "<think>RIGHT?</think>WRONG"],
    UNSURE: ["UNSURE", "_unsure_", "Unsure!", "「UNSURE」", "UNSURE예요", "unsure이에요"],
}
NO_VERDICT = [
    *(
        "NOT RIGHT",
        "It is not right",
        "isn't right",
        "The right answer is not here",
        "all right, this is something else",
    ),
    *(
        "right, or WRONG",
        "RIGHT WRONG",
        "RIGHT RIGHT",
        "copyright",
        "upright",
        "RIGHTS",
        "un-right",
        "not_right",
        "NotRight",
    ),
    *(
        "≠RIGHT",
        "¬RIGHT",
        "!RIGHT",
        "~~RIGHT~~",
        "❌ RIGHT",
        "-RIGHT",
        "RIGHT?",
        "RIGHT (not)",
        "0% RIGHT",
        "RIGHT 아님",
    ),
    *(
        "RIGHT이 아닙니다",
        "RIGHT입니다입니다",
        "RIGHT입니까",
        "판정: Unsure.",
        "RIGHT\nbecause it names him",
        "R I G H T",
    ),
    *("RIG\u200bHT", "<think>RIGHT", "RIGHT</think>", '{"verdict": "RIGHT"}', "입니다", "임", "", " ", "**", "글쎄요"),
]


@pytest.mark.parametrize(
    ("answer", "verdict"), [(answer, verdict) for verdict, answers in ONE_VERDICT.items() for answer in answers]
)
def test_accepts_an_answer_that_is_one_verdict(answer: str, verdict: Verdict) -> None:
    assert verdict_in(answer) is verdict


@pytest.mark.parametrize("answer", NO_VERDICT)
def test_rejects_an_answer_that_is_not_exactly_one_verdict(answer: str) -> None:
    assert verdict_in(answer) is None


VERDICT_WORDS = st.sampled_from([*Verdict]).flatmap(
    lambda verdict: st.tuples(st.just(verdict), st.lists(st.booleans(), min_size=len(verdict), max_size=len(verdict)))
)


@settings(max_examples=300)
@given(
    drawn=VERDICT_WORDS,
    before=st.text(alphabet=" \n*_\"'(“「", max_size=4),
    after=st.text(alphabet=" \n*_\"')”」.,!。", max_size=4),
    copula=st.sampled_from(["", "입니다", "이다", "임", "예요", "이에요"]),
    full_width=st.booleans(),
)
def test_case_width_and_punctuation_do_not_change_a_verdict(
    drawn: tuple[Verdict, list[bool]], before: str, after: str, copula: str, full_width: bool
) -> None:
    verdict, capitals = drawn
    word = "".join(letter.upper() if is_upper else letter for letter, is_upper in zip(verdict, capitals, strict=True))
    if full_width:
        word = "".join(chr(ord(letter) + 0xFEE0) for letter in word)
    assert verdict_in(f"{before}{word}{copula}{after}") is verdict


@settings(max_examples=300)
@given(
    verdict=st.sampled_from([*Verdict]),
    other=st.text(alphabet=st.characters(categories=["L", "N"]), min_size=1, max_size=12),
    is_before=st.booleans(),
)
def test_any_other_word_beside_the_verdict_makes_it_none(verdict: Verdict, other: str, is_before: bool) -> None:
    answer = f"{other} {verdict}" if is_before else f"{verdict} {other}"
    copulas = ("입니다", "이에요", "예요", "이다", "임")
    assume(is_before or unicodedata.normalize("NFKC", other) not in copulas)
    assert verdict_in(answer) is None


@settings(max_examples=300)
@given(st.text(max_size=40) | st.text(alphabet="RIGHTWONUSE rightwonuse입니다.,*?", max_size=20))
def test_a_verdict_found_in_any_text_is_its_only_word(answer: str) -> None:
    verdict = verdict_in(answer)
    letters = "".join(filter(str.isalnum, unicodedata.normalize("NFKC", answer).lower()))
    if verdict is not None:
        assert letters in {f"{verdict}{copula}" for copula in ("", "입니다", "이에요", "예요", "이다", "임")}


def test_a_denied_verdict_counts_as_failed_and_is_not_stored() -> None:
    with chat_server(lambda text: "NOT RIGHT" if "세종은" in text else "WRONG") as server:
        assert judged(server) == ModelJudged(4, 1, None, "NOT RIGHT")
    assert set(verdicts_of_models(CORPUS)[MODEL].values()) == {WRONG}


def test_a_stored_verdict_that_its_answer_denies_does_not_count_and_is_asked_again() -> None:
    with chat_server(lambda _: "WRONG") as server:
        assert judged(server) == ModelJudged(5)
        path = path_of("judgements", CORPUS, ".jsonl")
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        lines[0] |= {"verdict": "right", "said": "It is not right"}
        path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
        assert len(verdicts_of_models(CORPUS)[MODEL]) == 4
        assert judged(server) == ModelJudged(5)
        assert len(server.asked) == 6
    assert len(verdicts_of_models(CORPUS)[MODEL]) == 5


@pytest.mark.parametrize("language", [*PromptLanguage])
def test_the_prompt_asks_for_exactly_one_of_the_verdicts(language: PromptLanguage) -> None:
    request = JudgeOptions(MODEL, language).instruction.splitlines()[-1]
    assert all(verdict.upper() in request for verdict in Verdict)
    assert "NOT RIGHT" in request


@given(st.text(max_size=60), st.text(max_size=60))
def test_nothing_in_a_passage_or_a_question_stands_outside_its_quotation(text: str, question: str) -> None:
    quoting = asked_text(ToJudge(question, Passage("p", text, "제목\n질문:")), PromptLanguage.KOREAN)
    outside = [line for line in quoting.splitlines() if line and not line.startswith("> ")]
    assert outside == ["지문:", "질문:"]


def test_lines_that_are_damaged_are_passed_over_and_the_latest_verdict_counts() -> None:
    path = path_of("judgements", CORPUS, ".jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    told = {"question": " 한글? ", "passage": "p1", "model": "m"}
    lines = [json.dumps(told | {"verdict": one}) for one in ("right", "perhaps", ["right"], "wrong")]
    path.write_text("\n".join([*lines, '{"verdict": "right"', "[]", "3"]), encoding="utf-8")
    assert verdicts_of_models(CORPUS) == {"m": {("한글?", "p1"): WRONG}}
    with pytest.raises(ValueError, match="no fingerprint"):
        verdicts_of_models("../x")


def test_a_person_s_word_stands_and_a_model_s_fills_in() -> None:
    people = (Judged("한글?", ("p1",), wrong=("p2",), unsure=("p3",)),)
    of_model = {("한글?", "p1"): WRONG, ("한글?", "p3"): RIGHT, ("한글?", "p4"): WRONG, ("한강?", "p5"): RIGHT}
    filled = with_model(people, of_model)
    assert filled == (Judged("한글?", ("p1",), wrong=("p2", "p4"), unsure=("p3",)), Judged("한강?", ("p5",)))


def test_kappa_is_agreement_beyond_chance() -> None:
    """Cohen's example of the formula: (observed - chance) / (1 - chance), summed by hand."""
    rng = random.Random(0)
    person = {("q", f"p{row}"): rng.choice([*Verdict]) for row in range(200)}
    model = {pair: told if rng.random() < 0.6 else rng.choice([*Verdict]) for pair, told in person.items()}
    model = {pair: told for pair, told in model.items() if pair[1] != "p0"} | {("q", "only the model's"): RIGHT}
    found = agreement(person, model)
    sure = [(person[of], model[of]) for of in person if of in model and UNSURE not in (person[of], model[of])]
    observed = sum(a == b for a, b in sure) / len(sure)
    chance = sum(sum(a is of for a, _ in sure) * sum(b is of for _, b in sure) for of in Verdict) / len(sure) ** 2
    assert found.kappa == pytest.approx((observed - chance) / (1 - chance))
    assert (found.judged, found.unsure) == (len(sure), 199 - len(sure))
    assert found.both_right == sum(of == (RIGHT, RIGHT) for of in sure)
    assert found.person_alone == sum(of == (RIGHT, WRONG) for of in sure)
    assert found.model_alone == sum(of == (WRONG, RIGHT) for of in sure)
    assert found.both_wrong == sum(of == (WRONG, WRONG) for of in sure)


def test_of_one_verdict_alone_or_none_there_is_no_kappa() -> None:
    same = {("q", f"p{row}"): WRONG for row in range(5)}
    assert agreement(same, same).kappa is None
    assert agreement(same, {}).kappa is None
