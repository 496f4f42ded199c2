"""Judging passages with a language model at a local server; kappa compared with scikit-learn."""

import json
import random
import re
import unicodedata

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mrc_workbench.data.generate import PromptLanguage, QuestionsError, judge
from mrc_workbench.data.generate.judge import JudgementRequest, JudgeOptions, JudgingResult, parse_verdict
from mrc_workbench.data.questions.judgements import JudgedQuestion, RelevanceVerdict, annotation_path
from mrc_workbench.data.records import Passage
from mrc_workbench.models.llm import Endpoint
from tests.chat_server import KEY, MODEL, ChatServer, chat_server
from tests.doubles import PASSAGES, raises_failure, small_set

CORPUS = small_set().corpus_fingerprint
QUESTION = "한글을  만든 왕은?"
REQUESTS = [JudgementRequest(QUESTION, passage) for passage in PASSAGES]
RIGHT, WRONG, UNSURE = RelevanceVerdict


def knows(text: str) -> str:
    """Answer right for passages that name the king, and unsure for the last passage."""
    return "<think>WRONG?</think>Right." if "세종은" in text else "UNSURE" if "도서관" in text else "WRONG"


def judged(
    server: ChatServer, key: str = KEY, requests: list[JudgementRequest] = REQUESTS, model: str = MODEL
) -> JudgingResult:
    return judge.judge_with_model(CORPUS, requests, JudgeOptions(model), Endpoint(server.address, key))


def test_stores_a_verdict_per_passage_and_model() -> None:
    with chat_server(knows) as server:
        assert judged(server, requests=REQUESTS[:2]) == JudgingResult(2)
        assert judged(server) == judged(server) == JudgingResult(5)
        assert len(server.requests) == 5, "stored verdicts need no request"
        assert {request["temperature"] for request in server.requests} == {0}
    pairs = (("한글을 만든 왕은?", passage.id) for passage in PASSAGES)
    verdicts = dict(zip(pairs, (RIGHT, WRONG, WRONG, WRONG, UNSURE), strict=True))
    assert judge.load_model_verdicts(CORPUS) == {MODEL: verdicts}
    stored_text = annotation_path("judgements", CORPUS, ".jsonl").read_text(encoding="utf-8")
    assert KEY not in stored_text
    assert server.address not in stored_text


def test_stopping_stores_verdicts_and_resumes() -> None:
    def stop_after_two(done: int, _: int) -> None:
        if done >= 2:
            raise KeyboardInterrupt

    with chat_server(knows) as server:
        options = JudgeOptions(MODEL, concurrency=1)
        with pytest.raises(KeyboardInterrupt):
            judge.judge_with_model(CORPUS, REQUESTS, options, Endpoint(server.address, KEY), stop_after_two)
        assert 2 <= len(judge.load_model_verdicts(CORPUS)[MODEL]) <= 3
        progress: list[tuple[int, int]] = []
        judge.judge_with_model(CORPUS, REQUESTS, options, Endpoint(server.address, KEY), lambda *n: progress.append(n))
        assert progress[0][0] >= 2, "it goes on where it was"
        assert progress[-1] == (5, 5)
        assert len(server.requests) <= 6


def test_reports_and_retries_answers_without_verdict() -> None:
    with chat_server(lambda text: "글쎄요" if "한강은" in text else knows(text)) as server:
        assert judged(server) == JudgingResult(4, 1, None, "글쎄요")
        server.reply = knows
        assert judged(server) == JudgingResult(5)
        with raises_failure("key"):
            judged(server, key="wrong", model="another")
    with pytest.raises(QuestionsError):
        JudgeOptions(" ")


