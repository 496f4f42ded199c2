"""Hard negatives from rankings and from marks of users, and their table, by hand."""

import json
import unicodedata
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.questions.judgements import mark_negative
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import find, save_question_set
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings
from mrc_workbench.training.jobs import DryRunJob, DryRunTask
from mrc_workbench.training.options import NegativesFrom
from mrc_workbench.training.ranker_options import CROSS_ENCODER, CrossEncoderOptions
from mrc_workbench.training.recipes import examples
from mrc_workbench.training.recipes.training_data import TrainingData
from mrc_workbench.training.runs import create_run, new_plan
from mrc_workbench.training.train import load_training_data
from tests.doubles import small_set
from tests.training.worlds import COLUMNS, make_training_data, make_unsplit_data, misleading_set

ALL = np.ones(5, dtype=bool)


def ranking(*rows: list[int]) -> Rankings:
    """Return a ranking whose scores fall from 1 by 0.1 per rank."""
    indices = np.array(rows, dtype=np.int32)
    scores = np.broadcast_to(1 - 0.1 * np.arange(indices.shape[1]), indices.shape)
    return Rankings(indices, np.where(indices >= 0, scores, -np.inf).astype(np.float32))


def make_options(count: int, **options: object) -> CrossEncoderOptions:
    return CrossEncoderOptions(negatives=count, **options)  # type: ignore[arg-type]


def make_negatives(rows: Any, ranks: Any, scores: Any, positive_scores: Any) -> examples.HardNegatives:
    arrays = [np.array(values, dtype=np.float32) for values in (scores, positive_scores)]
    return examples.HardNegatives(np.array(rows, dtype=np.int32), np.array(ranks, dtype=np.int32), *arrays)


def sample_all(rankings: Rankings, question_set: QuestionSet, options: CrossEncoderOptions) -> examples.HardNegatives:
    return examples.sample_negatives(rankings, question_set, question_set.relevance, options, ALL)


World = tuple[Rankings, QuestionSet, np.ndarray, CrossEncoderOptions]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    n_passages = draw(st.integers(1, 12))
    n_questions = draw(st.integers(1, 6))
    depth = draw(st.integers(0, 15))
    rows = st.lists(st.integers(0, n_passages - 1), unique=True, max_size=depth)
    words = st.lists(st.sampled_from(["세종", "한강", "서울"]), unique=True).map(tuple)
    passages = [Passage(f"p{row}", f"글{row} {' '.join(draw(words))}") for row in range(n_passages)]
    relevant = rows.map(lambda passage_rows: tuple(f"p{row}" for row in passage_rows))
    questions = [Question(f"q{row}", "?", draw(words), draw(relevant)) for row in range(n_questions)]
    question_set = QuestionSet("drawn", tuple(passages), tuple(questions))
    padded = rows.map(lambda passage_rows: [*passage_rows, *[NOT_FOUND] * (depth - len(passage_rows))])
    candidates = [draw(padded) for _ in range(n_questions)]
    candidate_rows = np.array(candidates, dtype=np.int32).reshape(n_questions, depth)
    falling = [sorted((draw(st.integers(-72, 72)) / 8 for _ in range(depth)), reverse=True) for _ in candidate_rows]
    scores = np.where(candidate_rows >= 0, np.array(falling).reshape(candidate_rows.shape), -np.inf).astype(np.float32)
    allowed = np.array(draw(st.lists(st.booleans(), min_size=n_passages, max_size=n_passages)))
    values: dict[str, Any] = {
        "negatives_first": st.integers(1, 6),
        "negatives_margin": st.sampled_from([0.0, 0.05, 0.5]),
    }
    values |= {"negatives_with_answer": st.booleans(), "seed": st.integers(0, 5)}
    settings = {name: draw(value) for name, value in values.items()}
    options = make_options(draw(st.integers(1, 20)), negatives_last=20, **settings)
    return Rankings(candidate_rows, scores), question_set, allowed, options


def may_be(question: Question, passage: Passage, options: CrossEncoderOptions) -> bool:
    held = options.negatives_with_answer or not any(answer in passage.text for answer in question.answers)
    return passage.id not in question.relevant and held


