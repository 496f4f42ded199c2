"""Each published layout is read completely, and missing content is reported."""

import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.layouts.reading import Layout
from mrc_workbench.data.passages import Passage
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import QuestionSetReading, read, read_file, read_files, read_files_in_subprocess
from mrc_workbench.data.records import Question
from mrc_workbench.data.store import find, load, save_question_set
from tests.data.layouts import written
from tests.data.layouts.written import jsonl, read_all

UNTITLED = ("trec_lines", "ms_marco", "autorag", "llama_index", "ragas", "triples")
OWN_IDS = ("ragas", "triples")


def problems(reading: QuestionSetReading) -> list[tuple[str, int | None, str]]:
    return [(str(problem.details.get("file", "")), problem.row, problem.code.value) for problem in reading.problems]


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("beir", Layout.BEIR),
        ("mteb", Layout.MTEB),
        ("mteb_jsonl", Layout.MTEB),
        ("trec_sgml", Layout.TREC),
        ("trec_xml", Layout.TREC),
        ("trec_lines", Layout.TREC),
        ("ms_marco", Layout.MS_MARCO),
        ("miracl", Layout.MIRACL),
    ],
)
def test_reads_passages_questions_and_judgements(name: str, layout: Layout) -> None:
    reading = read_all(written.LAYOUTS[name]())
    has_titles = name not in UNTITLED
    passages = [Passage(id_, text, title if has_titles else "") for id_, (title, text) in written.PASSAGES.items()]
    assert list(reading.question_set.passages) == sorted(passages, key=lambda passage: passage.id)
    questions = [
        Question.from_grades(id_, text, written.JUDGED.get(id_, {})) for id_, text in written.QUESTIONS.items()
    ]
    assert list(reading.question_set.questions) == questions
    assert (reading.layout, reading.problems, reading.judgement_count) == (layout, (), 5)
    assert written.gaps(reading) == {"unjudged_questions": {"ids": 1, "examples": "q3"}}
    assert {file.role.value for file in reading.files} == {"passages", "questions", "judgements"}
    assert reading.row_count == sum(file.row_count for file in reading.files) == 13


@pytest.mark.parametrize("name", written.LAYOUTS)
def test_file_order_and_zip_do_not_change_the_set(name: str) -> None:
    files = written.LAYOUTS[name]()
    expected = read_all(files)
    reversed_reading = read_all(dict(reversed(files.items())))
    packed = read(written.zipped(files), "set.zip")
    for reading in (reversed_reading, packed):
        assert {*reading.question_set.passages} == {*expected.question_set.passages}
        assert reading.question_set.questions == expected.question_set.questions
        assert (reading.layout, reading.gaps, reading.left_out) == (expected.layout, expected.gaps, 0)
    assert packed.question_set.name == "set"


@pytest.mark.parametrize("name", written.LAYOUTS)
def test_subprocess_and_store_return_the_same_set(name: str) -> None:
    files = written.files_in(written.LAYOUTS[name]())
    expected = read_files(files)
    assert read_files_in_subprocess(files) == expected
    assert load(save_question_set(expected.question_set).key) == expected.question_set


def test_reads_a_folder_and_names_the_set_after_it(tmp_path: Path) -> None:
    written.write_all(tmp_path, written.beir() | {"scifact/README.md": b"# scifact", "scifact/.hidden": b"x"})
    reading = read_file(tmp_path / "scifact")
    assert reading.question_set.name == "scifact"
    assert reading.question_set == read(written.zipped(written.beir()), "scifact.zip").question_set
    assert find(str(tmp_path / "scifact")) == reading.question_set
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="contains no data file"):
        read_file(tmp_path / "empty")


