"""Several files of a dataset: parts, shards, a larger corpus, and questions that name their documents."""

import json
from typing import Any

import pandas as pd
import pytest

from mrc_workbench.data.layouts.reading import Layout
from mrc_workbench.data.problems import ProblemCode
from mrc_workbench.data.questions.read import QuestionSetReading, read
from tests.data.layouts import written
from tests.data.layouts.written import jsonl, read_all
from tests.data.sample_files import as_excel

GULL = "갈매기는 항구에서 산다."
BEAVER = "비버는 나무로 둑을 쌓는다."
MOON = "달은 지구를 한 달에 한 번 돈다."
OTHER = "고래는 바다에서 노래한다."
CONTEXT_BY_QUESTION = {"갈매기는 어디에서 사나?": GULL, "비버는 무엇을 쌓나?": BEAVER, "달은 무엇을 도나?": MOON}
EXPECTED = {question: [context] for question, context in CONTEXT_BY_QUESTION.items()}
ANSWERS = ("항구", "둑", "지구")
TITLES = {GULL: "갈매기", BEAVER: "비버", MOON: "달", OTHER: "고래"}


def squad(number: int) -> bytes:
    question, context = list(CONTEXT_BY_QUESTION.items())[number]
    answer = {"text": ANSWERS[number], "answer_start": context.index(ANSWERS[number])}
    qas = [{"id": f"s{number}", "question": question, "answers": [answer]}]
    return json.dumps({"data": [{"title": TITLES[context], "paragraphs": [{"context": context, "qas": qas}]}]}).encode()


def rows_of(numbers: list[int]) -> list[dict[str, Any]]:
    pairs = list(CONTEXT_BY_QUESTION.items())
    cells = ((f"r{number}", TITLES[pairs[number][1]], *pairs[number], ANSWERS[number]) for number in numbers)
    return written.named("id title question context answer", cells)


def as_csv(rows: list[dict[str, Any]], encoding: str = "utf-8") -> bytes:
    return pd.DataFrame(rows).to_csv(index=False).encode(encoding)


def parts(reading: QuestionSetReading) -> dict[str, str]:
    return {question.text: question.part for question in reading.question_set.questions}


SHARDS: dict[str, written.Files] = {
    "SQuAD": {"train.json": squad(0), "dev.json": squad(1), "test.json": squad(2)},
    "JSONL": {f"{name}.jsonl": jsonl(rows_of([n])) for n, name in enumerate(("train", "valid", "test"))},
    "CSV": {f"qa_{name}.csv": as_csv(rows_of([n])) for n, name in enumerate(("train", "dev", "test"))},
    "Parquet": {
        f"data/{name}-00000-of-00001.parquet": written.parquet(pd.DataFrame(rows_of([n])))
        for n, name in enumerate(("train", "validation", "test"))
    },
    "folders": {f"{name}/qa.json": squad(n) for n, name in enumerate(("1.Training", "2.Validation", "3.Test"))},
    "Korean": {f"{name}/문답.csv": as_csv(rows_of([n])) for n, name in enumerate(("학습", "검증", "평가"))},
    "mixed": {"train.json": squad(0), "dev.csv": as_csv(rows_of([1])), "test.xlsx": as_excel(rows_of([2]))},
}


@pytest.mark.parametrize("name", SHARDS)
def test_joins_parts_into_a_dataset(name: str) -> None:
    reading = read_all(SHARDS[name])
    assert written.relevant_texts(reading) == EXPECTED
    assert list(parts(reading).values()) == ["train", "validation", "test"]
    assert [question.answers for question in reading.question_set.questions] == [(answer,) for answer in ANSWERS]
    assert (reading.left_out, reading.layout) == (0, Layout.ROWS)
    assert {file.name for file in reading.files} == {*SHARDS[name]}


def test_shards_of_a_file_have_no_part() -> None:
    files = {f"train-0000{n}-of-00003.parquet": written.parquet(pd.DataFrame(rows_of([n]))) for n in range(3)}
    reading = read_all(files)
    assert written.relevant_texts(reading) == EXPECTED
    assert {*parts(reading).values()} == {""}