@pytest.mark.slow
@given(worlds())
def test_samples_only_valid_negatives(world: World) -> None:
    rankings, question_set, allowed, options = world
    sampled = examples.sample_negatives(rankings, question_set, question_set.relevance, options, allowed)
    shape = (len(question_set.questions), options.negatives)
    assert (sampled.rows.shape, sampled.ranks.shape, sampled.scores.shape) == (shape, shape, shape)
    for number, question in enumerate(question_set.questions):
        candidate_rows = rankings.indices[number].tolist()
        scores = rankings.scores[number].tolist()
        relevant = {question_set.row_of_passage[id_] for id_ in question.relevant}
        positive = next((score for row, score in zip(candidate_rows, scores, strict=True) if row in relevant), np.nan)
        np.testing.assert_equal(sampled.positive_scores[number], np.float32(positive))
        most = positive - options.negatives_margin * abs(positive)
        usable = {
            rank
            for rank, (row, score) in enumerate(zip(candidate_rows, scores, strict=True), start=1)
            if row >= 0
            and rank >= options.negatives_first
            and allowed[row]
            and question.relevant
            and may_be(question, question_set.passages[row], options)
            and not (options.negatives_margin and score > np.float32(most))
        }
        ranks = [rank for rank in sampled.ranks[number].tolist() if rank]
        count = min(options.negatives, len(usable))
        assert set(ranks) <= usable
        assert ranks == sorted(set(ranks))
        assert len(ranks) == count
        empty = options.negatives - count
        assert sampled.ranks[number].tolist() == [*ranks, *[0] * empty]
        assert sampled.rows[number].tolist() == [*(candidate_rows[rank - 1] for rank in ranks), *[NOT_FOUND] * empty]
        np.testing.assert_equal(sampled.scores[number], [*(scores[rank - 1] for rank in ranks), *[np.nan] * empty])
    again = examples.sample_negatives(rankings, question_set, question_set.relevance, options, allowed)
    np.testing.assert_array_equal(sampled.rows, again.rows)


@pytest.mark.slow
@given(worlds())
def test_fills_missing_with_valid_negatives(world: World) -> None:
    rankings, question_set, allowed, options = world
    relevance = question_set.relevance
    sampled_rows = examples.sample_negatives(rankings, question_set, relevance, options, allowed).rows
    full = examples.fill_missing(sampled_rows, question_set, relevance, options, allowed)
    np.testing.assert_array_equal(full[sampled_rows >= 0], sampled_rows[sampled_rows >= 0])
    for question, row, before in zip(question_set.questions, full.tolist(), sampled_rows.tolist(), strict=True):
        filled_passages = [passage for passage in row if passage >= 0]
        fitting = {p for p, free in enumerate(allowed) if free and may_be(question, question_set.passages[p], options)}
        assert set(filled_passages) <= fitting
        count = min(options.negatives, len(fitting | ({*before} - {NOT_FOUND})))
        assert len(set(filled_passages)) == len(filled_passages) == count
    np.testing.assert_array_equal(full, examples.fill_missing(sampled_rows, question_set, relevance, options, allowed))


def test_samples_expected_negatives() -> None:
    # of five passages; q1 is answered by p1 (row 0), q6 by p2 and p3 (rows 1 and 2)
    question_set = small_set().with_questions([0, 5])
    sampled = sample_all(ranking([3, 0, 1, NOT_FOUND], [2, 4, 1, 0]), question_set, make_options(3))
    assert sampled.rows.tolist() == [[3, 1, -1], [4, 0, -1]]
    assert sampled.ranks.tolist() == [[1, 3, 0], [2, 4, 0]]
    np.testing.assert_allclose(sampled.scores, [[1.0, 0.8, np.nan], [0.9, 0.7, np.nan]])
    np.testing.assert_allclose(sampled.positive_scores, [0.9, 1.0])