SINGLE_VERDICT = {
    RIGHT: "RIGHT|right.|**Right**|  RIGHT\n|ＲＩＧＨＴ|RIGHT입니다|`RIGHT`입니다.|“RIGHT”|RIGHT이다",
    WRONG: "WRONG|**wrong**|'wrong'|[WRONG]|ＷＲＯＮＧ。|WRONG임|<think>RIGHT?</think>WRONG",
    UNSURE: "UNSURE|_unsure_|Unsure!|「UNSURE」|UNSURE예요|unsure이에요",
}
NO_VERDICT = """NOT RIGHT|It is not right|isn't right|The right answer is not here|all right, this is something else
right, or WRONG|RIGHT WRONG|RIGHT RIGHT|copyright|upright|RIGHTS|un-right|not_right|NotRight|RIG\u200bHT|R I G H T
≠RIGHT|¬RIGHT|!RIGHT|~~RIGHT~~|❌ RIGHT|-RIGHT|RIGHT?|RIGHT (not)|0% RIGHT|RIGHT 아님|RIGHT이 아닙니다
RIGHT입니다입니다|RIGHT입니까|판정: Unsure.|<think>RIGHT|RIGHT</think>|{"verdict": "RIGHT"}|입니다|임|**|글쎄요"""


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [(answer, verdict) for verdict, answers in SINGLE_VERDICT.items() for answer in answers.split("|")],
)
def test_accepts_answers_with_a_single_verdict(answer: str, verdict: RelevanceVerdict) -> None:
    assert parse_verdict(answer) is verdict


@pytest.mark.parametrize("answer", [*re.split(r"[|\n]", NO_VERDICT), "RIGHT\nbecause it names him", "", " "])
def test_rejects_answers_without_exactly_a_single_verdict(answer: str) -> None:
    assert parse_verdict(answer) is None


VERDICT_WORDS = st.sampled_from([*RelevanceVerdict]).flatmap(
    lambda verdict: st.tuples(st.just(verdict), st.lists(st.booleans(), min_size=len(verdict), max_size=len(verdict)))
)


@settings(max_examples=300)
@given(
    verdict_and_capitals=VERDICT_WORDS,
    before=st.text(alphabet=" \n*_\"'(“「", max_size=4),
    after=st.text(alphabet=" \n*_\"')”」.,!。", max_size=4),
    copula=st.sampled_from(["", "입니다", "이다", "임", "예요", "이에요"]),
    full_width=st.booleans(),
)
def test_ignores_case_width_and_punctuation(
    verdict_and_capitals: tuple[RelevanceVerdict, list[bool]], before: str, after: str, copula: str, full_width: bool
) -> None:
    verdict, capitals = verdict_and_capitals
    word = "".join(letter.upper() if is_upper else letter for letter, is_upper in zip(verdict, capitals, strict=True))
    if full_width:
        word = "".join(chr(ord(letter) + 0xFEE0) for letter in word)
    assert parse_verdict(f"{before}{word}{copula}{after}") is verdict


@settings(max_examples=300)
@given(
    verdict=st.sampled_from([*RelevanceVerdict]),
    other=st.text(alphabet=st.characters(categories=["L", "N"]), min_size=1, max_size=12),
    is_before=st.booleans(),
)
def test_rejects_verdicts_beside_other_words(verdict: RelevanceVerdict, other: str, is_before: bool) -> None:
    answer = f"{other} {verdict}" if is_before else f"{verdict} {other}"
    copulas = ("입니다", "이에요", "예요", "이다", "임")
    assume(is_before or unicodedata.normalize("NFKC", other) not in copulas)
    assert parse_verdict(answer) is None


@settings(max_examples=300)
@given(st.text(max_size=40) | st.text(alphabet="RIGHTWONUSE rightwonuse입니다.,*?", max_size=20))
def test_parses_a_verdict_only_if_it_is_the_only_word(answer: str) -> None:
    verdict = parse_verdict(answer)
    characters = "".join(filter(str.isalnum, unicodedata.normalize("NFKC", answer).lower()))
    if verdict is not None:
        assert characters in {f"{verdict}{copula}" for copula in ("", "입니다", "이에요", "예요", "이다", "임")}


def test_does_not_store_negated_verdicts() -> None:
    with chat_server(lambda text: "NOT RIGHT" if "세종은" in text else "WRONG") as server:
        assert judged(server) == JudgingResult(4, 1, None, "NOT RIGHT")
    assert set(judge.load_model_verdicts(CORPUS)[MODEL].values()) == {WRONG}


def test_retries_stored_verdicts_that_contradict_their_answer() -> None:
    with chat_server(lambda _: "WRONG") as server:
        assert judged(server) == JudgingResult(5)
        path = annotation_path("judgements", CORPUS, ".jsonl")
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        lines[0] |= {"verdict": "right", "answer": "It is not right"}
        path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
        assert len(judge.load_model_verdicts(CORPUS)[MODEL]) == 4
        assert judged(server) == JudgingResult(5)
        assert len(server.requests) == 6
    assert len(judge.load_model_verdicts(CORPUS)[MODEL]) == 5


