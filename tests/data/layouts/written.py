"""A small collection in each published layout."""

import io
import json
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mrc_workbench.data.formats.columns import QuestionColumns
from mrc_workbench.data.formats.text import Content
from mrc_workbench.data.problems import DataError, ProblemCode
from mrc_workbench.data.questions.read import QuestionSetReading, read, read_files
from mrc_workbench.data.subprocess_reader import File
from tests.data.sample_files import as_csv

Files = dict[str, bytes]

PASSAGES = {
    "d1": ("조선의 과학", "자격루는 세종의 명을 받은 장영실이 만든 물시계이다."),
    "d2": ("조선의 과학", "측우기는 비가 내린 양을 재는 기구로 세종 때 널리 쓰였다."),
    "d3": ("", "The water clock struck the hours by itself, without a watchman."),
    "d4": ("부산", "부산은 바다에 닿은 큰 항구 도시이며 남쪽에 있다."),
    "d5": ("", "Rain gauges of bronze stood in every province of the kingdom."),
}
QUESTIONS = {"q1": "자격루는 누가 만들었는가?", "q2": "What measured the rain?", "q3": "항구 도시는 어디인가?"}
JUDGED = {"q1": {"d1": 2, "d3": 1, "d4": 0}, "q2": {"d5": 1, "d2": 3}}
RELEVANT = {"q1": ("d1", "d3"), "q2": ("d5", "d2"), "q3": ()}


def rows(*between: Any) -> list[list[Any]]:
    """The judgements as rows of question, passage and grade, with other cells after the question."""
    judgements = [(question, *judged) for question, held in JUDGED.items() for judged in held.items()]
    return [[question, *between, *judged] for question, *judged in judgements]


