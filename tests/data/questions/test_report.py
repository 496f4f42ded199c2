"""Printed lines of a reading, its split, and an error with proposals."""

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.formats.columns import QuestionColumns
from mrc_workbench.data.formats.encodings import EncodingCandidate
from mrc_workbench.data.formats.opening import Proposal
from mrc_workbench.data.formats.tables import is_valid_xml
from mrc_workbench.data.layouts.reading import Layout
from mrc_workbench.data.problems import DataError, Problem, ProblemCode
from mrc_workbench.data.questions import reading_lines, rejection_lines, split_lines
from mrc_workbench.data.questions.read import EXPORT_LAYOUTS, export_archive, folder_name, read
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import split
from mrc_workbench.data.subprocess_reader import UnusableFileError
from tests.data.layouts.written import zipped
from tests.data.split.worlds import chain

READING = read("질문,지문,난이도,메모\n수도는?,서울은 수도이다.,상,가\n강은?,한강이다.,하,나\n".encode(), "set.csv")


ROLES = QuestionColumns("질문", "지문")


@pytest.mark.parametrize(
    ("roles", "used", "metadata", "unused", "expected"),
    [
        (ROLES, "", "난이도", "메모", ["Metadata columns: 난이도", "Unused columns: 메모"]),
        (ROLES, "난이도", "", "메모", ["Used columns: 난이도", "Unused columns: 메모"]),
        (None, "난이도", "", "", ["Used columns: 질문, 지문, 난이도"]),
        (ROLES, "", "", "", []),
    ],
    ids=["metadata and unused", "used without a role", "no roles", "only roles"],
)
def test_reading_lists_columns_by_use(
    roles: QuestionColumns | None, used: str, metadata: str, unused: str, expected: list[str]
) -> None:
    columns = {"used_columns": ("질문", "지문", *filter(None, [used])), "columns": roles}
    columns |= {"metadata_columns": (*filter(None, [metadata]),), "unused_columns": (*filter(None, [unused]),)}
    lines = reading_lines(replace(READING, **columns))
    assert [line for line in lines if "columns: " in line] == expected
    assert ("Columns: question <- 질문, context <- 지문" in lines) is (roles is not None)


def test_split_lines_describe_the_method_and_warn_of_few_questions() -> None:
    lines = split_lines(split(READING.question_set))
    assert lines[0].startswith("Split of the answerable questions, drawn")
    assert any("fewer than" in line for line in lines[1:])


def test_split_lines_report_a_published_split() -> None:
    published = read("질문,지문,split\n수도는?,서울이다.,train\n강은?,한강이다.,test\n".encode(), "set.csv")
    assert "as published" in split_lines(split(published.question_set))[0]


def test_rejection_lists_candidate_readings_with_flags() -> None:
    row = {"질문": "배송은?", "답변": "이틀 걸린다.", "비고 (내부)": "확인"}
    candidates = (QuestionColumns("질문", "답변"), QuestionColumns("질문", "비고 (내부)"))
    proposal = Proposal(QuestionColumns("질문"), ("질문", "답변", "비고 (내부)"), (row,), candidates)
    error = UnusableFileError(DataError.from_code(ProblemCode.EMPTY_FILE), proposal)
    assert rejection_lines(error)[1:] == [
        "Possible readings:",
        "  --columns question=질문 context=답변",
        "    question: 배송은? | context: 이틀 걸린다.",
        '  --columns question=질문 "context=비고 (내부)"',
        "    question: 배송은? | context: 확인",
    ]


def test_rejection_lists_encodings_with_samples() -> None:
    proposal = Proposal(QuestionColumns(), encodings=(EncodingCandidate("shift_jis", "首都は?"),))
    error = UnusableFileError(DataError.from_code(ProblemCode.EMPTY_FILE), proposal)
    assert rejection_lines(error)[1:] == ["Possible encodings:", "  --encoding shift_jis    首都は?"]


def test_rejection_lists_invalid_rows() -> None:
    row = Problem.from_code(ProblemCode.EMPTY_CONTEXT, 3, column="지문")
    error = DataError(Problem.from_code(ProblemCode.NO_QUESTION), [row])
    assert rejection_lines(error) == [error.problem.message, f"  {row.message}"]


