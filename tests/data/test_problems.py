from string import Formatter

import pytest

from mrc_workbench.data import problems
from mrc_workbench.data.problems import DataError, Failure, Problem, ProblemCode, Problems


@pytest.mark.parametrize("code", list(ProblemCode))
def test_every_code_has_a_valid_template(code: ProblemCode) -> None:
    names = [name for _, name, _, _ in Formatter().parse(problems.TEMPLATES[code]) if name]
    message = Problem(code, None, dict.fromkeys(names, 7)).message
    assert message[0].isupper() or message[0] == "7"
    assert message.endswith(".")


@pytest.mark.parametrize(
    ("problem", "leaves_out_row", "message"),
    [
        (Problem(ProblemCode.EMPTY_CONTEXT, 12, {"column": "지문"}), True, "Row 12: the passage (지문) is empty."),
        (Problem(ProblemCode.UNREADABLE_FILE, None, {"path": "a/b", "reason": "x"}), False, "a/b cannot be read (x)."),
        (Problem(ProblemCode.MENDED_TEXT, 3), False, "Row 3: "),
        (Problem(ProblemCode.NO_QUESTION), False, "The file contains no question and no passage. Add rows with a"),
    ],
)
def test_message_starts_with_the_row(problem: Problem, leaves_out_row: bool, message: str) -> None:
    assert problem.message.startswith(message)
    assert str(DataError(problem)) == problem.message
    assert problem.leaves_out_row is leaves_out_row


def test_records_the_first_problems_of_each_kind() -> None:
    counted = Problems()
    for row in range(1, problems.MAX_RECORDED_PROBLEMS + 3):
        counted.add(Problem.from_code(ProblemCode.MENDED_TEXT, row))
        counted.add(Problem.from_code(ProblemCode.EMPTY_QUESTION, row, column="q"))
    limit = problems.MAX_RECORDED_PROBLEMS
    assert (counted.total, counted.left_out, len(counted.recorded)) == (2 * limit + 4, limit + 2, 2 * limit)
    last = [(problem.row, problem.code) for problem in counted.recorded[-2:]]
    assert last == [(limit, ProblemCode.MENDED_TEXT), (limit, ProblemCode.EMPTY_QUESTION)]


def test_failure_round_trips_through_a_dict() -> None:
    failure = Failure("run_broken_line", "line 3 is broken", run="a.trec", line=3)
    assert str(failure) == "line 3 is broken"
    again = Failure.from_dict(failure.as_dict())
    assert (again.code, str(again), again.details) == (failure.code, str(failure), failure.details)


@pytest.mark.parametrize(
    ("entry", "code", "details"),
    [
        ({"error": "e", "code": "run_not_found", "run": "r", "line": 0}, "run_not_found", {"run": "r", "line": 0}),
        ({"error": "e"}, "", {}),
    ],
)
def test_reads_failures_with_and_without_a_code(entry: dict[str, object], code: str, details: object) -> None:
    failure = Failure.from_dict(entry)
    assert (str(failure), failure.code, failure.details) == ("e", code, details)


def test_data_error_has_the_details_of_its_problem() -> None:
    error = DataError.from_code(ProblemCode.UNKNOWN_SET, reference="x", known="y, z")
    assert isinstance(error, Failure)
    assert (error.code, error.details) == ("unknown_set", {"reference": "x", "known": "y, z"})
