from string import Formatter

import pytest

from data.problems import MOST_KEPT, TEMPLATES, DataError, Problem, ProblemCode, Problems


@pytest.mark.parametrize("code", list(ProblemCode))
def test_every_code_has_a_text_that_formats(code: ProblemCode) -> None:
    names = [name for _, name, _, _ in Formatter().parse(TEMPLATES[code]) if name]
    message = Problem(code, None, dict.fromkeys(names, 7)).message
    assert message[0].isupper() or message[0] == "7"
    assert message.endswith(".")


def test_a_row_leads_its_message() -> None:
    problem = Problem.of(ProblemCode.EMPTY_CONTEXT, 12, column="지문")
    assert problem.message == "Row 12: the context (지문) is empty. Fill in the passage, or remove the row."
    assert problem.leaves_out_row


def test_a_path_keeps_its_case() -> None:
    problem = Problem.of(ProblemCode.UNREADABLE_FILE, path="a/b.csv", reason="No such file or directory")
    assert problem.message.startswith("a/b.csv cannot be read (No such file or directory).")


def test_mended_rows_are_not_left_out() -> None:
    assert not Problem.of(ProblemCode.MENDED_TEXT, 3).leaves_out_row
    assert not Problem.of(ProblemCode.EMPTY_FILE).leaves_out_row


def test_an_error_reads_as_its_problem() -> None:
    error = DataError.of(ProblemCode.NO_QUESTION)
    assert str(error).startswith("The file holds no question and no passage. Add rows with a passage each")


def test_of_many_problems_the_first_of_either_sort_are_kept() -> None:
    problems = Problems()
    for row in range(1, MOST_KEPT + 3):
        problems.add(Problem.of(ProblemCode.MENDED_TEXT, row))
        problems.add(Problem.of(ProblemCode.EMPTY_QUESTION, row, column="q"))
    assert (problems.total, problems.left_out, len(problems.kept)) == (2 * MOST_KEPT + 4, MOST_KEPT + 2, 2 * MOST_KEPT)
    assert [(one.row, one.code) for one in problems.kept[-2:]] == [
        (MOST_KEPT, ProblemCode.MENDED_TEXT),
        (MOST_KEPT, ProblemCode.EMPTY_QUESTION),
    ]
