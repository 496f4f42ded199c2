"""`python -m reading score --data FILE --predictions FILE`: how right answers are, by each field's own rules."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from data.failure import Failure
from data.store import find
from data.terminal import tell
from reading.predictions import read_predictions
from reading.rules import Rules
from reading.scores import AnswerScores, compared, scored
from retrieval.evaluation.significance import PairTest


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status: 0, or 2 where nothing could be done."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except (Failure, OSError, ValueError) as error:
        tell(f"error: {error}", error=True)
        return 2
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reading", description="Judge answers.")
    commands = parser.add_subparsers(required=True)
    text = "judge files of answers, one or several side by side"
    scoring = commands.add_parser("score", help=text, description=text)
    scoring.set_defaults(run=_score)
    scoring.add_argument(
        "--data", required=True, help="the questions: a file, or a name of the catalog or the workspace"
    )
    scoring.add_argument(
        "--predictions",
        required=True,
        action="append",
        type=Path,
        metavar="FILE",
        help='JSON of question ids and answers, as {"q1": "서울"}; once for each reader',
    )
    scoring.add_argument(
        "--rules",
        type=Rules,
        choices=[*Rules],
        default=Rules.KORQUAD,
        help="whose rules say what is right: %(default)s",
    )
    scoring.add_argument("--json", action="store_true", help="print JSON: shares from 0 to 1")
    return parser


def _score(options: argparse.Namespace) -> int:
    question_set = find(options.data)
    scores = {str(path): scored(question_set, read_predictions(path), options.rules) for path in options.predictions}
    tests = compared(question_set, scores)
    if options.json:
        tell(json.dumps(_as_json(options.rules, scores, tests), ensure_ascii=False, indent=2))
        return 0
    tell(f"{question_set.name}: {len(question_set.questions):,} questions, by the rules of {options.rules}")
    for name, one in scores.items():
        tell("\n".join([name, *_lines(one)]))
    for test in tests:
        tell(_difference(test))
    return 0


def _lines(scores: AnswerScores) -> list[str]:
    lines = []
    for name, mean in scores.means().items():
        low, high = scores.intervals.get(name, (None, None))
        interval = "" if low is None or high is None else f"  95% {100 * low:.2f} to {100 * high:.2f}"
        lines.append(f"  {name:<20} {100 * mean:6.2f}{interval}")
    return [*lines, *([f"  {scores.unsaid:,} questions have no answer in the file: wrong"] if scores.unsaid else [])]


def _difference(test: PairTest) -> str:
    sure = "sure" if test.sure else "not sure"
    ends = f"{100 * test.low:+.2f} to {100 * test.high:+.2f}"
    return (
        f"{test.measure}: {test.a} less {test.b} {100 * test.difference:+.2f} ({ends}, p {test.p_family:.4f}, {sure})"
    )


def _as_json(rules: Rules, scores: dict[str, AnswerScores], tests: list[PairTest]) -> dict[str, Any]:
    readers = {
        name: {
            **one.means(),
            "interval": {measure: [*ends] for measure, ends in one.intervals.items()},
            "unsaid": one.unsaid,
        }
        for name, one in scores.items()
    }
    return {"rules": rules.value, "readers": readers, "differences": [asdict(test) for test in tests]}


if __name__ == "__main__":
    sys.exit(main())