def named(names: str, cells: Iterable[Iterable[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(names.split(), row, strict=True)) for row in cells]


def corpus(names: str) -> list[dict[str, Any]]:
    """The passages with their id, title and text, or id and text, under these names."""
    has_titles = len(names.split()) == 3
    return named(names, ((id_, *held) if has_titles else (id_, held[1]) for id_, held in PASSAGES.items()))


def jsonl(entries: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries).encode()


def lines(cells: Iterable[Iterable[Any]], between: str = "\t") -> bytes:
    return "".join(between.join(map(str, row)) + "\n" for row in cells).encode()


def parquet(table: pd.DataFrame) -> bytes:
    out = io.BytesIO()
    table.to_parquet(out, index=False)
    return out.getvalue()


def zipped(files: Files) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def files_in(contents: Files) -> list[File]:
    return [File(Content(content), name) for name, content in contents.items()]


def read_all(contents: Files) -> QuestionSetReading:
    return read_files(files_in(contents))


def read_json(value: Any, columns: QuestionColumns | None = None) -> QuestionSetReading:
    return read(json.dumps(value, ensure_ascii=False).encode(), "set.json", columns)


def codes(reading: QuestionSetReading) -> list[ProblemCode]:
    return [problem.code for problem in (*reading.problems, *reading.gaps)]


def gaps(reading: QuestionSetReading) -> dict[str, dict[str, str | int]]:
    return {gap.code.value: gap.details for gap in reading.gaps}


def grades(reading: QuestionSetReading) -> list[dict[str, int]]:
    return [question.grade_of for question in reading.question_set.questions]


def answers(reading: QuestionSetReading) -> list[tuple[str, ...]]:
    return [question.answers for question in reading.question_set.questions]


def relevant(reading: QuestionSetReading) -> list[tuple[str, ...]]:
    return [question.relevant for question in reading.question_set.questions]


@contextmanager
def refuses(code: ProblemCode, match: str | None = None) -> Iterator[pytest.ExceptionInfo[DataError]]:
    """Expect that the block refuses a file for this reason."""
    with pytest.raises(DataError, match=match) as error:
        yield error
    assert error.value.problem.code is code


def judged_texts(reading: QuestionSetReading) -> dict[str, dict[str, int]]:
    """Question -> text of each judged passage -> grade."""
    text_of = {passage.id: passage.text for passage in reading.question_set.passages}
    return {q.text: {text_of[id_]: g for id_, g in q.grade_of.items()} for q in reading.question_set.questions}


def relevant_texts(reading: QuestionSetReading) -> dict[str, list[str]]:
    return {q: [text for text, g in held.items() if g] for q, held in judged_texts(reading).items()}


def write_all(folder: Path, contents: Files) -> None:
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def beir() -> Files:
    return {
        "scifact/corpus.jsonl": jsonl([row | {"metadata": {}} for row in corpus("_id title text")]),
        "scifact/queries.jsonl": jsonl([row | {"metadata": {}} for row in named("_id text", QUESTIONS.items())]),
        "scifact/qrels/test.tsv": lines([["query-id", "corpus-id", "score"], *rows()]),
    }


def mteb() -> Files:
    passages = pd.DataFrame(corpus("_id title text"))
    judgements = pd.DataFrame(named("query-id corpus-id score", rows()))
    return {
        "ko-corpus/corpus-00000-of-00002.parquet": parquet(passages[:2]),
        "ko-corpus/corpus-00001-of-00002.parquet": parquet(passages[2:]),
        "ko-queries/queries-00000-of-00001.parquet": parquet(pd.DataFrame(named("_id text", QUESTIONS.items()))),
        "ko-default/test-00000-of-00001.parquet": parquet(judgements.astype({"score": float})),
    }


def mteb_jsonl() -> Files:
    return {
        "corpus/test.jsonl": jsonl(corpus("id title text")),
        "queries/test.jsonl": jsonl(named("id text", QUESTIONS.items())),
        "qrels/test.jsonl": jsonl(named("query-id corpus-id score", rows())),
    }


def trec_sgml() -> Files:
    topics = "".join(
        f"<top>\n<num> Number: {id_}\n<title> {text}\n\n<desc> Description:\nMore.\n<narr> Narrative:\nNo.\n</top>\n\n"
        for id_, text in QUESTIONS.items()
    )
    documents = "".join(
        f"<DOC>\n<DOCNO> {id_} </DOCNO>\n<HEADLINE>{title}</HEADLINE>\n<TEXT>\n<P>\n{text}\n</P>\n</TEXT>\n</DOC>\n"
        for id_, (title, text) in PASSAGES.items()
    )
    return {"topics.txt": topics.encode(), "docs.trectext": documents.encode(), "qrels.txt": lines(rows(0), " ")}


def trec_xml() -> Files:
    topics = "".join(
        f'<topic number="{id_}">\n<query>{text}</query>\n<question>Which?</question>\n</topic>\n'
        for id_, text in QUESTIONS.items()
    )
    documents = "".join(
        f"<DOC>\n<DOCNO>{id_}</DOCNO>\n<DOCHDR>\nhttp://example.org/{id_}\n</DOCHDR>\n<html><head><title>{title}</title>"
        f"<script>var a = 1;</script></head>\n<body>{text}</body></html>\n</DOC>\n"
        for id_, (title, text) in PASSAGES.items()
    )
    xml = f'<?xml version="1.0"?>\n<topics task="covid">\n{topics}</topics>\n'
    return {"topics.xml": xml.encode(), "docs.trecweb": documents.encode(), "qrels-3": lines(rows(), " ")}


def trec_lines() -> Files:
    return {"a": lines(QUESTIONS.items()), "b": jsonl(corpus("id contents")), "c": lines(rows("Q0"))}


def ms_marco() -> Files:
    collection = lines(row.values() for row in corpus("id text"))
    return {"collection.tsv": collection, "queries.dev.tsv": lines(QUESTIONS.items()), "qrels.dev.tsv": lines(rows(0))}


def miracl() -> Files:
    return {
        "miracl-corpus-v1.0-ko/docs-0.jsonl": jsonl(corpus("docid title text")),
        "miracl-v1.0-ko/topics/topics.miracl-v1.0-ko-dev.tsv": lines(QUESTIONS.items()),
        "miracl-v1.0-ko/qrels/qrels.miracl-v1.0-ko-dev.tsv": lines(rows("Q0")),
    }


def mr_tydi() -> Files:
    def held(question: str, *, positive: bool) -> list[dict[str, Any]]:
        ids = [id_ for id_, grade in JUDGED.get(question, {}).items() if (grade > 0) is positive]
        return named("docid title text", ((id_, *PASSAGES[id_]) for id_ in ids))

    cells = ((id_, text, held(id_, positive=True), held(id_, positive=False)) for id_, text in QUESTIONS.items())
    return {"train.jsonl": jsonl(named("query_id query positive_passages negative_passages", cells))}


def autorag() -> Files:
    passages = [row | {"metadata": {"page": 1}} for row in corpus("doc_id contents")]
    qa = [
        {"qid": "q1", "query": QUESTIONS["q1"], "retrieval_gt": [["d1", "d3"], ["d2"]], "generation_gt": ["장영실"]},
        {"qid": "q2", "query": QUESTIONS["q2"], "retrieval_gt": [["d5"]], "generation_gt": ["A gauge", "측우기"]},
    ]
    return {"qa.parquet": parquet(pd.DataFrame(qa)), "corpus.parquet": parquet(pd.DataFrame(passages))}


def llama_index() -> Files:
    texts = {id_: text for id_, (_, text) in PASSAGES.items()}
    relevant = {id_: list(RELEVANT[id_]) for id_ in JUDGED}
    content = {"queries": QUESTIONS, "corpus": texts, "relevant_docs": relevant}
    content |= {"responses": {"q1": "장영실"}, "mode": "text"}
    return {"dataset.json": json.dumps(content, ensure_ascii=False, indent=1).encode()}


def ragas() -> Files:
    entries = []
    for id_, text in QUESTIONS.items():
        contexts = [PASSAGES[passage][1] for passage in RELEVANT[id_]]
        entry = {"user_input": text, "reference_contexts": contexts, "reference": f"{id_}의 답"}
        entries.append(entry | {"synthesizer_name": "multi_hop" if id_ == "q1" else "single_hop"})
    return {"testset.jsonl": jsonl(entries)}


def quepid() -> Files:
    ratings = named("query docid rating", ((QUESTIONS[question], *judged) for question, *judged in rows()))
    return {"case.csv": as_csv(ratings).encode(), "docs.json": json.dumps(corpus("id title text")).encode()}


def triples() -> Files:
    first = [QUESTIONS["q1"], PASSAGES["d1"][1], PASSAGES["d4"][1]]
    second = [QUESTIONS["q2"], PASSAGES["d5"][1], PASSAGES["d1"][1]]
    third = [QUESTIONS["q1"], PASSAGES["d3"][1], PASSAGES["d2"][1]]
    return {"triples.train.small.tsv": lines([first, second, third])}


_IN_FILES = (beir, mteb, mteb_jsonl, trec_sgml, trec_xml, trec_lines, ms_marco, miracl)
_IN_ROWS = (mr_tydi, autorag, llama_index, ragas, quepid, triples)
LAYOUTS = {write.__name__: write for write in (*_IN_FILES, *_IN_ROWS)}