def test_assigns_repeated_questions_to_the_strictest_part() -> None:
    reading = read_all({"train.jsonl": jsonl(rows_of([0, 1])), "test.jsonl": jsonl(rows_of([1]))})
    assert list(parts(reading).values()) == ["train", "test"]
    assert len(reading.question_set.questions) == 2


def test_merges_equal_passages_across_files() -> None:
    first = rows_of([0, 1])
    second = [{**rows_of([0])[0], "id": "new", "question": "항구에는 무엇이 사나?"}]
    reading = read_all({"a.jsonl": jsonl(first), "b.csv": as_csv(second)})
    assert sorted(reading.question_set.passages.texts) == sorted([GULL, BEAVER])
    assert written.relevant_texts(reading)["항구에는 무엇이 사나?"] == [GULL]


def test_keeps_questions_with_equal_ids_in_different_files() -> None:
    first, second = ([{**row, "id": "1"} for row in rows_of([n])] for n in (0, 1))
    reading = read_all({"a.jsonl": jsonl(first), "b.jsonl": jsonl(second)})
    assert len(written.relevant_texts(reading)) == 2
    assert ProblemCode.CHANGED_QUESTION_IDS in {problem.code for problem in reading.problems}


def test_keeps_passages_with_equal_ids_in_different_shards() -> None:
    shards = {
        f"corpus-{shard}.jsonl": jsonl(written.named("id title contents", [("0", "", first), ("1", "", BEAVER)]))
        for shard, first in enumerate((GULL, MOON))
    }
    reading = read_all(shards | {"train.json": squad(0)})
    assert sorted(reading.question_set.passages.texts) == sorted([GULL, BEAVER, MOON])
    assert reading.left_out == 0
    assert {problem.code for problem in reading.problems} == {ProblemCode.CHANGED_IDS, ProblemCode.REPEATED_PASSAGES}


CORPORA: dict[str, written.Files] = {
    "JSONL": {"corpus.jsonl": jsonl([{"id": f"c{n}", "title": "", "text": text} for n, text in enumerate(TITLES)])},
    "CSV": {"wiki.csv": as_csv([{"doc_id": f"c{n}", "본문": text} for n, text in enumerate(TITLES)])},
    "texts alone": {"passages.csv": as_csv([{"context": text} for text in TITLES])},
    "two shards": {
        "corpus/a.jsonl": jsonl([{"_id": "c0", "text": GULL}, {"_id": "c1", "text": BEAVER}]),
        "corpus/b.jsonl": jsonl([{"_id": "c2", "text": MOON}, {"_id": "c3", "text": OTHER}]),
    },
}


@pytest.mark.parametrize("name", CORPORA)
def test_merges_a_larger_corpus_with_row_passages(name: str) -> None:
    reading = read_all({"train.json": squad(0), "dev.json": squad(1), **CORPORA[name]})
    assert sorted(reading.question_set.passages.texts) == sorted(TITLES)
    assert written.relevant_texts(reading) == dict(list(EXPECTED.items())[:2])
    assert list(parts(reading).values()) == ["train", "validation"]


DOCUMENTS = [{"doc_id": f"{number}", "title": TITLES[text], "content": text} for number, text in enumerate(TITLES, 11)]
KOREAN = [{"문서번호": row["doc_id"], "제목": row["title"], "내용": row["content"]} for row in DOCUMENTS]
QUESTIONS = [{"id": str(number), "question": question} for number, question in enumerate(CONTEXT_BY_QUESTION, 1)]


def naming(column: str, values: list[Any], **names: str) -> list[dict[str, Any]]:
    """Rows of questions with a column that names their documents."""
    rows = [{**row, column: value} for row, value in zip(QUESTIONS, values, strict=True)]
    return [{names.get(name, name): value for name, value in row.items()} for row in rows]