def test_reports_unusable_rows_with_file_and_row() -> None:
    files = written.beir()
    cells = [("d1", "", "하나"), ("", "", "둘"), ("d1", "", "셋"), ("d4", "", " "), ("d5", "제목뿐", "")]
    cells += [("d6", "", ["여섯"]), ("d7", "", "하나")]
    queries = [("q1", "무엇?"), ("q2", ""), ("q1", "왜?"), ("q1", "무엇?")]
    files["scifact/corpus.jsonl"] = jsonl(written.named("_id title text", cells)) + b'{"_id": "d8", "te\n'
    files["scifact/queries.jsonl"] = jsonl(written.named("_id text", queries))
    judged = [["q1", "d1", "1"], ["q1", "d5", "0.5"], ["q1", "d1", "2"], ["q1", "d5", "x"], ["q1", "d7", "3"]]
    judged += [["q1", "d5", ""], ["q1", "d5", "1001"], ["", "d5", "1"], ["q1", "d5", "-2"], ["q1"]]
    files["scifact/qrels/test.tsv"] = written.lines([["query-id", "corpus-id", "score"], *judged])
    reading = read_all(files)
    corpus_name, queries_name, qrels_name = files
    assert problems(reading) == [
        (corpus_name, 2, "empty_id"),
        (corpus_name, 3, "duplicate_passage"),
        (corpus_name, 4, "empty_context"),
        (corpus_name, 5, "title_as_text"),
        (corpus_name, 6, "not_text"),
        (corpus_name, 8, "broken_line"),
        (queries_name, 2, "empty_question"),
        (queries_name, 3, "duplicate_id"),
        (queries_name, 4, "repeated_row"),
        (qrels_name, 3, "wrong_grade"),
        (qrels_name, 4, "judged_twice"),
        (qrels_name, 5, "wrong_grade"),
        (qrels_name, 7, "wrong_grade"),
        (qrels_name, 8, "wrong_grade"),
        (qrels_name, 9, "empty_id"),
        (qrels_name, 11, "field_count"),
        ("", None, "merged_passages"),
    ]
    assert reading.question_set.aliases == {"d7": "d1"}
    assert reading.left_out == 15
    assert reading.rejected["row"].tolist() == [2, 3, 4, 6, 8, 2, 3, 4, 3, 4, 5, 7, 8, 9, 11]
    assert [file.left_out for file in reading.files] == [5, 3, 7]
    assert reading.problems[0].message.startswith("scifact/corpus.jsonl: Row 2: the id (_id) is empty.")
    (question,) = reading.question_set.questions
    assert question.grade_of == {"d1": 3, "d5": 0}, "the best of two ids of one text; below 0 is 0"


def test_counts_unknown_ids_with_examples() -> None:
    files = written.beir()
    judged = [["q1", f"x{number}", 1] for number in range(5)] + [["q9", "d1", 1], ["q9", "d2", 1], ["q1", "d1", 1]]
    files["scifact/qrels/test.tsv"] = written.lines([["query-id", "corpus-id", "score"], *judged])
    reading = read_all(files)
    assert written.gaps(reading) == {
        "unknown_passages": {"rows": 5, "ids": 5, "examples": "x0, x1, x2"},
        "unknown_questions": {"rows": 2, "ids": 1, "examples": "q9"},
        "unjudged_questions": {"ids": 2, "examples": "q2, q3"},
    }
    assert reading.question_set.questions[0].relevant == ("d1",)


def test_reads_groups_of_autorag() -> None:
    first, second = read_all(written.autorag()).question_set.questions
    assert first.groups == (("d1", "d3"), ("d2",))
    assert (first.relevant, first.answers) == (("d1", "d3", "d2"), ("장영실",))
    assert (second.groups, second.relevant) == ((), ("d5",)), "one passage in one group is a plain judgement"


@pytest.mark.parametrize(
    ("given", "groups", "relevant"),
    [
        (["d1", "d2"], (("d1", "d2"),), ("d1", "d2")),
        ("d1", (), ("d1",)),
        ("['d1', 'd2']", (("d1", "d2"),), ("d1", "d2")),
        ('[["d1"], ["d2", "d3"]]', (("d1",), ("d2", "d3")), ("d1", "d2", "d3")),
        ([["d1"], ["d2"]], (("d1",), ("d2",)), ("d1", "d2")),
        ("[['d1' 'd3'] ['d2']]", (("d1", "d3"), ("d2",)), ("d1", "d3", "d2")),
        ("[array(['d1'], dtype=object) array(['d2'], dtype=object)]", (("d1",), ("d2",)), ("d1", "d2")),
        ([["d1", "x"], ["x"], []], (("d1",), ()), ("d1",)),
        ([], (), ()),
        (None, (), ()),
    ],
)
def test_reads_nested_id_lists_as_groups(given: object, groups: object, relevant: tuple[str, ...]) -> None:
    qa = jsonl(written.named("qid query retrieval_gt", [("1", "무엇?", given), ("2", "왜?", [])]))
    reading = read_all({"qa.jsonl": qa, "corpus.parquet": written.autorag()["corpus.parquet"]})
    assert (reading.question_set.questions[0].groups, reading.question_set.questions[0].relevant) == (groups, relevant)
    expected = {"rows": 2, "ids": 1, "examples": "x"} if relevant == ("d1",) and isinstance(given, list) else None
    assert written.gaps(reading).get("unknown_passages") == expected


def test_reads_llama_index_responses_as_answers() -> None:
    reading = read_all(written.llama_index())
    assert [question.answers for question in reading.question_set.questions] == [("장영실",), (), ()]
    assert [question.relevant for question in reading.question_set.questions] == list(written.RELEVANT.values())
    assert reading.layout is Layout.LLAMA_INDEX


