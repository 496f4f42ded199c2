"""TREC files, written and read."""

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.retrieval import trec
from mrc_workbench.retrieval.measures import evaluate
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings, top_k
from tests.doubles import QUESTIONS, small_set, texts_of
from tests.retrieval.compared import assert_equal_rankings, ir_measures_by_name

MEASURES = ir_measures_by_name((1, 5, 10, 20))
MERGED = QuestionSet(
    "merged",
    (Passage("p1", "one"), Passage("p2", "two"), Passage("p3", "three")),
    (Question("q1", "?", relevant=("p1",)), Question("q2", "!", relevant=("p2",))),
    {"copy": "p1", "copy 2": "p2"},
)


def test_writes_qrels_and_run_lines(tmp_path: Path) -> None:
    question_set = small_set().with_questions([0, 5])
    scores = np.array([[1.5, 0.1], [7, -np.inf]], dtype=np.float32)
    rankings = Rankings(np.array([[2, 0], [4, -1]], dtype=np.int32), scores)
    trec.write_qrels(tmp_path / "qrels", question_set)
    trec.write_run(tmp_path / "run", rankings, question_set, "my retriever")
    assert (tmp_path / "qrels").read_text() == "q1 0 p1 1\nq6 0 p2 1\nq6 0 p3 1\n"
    expected = [f"{row} my_retriever" for row in ("q1 Q0 p3 1 1.5", "q1 Q0 p1 2 0.1", "q6 Q0 p5 1 7")]
    assert (tmp_path / "run").read_text().splitlines() == expected


def assert_means_of_tools(rankings: Rankings, question_set: QuestionSet, qrels: Any, run: Any) -> None:
    means = evaluate(rankings, question_set, (1, 5, 20)).means()
    theirs = ir_measures.calc_aggregate(list(MEASURES.values()), list(qrels), list(run))
    known = {name: theirs[measure] for name, measure in MEASURES.items() if name in means}
    assert {name: means[name] for name in known} == pytest.approx(known, abs=1e-6)


def write_both(folder: Path, rankings: Rankings, question_set: QuestionSet, name: str) -> None:
    """Write judgements and run, of which other tools make the same measures."""
    trec.write_qrels(folder / "qrels", question_set)
    trec.write_run(folder / "run", rankings, question_set, name)
    qrels = ir_measures.read_trec_qrels(str(folder / "qrels"))
    assert_means_of_tools(rankings, question_set, qrels, ir_measures.read_trec_run(str(folder / "run")))