ANIMALS = ("gull", "beaver", "moon", "whale")
NAMING: dict[str, written.Files] = {
    "id": {"questions.csv": as_csv(naming("doc_id", [11, 12, 13])), "docs.csv": as_csv(DOCUMENTS)},
    "another name": {"qa.jsonl": jsonl(naming("gold_document", ["11", "12", "13"])), "docs.jsonl": jsonl(DOCUMENTS)},
    "list": {"qa.json": json.dumps(naming("docs", [["11"], ["12"], ["13"]])).encode(), "d.csv": as_csv(DOCUMENTS)},
    "text of a list": {"qa.csv": as_csv(naming("relevant_docs", ["['11']", "[12]", "13"])), "d.csv": as_csv(DOCUMENTS)},
    "objects": {"qa.jsonl": jsonl(naming("gold", [[{"doc_id": n}] for n in (11, 12, 13)])), "d.csv": as_csv(DOCUMENTS)},
    "decimal": {"qa.csv": as_csv(naming("doc_id", [11.0, 12.0, 13.0])), "docs.csv": as_csv(DOCUMENTS)},
    "Excel": {"qa.xlsx": as_excel(naming("doc_id", [11, 12, 13])), "docs.xlsx": as_excel(DOCUMENTS)},
    "title": {"qa.csv": as_csv(naming("article", ["갈매기", "비버", "달"])), "docs.csv": as_csv(DOCUMENTS)},
    "file": {
        "qa.csv": as_csv(naming("source_doc", ["kb/gull.md", "BEAVER.txt", "moon"])),
        "docs.csv": as_csv([{**row, "doc_id": f"{name}.txt"} for row, name in zip(DOCUMENTS, ANIMALS, strict=True)]),
    },
    "Korean": {
        "질문.csv": as_csv(naming("정답문서번호", [11, 12, 13], id="질문번호", question="질문"), "cp949"),
        "문서.csv": as_csv(KOREAN, "cp949"),
    },
    "question without id": {
        "qa.csv": as_csv([{"질문": text, "근거문서": number} for number, text in enumerate(CONTEXT_BY_QUESTION, 11)]),
        "docs.csv": as_csv(DOCUMENTS),
    },
    "question id beside it": {
        "qa.csv": as_csv([{"query_id": n, "query": q, "doc_id": n + 10} for n, q in enumerate(CONTEXT_BY_QUESTION, 1)]),
        "docs.csv": as_csv(DOCUMENTS),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", NAMING)
def test_resolves_documents_named_by_questions(name: str) -> None:
    reading = read_all(NAMING[name])
    assert written.relevant_texts(reading) == EXPECTED
    assert len(reading.question_set.passages) == len(TITLES)
    assert set(reading.question_set.passages.titles) == set(TITLES.values())
    assert (written.gaps(reading), reading.judgement_count) == ({}, 3)


def test_reads_several_relevant_documents_of_a_question() -> None:
    for given in ("11, 13", "11;13", '["11", "13"]', "11|13"):
        files = {"qa.csv": as_csv(naming("doc_ids", [given, 12, 13])), "docs.csv": as_csv(DOCUMENTS)}
        assert written.relevant_texts(read_all(files))["갈매기는 어디에서 사나?"] == [GULL, MOON], given


def test_reads_a_graded_document_per_row() -> None:
    row = {"qid": "1", "question": "누가 바다에 사나?"}
    rows = [row | {"doc_id": doc, "score": score} for doc, score in ((11, 2), (12, 0), (14, 1))]
    (question,) = read_all({"qa.csv": as_csv(rows), "docs.csv": as_csv(DOCUMENTS)}).question_set.questions
    assert question.grade_of == {"11": 2, "14": 1, "12": 0}


@pytest.mark.parametrize("negative", [14, "['14']"])
def test_gives_named_negatives_grade_zero(negative: int | str) -> None:
    rows = [{**row, "negative_doc_id": negative} for row in naming("doc_id", [11, 12, 13])]
    reading = read_all({"qa.csv": as_csv(rows), "docs.csv": as_csv(DOCUMENTS)})
    assert written.grades(reading) == [{id_: 1, "14": 0} for id_ in ("11", "12", "13")]


def test_groups_passages_of_a_named_document() -> None:
    chunks = [{"id": f"{n}-{p}", "title": "바다", "text": f"{n}장 {p}절의 글이다."} for n in (1, 2) for p in "ab"]
    rows = [{"id": "q1", "question": "바다는?", "문서명": "바다"}, {"id": "q2", "question": "달은?", "문서명": "달"}]
    corpus = [*chunks, {"id": "m", "title": "달", "text": MOON}]
    first, second = read_all({"qa.csv": as_csv(rows), "corpus.jsonl": jsonl(corpus)}).question_set.questions
    assert first.groups == (("1-a", "1-b", "2-a", "2-b"),)
    assert (second.relevant, second.groups) == (("m",), ())


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("difficulty", [11, 12, 13]),  # small numbers match ids of any corpus
        ("retrieved_ids", ["11", "12", "13"]),
        ("note", ["a", "b", "c"]),
        ("doc_id", ["x", "y", "z"]),
    ],
)
def test_reports_columns_that_name_no_documents(column: str, values: list[Any]) -> None:
    reading = read_all({"qa.csv": as_csv(naming(column, values)), "docs.csv": as_csv(DOCUMENTS)})
    assert {question.relevant for question in reading.question_set.questions} == {()}
    assert written.gaps(reading)["unjudged_questions"]["ids"] == 3
    assert any(name.endswith(column) for name in reading.unused_columns)