def test_reports_duplicate_keys() -> None:
    text = '{"queries": {"a": "무엇?", "a": "왜?"}, "corpus": {"d": "하나", "d": "둘"}, "relevant_docs": {"a": ["d"]}}'
    reading = read(text.encode(), "set.json")
    assert [code for _, _, code in problems(reading)] == ["duplicate_passage", "duplicate_id"]
    assert reading.question_set.questions == (Question("a", "무엇?", relevant=("d",)),)


def test_reads_ragas_contexts_as_passages() -> None:
    reading = read_all(written.ragas())
    assert len(reading.question_set.passages) == 4
    texts = {item.id: item.text for item in reading.question_set.passages}
    for question, expected in zip(reading.question_set.questions, written.RELEVANT.values(), strict=True):
        assert tuple(texts[id_] for id_ in question.relevant) == tuple(written.PASSAGES[id_][1] for id_ in expected)
        assert question.answers == (f"{question.id}의 답",)
    assert [item.kind for item in reading.question_set.questions] == ["multi_hop", "single_hop", "single_hop"]


def test_reads_ragas_contexts_from_csv() -> None:
    table = pd.DataFrame({"user_input": ["무엇?"], "reference_contexts": ["['하나, 둘', '셋']"], "reference": ["답"]})
    reading = read(table.to_csv(index=False).encode(), "testset.csv")
    assert list(reading.question_set.passages.texts) == ["하나, 둘", "셋"]


def test_gives_mr_tydi_negatives_grade_zero() -> None:
    first, second, third = read_all(written.mr_tydi()).question_set.questions
    assert first.grade_of == {"d1": 1, "d3": 1, "d4": 0}
    assert (second.relevant, second.grades, third.relevant) == (("d5", "d2"), (), ())


def test_reports_passage_ids_with_two_texts() -> None:
    held = [{"docid": "d1", "title": "", "text": text} for text in ("하나", "둘")]
    row = {"query_id": "1", "query": "무엇?", "positive_passages": held, "negative_passages": []}
    reading = read(jsonl([row, row | {"query_id": "2"}]), "train.jsonl")
    assert [code for _, _, code in problems(reading)] == ["other_text", "other_text"]
    assert list(reading.question_set.passages.texts) == ["하나"]


def test_reads_questions_from_quepid_ratings() -> None:
    reading = read_all(written.quepid())
    assert [(question.text, question.grade_of) for question in reading.question_set.questions] == [
        (written.QUESTIONS[id_], held) for id_, held in written.JUDGED.items()
    ]
    assert reading.layout is Layout.QUEPID


def test_reads_triples_as_questions_with_positive_and_negative() -> None:
    first, second = read_all(written.triples()).question_set.questions
    assert (first.text, first.grade_of) == (written.QUESTIONS["q1"], {"p1": 1, "p4": 1, "p2": 0, "p5": 0})
    assert second.grade_of == {"p3": 1, "p1": 0}


def test_reads_generic_tables_as_files_layout() -> None:
    files = {"지문.csv": "id,text\n1,서울은 큰 도시이다\n2,부산은 항구이다\n", "질문.csv": "id,question\na,도시는?\n"}
    files["판정.csv"] = "query-id,corpus-id,score\na,1,1\n"
    reading = read_all({name: content.encode("cp949") for name, content in files.items()})
    assert (reading.layout, reading.encoding) == (Layout.FILES, "CP949")
    assert reading.question_set.questions == (Question("a", "도시는?", relevant=("1",)),)


def test_reads_numeric_ids() -> None:
    texts = ["가 나 다 라", "마 바 사 아"]
    corpus, queries = (pd.DataFrame({"id": [1, 2], "text": held}) for held in (texts, ["가?", "나?"]))
    judged = pd.DataFrame({"query-id": [1, 2], "corpus-id": [2, 1], "score": [1.0, 2.0]})
    tables = {"x.parquet": queries, "y.parquet": corpus, "z.parquet": judged}
    reading = read_all({name: written.parquet(table) for name, table in tables.items()})
    assert [question.grade_of for question in reading.question_set.questions] == [{"2": 1}, {"1": 2}]
    assert list(reading.question_set.passages.texts) == texts, "told by their length"


def test_rejects_several_collections_by_name() -> None:
    both = written.mteb() | {name.replace("ko-", "ja-"): content for name, content in written.mteb().items()}
    with pytest.raises(DataError, match="There are several collections here: ja, ko"):
        read_all(both)
    two = written.beir() | {name.replace("scifact", "nfcorpus"): content for name, content in written.beir().items()}
    with pytest.raises(DataError, match="nfcorpus, scifact"):
        read_all(two)
    assert read_all(written.miracl()).layout is Layout.MIRACL, "topics and documents may lie in folders of their own"


