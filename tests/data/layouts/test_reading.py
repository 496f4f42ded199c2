"""Each layout, written after its description, is read to exactly what stands in it; what is missing is told."""

import gzip
import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.layouts.reading import Layout
from mrc_workbench.data.passages import Passage
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import Reading, read, read_file, read_files, read_files_apart
from mrc_workbench.data.records import Question
from mrc_workbench.data.store import find, keep, load
from tests.data.layouts.written import (
    JUDGED,
    LAYOUTS,
    PASSAGES,
    QUESTIONS,
    RELEVANT,
    autorag,
    beir,
    files_in,
    jsonl,
    lines,
    llama_index,
    miracl,
    mr_tydi,
    mteb,
    parquet,
    quepid,
    ragas,
    read_all,
    trec_sgml,
    triples,
    write_all,
    zipped,
)

UNTITLED = ("trec_lines", "ms_marco", "autorag", "llama_index", "ragas", "triples")
OWN_IDS = ("ragas", "triples")


def gaps(reading: Reading) -> dict[str, dict[str, str | int]]:
    return {gap.code.value: gap.details for gap in reading.gaps}


def problems(reading: Reading) -> list[tuple[str, int | None, str]]:
    return [(str(one.details.get("file", "")), one.row, one.code.value) for one in reading.problems]


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
def test_files_of_passages_questions_and_judgements(name: str, layout: Layout) -> None:
    reading = read_all(LAYOUTS[name]())
    titled = name not in UNTITLED
    passages = [Passage(id_, text, title if titled else "") for id_, (title, text) in PASSAGES.items()]
    assert list(reading.question_set.passages) == sorted(passages, key=lambda one: one.id)
    asked = [Question.judged(id_, text, JUDGED.get(id_, {})) for id_, text in QUESTIONS.items()]
    assert list(reading.question_set.questions) == asked
    assert (reading.layout, reading.problems, reading.judgement_count) == (layout, (), 5)
    assert gaps(reading) == {"unjudged_questions": {"ids": 1, "examples": "q3"}}
    assert {file.role.value for file in reading.files} == {"passages", "questions", "judgements"}
    assert reading.row_count == sum(file.row_count for file in reading.files) == 13


@pytest.mark.parametrize("name", LAYOUTS)
def test_files_in_any_order_and_in_a_zip_are_the_same_set(name: str) -> None:
    files = LAYOUTS[name]()
    there = read_all(files)
    turned = read_all(dict(reversed(files.items())))
    packed = read(zipped(files), "set.zip")
    for one in (turned, packed):
        assert {*one.question_set.passages} == {*there.question_set.passages}
        assert one.question_set.questions == there.question_set.questions
        assert (one.layout, one.gaps, one.left_out) == (there.layout, there.gaps, 0)
    assert packed.question_set.name == "set"


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_process_of_its_own_reads_the_same(name: str) -> None:
    files = files_in(LAYOUTS[name]())
    assert read_files_apart(files) == read_files(files)


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_was_read_is_kept_with_grades_and_groups(name: str) -> None:
    question_set = read_all(LAYOUTS[name]()).question_set
    assert load(keep(question_set).key) == question_set


def test_a_folder_is_read_from_disk_and_named_by_itself(tmp_path: Path) -> None:
    write_all(tmp_path, beir() | {"scifact/README.md": b"# scifact", "scifact/.hidden": b"x"})
    reading = read_file(tmp_path / "scifact")
    assert reading.question_set.name == "scifact"
    assert reading.question_set == read(zipped(beir()), "scifact.zip").question_set
    assert find(str(tmp_path / "scifact")) == reading.question_set
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="contains no data file"):
        read_file(tmp_path / "empty")


def test_packed_files_are_unpacked() -> None:
    files = {f"{name}.gz": gzip.compress(content) for name, content in beir().items()}
    assert read_all(files).question_set.questions == read_all(beir()).question_set.questions