def test_counts_unknown_passage_names() -> None:
    reading = read_all({"qa.csv": as_csv(naming("doc_id", [11, 12, 99])), "docs.csv": as_csv(DOCUMENTS)})
    unknown = {"rows": 1, "ids": 1, "examples": "99"}
    assert written.gaps(reading) == {"unknown_passages": unknown, "unjudged_questions": {"ids": 1, "examples": "3"}}


@pytest.mark.parametrize("judged", ["pid", "docid"])
def test_selects_the_id_column_that_judgements_use(judged: str) -> None:
    corpus = [{"docid": f"d{n}", "pid": f"p{n}", "title": "", "text": text} for n, text in enumerate(TITLES)]
    queries = jsonl([{"_id": "q", "text": "누가 항구에 사나?"}])
    qrels = f"query-id\tcorpus-id\tscore\nq\t{judged[0]}0\t1\n".encode()
    reading = read_all({"corpus.jsonl": jsonl(corpus), "queries.jsonl": queries, "qrels.tsv": qrels})
    assert written.relevant_texts(reading) == {"누가 항구에 사나?": [GULL]}


def test_reads_the_split_from_qrels_files() -> None:
    header = ["query-id", "corpus-id", "score"]
    files = written.beir()
    del files["scifact/qrels/test.tsv"]
    for name, question in (("train", "q1"), ("dev", "q2"), ("test", "q3")):
        files[f"scifact/qrels/{name}.tsv"] = written.lines([header, [question, "d1", 1]])
    reading = read_all(files)
    assert list(parts(reading).values()) == ["train", "validation", "test"]
    single = read_all(written.beir())
    assert {*parts(single).values()} == {""}, "test judgements alone divide nothing"


@pytest.mark.parametrize("number", ["1.0", "01", "1"])
def test_matches_ids_written_as_numbers(number: str) -> None:
    corpus = jsonl([{"_id": n, "title": "", "text": text} for n, text in enumerate(TITLES, 1)])
    queries = jsonl([{"_id": n, "text": text} for n, text in enumerate(CONTEXT_BY_QUESTION, 1)])
    qrels = f"query_id,corpus_id,score\n{number},{number},1.0\n".encode()
    reading = read_all({"corpus.jsonl": corpus, "queries.jsonl": queries, "qrels.csv": qrels})
    assert written.relevant_texts(reading)["갈매기는 어디에서 사나?"] == [GULL]
    assert "unknown_passages" not in written.gaps(reading)


TOPICS = "".join(f"<DOC>\n<DOCNO> {n} </DOCNO>\n\n{text}\n</DOC>\n" for n, text in enumerate(CONTEXT_BY_QUESTION, 1))
TAGGED = "".join(f"<DOC>\n<DOCNO>D-{n}</DOCNO>\n<TEXT>\n{text}\n</TEXT>\n</DOC>\n" for n, text in enumerate(TITLES, 1))
JUDGED = "".join(f"{n} Q0 D-{n} 1\n" for n in (1, 2, 3))


@pytest.mark.parametrize(
    ("documents", "topics"), [("docs.trec", "topics.txt"), ("a.txt", "b.txt"), ("topics.txt", "docs.txt")]
)
def test_prefers_judged_ids_over_tags_and_names(documents: str, topics: str) -> None:
    reading = read_all({documents: TAGGED.encode(), topics: TOPICS.encode(), "qrels.txt": JUDGED.encode()})
    assert written.relevant_texts(reading) == EXPECTED