def test_respects_ranks_and_margin() -> None:
    question_set = small_set().with_questions([0])
    rankings = ranking([3, 0, 1, 2, 4])  # scores 1.0, 0.9 (the question's passage), 0.8, 0.7, 0.6
    assert sample_all(rankings, question_set, make_options(5, negatives_first=3)).ranks.tolist() == [[3, 4, 5, 0, 0]]
    # 10 % below 0.9 is 0.81, 20 % below is 0.72
    assert sample_all(rankings, question_set, make_options(5, negatives_margin=0.1)).ranks.tolist() == [[3, 4, 5, 0, 0]]
    assert sample_all(rankings, question_set, make_options(5, negatives_margin=0.2)).ranks.tolist() == [[4, 5, 0, 0, 0]]
    # without the question's passage in the ranking, there is no limit
    lost = sample_all(ranking([3, 1, 2, 4]), question_set, make_options(5, negatives_margin=0.9))
    assert lost.ranks.tolist() == [[1, 2, 3, 4, 0]]
    assert np.isnan(lost.positive_scores).all()


def test_skips_passages_with_answer_by_default() -> None:
    # q3 asks for 서울, which p2 (row 1) holds as well as its own passage (row 2)
    question_set = small_set().with_questions([2])
    rankings = ranking([2, 1, 4])
    assert sample_all(rankings, question_set, make_options(2)).rows.tolist() == [[4, -1]]
    assert sample_all(rankings, question_set, make_options(2, negatives_with_answer=True)).rows.tolist() == [[1, 4]]

    def full(options: CrossEncoderOptions) -> list[int]:
        none = np.full((1, 4), NOT_FOUND, dtype=np.int32)
        return sorted(examples.fill_missing(none, question_set, question_set.relevance, options, ALL)[0].tolist())

    assert full(make_options(4)) == [NOT_FOUND, 0, 3, 4]
    assert full(make_options(4, negatives_with_answer=True)) == [0, 1, 3, 4]


def test_detects_answer_in_decomposed_characters() -> None:
    passages = tuple(replace(p, text=unicodedata.normalize("NFD", p.text)) for p in small_set().passages)
    question_set = QuestionSet("decomposed", passages, small_set().questions).with_questions([2])
    assert sample_all(ranking([2, 1, 4]), question_set, make_options(2)).rows.tolist() == [[4, -1]]


def test_sampling_depends_on_seed_and_covers_all_ranks() -> None:
    question_set = small_set().with_questions([0])
    samples = [sample_all(ranking([0, 1, 2, 3, 4]), question_set, make_options(1, seed=n)) for n in range(400)]
    rows = [int(sample.rows[0, 0]) for sample in samples]
    shares = np.bincount(rows, minlength=5) / 400
    assert shares[0] == 0
    # four passages of equal chance: three standard deviations of a share of 400 draws are 0.065
    np.testing.assert_allclose(shares[1:], 0.25, atol=0.08)


def test_fills_from_large_corpus() -> None:
    question_set = misleading_set(1500)
    none = np.full((1500, 6), NOT_FOUND, dtype=np.int32)
    allowed = np.arange(1500) % 2 == 0
    full = examples.fill_missing(none, question_set, question_set.relevance, make_options(6), allowed)
    assert (full % 2 == 0).all()
    assert (full >= 0).all()
    assert (full != np.arange(1500)[:, None]).all()
    assert all(len({*row}) == 6 for row in full.tolist())
    assert len({*full.ravel().tolist()}) == 750  # all passages are sampled


def test_excludes_relevant_passages_of_identical_questions() -> None:
    world = misleading_set()
    twins = [Question(f"twin{i}", world.questions[i].text, (), (f"p{(i + 1) % 20}",)) for i in range(20)]
    world = QuestionSet("twins", world.passages, (*world.questions, *twins))
    # BM25 ranks p3, the twin's passage, first for "year3"; no other shares a word
    mined = examples.mine_negatives(make_options(3), make_unsplit_data(world))
    assert (mined.rows == NOT_FOUND).all()
    mined = examples.mine_negatives(make_options(3), make_unsplit_data(misleading_set()))
    assert mined.rows[:, 0].tolist() == [(row + 1) % 20 for row in range(20)]


def test_mines_to_requested_depth_from_training_articles() -> None:
    sample = find("sample")
    data = make_training_data(sample, SplitOptions(0.2, 0.3))
    options = make_options(100, negatives_first=4, negatives_last=9, negatives_with_answer=True)
    mined = examples.mine_negatives(options, data)
    ranks = mined.ranks[mined.ranks > 0]
    assert set(ranks.tolist()) == {4, 5, 6, 7, 8, 9}
    assert data.is_trainable[mined.rows[mined.rows >= 0]].all()
    candidates = data.candidates(data.train, 9)
    rows, positions = np.nonzero(mined.ranks)
    rank_positions = mined.ranks[rows, positions] - 1
    np.testing.assert_array_equal(mined.rows[rows, positions], candidates.indices[rows, rank_positions])
    np.testing.assert_array_equal(mined.scores[rows, positions], candidates.scores[rows, rank_positions])
    fewer = examples.mine_negatives(replace(options, negatives=2), data).ranks
    assert (fewer > 0).sum(axis=1).max() == 2