def test_rows_that_cannot_be_used_are_told_with_file_and_row() -> None:
    files = beir()
    corpus = [
        {"_id": "d1", "title": "", "text": "하나"},
        {"_id": "", "title": "", "text": "둘"},
        {"_id": "d1", "title": "", "text": "셋"},
        {"_id": "d4", "title": "", "text": " "},
        {"_id": "d5", "title": "제목뿐", "text": ""},
        {"_id": "d6", "title": "", "text": ["여섯"]},
        {"_id": "d7", "title": "", "text": "하나"},
    ]
    queries = [{"_id": "q1", "text": "무엇?"}, {"_id": "q2", "text": ""}, {"_id": "q1", "text": "왜?"}]
    files["scifact/corpus.jsonl"] = jsonl(corpus) + b'{"_id": "d8", "te\n'
    files["scifact/queries.jsonl"] = jsonl([*queries, {"_id": "q1", "text": "무엇?"}])
    judged = [["q1", "d1", "1"], ["q1", "d5", "0.5"], ["q1", "d1", "2"], ["q1", "d5", "x"], ["q1", "d7", "3"]]
    judged += [["q1", "d5", ""], ["q1", "d5", "1001"], ["", "d5", "1"], ["q1", "d5", "-2"], ["q1"]]
    files["scifact/qrels/test.tsv"] = lines([["query-id", "corpus-id", "score"], *judged])
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
    (asked,) = reading.question_set.questions
    assert asked.grade_of == {"d1": 3, "d5": 0}, "the best of two ids of one text; below 0 is 0"


def test_ids_that_nobody_has_are_counted_with_examples() -> None:
    files = beir()
    judged = [["q1", f"x{number}", 1] for number in range(5)] + [["q9", "d1", 1], ["q9", "d2", 1], ["q1", "d1", 1]]
    files["scifact/qrels/test.tsv"] = lines([["query-id", "corpus-id", "score"], *judged])
    reading = read_all(files)
    assert gaps(reading) == {
        "unknown_passages": {"rows": 5, "ids": 5, "examples": "x0, x1, x2"},
        "unknown_questions": {"rows": 2, "ids": 1, "examples": "q9"},
        "unjudged_questions": {"ids": 2, "examples": "q2, q3"},
    }
    assert reading.question_set.questions[0].relevant == ("d1",)


def test_groups_of_autorag() -> None:
    first, second = read_all(autorag()).question_set.questions
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
def test_lists_of_ids_are_and_outside_and_or_inside(
    given: object, groups: tuple[tuple[str, ...], ...], relevant: tuple[str, ...]
) -> None:
    qa = jsonl(
        [{"qid": "1", "query": "무엇?", "retrieval_gt": given}, {"qid": "2", "query": "왜?", "retrieval_gt": []}]
    )
    reading = read_all({"qa.jsonl": qa, "corpus.parquet": autorag()["corpus.parquet"]})
    assert (reading.question_set.questions[0].groups, reading.question_set.questions[0].relevant) == (groups, relevant)
    expected = {"rows": 2, "ids": 1, "examples": "x"} if relevant == ("d1",) and isinstance(given, list) else None
    assert gaps(reading).get("unknown_passages") == expected


def test_responses_of_llama_index_are_answers() -> None:
    reading = read_all(llama_index())
    assert [one.answers for one in reading.question_set.questions] == [("장영실",), (), ()]
    assert [one.relevant for one in reading.question_set.questions] == list(RELEVANT.values())
    assert reading.layout is Layout.LLAMA_INDEX


def test_a_key_twice_in_one_object_is_told() -> None:
    content = (
        '{"queries": {"a": "무엇?", "a": "왜?"}, "corpus": {"d": "하나", "d": "둘"}, "relevant_docs": {"a": ["d"]}}'
    )
    reading = read(content.encode(), "set.json")
    assert [code for _, _, code in problems(reading)] == ["duplicate_passage", "duplicate_id"]
    assert reading.question_set.questions == (Question("a", "무엇?", relevant=("d",)),)


def test_contexts_of_ragas_are_texts() -> None:
    reading = read_all(ragas())
    assert len(reading.question_set.passages) == 4
    texts = {one.id: one.text for one in reading.question_set.passages}
    for question, expected in zip(reading.question_set.questions, RELEVANT.values(), strict=True):
        assert tuple(texts[id_] for id_ in question.relevant) == tuple(PASSAGES[id_][1] for id_ in expected)
        assert question.answers == (f"{question.id}의 답",)
    assert [one.kind for one in reading.question_set.questions] == ["multi_hop", "single_hop", "single_hop"]