ids = (
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
    .map(str.strip)
    .filter(lambda id_: id_ and is_valid_xml(id_))
)
texts = st.text(max_size=12).map(str.strip).filter(lambda text: bool(text) and is_valid_xml(text))


@st.composite
def sets(draw: st.DrawFn) -> QuestionSet:
    bodies = draw(st.lists(texts, min_size=1, max_size=5, unique=True))
    names = draw(st.lists(ids, min_size=len(bodies), max_size=len(bodies), unique=True))
    titles = [draw(st.just("") | texts) for _ in bodies]
    passages = tuple(map(Passage, names, bodies, titles))
    some, group = (st.lists(st.sampled_from(names), min_size=n, max_size=3, unique=True).map(tuple) for n in (0, 1))

    def question(id_: str) -> Question:
        grades = draw(st.dictionaries(st.sampled_from(names), st.integers(0, 5), max_size=4))
        answers = tuple(draw(st.lists(texts, max_size=2, unique=True)))
        return Question.from_grades(
            id_,
            draw(texts),
            grades,
            answers=answers,
            kind=draw(st.just("") | texts),
            generator=draw(st.sampled_from(["", "title", "model: x"])),
            hidden=draw(st.booleans()),
            starts=(3,) * len(answers) if draw(st.booleans()) else (),
            rejected=draw(some),
            part=draw(st.sampled_from(["", "", "train", "validation", "test"])),
            groups=tuple(draw(st.lists(group, max_size=2))),
        )

    aliases = {id_: draw(st.sampled_from(names)) for id_ in draw(st.lists(ids, max_size=3)) if id_ not in names}
    questions = tuple(map(question, draw(st.lists(ids, max_size=3, unique=True))))
    return QuestionSet("내 세트", passages, questions, aliases)


@pytest.mark.slow
@pytest.mark.parametrize("layout", EXPORT_LAYOUTS)
@given(question_set=sets())
def test_reads_back_the_exported_set(layout: Layout, question_set: QuestionSet) -> None:
    reading = read(export_archive(question_set, layout), "내 세트.zip")
    assert reading.question_set == question_set
    assert reading.question_set.fingerprint == question_set.fingerprint
    assert reading.left_out == 0


@pytest.mark.parametrize("layout", EXPORT_LAYOUTS)
def test_export_keeps_aliases(layout: Layout) -> None:
    aliased = replace(GRADED, name="aliased", aliases={"사본 1": "d 1", "copy": "d 1", "x": "d2"})
    reading = read(export_archive(aliased, layout), "aliased.zip")
    assert reading.question_set == aliased
    assert not [p for p in reading.problems if p.code is ProblemCode.MERGED_PASSAGES], "no row was merged"


@pytest.mark.parametrize("layout", EXPORT_LAYOUTS)
def test_exports_a_file_per_published_part(layout: Layout) -> None:
    parts = ["train"] * 3 + ["validation"] * 2 + ["test"]
    published = replace(chain(6, parts=parts), name="published")
    content = export_archive(published, layout)
    names = {"train", "dev", "test"}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        part_names = {Path(name).stem for name in archive.namelist() if "qrels/" in name or "default/" in name}
        front = archive.read("published/README.md").decode().split("---")[1]
    assert part_names == names
    splits = {config_file["split"] for config_file in yaml.safe_load(front)["configs"][-1]["data_files"]}
    assert splits == names
    assert read(content, "published.zip").question_set == published


def test_resolves_judgements_by_exported_alias() -> None:
    corpus = {"_id": "d1", "title": "", "text": "하나", "metadata": {"other_ids": ["copy", "", None, []]}}
    queries = b'{"_id": "q", "text": "?"}'
    judged = b"query-id\tcorpus-id\tscore\nq\tcopy\t1\n"
    files = {"x/corpus.jsonl": json.dumps(corpus).encode(), "x/queries.jsonl": queries, "x/qrels/test.tsv": judged}
    question_set = read(zipped(files), "x.zip").question_set
    assert question_set.aliases == {"copy": "d1"}
    assert question_set.questions[0].relevant == ("d1",)