def test_builds_negatives_table() -> None:
    data = make_unsplit_data(small_set())
    rows = [[1, 4], [NOT_FOUND, NOT_FOUND], [0, NOT_FOUND]]
    scores = [[2.5, 0.5], [np.nan, np.nan], [1.5, np.nan]]
    mined = make_negatives(rows, [[1, 3], [0, 0], [2, 0]], scores, [2.0, 1.0, np.nan])
    table = examples.to_table(mined, data)
    assert tuple(table.columns) == COLUMNS
    assert table.pop("marked").tolist() == [False, False, False]
    passages = [passage.text for passage in small_set().passages]
    expected = [
        ["q1", "한글을 만든 왕은 누구인가?", passages[0], 2.0, "p2", "한강", passages[1], 1, 2.5],
        ["q1", "한글을 만든 왕은 누구인가?", passages[0], 2.0, "p5", "", passages[4], 3, 0.5],
        ["q3", "한강을 낀 도시는 어디인가?", passages[2], None, "p1", "세종", passages[0], 2, 1.5],
    ]
    assert json.loads(table.to_json(orient="values", force_ascii=False)) == expected


# marked by a user


def marked(*pairs: tuple[str, str]) -> TrainingData:
    return replace(make_unsplit_data(small_set()), marked=pairs)


def test_puts_marked_passages_before_sampled_ones() -> None:
    rows = [[1, 4], [0, NOT_FOUND]]
    mined = make_negatives(rows, [[1, 3], [2, 0]], [[1.0, 0.8], [0.9, np.nan]], [0.9, 1.0])
    rankings = ranking([1, 0, 4, -1], [1, 0, -1, -1])
    merged = examples.put_marked_first({0: [3, 4], 1: [2]}, mined, rankings)
    assert merged.rows.tolist() == [[3, 4], [2, 0]]  # row 1 is dropped: a question has at most two
    assert merged.ranks.tolist() == [[0, 3], [0, 2]]
    np.testing.assert_allclose(merged.scores, [[np.nan, 0.8], [np.nan, 0.9]])
    assert merged.positive_scores is mined.positive_scores
    assert examples.put_marked_first({0: [4]}, mined, rankings).rows.tolist() == [[4, 1], [0, NOT_FOUND]]
    assert mined.rows.tolist() == rows


def test_ignores_invalid_marks() -> None:
    pairs = (("q1", "p4"), ("q1", "p1"), ("q3", "p2"), ("q1", "gone"), ("gone", "p2"), ("q6", "p3"), ("q1", "p2"))
    data = marked(*pairs)
    # p1 answers q1, p3 answers q6; p2 holds the answer of q3, but a user marked it
    assert examples.marked_rows(data) == {0: [3, 1], 2: [1]}
    is_trainable = data.is_trainable.copy()
    is_trainable[3] = False  # of an article that test questions ask about
    assert examples.marked_rows(replace(data, is_trainable=is_trainable)) == {0: [1], 2: [1]}


def test_ignores_marks_relevant_to_identical_questions() -> None:
    world = misleading_set()
    twin = Question("twin", world.questions[0].text, (), ("p7",))
    world = QuestionSet("twins", world.passages, (*world.questions, twin))
    data = replace(make_unsplit_data(world), marked=((world.questions[0].id, "p7"), ("twin", "p0"), ("twin", "p9")))
    assert examples.marked_rows(data) == {20: [9]}