def test_contexts_of_ragas_in_a_table_of_text() -> None:
    table = pd.DataFrame({"user_input": ["무엇?"], "reference_contexts": ["['하나, 둘', '셋']"], "reference": ["답"]})
    reading = read(table.to_csv(index=False).encode(), "testset.csv")
    assert list(reading.question_set.passages.texts) == ["하나, 둘", "셋"]


def test_negatives_of_mr_tydi_are_of_grade_0() -> None:
    first, second, third = read_all(mr_tydi()).question_set.questions
    assert first.grade_of == {"d1": 1, "d3": 1, "d4": 0}
    assert (second.relevant, second.grades, third.relevant) == (("d5", "d2"), (), ())


def test_a_passage_that_stands_twice_with_two_texts_is_told() -> None:
    held = [{"docid": "d1", "title": "", "text": text} for text in ("하나", "둘")]
    row = {"query_id": "1", "query": "무엇?", "positive_passages": held, "negative_passages": []}
    reading = read(jsonl([row, row | {"query_id": "2"}]), "train.jsonl")
    assert [code for _, _, code in problems(reading)] == ["other_text", "other_text"]
    assert list(reading.question_set.passages.texts) == ["하나"]


def test_ratings_of_quepid_bring_their_questions() -> None:
    reading = read_all(quepid())
    assert [(one.text, one.grade_of) for one in reading.question_set.questions] == [
        (QUESTIONS[id_], held) for id_, held in JUDGED.items()
    ]
    assert reading.layout is Layout.QUEPID


def test_triples_are_questions_with_a_passage_that_answers_and_one_that_does_not() -> None:
    first, second = read_all(triples()).question_set.questions
    assert (first.text, first.grade_of) == (QUESTIONS["q1"], {"p1": 1, "p4": 1, "p2": 0, "p5": 0})
    assert second.grade_of == {"p3": 1, "p1": 0}


def test_tables_of_nobody_in_particular_are_files() -> None:
    files = {"지문.csv": "id,text\n1,서울은 큰 도시이다\n2,부산은 항구이다\n", "질문.csv": "id,question\na,도시는?\n"}
    files["판정.csv"] = "query-id,corpus-id,score\na,1,1\n"
    reading = read_all({name: content.encode("cp949") for name, content in files.items()})
    assert (reading.layout, reading.encoding) == (Layout.FILES, "CP949")
    assert reading.question_set.questions == (Question("a", "도시는?", relevant=("1",)),)


def test_ids_may_be_numbers() -> None:
    texts = ["가 나 다 라", "마 바 사 아"]
    corpus, queries = (pd.DataFrame({"id": [1, 2], "text": held}) for held in (texts, ["가?", "나?"]))
    judged = pd.DataFrame({"query-id": [1, 2], "corpus-id": [2, 1], "score": [1.0, 2.0]})
    reading = read_all({"x.parquet": parquet(queries), "y.parquet": parquet(corpus), "z.parquet": parquet(judged)})
    assert [one.grade_of for one in reading.question_set.questions] == [{"2": 1}, {"1": 2}]
    assert list(reading.question_set.passages.texts) == texts, "told by their length"


def test_collections_of_several_languages_are_refused_by_name() -> None:
    both = mteb() | {name.replace("ko-", "ja-"): content for name, content in mteb().items()}
    with pytest.raises(DataError, match="There are several collections here: ja, ko"):
        read_all(both)
    two = beir() | {name.replace("scifact", "nfcorpus"): content for name, content in beir().items()}
    with pytest.raises(DataError, match="nfcorpus, scifact"):
        read_all(two)
    assert read_all(miracl()).layout is Layout.MIRACL, "topics and documents may lie in folders of their own"


def test_files_without_passages_are_refused() -> None:
    files = trec_sgml()
    del files["docs.trectext"]
    with pytest.raises(DataError, match=r"No passage file among these \(topics.txt, qrels.txt\)"):
        read_all(files)