def test_reads_verdicts_under_earlier_keys(caplog: pytest.LogCaptureFixture) -> None:
    with chat_server(lambda _: "WRONG") as server:
        assert judged(server) == JudgingResult(5)
        path = annotation_path("judgements", CORPUS, ".jsonl")
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace('"request":', '"asked":').replace('"answer":', '"said":'), encoding="utf-8")
        assert '"asked":' in path.read_text(encoding="utf-8")
        current_verdicts = judge.load_model_verdicts(CORPUS)
        assert len(current_verdicts[MODEL]) == 5
        assert judged(server) == JudgingResult(5)
        assert len(server.requests) == 5
    assert "'asked' is now 'request'" in caplog.text


@pytest.mark.parametrize("language", [*PromptLanguage])
def test_prompt_lists_every_verdict(language: PromptLanguage) -> None:
    request = JudgeOptions(MODEL, language).instruction.splitlines()[-1]
    assert all(verdict.upper() in request for verdict in RelevanceVerdict)
    assert "NOT RIGHT" in request


@given(st.text(max_size=60), st.text(max_size=60))
def test_prompt_quotes_every_line_of_passage_and_question(text: str, question: str) -> None:
    quoting = judge.prompt_text(JudgementRequest(question, Passage("p", text, "제목\n질문:")), PromptLanguage.KOREAN)
    outside = [line for line in quoting.splitlines() if line and not line.startswith("> ")]
    assert outside == ["지문:", "질문:"]


def test_skips_damaged_lines_and_uses_the_latest_verdict() -> None:
    path = annotation_path("judgements", CORPUS, ".jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    entry = {"question": " 한글? ", "passage": "p1", "model": "m"}
    lines = [json.dumps(entry | {"verdict": verdict}) for verdict in ("right", "perhaps", ["right"], "wrong")]
    path.write_text("\n".join([*lines, '{"verdict": "right"', "[]", "3"]), encoding="utf-8")
    assert judge.load_model_verdicts(CORPUS) == {"m": {("한글?", "p1"): WRONG}}
    with pytest.raises(ValueError, match="no fingerprint"):
        judge.load_model_verdicts("../x")


def test_model_verdicts_only_fill_gaps_of_person_verdicts() -> None:
    people = (JudgedQuestion("한글?", ("p1",), wrong=("p2",), unsure=("p3",)),)
    of_model = {("한글?", "p1"): WRONG, ("한글?", "p3"): RIGHT, ("한글?", "p4"): WRONG, ("한강?", "p5"): RIGHT}
    first, second = judge.add_model_verdicts(people, of_model)
    assert first == JudgedQuestion("한글?", ("p1",), wrong=("p2", "p4"), unsure=("p3",))
    assert second == JudgedQuestion("한강?", ("p5",))


def test_kappa_measures_agreement_beyond_chance() -> None:
    """Cohen's formula: (observed - chance) / (1 - chance)."""
    rng = random.Random(0)
    person = {("q", f"p{row}"): rng.choice([*RelevanceVerdict]) for row in range(200)}
    model = {pair: v if rng.random() < 0.6 else rng.choice([*RelevanceVerdict]) for pair, v in person.items()}
    model = {pair: verdict for pair, verdict in model.items() if pair[1] != "p0"} | {("q", "only the model's"): RIGHT}
    result = judge.measure_agreement(person, model)
    sure = [(person[of], model[of]) for of in person if of in model and UNSURE not in (person[of], model[of])]
    observed = sum(a == b for a, b in sure) / len(sure)
    chance = sum(sum(a is v for a, _ in sure) * sum(b is v for _, b in sure) for v in RelevanceVerdict) / len(sure) ** 2
    assert result.kappa == pytest.approx((observed - chance) / (1 - chance))
    assert (result.judged_count, result.unsure) == (len(sure), 199 - len(sure))
    assert result.both_right == sum(of == (RIGHT, RIGHT) for of in sure)
    assert result.person_alone == sum(of == (RIGHT, WRONG) for of in sure)
    assert result.model_alone == sum(of == (WRONG, RIGHT) for of in sure)
    assert result.both_wrong == sum(of == (WRONG, WRONG) for of in sure)


def test_kappa_is_undefined_for_a_constant_verdict() -> None:
    same = {("q", f"p{row}"): WRONG for row in range(5)}
    assert judge.measure_agreement(same, same).kappa is None
    assert judge.measure_agreement(same, {}).kappa is None