@pytest.mark.parametrize("first", [1, 3])
def test_mines_marked_passages_regardless_of_options(first: int) -> None:
    data = marked(("q4", "p5"), ("q3", "p2"))
    options = make_options(1, negatives_first=first, negatives_last=3, negatives_margin=0.9)
    mined = examples.mine_negatives(options, data)
    assert mined.rows[3].tolist() == [4]
    assert mined.rows[2].tolist() == [1]
    table = examples.to_table(mined, data)
    assert table[table["marked"]]["question_id"].tolist() == ["q3", "q4"]
    others = examples.mine_negatives(options, make_unsplit_data(small_set()))
    rest = [row for row in range(6) if row not in (2, 3)]
    np.testing.assert_array_equal(mined.rows[rest], others.rows[rest])


@pytest.mark.slow
def test_makes_examples_of_marked_passages() -> None:
    from mrc_workbench.training.recipes.examples import cross_encoder_examples

    data = marked(("q5", "p1"))
    columns, _ = cross_encoder_examples(make_options(1, negatives_first=5, negatives_last=5), data)
    pairs = list(zip(columns["question"], columns["passage"], columns["label"], strict=True))
    assert (data.train.questions[4].text, data.texts[0], 0.0) in pairs


def test_plan_stores_current_marks() -> None:
    question_set = small_set()
    mark_negative(question_set.fingerprint, "q1", "p3")
    data = (save_question_set(question_set).key, question_set.name, question_set.fingerprint)
    plan = new_plan(CROSS_ENCODER, "", data, SplitOptions(0.2, 0.2), make_options(1))
    run = create_run(plan)
    mark_negative(question_set.fingerprint, "q1", "p4")
    assert run.plan() == plan
    assert run.plan().marked_negatives == (("q1", "p3"),)
    assert load_training_data(run.plan()).marked == (("q1", "p3"),)
    later = new_plan(CROSS_ENCODER, "", data, SplitOptions(0.2, 0.2), make_options(1))
    assert later.marked_negatives == (("q1", "p3"), ("q1", "p4"))
    same = replace(later, marked_negatives=plan.marked_negatives)
    assert DryRunJob.for_plan(later, DryRunTask.NEGATIVES) != DryRunJob.for_plan(same, DryRunTask.NEGATIVES)


def test_reads_plans_without_marks() -> None:
    question_set = small_set()
    data = ("", question_set.name, question_set.fingerprint)
    run = create_run(new_plan(CROSS_ENCODER, "", data, SplitOptions(), make_options(1)))
    raw = json.loads((run.folder / "run.json").read_text(encoding="utf-8"))
    del raw["marked_negatives"]
    run.write("run.json", raw)
    assert run.plan().marked_negatives == ()


@pytest.mark.slow
def test_dense_negatives_are_nearest_passages() -> None:
    data = make_unsplit_data(small_set())
    options = make_options(2, negatives_from=NegativesFrom.DENSE, negatives_last=3, negatives_with_answer=True)
    encoder = BiEncoder(find_model("starter"), data.texts)
    queries = [question.text for question in small_set().questions]
    cosines = encoder.encode_questions(queries) @ encoder.encode_passages(data.texts).T
    mined = examples.mine_negatives(options, data)
    for row, question in enumerate(small_set().questions):
        near = np.argsort(-cosines[row], kind="stable")[:3].tolist()
        relevant = {small_set().row_of_passage[id_] for id_ in question.relevant}
        expected = [(passage, rank) for rank, passage in enumerate(near, start=1) if passage not in relevant][:2]
        ranked_rows = zip(mined.rows[row].tolist(), mined.ranks[row].tolist(), strict=True)
        ranked_negatives = [(passage, rank) for passage, rank in ranked_rows if rank]
        assert ranked_negatives == expected
        best = max(cosines[row][list(relevant)])
        assert mined.positive_scores[row] == pytest.approx(best, abs=1e-6)


@pytest.mark.slow
def test_hybrid_negatives_fuse_ranks() -> None:
    data = make_training_data(find("sample"))
    options = make_options(5, negatives_from=NegativesFrom.HYBRID, negatives_with_answer=True)
    hybrid = examples.mine_negatives(options, data)
    bm25 = examples.mine_negatives(replace(options, negatives_from=NegativesFrom.BM25), data)
    assert (hybrid.rows >= 0).mean() > 0.9
    assert (hybrid.rows != bm25.rows).any()
    # scores of reciprocal rank fusion of two: at most twice 1 / (60 + 1)
    assert 0 < np.nanmin(hybrid.scores) < np.nanmax(hybrid.scores) <= 2 / 61
