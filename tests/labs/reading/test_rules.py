"""Each field's rules on cases worked out by hand, and on all of KorQuAD's questions with figures known beforehand."""

import json
import os
from pathlib import Path

import pytest

from mrc_workbench.data.questions.read import read_file
from mrc_workbench.labs.reading.scores import Rules, judged, normalized
from mrc_workbench.workbench.cli import main

KORQUAD = Path(os.environ.get("MRC_DATA", "")) / "KorQuAD_v1.0_dev.json"
CASES: dict[Rules, list[tuple[str, list[str], float, float]]] = {
    Rules.KORQUAD: [
        ("서울", ["서울"], 1, 1),
        ("서울은", ["서울"], 0, 4 / 5),  # 2 characters of 3 and of 2
        ("부산", ["서울"], 0, 0),
        ("《소나기》", ["소나기"], 1, 1),
        ("〈소나기〉", ["소나기"], 1, 1),
        ("<소나기>", ["소나기"], 1, 1),
        ("'소나기'", ["소나기"], 1, 1),
        ("‘소나기’", ["소나기"], 1, 1),
        ("소나기(小說)", ["소나기 小說"], 1, 1),
        ("소나기(小說)", ["소나기小說"], 0, 1),  # a bracket becomes a space, which F1 does not count
        ("1,000명", ["1000명"], 1, 1),
        ("1000 명", ["1000명"], 0, 1),
        ("3.1운동", ["31운동"], 1, 1),
        ("BTS", ["bts"], 1, 1),
        ("  서울   특별시 ", ["서울 특별시"], 1, 1),
        ("서울특별시", ["서울 특별시"], 0, 1),
        ("서울", ["서울 특별시", "서울"], 1, 1),
        ("서울특별시", ["서울", "서울시"], 0, 6 / 8),  # 4 / 7 with the first
        ("", ["서울"], 0, 0),
        ("", [], 1, 1),
        ("서울", [], 0, 0),
        ("《》", ["서울"], 0, 0),
        ("「소나기」", ["소나기"], 0, 6 / 8),  # these brackets are in no list
        ("“서울”", ["서울"], 0, 4 / 6),
        ("the cat", ["cat"], 0, 6 / 9),  # no article is known
        ("가가나", ["가나나"], 0, 4 / 6),  # each character as often as both have it
        ("100%", ["100"], 1, 1),
        ("()", ["《》"], 1, 0),
    ],
    Rules.SQUAD: [
        ("the cat", ["cat"], 1, 1),
        ("The Cat.", ["a cat"], 1, 1),
        ("black cat", ["the cat"], 0, 2 / 3),
        ("cat cat", ["cat"], 0, 2 / 3),
        ("an apple, a day", ["apple day"], 1, 1),
        ("anthem", ["them"], 0, 0),
        ("", [], 1, 1),
        ("cat", [], 0, 0),
        ("", ["cat"], 0, 0),
        ("the", ["a"], 1, 1),
        ("the", ["a", "cat"], 0, 0),
        ("서울 특별시", ["서울특별시"], 0, 0),
        ("《소나기》", ["소나기"], 0, 0),
        ("U.S.", ["us"], 1, 1),
        ("in New York City", ["New York"], 0, 4 / 6),
        ("New York", ["York", "New York City"], 0, 4 / 5),
    ],
    Rules.KLUE: [
        ("서울시", ["서울"], 0, 4 / 5),
        ("가나다라", ["가나마라"], 0, 4 / 8),  # the run 가나; 라 stands apart
        ("가나 다라", ["가나다라"], 0, 4 / 9),  # a space counts, and breaks the run
        ("라다나가", ["가나다라"], 0, 2 / 8),
        ("'서울'", ["서울"], 1, 1),
        ("《서울》", ["서울"], 0, 4 / 6),
        ("‘서울’", ["서울"], 0, 4 / 6),
        ("'()‘’서울", ["서울"], 1, 1),  # all that the pattern of the script matches
        ("서울(수도)", ["서울수도"], 1, 1),
        ("5개", ["5개", "5"], 1, 1),
        ("", [], 1, 1),
        ("서울", [], 0, 0),
        ("", ["서울"], 0, 0),
        ("Seoul", ["seoul"], 1, 1),
    ],
}


@pytest.mark.parametrize(
    ("rules", "said", "right", "exact", "overlap"), [(rules, *case) for rules, cases in CASES.items() for case in cases]
)
def test_cases_by_hand(rules: Rules, said: str, right: list[str], exact: float, overlap: float) -> None:
    assert judged(said, right, rules) == pytest.approx((exact, overlap))


def test_what_is_compared_is_the_text_without_what_the_rules_take_away() -> None:
    assert normalized("  《소나기》(1953),  황순원의 'The' 소설 ", Rules.KORQUAD) == "소나기 1953 황순원의 the 소설"
    assert normalized("《소나기》(1953), The 소설", Rules.SQUAD) == "《소나기》1953 소설"
    assert normalized("《소나기》(1953), The 소설", Rules.KLUE) == "《소나기》1953 the 소설"


@pytest.mark.slow
@pytest.mark.skipif(not KORQUAD.is_file(), reason="MRC_DATA names no folder with KorQuAD_v1.0_dev.json")
def test_answers_of_all_of_korquad_have_the_figures_that_were_made_into_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of every five questions one is right, one has a particle too many, two are wrong, and one is not answered."""
    questions = read_file(KORQUAD).question_set.questions
    taken, said, overlap = "'\"《》<>〈〉()‘’!#$%&*+,-./:;=?@[\\]^_`{|}~", {}, 0.0
    for row, question in enumerate(questions):
        (right,) = question.answers
        if row % 5 == 0:
            said[question.id], overlap = f"《{right.upper()}》 ", overlap + 1
        elif row % 5 == 1:
            said[question.id] = f"{right}뷁"
            letters = sum(character not in taken and not character.isspace() for character in right)
            overlap += 2 * letters / (2 * letters + 1)
        elif row % 5 < 4:
            said[question.id] = "뷁" if row % 5 == 2 else ""
    path = tmp_path / "said.json"
    path.write_text(json.dumps(said), encoding="utf-8")
    assert main(["reading", "score", "--data", str(KORQUAD), "--predictions", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["readers"][str(path)]
    n = len(questions)
    assert n == 5774
    assert told["em"] == pytest.approx((n + 4) // 5 / n)
    assert told["f1"] == pytest.approx(overlap / n)
    assert told["unsaid"] == n // 5
    assert told["interval"]["em"][0] < told["em"] < told["interval"]["em"][1]