def test_prefers_judged_ids_over_table_names() -> None:
    documents = jsonl([{"id": f"D-{n}", "text": text} for n, text in enumerate(TITLES, 1)])
    questions = jsonl([{"id": str(n), "text": question} for n, question in enumerate(CONTEXT_BY_QUESTION, 1)])
    reading = read_all({"questions.jsonl": documents, "docs.jsonl": questions, "qrels.txt": JUDGED.encode()})
    assert written.relevant_texts(reading) == EXPECTED


@pytest.mark.parametrize(
    ("odd", "code"),
    [
        ({"ids.csv": b"id\n1\n2\n3\n"}, ProblemCode.ONLY_IDS),
        ({"ids.json": b'[{"id": 1, "page": 4}, {"id": 2, "page": 5}]'}, ProblemCode.ONLY_IDS),
        ({"notes.csv": "비고,날짜\n담당자 확인 필요,2020\n".encode()}, ProblemCode.NO_KNOWN_COLUMN),
        ({"model.bin": bytes(range(256))}, ProblemCode.UNKNOWN_FORMAT),
        ({"cut.parquet": b"PAR1 cut"}, ProblemCode.BROKEN_PARQUET),
        ({"cut.json": b'{"data": [{"a": '}, ProblemCode.CUT_JSON),
        ({"empty.csv": b""}, ProblemCode.EMPTY_FILE),
        ({"pred.json": b'[{"id": "r0", "prediction_text": "a"}]'}, ProblemCode.PREDICTIONS),
    ],
)
@pytest.mark.parametrize("others", ["rows", "parts", "collection"])
def test_reports_unusable_files_and_reads_the_rest(odd: written.Files, code: ProblemCode, others: str) -> None:
    all_files = {"rows": {"rows.csv": as_csv(rows_of([0, 1]))}, "parts": SHARDS["SQuAD"], "collection": NAMING["id"]}
    files = all_files[others]
    reading = read_all(files | odd)
    assert written.relevant_texts(reading) == written.relevant_texts(read_all(files))
    (name,) = odd
    matching_gaps = [gap for gap in reading.gaps if gap.code is code]
    assert [gap.details["file"] for gap in matching_gaps] == [name]
    assert matching_gaps[0].message.startswith(f"{name}: ")


def test_rejects_reader_predictions() -> None:
    predictions = json.dumps([{"id": "r0", "prediction_text": "항구", "no_answer_probability": 0.1}]).encode()
    with written.refuses(ProblemCode.PREDICTIONS, r"predictions\.json holds the answers that a reader predicted"):
        read(predictions, "predictions.json")


def test_joins_part_folders_into_a_collection() -> None:
    files = {}
    for number, part in enumerate(("train", "dev")):
        files[f"{part}/questions.csv"] = as_csv(naming("doc_id", [11, 12, 13])[number : number + 1])
        files[f"{part}/documents.csv"] = as_csv(DOCUMENTS[number : number + 1])
    reading = read(written.zipped(files), "set.zip")
    assert parts(reading) == dict(zip(CONTEXT_BY_QUESTION, ("train", "validation"), strict=False))
    assert written.relevant_texts(reading) == dict(list(EXPECTED.items())[:2])


def test_every_column_is_used_or_reported() -> None:
    rows = [{**row, "난이도": "쉬움", "kind": "사실"} for row in naming("doc_id", [11, 12, 13])]
    documents = [{**row, "url": "https://example.org"} for row in DOCUMENTS]
    reading = read_all({"qa.csv": as_csv(rows), "docs.csv": as_csv(documents)})
    columns = (*reading.used_columns, *reading.metadata_columns, *reading.unused_columns)
    assert set(columns) == {"id", "question", "doc_id", "title", "content", "난이도", "kind", "url"}
    assert len(columns) == len(set(columns))
    assert {"난이도", "url"} <= set(reading.unused_columns)


def test_rejects_faq_files_with_a_flag_to_search_answers() -> None:
    sea = {"질문": "갈매기는?", "답변": GULL}
    river = {"질문": "비버는?", "답변": BEAVER}
    files = {"바다.csv": as_csv([sea]), "강.csv": as_csv([river])}
    with written.refuses(ProblemCode.ANSWERS_ALONE) as error:
        read(written.zipped(files), "faq.zip")
    assert error.value.problem.details["flags"] == "--columns context=답변"