@pytest.mark.parametrize("seed", range(5))
def test_tools_that_break_ties_by_id_keep_our_order(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    passages = tuple(Passage(f"p{row}", f"text {row}") for row in rng.permutation(40).tolist())
    relevant = [tuple(passages[row].id for row in rows) for rows in rng.integers(40, size=(30, 2))]
    questions = tuple(Question(f"q{row}", "?", relevant=ids) for row, ids in enumerate(relevant))
    question_set = QuestionSet("tied", passages, questions)
    rankings = top_k(rng.choice([0.0, 0.5, -1e-30, 3e7], (30, 40)), 20)
    before = rankings.scores.copy()
    write_both(tmp_path, rankings, question_set, "tied")
    np.testing.assert_array_equal(rankings.scores, before)


def test_ids_have_no_whitespace_and_stay_unique() -> None:
    def ids(*texts: str) -> tuple[list[str], list[str]]:
        passages = tuple(Passage(id_, str(row)) for row, id_ in enumerate(texts))
        return trec.trec_ids(QuestionSet("ids", passages, tuple(Question(id_, "?") for id_ in texts)))

    assert ids("a b", "c\td\u3000e", "한글") == (["a_b", "c_d_e", "한글"],) * 2
    assert ids("a b", "a_b", "a\tb", "c") == (["a_b-2", "a_b", "a_b-3", "c"],) * 2


def test_lists_changed_ids() -> None:
    passages = (Passage("a b", "one"), Passage("c", "two"))
    question_set = QuestionSet("ids", passages, (Question("q 1", "?", relevant=("c",)),), {"a_b": "c"})
    expected = [["question", "q 1", "q_1"], ["passage", "a b", "a_b-2"]]
    assert trec.changed_ids(question_set).to_numpy().tolist() == expected
    assert trec.changed_ids(small_set()).empty


def test_alias_counts_as_stored_passage(tmp_path: Path) -> None:
    run = written(tmp_path, "q1 Q0 copy 1 3 x\nq1 Q0 p3 2 2 x\nq2 Q0 copy_2 1 1 x\nq2 Q0 nothing 2 0.5 x\n")
    rankings, notes = trec.read_run(run, MERGED)
    assert rankings.indices.tolist() == [[0, 2], [1, NOT_FOUND]]
    assert (notes.aliases, notes.repeated, notes.unknown_passages) == (2, 0, 1)
    run = written(tmp_path, "q1 Q0 p3 1 9 x\nq1 Q0 copy 2 8 x\nq1 Q0 p2 3 7 x\nq1 Q0 p1 4 6 x\n")
    rankings, notes = trec.read_run(run, MERGED)  # a copy and its stored passage count once, at the better rank
    assert (rankings.indices[0].tolist(), rankings.scores[0].tolist()) == ([2, 0, 1], [9, 8, 7])
    assert (notes.aliases, notes.repeated) == (1, 1)


@pytest.mark.parametrize("seed", range(5))
def test_run_with_aliases_has_same_metrics(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    passages = tuple(Passage(f"p{row}", f"text {row}") for row in range(30))
    aliases = {f"copy{number}": f"p{rng.integers(30)}" for number in range(20)}
    questions = tuple(Question(f"q{row}", "?", relevant=(f"p{row}", f"p{row + 1}")) for row in range(20))
    question_set = QuestionSet("merged", passages, questions, aliases)
    names = [*question_set.passages.ids, *aliases]
    scores = {
        (question.id, names[name]): float(score)
        for question in questions
        for name, score in zip(rng.choice(len(names), 15, replace=False), rng.permutation(1000), strict=False)
    }
    lines = "".join(f"{question} Q0 {name} 1 {score} x\n" for (question, name), score in scores.items())
    rankings, notes = trec.read_run(written(tmp_path, lines), question_set)
    best: dict[tuple[str, str], float] = {}
    for (question, name), score in scores.items():
        pair = (question, question_set.passage_id(name))
        best[pair] = max(best.get(pair, -1.0), score)
    assert notes.aliases == sum(name in aliases for _, name in scores)
    assert notes.repeated == len(scores) - len(best)
    run = [ir_measures.ScoredDoc(question, name, score) for (question, name), score in best.items()]
    qrels = [ir_measures.Qrel(labelled.id, name, 1) for labelled in questions for name in labelled.relevant]
    assert_means_of_tools(rankings, question_set, qrels, run)


def test_accepts_ids_with_whitespace_and_aliases(tmp_path: Path) -> None:
    spaced = replace(MERGED, questions=(Question("q 1", "?", relevant=("p2",)),))
    run = written(tmp_path, '{"question": "q 1", "passages": ["copy 2", "p1", "three"]}\n')
    rankings, notes = trec.read_run(run, spaced)
    assert rankings.indices.tolist() == [[1, 0, 2]]
    assert notes.aliases == 1
    # written in TREC's columns, an id may stand for two
    ambiguous = replace(MERGED, aliases={"copy 2": "p1", "copy\t2": "p2"})
    _, notes = trec.read_run(written(tmp_path, "q1 Q0 copy_2 1 3 x\nq1 Q0 p1 2 2 x\n"), ambiguous)
    assert (notes.aliases, notes.unknown_passages) == (0, 1)


@pytest.mark.parametrize(
    ("names", "stems"),
    [
        (["BM25", "Dense"], ["BM25", "Dense"]),
        (["BM25 (kiwi + bigram)", "한국어 검색"], ["BM25_kiwi_+_bigram_", "한국어_검색"]),
        (["../../etc/passwd", "..", "/", "\\", "a/../b"], ["_.._etc_passwd", "retriever", "_", "_-2", "a_.._b"]),
        (["a b", "a/b", "A_B", "a_b-2"], ["a_b", "a_b-2", "A_B-3", "a_b-2-2"]),
        (["qrels", "Qrels", ".qrels"], ["qrels-2", "Qrels-3", "qrels-4"]),
        (["a\0b", "a\nb", "."], ["a_b", "a_b-2", "retriever"]),
        (["한" * 400, "한" * 401], ["한" * 60, f"{'한' * 60}-2"]),  # they fit a file system
    ],
)
def test_file_names_are_unique(names: list[str], stems: list[str], tmp_path: Path) -> None:
    assert trec.file_names(names) == stems
    for stem in stems:
        (tmp_path / f"{stem}.trec").touch(exist_ok=False)
    assert len(list(tmp_path.iterdir())) == len(stems)


def test_preserves_ids_and_names_with_special_characters(tmp_path: Path) -> None:
    ids = ['a"b', '"', "a,b", "#a", "가'나", "a\\b", "\u200b", "a;b"]
    questions = tuple(Question(f"q{id_}", "?", relevant=(id_,)) for id_ in ids)
    question_set = QuestionSet("odd", tuple(Passage(id_, f"text {id_}") for id_ in ids), questions)
    rankings = top_k(np.arange(64, dtype=np.float32).reshape(8, 8) % 11, 8)
    write_both(tmp_path, rankings, question_set, 'my "own"\tname')
    fields = [line.split(" ") for line in (tmp_path / "run").read_text(encoding="utf-8").splitlines()]
    assert {len(row_fields) for row_fields in fields} == {6}
    assert {row_fields[5] for row_fields in fields} == {'my_"own"_name'}
    expected = [question_set.passages.ids[row] for row in rankings.indices[0]]
    assert [row_fields[2] for row_fields in fields[:8]] == expected
    again, _ = trec.read_run(tmp_path / "run", question_set)
    assert again.indices.tolist() == rankings.indices.tolist()


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "their.trec"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def error_of(path: Path, question_set: QuestionSet | None = None) -> trec.RunError:
    with pytest.raises(trec.RunError) as caught:
        trec.read_run(path, question_set or small_set(), "their.trec")
    assert caught.value.details["run"] == "their.trec"
    assert "their.trec" in str(caught.value)
    return caught.value


def test_reads_unordered_lines_and_ignores_ranks(tmp_path: Path) -> None:
    lines = "q2 Q0 p3 1 1e-2 x\n", "  q1\tQ0\tp1\t9\t-3.5\tx\r\n", "\n", "q2   Q0 p2 7 12 x\n", "q1 0 p5 1 -3.25 y"
    rankings, notes = trec.read_run(written(tmp_path, "".join(lines)), small_set())
    assert rankings.indices[:3].tolist() == [[4, 0], [1, 2], [-1, -1]]
    assert (rankings.indices.dtype, rankings.scores.dtype) == (np.int32, np.float32)
    np.testing.assert_array_equal(rankings.scores[:2], np.array([[-3.25, -3.5], [12, 0.01]], dtype=np.float32))
    assert np.isneginf(rankings.scores[2:]).all()
    assert notes == trec.RunNotes(depth=2, questions=2, other_questions=0, unknown_passages=0, repeated=0)


def test_counts_ignored_lines(tmp_path: Path) -> None:
    lines = ["q1 Q0 p1 1 5 x", "q1 Q0 p99 2 4 x", "q1 Q0 p2 3 3 x", "q1 Q0 p1 4 2 x", "q77 Q0 p1 1 1 x"]
    lines += ["q77 Q0 p9 2 0 x"]
    rankings, notes = trec.read_run(written(tmp_path, "\n".join(lines)), small_set())
    assert rankings.indices[0].tolist() == [0, 1]
    assert notes == trec.RunNotes(depth=2, questions=1, other_questions=1, unknown_passages=1, repeated=1)


@pytest.mark.parametrize(
    ("question_ids", "ids"),
    [
        (("7", "07"), ["1", "01", "1.0"]),  # numbers stay text
        (("NaN", "01"), ["NA", "null", 'a"b', "'", "1.50", "1.5", "한글", "nan", "-", "#"]),
    ],
)
def test_reads_ids_like_numbers_or_quotes(question_ids: tuple[str, ...], ids: list[str], tmp_path: Path) -> None:
    passages = tuple(Passage(id_, f"text {row}") for row, id_ in enumerate(ids))
    question_set = QuestionSet("odd", passages, tuple(Question(q, f"? {q}", relevant=(ids[0],)) for q in question_ids))
    lines = [f"{q} Q0 {id_} 0 {-row} none" for q in question_ids for row, id_ in enumerate(ids)]
    rankings, notes = trec.read_run(written(tmp_path, "\ufeff" + "\n".join(lines)), question_set)
    assert rankings.indices.tolist() == [list(range(len(ids)))] * 2
    assert (notes.unknown_passages, notes.other_questions) == (0, 0)


@pytest.mark.parametrize("seed", range(3))
def test_orders_ties_like_trec_eval(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    passages = tuple(Passage(f"{'pP가'[row % 3]}{row}", str(row)) for row in range(60))
    relevant = [tuple(passages[p].id for p in rng.choice(60, 3, replace=False)) for _ in range(40)]
    questions = tuple(Question(f"q{row}", "?", relevant=ids) for row, ids in enumerate(relevant))
    question_set = QuestionSet("tied", passages, questions)
    values = [16777216, 16777217, 3, 0]  # the first two are one float32
    listed = {q.id: rng.choice(60, 30, replace=False) for q in questions}
    run = {q: {passages[p].id: float(rng.choice(values)) for p in rows} for q, rows in listed.items()}
    lines = [f"{q} Q0 {p} 0 {score!r} x" for q, scores in run.items() for p, score in scores.items()]
    rankings, _ = trec.read_run(written(tmp_path, "\n".join(rng.permutation(lines))), question_set)
    assert (np.diff(rankings.scores, axis=1) < 0).all()
    qrels = {q.id: dict.fromkeys(q.relevant, 1) for q in questions}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"recall.1,5,20", "ndcg_cut.10"}).evaluate(run)
    ours = evaluate(rankings, question_set, (1, 5, 20)).per_question
    for name, key in (("recall@1", "recall_1"), ("recall@5", "recall_5"), ("ndcg@10", "ndcg_cut_10")):
        np.testing.assert_allclose(ours[name], [theirs[q.id][key] for q in questions], atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_round_trips_run(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    passages = tuple(Passage(f"p {row}", str(row)) for row in range(50))
    questions = tuple(Question(f"q\t{row}", "the same", relevant=("p 0",)) for row in range(20))
    question_set = QuestionSet("ours", passages, questions)
    scores = rng.normal(size=(20, 50)).astype(np.float32) * 10.0 ** rng.integers(-20, 20, size=(20, 1))
    native = top_k(np.where(rng.random((20, 50)) < 0.5, -np.inf, scores), 15)
    trec.write_run(tmp_path / "run", native, question_set, "our own")
    imported = trec.ImportedRun("imported", tmp_path / "run", question_set).search(texts_of(questions), 15)
    assert_equal_rankings(imported, native)


@pytest.mark.parametrize(
    "line",
    [
        *("q1 Q0 p1 1 5", "q1 Q0 p1 1 5 a b", "q1 Q0 p1 1 5 a b c d"),
        *("q1 Q0 p1 1 five x", "q1 Q0 p1 1 nan x", "q1 Q0 p1 1 1e39 x", "["),
    ],
)
@pytest.mark.parametrize("before", [0, 2])
def test_reports_number_of_broken_line(line: str, before: int, tmp_path: Path) -> None:
    path = written(tmp_path, "\n".join([*["q1 Q0 p2 1 7 x", ""][:before], line, "q1 Q0 p3 2 4 x"]))
    error = error_of(path)
    assert (error.code, error.details["line"]) == ("run_broken_line", before + 1)
    assert str(error).startswith(f"their.trec, line {before + 1}: expected six columns: question Q0 passage rank score")
    assert repr(line) in str(error)


@pytest.mark.parametrize("content", ["", "\n \n", b"q1 Q0 p\xff 1 5 x\n", b"PK\x03\x04\x00\xff\xfe"])
def test_rejects_files_that_are_no_run(content: str | bytes, tmp_path: Path) -> None:
    assert error_of(written(tmp_path, content)).code == "run_unreadable"


def test_reports_ids_of_run_over_other_data(tmp_path: Path) -> None:
    other_questions = error_of(written(tmp_path, "w1 Q0 p1 1 5 x\n"))
    assert (other_questions.code, other_questions.details["line"]) == ("run_other_ids", 0)
    message = "names no {} of the dataset: its ids are like {}, those of the dataset like {}"
    assert message.format("question", "'w1'", "'q1'") in str(other_questions)
    other_passages = error_of(written(tmp_path, "w1 Q0 p1 1 5 x\nq1 Q0 doc7 1 5 x\n"))
    assert message.format("passage", "'doc7'", "'p1'") in str(other_passages)


def test_resolves_path_relative_to_experiment(tmp_path: Path) -> None:
    path = written(tmp_path, "q1 Q0 p1 1 5 x\n")
    assert trec.find_run("their.trec", tmp_path) == trec.find_run(str(path), None) == path
    for missing in ("no-such.trec", ".", "n" * 5000, "a\0b"):
        with pytest.raises(trec.RunError, match="there is no file") as caught:
            trec.find_run(missing, tmp_path)
        assert caught.value.code == "run_not_found"


def test_fingerprint_changes_with_run(tmp_path: Path) -> None:
    path = written(tmp_path, "q1 Q0 p1 1 5 x\n")
    before = trec.fingerprint(path)
    assert trec.fingerprint(path) == before
    written(tmp_path, "q1 Q0 p1 1 5.0 x\n")
    assert trec.fingerprint(path) != before


@pytest.fixture
def run(tmp_path: Path) -> Path:
    lines = [f"{q.id} Q0 p{p} 0 {-abs(p - 2 - row % 3)} x" for row, q in enumerate(QUESTIONS) for p in (1, 2, 3)]
    return written(tmp_path, "\n".join(lines[:-3]))  # without the last question


def test_matches_questions_by_text(run: Path) -> None:
    imported = trec.ImportedRun("imported", run, small_set())
    queries = texts_of(QUESTIONS)
    whole = imported.search(queries, 3)
    assert whole.indices[-1].tolist() == [-1, -1, -1]  # the run lacks the last question
    selected = imported.search([queries[2], "never seen", queries[0]], 3)
    assert_equal_rankings(selected, whole.select(np.array([2, -1, 0])))
    assert imported.search([], 2).indices.shape == (0, 2)


def test_equal_question_texts_keep_their_rankings(tmp_path: Path) -> None:
    passages = (Passage("p1", "one"), Passage("p2", "two"))
    twice = QuestionSet("twice", passages, (Question("a", "same"), Question("b", "same")))
    imported = trec.ImportedRun("imported", written(tmp_path, "a Q0 p1 1 1 x\nb Q0 p2 1 1 x\n"), twice)
    assert imported.search(["same", "same"], 1).indices.tolist() == [[0], [1]]
    assert imported.search(["same"], 1).indices.tolist() == [[0]]


@pytest.mark.parametrize(
    ("depth", "k", "columns"),
    [*((0, 1, 1), (0, 3, 3), (0, 5, 3), (0, 100, 3)), *((4, 3, 3), (4, 4, 4), (4, 5, 4), (4, 100, 4), (100, 100, 5))],
)
def test_rankings_are_limited_to_run_depth(depth: int, k: int, columns: int, run: Path) -> None:
    imported = trec.ImportedRun("imported", run, small_set(), depth=depth)
    rankings = imported.search(texts_of(QUESTIONS), k)
    assert rankings.indices.shape == rankings.scores.shape == (6, columns)
    assert columns <= len(small_set().passages)
    assert set(rankings.indices[:, 3:].ravel().tolist()) <= {NOT_FOUND}
    assert imported.notes["depth"] == 3


def test_run_over_whole_corpus_has_full_depth(tmp_path: Path) -> None:
    path = written(tmp_path, "\n".join(f"q1 Q0 p{p} 0 {p} x" for p in range(1, 6)))
    rankings: Rankings = trec.ImportedRun("imported", path, small_set()).search(texts_of(QUESTIONS), 7)
    assert rankings.indices[0].tolist() == [4, 3, 2, 1, 0]
    assert np.isfinite(rankings.scores[0]).all()


def test_matches_passages_by_text(tmp_path: Path) -> None:
    question_set = small_set()
    question = question_set.questions[1]
    passages = question_set.passages
    spaced = passages[3].text.replace(" ", "  \n")
    lines = [
        {"question": f" {question.text} ", "passages": [spaced, passages[0].id, "nobody's", passages[3].text]},
        {"question": "another?", "passages": [passages[1].text]},
    ]
    content = "\ufeff" + "\n\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    rankings, notes = trec.read_run(written(tmp_path, content), question_set)
    assert rankings.indices[1].tolist() == [3, 0]
    assert (rankings.indices[[0, 2]] == NOT_FOUND).all()
    assert (notes.questions, notes.other_questions, notes.unknown_passages, notes.repeated) == (1, 1, 1, 1)


@pytest.mark.slow
@given(st.text(max_size=40) | st.recursive(st.none() | st.integers(), st.lists).map(json.dumps))
def test_reports_number_of_invalid_json_line(line: str) -> None:
    with TemporaryDirectory() as folder:
        good = json.dumps({"question": "x", "passages": []})
        error = error_of(written(Path(folder), f'{good}\n{{"question": {line}'))
        assert (error.code, error.details["line"]) in {("run_broken_line", 2), ("run_unreadable", 0)}