def test_rows_with_questions_and_passages_join_a_collection() -> None:
    reading = read_all(
        beir() | {"scifact/rows.csv": f"질문,지문\n무엇?,새로운 지문\n어디?,{PASSAGES['d4'][1]}\n".encode()}
    )
    assert len(reading.question_set.passages) == len(PASSAGES) + 1
    found = {one.text: one.relevant for one in reading.question_set.questions}
    assert found["어디?"] == ("d4",), "a text that the corpus has keeps its id"
    assert found.keys() == {*QUESTIONS.values(), "무엇?", "어디?"}


def test_what_is_no_part_is_left_aside_and_told() -> None:
    reading = read_all(beir() | {"notes.txt": "한 줄\n두 줄\n".encode(), "weights.bin": bytes(range(256))})
    assert gaps(reading)["describing_documents"] == {"ids": 1, "examples": "notes.txt"}
    assert gaps(reading)["unknown_format"] == {"found": "binary data", "file": "weights.bin"}


def test_a_table_in_a_zip_is_read_as_it_is_alone() -> None:
    content = "질문,지문\n무엇?,하나\n".encode()
    reading = read(zipped({"rows.csv": content}), "mine.zip")
    assert (reading.layout, reading.question_set.name) == (None, "mine")
    assert reading.question_set.fingerprint == read(content, "x").question_set.fingerprint


def test_names_a_broken_file_and_reads_the_others() -> None:
    reading = read_all(mteb() | {"ko-corpus/corpus-00001-of-00002.parquet": b"PAR1 damaged"})
    assert list(reading.question_set.passages.ids) == ["d1", "d2"]
    (broken,) = [gap for gap in reading.gaps if gap.code is ProblemCode.BROKEN_PARQUET]
    assert broken.message.startswith("ko-corpus/corpus-00001-of-00002.parquet: The Parquet file cannot be read")
    assert gaps(reading)["unknown_passages"]["examples"] == "d3, d4, d5"


def test_refuses_with_the_broken_file_if_nothing_else_has_passages() -> None:
    broken = {name: b"PAR1 damaged" for name in mteb() if "corpus" in name}
    with pytest.raises(DataError, match=r"^ko-corpus/corpus-00000-of-00002\.parquet: The Parquet file cannot be read"):
        read_all(mteb() | broken)


@pytest.mark.slow
@given(
    st.dictionaries(
        st.text("ab1", min_size=1, max_size=2), st.text("가나다 ", min_size=1, max_size=9), min_size=1, max_size=6
    ),
    st.dictionaries(st.text("xy1", min_size=1, max_size=2), st.text("가?", min_size=1, max_size=4), max_size=4),
    st.lists(st.tuples(st.text("xy1", max_size=2), st.text("ab1", max_size=2), st.integers(-2, 4)), max_size=9),
)
def test_every_row_is_read_or_told(
    passages: dict[str, str], asked: dict[str, str], judged: list[tuple[str, str, int]]
) -> None:
    content = {
        "corpus.jsonl": jsonl([{"_id": id_, "title": "", "text": text} for id_, text in passages.items()]),
        "queries.jsonl": jsonl([{"_id": id_, "text": text} for id_, text in asked.items()]),
        "qrels.tsv": lines([["query-id", "corpus-id", "score"], *map(list, judged)]),
    }
    try:
        reading = read_all({name: held for name, held in content.items() if held.strip()})
    except DataError:
        return
    merged = sum(int(one.details["count"]) for one in reading.problems if one.code is ProblemCode.MERGED_PASSAGES)
    kept = reading.question_set
    assert len(kept.aliases) == merged
    left = {file.role.value: file.left_out for file in reading.files}
    assert len(kept.passages) == len(passages) - left["passages"] - merged
    assert len(kept.questions) == len(asked) - left.get("questions", 0)
    unknown = sum(int(gap.details.get("rows", 0)) for gap in reading.gaps)
    assert reading.judgement_count == len(judged) - left.get("judgements", 0) - unknown


def test_json_of_one_line_is_a_line() -> None:
    reading = read_all(
        {
            "corpus.jsonl": json.dumps({"_id": "d", "title": "제목", "text": "하나"}).encode(),
            "queries.jsonl": json.dumps({"_id": "q", "text": "무엇?"}).encode(),
            "qrels/test.tsv": b"query-id\tcorpus-id\tscore\nq\td\t1\n",
        }
    )
    assert reading.question_set.questions == (Question("q", "무엇?", relevant=("d",)),)
