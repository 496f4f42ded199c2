from pathlib import Path

import ir_measures
import numpy as np
import pytest
from ir_measures import RR, R, nDCG

from data.records import Passage, Question, QuestionSet
from retrieval.evaluation.measures import evaluate
from retrieval.rankings import Rankings, ranked, top_k
from retrieval.trec import file_names, read_run, trec_ids, write_qrels, write_run
from tests.doubles import small_set


def test_lines(tmp_path: Path) -> None:
    question_set = small_set().with_questions([0, 5])
    rankings = Rankings(
        np.array([[2, 0], [4, -1]], dtype=np.int32), np.array([[1.5, 0.1], [7, -np.inf]], dtype=np.float32)
    )
    write_qrels(tmp_path / "qrels", question_set)
    write_run(tmp_path / "run", rankings, question_set, "my retriever")
    assert (tmp_path / "qrels").read_text() == "q1 0 p1 1\nq6 0 p2 1\nq6 0 p3 1\n"
    assert (tmp_path / "run").read_text().splitlines() == [
        "q1 Q0 p3 1 1.5 my_retriever",
        "q1 Q0 p1 2 0.1 my_retriever",
        "q6 Q0 p5 1 7 my_retriever",
    ]


def test_scores_are_written_to_the_last_bit(tmp_path: Path) -> None:
    scores = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32) * 10.0 ** np.arange(-3, 3)[:, None]
    rankings = top_k(scores, 5)
    write_run(tmp_path / "run", rankings, small_set(), "r")
    read = [np.float32(line.split()[4]) for line in (tmp_path / "run").read_text().splitlines()]
    assert read == rankings.scores.ravel().tolist()


@pytest.mark.parametrize("seed", range(5))
def test_tools_that_break_ties_by_id_see_our_order(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    passages = tuple(Passage(f"p{row}", f"text {row}") for row in rng.permutation(40).tolist())
    questions = tuple(
        Question(f"q{row}", "?", relevant=(passages[rng.integers(40)].id, passages[rng.integers(40)].id))
        for row in range(30)
    )
    question_set = QuestionSet("tied", passages, questions)
    rankings = top_k(rng.choice([0.0, 0.5, -1e-30, 3e7], (30, 40)), 20)
    write_qrels(tmp_path / "qrels", question_set)
    write_run(tmp_path / "run", rankings, question_set, "tied")
    qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "qrels")))
    run = list(ir_measures.read_trec_run(str(tmp_path / "run")))
    theirs = ir_measures.calc_aggregate([R @ 1, R @ 20, RR @ 10, nDCG @ 10], qrels, run)
    means = evaluate(rankings, question_set, (1, 20)).means()
    ours = [means[name] for name in ("recall@1", "recall@20", "mrr@10", "ndcg@10")]
    assert ours == pytest.approx([theirs[measure] for measure in (R @ 1, R @ 20, RR @ 10, nDCG @ 10)], abs=1e-6)


def test_writing_changes_no_score(tmp_path: Path) -> None:
    rankings = ranked(np.array([[0, 1, 2]]), np.zeros((1, 3)), 3)
    write_run(tmp_path / "run", rankings, small_set().with_questions([0]), "r")
    assert rankings.scores.tolist() == [[0, 0, 0]]
    assert len({line.split()[4] for line in (tmp_path / "run").read_text().splitlines()}) == 3


def test_ids_hold_no_white_space_and_stay_different() -> None:
    def ids(*texts: str) -> tuple[list[str], list[str]]:
        passages = tuple(Passage(id_, str(row)) for row, id_ in enumerate(texts))
        return trec_ids(QuestionSet("ids", passages, tuple(Question(id_, "?") for id_ in texts)))

    assert ids("a b", "c\td\u3000e", "한글") == (["a_b", "c_d_e", "한글"],) * 2
    assert ids("a b", "a_b", "c") == (["q1", "q2", "q3"], ["p1", "p2", "p3"])


@pytest.mark.parametrize(
    ("names", "stems"),
    [
        (["BM25", "Dense"], ["BM25", "Dense"]),
        (["BM25 (kiwi + bigram)", "한국어 검색"], ["BM25_kiwi_+_bigram_", "한국어_검색"]),
        (["../../etc/passwd", "..", "/", "\\", "a/../b"], ["_.._etc_passwd", "retriever", "_", "_-2", "a_.._b"]),
        (["a b", "a/b", "A_B", "a_b-2"], ["a_b", "a_b-2", "A_B-3", "a_b-2-2"]),
        (["qrels", "Qrels", ".qrels"], ["qrels-2", "Qrels-3", "qrels-4"]),
        (["a\0b", "a\nb", "."], ["a_b", "a_b-2", "retriever"]),
    ],
)
def test_names_become_files_of_their_own(names: list[str], stems: list[str], tmp_path: Path) -> None:
    assert file_names(names) == stems
    for stem in stems:
        (tmp_path / f"{stem}.trec").touch(exist_ok=False)
    assert len(list(tmp_path.iterdir())) == len(stems)


def test_long_names_fit_a_file_system(tmp_path: Path) -> None:
    stems = file_names(["한" * 400, "한" * 401])
    assert len(set(stems)) == 2
    for stem in stems:
        write_qrels(tmp_path / f"{stem}.trec", small_set())


def test_ids_and_names_with_any_character_stay_themselves(tmp_path: Path) -> None:
    ids = ['a"b', '"', "a,b", "#a", "가'나", "a\\b", "\u200b", "a;b"]
    question_set = QuestionSet(
        "odd",
        tuple(Passage(id_, f"text {id_}") for id_ in ids),
        tuple(Question(f"q{id_}", "?", relevant=(id_,)) for id_ in ids),
    )
    rankings = top_k(np.arange(64, dtype=np.float32).reshape(8, 8) % 11, 8)
    write_qrels(tmp_path / "qrels", question_set)
    write_run(tmp_path / "run", rankings, question_set, 'my "own"\tname')
    fields = [line.split(" ") for line in (tmp_path / "run").read_text(encoding="utf-8").splitlines()]
    assert {len(one) for one in fields} == {6}
    assert {one[5] for one in fields} == {'my_"own"_name'}
    assert [one[2] for one in fields[:8]] == [question_set.passages.ids[row] for row in rankings.indices[0]]
    qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "qrels")))
    run = list(ir_measures.read_trec_run(str(tmp_path / "run")))
    theirs = ir_measures.calc_aggregate([R @ 3], qrels, run)[R @ 3]
    assert evaluate(rankings, question_set, (1, 3)).means()["recall@3"] == pytest.approx(theirs)
    again, _ = read_run(tmp_path / "run", question_set)
    assert again.indices.tolist() == rankings.indices.tolist()