GRADED_PASSAGES = (Passage("d 1", "한글\t글", "제목"), Passage("d2", "둘\n째"), Passage('d"3', "셋"))
GRADES = {"d 1": 2, "d2": 0, 'd"3': 1}
GRADED_QUESTION = Question.from_grades("q 1", "무엇?", GRADES, groups=(("d 1", 'd"3'),), generator="title")
GRADED = QuestionSet('a "b": c/d', GRADED_PASSAGES, (GRADED_QUESTION, Question("q2", "왜?")))


def _files(layout: Layout) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(export_archive(GRADED, layout))) as archive:
        return {entry.filename: archive.read(entry) for entry in archive.infolist()}


def test_export_is_deterministic() -> None:
    assert export_archive(GRADED, Layout.BEIR) == export_archive(GRADED, Layout.BEIR)


def test_beir_loads_the_exported_folder(tmp_path: Path) -> None:
    loader = pytest.importorskip("beir.datasets.data_loader")
    with zipfile.ZipFile(io.BytesIO(export_archive(GRADED, Layout.BEIR))) as archive:
        archive.extractall(tmp_path)
    corpus, queries, qrels = loader.GenericDataLoader(str(tmp_path / "a_b_c_d")).load(split="test")
    assert corpus["d 1"] == {"text": "한글\t글", "title": "제목"}
    assert (len(corpus), queries) == (3, {"q 1": "무엇?"})
    assert qrels == {"q 1": {"d 1": 2, "d2": 0, 'd"3': 1}}


def test_exports_tables_with_mteb_columns() -> None:
    files = _files(Layout.MTEB)
    tables = {n.split("/")[1]: pq.read_table(io.BytesIO(c)) for n, c in files.items() if n.endswith(".parquet")}
    assert tables["corpus"].column_names == ["_id", "title", "text"]
    assert tables["queries"].column_names[:2] == ["_id", "text"]
    assert tables["default"].to_pylist()[0] == {"query-id": "q 1", "corpus-id": "d 1", "score": 2}


@pytest.mark.parametrize("layout", EXPORT_LAYOUTS)
def test_card_lists_the_files_in_yaml(layout: Layout) -> None:
    files = _files(layout)
    _, front, body = files["a_b_c_d/README.md"].decode().split("---\n", 2)
    metadata = yaml.safe_load(front)
    assert metadata["pretty_name"] == GRADED.name
    assert metadata["language"] == ["ko"]
    paths = {config["data_files"][0]["path"] for config in metadata["configs"]}
    assert {f"a_b_c_d/{path}" for path in paths} == files.keys() - {"a_b_c_d/README.md"}
    assert "3 passages, 2 questions, 3 judgements" in body
    assert "generated from passages: title 1" in body
    assert "groups" in body


def test_exports_a_set_without_questions() -> None:
    alone = QuestionSet("p", GRADED.passages, ())
    for layout in EXPORT_LAYOUTS:
        assert read(export_archive(alone, layout), "p.zip").question_set == alone


@pytest.mark.parametrize(
    ("name", "expected"), [("../../etc", "etc"), ("", "collection"), ("가 나", "가_나"), ("...", "collection")]
)
def test_folder_name_is_never_a_path(name: str, expected: str) -> None:
    assert folder_name(name) == expected


@pytest.mark.parametrize(
    ("metadata", "generator"),
    [
        ({"made": "title"}, "title"),  # the name in earlier versions
        ({"answers": {"a": 1}, "groups": "x"}, ""),
        ({"answers": ["답"], "starts": [10**12]}, ""),
        ({"made": "<b>nobody</b>"}, ""),
        ({"hidden": [], "kind": "x"}, ""),
        ({"kind": {"a": [1]}}, ""),
        ({"groups": [["nowhere"]], "rejected": ["nowhere"]}, ""),
        ("{", ""),
        (["answers"], ""),
        (None, ""),
        (7, ""),
    ],
)
def test_ignores_metadata_of_other_programs(metadata: object, generator: str) -> None:
    query = json.dumps({"_id": "1", "text": "무엇?", "metadata": metadata})
    corpus = json.dumps({"_id": "d", "title": "t", "text": "지문"})
    files = {"corpus.jsonl": corpus.encode(), "queries.jsonl": query.encode()}
    assert read(zipped(files), "set.zip").question_set.questions == (Question("1", "무엇?", generator=generator),)
