"""What the commands print of a reading, of its split, and of a refusal with its choices."""

from dataclasses import replace

from mrc_workbench.data.apart import UnusableFileError
from mrc_workbench.data.formats.columns import Columns
from mrc_workbench.data.formats.encodings import EncodingCandidate
from mrc_workbench.data.formats.opening import Proposal
from mrc_workbench.data.problems import DataError, Problem, ProblemCode
from mrc_workbench.data.questions.read import read
from mrc_workbench.data.questions.report import reading_lines, refusal_lines, split_lines
from mrc_workbench.data.split import split

READING = read("질문,지문,난이도,메모\n수도는?,서울은 수도이다.,상,가\n강은?,한강이다.,하,나\n".encode(), "set.csv")


def test_reading_lists_used_metadata_and_unused_columns() -> None:
    columns = {"used_columns": ("질문", "지문"), "metadata_columns": ("난이도",), "unused_columns": ("메모",)}
    lines = reading_lines(replace(READING, **columns))
    assert lines[2:5] == [
        "Columns: question <- 질문, context <- 지문",
        "Metadata columns: 난이도",
        "Unused columns: 메모",
    ]


def test_reading_lists_used_columns_that_have_no_role_of_their_own() -> None:
    columns = {"used_columns": ("질문", "지문", "난이도"), "unused_columns": ("메모",)}
    assert "Used columns: 난이도" in reading_lines(replace(READING, **columns))
    assert "Used columns: 질문, 지문, 난이도" in reading_lines(replace(READING, columns=None, **columns))


def test_reading_lists_no_empty_kind_of_column() -> None:
    columns = {"used_columns": ("질문", "지문"), "metadata_columns": (), "unused_columns": ()}
    lines = "\n".join(reading_lines(replace(READING, **columns)))
    assert "question <- 질문, context <- 지문" in lines
    assert "Metadata" not in lines
    assert "Unused" not in lines


def test_split_lines_say_how_the_split_came_about_and_warn_of_few_questions() -> None:
    lines = split_lines(split(READING.question_set))
    assert lines[0].startswith("Split of the answerable questions, drawn")
    assert any("fewer than" in line for line in lines[1:])


def test_split_lines_say_that_the_split_is_published() -> None:
    published = read("질문,지문,split\n수도는?,서울이다.,train\n강은?,한강이다.,test\n".encode(), "set.csv")
    assert "as published" in split_lines(split(published.question_set))[0]


def test_refusal_lists_candidate_readings_with_their_flags() -> None:
    proposal = Proposal(
        Columns("질문"),
        ("질문", "답변", "비고 (내부)"),
        ({"질문": "배송은?", "답변": "이틀 걸린다.", "비고 (내부)": "확인"},),
        (Columns("질문", "답변"), Columns("질문", "비고 (내부)")),
    )
    error = UnusableFileError(DataError.of(ProblemCode.EMPTY_FILE), proposal)
    assert refusal_lines(error)[1:] == [
        "Possible readings:",
        "  --columns question=질문 context=답변",
        "    question: 배송은? | context: 이틀 걸린다.",
        '  --columns question=질문 "context=비고 (내부)"',
        "    question: 배송은? | context: 확인",
    ]


def test_refusal_lists_encodings_with_their_first_line() -> None:
    proposal = Proposal(Columns(), encodings=(EncodingCandidate("shift_jis", "首都は?"),))
    doubtful = DataError.of(ProblemCode.DOUBTFUL_ENCODING, candidates="Shift-JIS: 首都は?", flags="--encoding NAME")
    error = UnusableFileError(doubtful, proposal)
    assert refusal_lines(error)[1:] == ["Possible encodings:", "  --encoding shift_jis    首都は?"]


def test_refusal_without_choices_lists_the_rows_at_fault() -> None:
    row = Problem.of(ProblemCode.EMPTY_CONTEXT, 3, column="지문")
    error = DataError(Problem.of(ProblemCode.NO_QUESTION), [row])
    assert refusal_lines(error) == [error.problem.message, f"  {row.message}"]