def test_rejects_files_without_passages() -> None:
    files = written.trec_sgml()
    del files["docs.trectext"]
    with pytest.raises(DataError, match=r"No passage file among these \(topics.txt, qrels.txt\)"):
        read_all(files)


def test_merges_rows_into_a_collection() -> None:
    rows = f"질문,지문\n무엇?,새로운 지문\n어디?,{written.PASSAGES['d4'][1]}\n"
    reading = read_all(written.beir() | {"scifact/rows.csv": rows.encode()})
    assert len(reading.question_set.passages) == len(written.PASSAGES) + 1
    relevant = {question.text: question.relevant for question in reading.question_set.questions}
    assert relevant["어디?"] == ("d4",), "a text that the corpus has keeps its id"
    assert relevant.keys() == {*written.QUESTIONS.values(), "무엇?", "어디?"}


def test_reads_a_zipped_table_like_the_table() -> None:
    content = "질문,지문\n무엇?,하나\n".encode()
    reading = read(written.zipped({"rows.csv": content}), "mine.zip")
    assert (reading.layout, reading.question_set.name) == (None, "mine")
    assert reading.question_set.fingerprint == read(content, "x").question_set.fingerprint


def test_reports_a_broken_file_and_reads_the_rest() -> None:
    reading = read_all(written.mteb() | {"ko-corpus/corpus-00001-of-00002.parquet": b"PAR1 damaged"})
    assert list(reading.question_set.passages.ids) == ["d1", "d2"]
    (broken,) = [gap for gap in reading.gaps if gap.code is ProblemCode.BROKEN_PARQUET]
    assert broken.message.startswith("ko-corpus/corpus-00001-of-00002.parquet: The Parquet file cannot be read")
    assert written.gaps(reading)["unknown_passages"]["examples"] == "d3, d4, d5"


def test_rejects_with_the_broken_file_if_no_other_has_passages() -> None:
    broken = {name: b"PAR1 damaged" for name in written.mteb() if "corpus" in name}
    with pytest.raises(DataError, match=r"^ko-corpus/corpus-00000-of-00002\.parquet: The Parquet file cannot be read"):
        read_all(written.mteb() | broken)


@pytest.mark.slow
@given(
    st.dictionaries(
        st.text("ab1", min_size=1, max_size=2), st.text("가나다 ", min_size=1, max_size=9), min_size=1, max_size=6
    ),
    st.dictionaries(st.text("xy1", min_size=1, max_size=2), st.text("가?", min_size=1, max_size=4), max_size=4),
    st.lists(st.tuples(st.text("xy1", max_size=2), st.text("ab1", max_size=2), st.integers(-2, 4)), max_size=9),
)
def test_reads_or_reports_every_row(
    passages: dict[str, str], questions: dict[str, str], judged: list[tuple[str, str, int]]
) -> None:
    content = {
        "corpus.jsonl": jsonl([{"_id": id_, "title": "", "text": text} for id_, text in passages.items()]),
        "queries.jsonl": jsonl([{"_id": id_, "text": text} for id_, text in questions.items()]),
        "qrels.tsv": written.lines([["query-id", "corpus-id", "score"], *map(list, judged)]),
    }
    try:
        reading = read_all({name: held for name, held in content.items() if held.strip()})
    except DataError:
        return
    merged = sum(int(p.details["count"]) for p in reading.problems if p.code is ProblemCode.MERGED_PASSAGES)
    question_set = reading.question_set
    assert len(question_set.aliases) == merged
    left_out = {file.role.value: file.left_out for file in reading.files}
    assert len(question_set.passages) == len(passages) - left_out["passages"] - merged
    assert len(question_set.questions) == len(questions) - left_out.get("questions", 0)
    unknown = sum(int(gap.details.get("rows", 0)) for gap in reading.gaps)
    assert reading.judgement_count == len(judged) - left_out.get("judgements", 0) - unknown


def test_reads_single_line_json_as_json_lines() -> None:
    reading = read_all(
        {
            "corpus.jsonl": json.dumps({"_id": "d", "title": "제목", "text": "하나"}).encode(),
            "queries.jsonl": json.dumps({"_id": "q", "text": "무엇?"}).encode(),
            "qrels/test.tsv": b"query-id\tcorpus-id\tscore\nq\td\t1\n",
        }
    )
    assert reading.question_set.questions == (Question("q", "무엇?", relevant=("d",)),)
