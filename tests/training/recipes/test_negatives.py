"""Hard negatives: those drawn from rankings, those that a user marked, and the table of them, by hand."""

import json
import unicodedata
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.questions.judgements import mark_negative
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import find, keep
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings
from mrc_workbench.training.jobs import Rehearsal, RehearsalTask
from mrc_workbench.training.options import NegativesFrom
from mrc_workbench.training.ranker_options import (
    CROSS_ENCODER,
    BiEncoderObjective,
    BiEncoderOptions,
    CrossEncoderOptions,
)
from mrc_workbench.training.recipes.examples import HardNegatives, as_table, draw, filled, led_by, marked_rows, mine
from mrc_workbench.training.recipes.material import Material
from mrc_workbench.training.runs import create_run, new_plan
from mrc_workbench.training.train import load_material
from tests.doubles import small_set
from tests.training.worlds import COLUMNS, material_of, misleading_set, whole

ALL = np.ones(5, dtype=bool)


def ranking(*rows: list[int]) -> Rankings:
    """Scores fall from 1 by 0.1 a rank."""
    indices = np.array(rows, dtype=np.int32)
    scores = np.broadcast_to(1 - 0.1 * np.arange(indices.shape[1]), indices.shape)
    return Rankings(indices, np.where(indices >= 0, scores, -np.inf).astype(np.float32))


def wanted(count: int, **options: object) -> CrossEncoderOptions:
    return CrossEncoderOptions(negatives=count, **options)  # type: ignore[arg-type]


def drawn(rankings: Rankings, question_set: QuestionSet, options: CrossEncoderOptions) -> HardNegatives:
    return draw(rankings, question_set, question_set.relevance, options, ALL)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Rankings, QuestionSet, np.ndarray, CrossEncoderOptions]:
    n_passages, n_questions = draw(st.integers(1, 12)), draw(st.integers(1, 6))
    depth = draw(st.integers(0, 15))
    rows = st.lists(st.integers(0, n_passages - 1), unique=True, max_size=depth)
    words = st.lists(st.sampled_from(["세종", "한강", "서울"]), unique=True).map(tuple)
    question_set = QuestionSet(
        "drawn",
        tuple(Passage(f"p{row}", f"글{row} {' '.join(draw(words))}") for row in range(n_passages)),
        tuple(Question(f"q{row}", "?", draw(words), tuple(f"p{p}" for p in draw(rows))) for row in range(n_questions)),
    )
    found = np.array(
        [[*row, *[NOT_FOUND] * (depth - len(row))] for row in (draw(rows) for _ in range(n_questions))], dtype=np.int32
    ).reshape(n_questions, depth)
    falling = [sorted((draw(st.integers(-72, 72)) / 8 for _ in range(depth)), reverse=True) for _ in found]
    scores = np.where(found >= 0, np.array(falling).reshape(found.shape), -np.inf).astype(np.float32)
    allowed = np.array(draw(st.lists(st.booleans(), min_size=n_passages, max_size=n_passages)))
    first = draw(st.integers(1, 6))
    options = CrossEncoderOptions(
        negatives=draw(st.integers(1, 20)),
        negatives_first=first,
        negatives_last=20,
        negatives_margin=draw(st.sampled_from([0.0, 0.05, 0.5])),
        negatives_with_answer=draw(st.booleans()),
        seed=draw(st.integers(0, 5)),
    )
    return Rankings(found, scores), question_set, allowed, options


def may_be(question: Question, passage: Passage, options: CrossEncoderOptions) -> bool:
    held = options.negatives_with_answer or not any(answer in passage.text for answer in question.answers)
    return passage.id not in question.relevant and held


def best_relevant(question: Question, question_set: QuestionSet, found: list[int], scores: list[float]) -> float:
    relevant = {question_set.row_of_passage[id_] for id_ in question.relevant}
    return next((score for row, score in zip(found, scores, strict=True) if row in relevant), np.nan)


@pytest.mark.slow
@given(worlds())
def test_what_is_drawn(world: tuple[Rankings, QuestionSet, np.ndarray, CrossEncoderOptions]) -> None:
    rankings, question_set, allowed, options = world
    drawn = draw(rankings, question_set, question_set.relevance, options, allowed)
    shape = (len(question_set.questions), options.negatives)
    assert (drawn.rows.shape, drawn.ranks.shape, drawn.scores.shape) == (shape, shape, shape)
    for number, question in enumerate(question_set.questions):
        found, scores = rankings.indices[number].tolist(), rankings.scores[number].tolist()
        positive = best_relevant(question, question_set, found, scores)
        np.testing.assert_equal(drawn.positive_scores[number], np.float32(positive))
        most = positive - options.negatives_margin * abs(positive)
        usable = {
            rank
            for rank, (row, score) in enumerate(zip(found, scores, strict=True), start=1)
            if row >= 0
            and rank >= options.negatives_first
            and allowed[row]
            and question.relevant
            and may_be(question, question_set.passages[row], options)
            and not (options.negatives_margin and score > np.float32(most))
        }
        ranks = [rank for rank in drawn.ranks[number].tolist() if rank]
        count = min(options.negatives, len(usable))
        assert set(ranks) <= usable
        assert ranks == sorted(set(ranks))
        assert len(ranks) == count
        empty = options.negatives - count
        assert drawn.ranks[number].tolist() == [*ranks, *[0] * empty]
        assert drawn.rows[number].tolist() == [*(found[rank - 1] for rank in ranks), *[NOT_FOUND] * empty]
        np.testing.assert_equal(drawn.scores[number], [*(scores[rank - 1] for rank in ranks), *[np.nan] * empty])
    again = draw(rankings, question_set, question_set.relevance, options, allowed)
    np.testing.assert_array_equal(drawn.rows, again.rows)


@pytest.mark.slow
@given(worlds())
def test_what_is_filled_up(world: tuple[Rankings, QuestionSet, np.ndarray, CrossEncoderOptions]) -> None:
    rankings, question_set, allowed, options = world
    relevance = question_set.relevance
    found = draw(rankings, question_set, relevance, options, allowed).rows
    full = filled(found, question_set, relevance, options, allowed)
    np.testing.assert_array_equal(full[found >= 0], found[found >= 0])
    for question, row, before in zip(question_set.questions, full.tolist(), found.tolist(), strict=True):
        chosen = [passage for passage in row if passage >= 0]
        fitting = {p for p, free in enumerate(allowed) if free and may_be(question, question_set.passages[p], options)}
        assert set(chosen) <= fitting
        assert len(set(chosen)) == len(chosen) == min(options.negatives, len(fitting | ({*before} - {NOT_FOUND})))
    np.testing.assert_array_equal(full, filled(found, question_set, relevance, options, allowed))


def test_by_hand() -> None:
    # of five passages; q1 is answered by p1 (row 0), q6 by p2 and p3 (rows 1 and 2)
    question_set = small_set().with_questions([0, 5])
    found = drawn(ranking([3, 0, 1, NOT_FOUND], [2, 4, 1, 0]), question_set, wanted(3))
    assert found.rows.tolist() == [[3, 1, -1], [4, 0, -1]]
    assert found.ranks.tolist() == [[1, 3, 0], [2, 4, 0]]
    np.testing.assert_allclose(found.scores, [[1.0, 0.8, np.nan], [0.9, 0.7, np.nan]])
    np.testing.assert_allclose(found.positive_scores, [0.9, 1.0])


def test_ranks_and_margin_by_hand() -> None:
    question_set = small_set().with_questions([0])
    rankings = ranking([3, 0, 1, 2, 4])  # scores 1.0, 0.9 (the question's passage), 0.8, 0.7, 0.6
    assert drawn(rankings, question_set, wanted(5, negatives_first=3)).ranks.tolist() == [[3, 4, 5, 0, 0]]
    # 10 % below 0.9 is 0.81, 20 % below is 0.72
    assert drawn(rankings, question_set, wanted(5, negatives_margin=0.1)).ranks.tolist() == [[3, 4, 5, 0, 0]]
    assert drawn(rankings, question_set, wanted(5, negatives_margin=0.2)).ranks.tolist() == [[4, 5, 0, 0, 0]]
    # without the question's passage in the ranking there is nothing to keep a distance from
    lost = drawn(ranking([3, 1, 2, 4]), question_set, wanted(5, negatives_margin=0.9))
    assert lost.ranks.tolist() == [[1, 2, 3, 4, 0]]
    assert np.isnan(lost.positive_scores).all()


def test_a_passage_that_holds_the_answer_is_left_out_unless_asked_for() -> None:
    # q3 asks for 서울, which p2 (row 1) holds as well as its own passage (row 2)
    question_set = small_set().with_questions([2])
    rankings = ranking([2, 1, 4])
    assert drawn(rankings, question_set, wanted(2)).rows.tolist() == [[4, -1]]
    assert drawn(rankings, question_set, wanted(2, negatives_with_answer=True)).rows.tolist() == [[1, 4]]

    def full(options: CrossEncoderOptions) -> list[int]:
        none = np.full((1, 4), NOT_FOUND, dtype=np.int32)
        return sorted(filled(none, question_set, question_set.relevance, options, ALL)[0].tolist())

    assert full(wanted(4)) == [NOT_FOUND, 0, 3, 4]
    assert full(wanted(4, negatives_with_answer=True)) == [0, 1, 3, 4]


def test_an_answer_in_decomposed_letters_is_found() -> None:
    passages = tuple(replace(p, text=unicodedata.normalize("NFD", p.text)) for p in small_set().passages)
    question_set = QuestionSet("decomposed", passages, small_set().questions).with_questions([2])
    assert drawn(ranking([2, 1, 4]), question_set, wanted(2)).rows.tolist() == [[4, -1]]


def test_every_seed_draws_anew_and_every_place_is_drawn() -> None:
    question_set = small_set().with_questions([0])
    rows = [int(drawn(ranking([0, 1, 2, 3, 4]), question_set, wanted(1, seed=n)).rows[0, 0]) for n in range(400)]
    shares = np.bincount(rows, minlength=5) / 400
    assert shares[0] == 0
    # four passages of equal chance: three standard deviations of a share of 400 draws are 0.065
    np.testing.assert_allclose(shares[1:], 0.25, atol=0.08)


def test_filling_up_from_a_large_corpus() -> None:
    question_set = misleading_set(1500)
    none = np.full((1500, 6), NOT_FOUND, dtype=np.int32)
    allowed = np.arange(1500) % 2 == 0
    full = filled(none, question_set, question_set.relevance, wanted(6), allowed)
    assert (full % 2 == 0).all()
    assert (full >= 0).all()
    assert (full != np.arange(1500)[:, None]).all()
    assert all(len({*row}) == 6 for row in full.tolist())
    assert len({*full.ravel().tolist()}) == 750  # everything comes up


def test_a_question_with_the_same_words_has_no_negative_that_its_twin_answers() -> None:
    world = misleading_set()
    twins = [Question(f"twin{i}", world.questions[i].text, (), (f"p{(i + 1) % 20}",)) for i in range(20)]
    world = QuestionSet("twins", world.passages, (*world.questions, *twins))
    # the passage BM25 ranks first for "year3" is p3, the twin's; nothing else shares a word
    mined = mine(wanted(3), whole(world))
    assert (mined.rows == NOT_FOUND).all()
    mined = mine(wanted(3), whole(misleading_set()))
    assert mined.rows[:, 0].tolist() == [(row + 1) % 20 for row in range(20)]


def test_as_deep_as_asked_and_of_learnable_articles_only() -> None:
    sample = find("sample")
    material = material_of(sample, SplitOptions(0.2, 0.3))
    options = wanted(100, negatives_first=4, negatives_last=9, negatives_with_answer=True)
    mined = mine(options, material)
    ranks = mined.ranks[mined.ranks > 0]
    assert set(ranks.tolist()) == {4, 5, 6, 7, 8, 9}
    assert material.learnable[mined.rows[mined.rows >= 0]].all()
    found = material.candidates(material.train, 9)
    rows, places = np.nonzero(mined.ranks)
    np.testing.assert_array_equal(mined.rows[rows, places], found.indices[rows, mined.ranks[rows, places] - 1])
    np.testing.assert_array_equal(mined.scores[rows, places], found.scores[rows, mined.ranks[rows, places] - 1])
    fewer = mine(replace(options, negatives=2), material).ranks
    assert (fewer > 0).sum(axis=1).max() == 2


def test_the_table_by_hand() -> None:
    material = whole(small_set())
    mined = HardNegatives(
        np.array([[1, 4], [NOT_FOUND, NOT_FOUND], [0, NOT_FOUND]], dtype=np.int32),
        np.array([[1, 3], [0, 0], [2, 0]], dtype=np.int32),
        np.array([[2.5, 0.5], [np.nan, np.nan], [1.5, np.nan]], dtype=np.float32),
        np.array([2.0, 1.0, np.nan], dtype=np.float32),
    )
    table = as_table(mined, material)
    assert tuple(table.columns) == COLUMNS
    assert table.pop("marked").tolist() == [False, False, False]
    passages = [passage.text for passage in small_set().passages]
    expected = [
        ["q1", "한글을 만든 왕은 누구인가?", passages[0], 2.0, "p2", "한강", passages[1], 1, 2.5],
        ["q1", "한글을 만든 왕은 누구인가?", passages[0], 2.0, "p5", "", passages[4], 3, 0.5],
        ["q3", "한강을 낀 도시는 어디인가?", passages[2], None, "p1", "세종", passages[0], 2, 1.5],
    ]
    assert json.loads(table.to_json(orient="values", force_ascii=False)) == expected


# marked by a person


def marked(*pairs: tuple[str, str]) -> Material:
    return replace(whole(small_set()), marked=pairs)


def test_marked_passages_come_first_and_the_drawn_ones_make_room() -> None:
    mined = HardNegatives(
        np.array([[1, 4], [0, NOT_FOUND]], dtype=np.int32),
        np.array([[1, 3], [2, 0]], dtype=np.int32),
        np.array([[1.0, 0.8], [0.9, np.nan]], dtype=np.float32),
        np.array([0.9, 1.0]),
    )
    rankings = ranking([1, 0, 4, -1], [1, 0, -1, -1])
    found = led_by({0: [3, 4], 1: [2]}, mined, rankings)
    assert found.rows.tolist() == [[3, 4], [2, 0]]  # row 1 gives way: no question has more than two
    assert found.ranks.tolist() == [[0, 3], [0, 2]]
    np.testing.assert_allclose(found.scores, [[np.nan, 0.8], [np.nan, 0.9]])
    assert found.positive_scores is mined.positive_scores
    assert led_by({0: [4]}, mined, rankings).rows.tolist() == [[4, 1], [0, NOT_FOUND]]
    assert mined.rows.tolist() == [[1, 4], [0, NOT_FOUND]]


def test_only_marks_that_may_be_negatives_count() -> None:
    pairs = (("q1", "p4"), ("q1", "p1"), ("q3", "p2"), ("q1", "gone"), ("gone", "p2"), ("q6", "p3"), ("q1", "p2"))
    material = marked(*pairs)
    # p1 answers q1, p3 answers q6; p2 holds the answer of q3, but a person has looked
    assert marked_rows(material) == {0: [3, 1], 2: [1]}
    learnable = material.learnable.copy()
    learnable[3] = False  # of an article that test questions ask about
    assert marked_rows(replace(material, learnable=learnable)) == {0: [1], 2: [1]}


def test_a_marked_passage_that_a_twin_s_question_is_about_is_no_negative() -> None:
    world = misleading_set()
    twin = Question("twin", world.questions[0].text, (), ("p7",))
    world = QuestionSet("twins", world.passages, (*world.questions, twin))
    material = replace(whole(world), marked=((world.questions[0].id, "p7"), ("twin", "p0"), ("twin", "p9")))
    assert marked_rows(material) == {20: [9]}


@pytest.mark.parametrize("first", [1, 3])
def test_marked_passages_are_mined_whatever_the_options_say(first: int) -> None:
    material = marked(("q4", "p5"), ("q3", "p2"))
    options = wanted(1, negatives_first=first, negatives_last=3, negatives_margin=0.9)
    mined = mine(options, material)
    assert mined.rows[3].tolist() == [4]
    assert mined.rows[2].tolist() == [1]
    table = as_table(mined, material)
    assert table[table["marked"]]["question_id"].tolist() == ["q3", "q4"]
    others = mine(options, whole(small_set()))
    rest = [row for row in range(6) if row not in (2, 3)]
    np.testing.assert_array_equal(mined.rows[rest], others.rows[rest])


@pytest.mark.slow
def test_an_example_is_made_of_a_marked_passage() -> None:
    from mrc_workbench.training.recipes.examples import cross_encoder_examples

    material = marked(("q5", "p1"))
    columns, _ = cross_encoder_examples(wanted(1, negatives_first=5, negatives_last=5), material)
    pairs = list(zip(columns["question"], columns["passage"], columns["label"], strict=True))
    assert (material.train.questions[4].text, material.texts[0], 0.0) in pairs


def test_a_plan_holds_the_marks_of_the_moment_it_was_made() -> None:
    question_set = small_set()
    mark_negative(question_set.fingerprint, "q1", "p3")
    data = (keep(question_set).key, question_set.name, question_set.fingerprint)
    plan = new_plan(CROSS_ENCODER, "", data, SplitOptions(0.2, 0.2), wanted(1))
    run = create_run(plan)
    mark_negative(question_set.fingerprint, "q1", "p4")
    assert run.plan() == plan
    assert run.plan().marked_negatives == (("q1", "p3"),)
    assert load_material(run.plan()).marked == (("q1", "p3"),)
    later = new_plan(CROSS_ENCODER, "", data, SplitOptions(0.2, 0.2), wanted(1))
    assert later.marked_negatives == (("q1", "p3"), ("q1", "p4"))
    same = replace(later, marked_negatives=plan.marked_negatives)
    assert Rehearsal.of(later, RehearsalTask.NEGATIVES) != Rehearsal.of(same, RehearsalTask.NEGATIVES)


def test_a_run_planned_before_marks_were_known_is_read() -> None:
    question_set = small_set()
    data = ("", question_set.name, question_set.fingerprint)
    run = create_run(new_plan(CROSS_ENCODER, "", data, SplitOptions(), wanted(1)))
    raw = json.loads((run.folder / "run.json").read_text(encoding="utf-8"))
    del raw["marked_negatives"]
    run.write("run.json", raw)
    assert run.plan().marked_negatives == ()


@pytest.mark.slow
def test_negatives_from_a_bi_encoder_are_its_nearest_passages() -> None:
    material = whole(small_set())
    options = BiEncoderOptions(
        objective=BiEncoderObjective.MULTIPLE_NEGATIVES,
        negatives=2,
        negatives_from=NegativesFrom.DENSE,
        negatives_last=3,
        negatives_with_answer=True,
    )
    encoder = BiEncoder(find_model("starter"), material.texts)
    asked = [question.text for question in small_set().questions]
    cosines = encoder.encode_questions(asked) @ encoder.encode_passages(material.texts).T
    mined = mine(options, material)
    for row, question in enumerate(small_set().questions):
        near = np.argsort(-cosines[row], kind="stable")[:3].tolist()
        relevant = {small_set().row_of_passage[id_] for id_ in question.relevant}
        expected = [(passage, rank) for rank, passage in enumerate(near, start=1) if passage not in relevant][:2]
        found = [(p, r) for p, r in zip(mined.rows[row].tolist(), mined.ranks[row].tolist(), strict=True) if r]
        assert found == expected
        best = max(cosines[row][list(relevant)])
        assert mined.positive_scores[row] == pytest.approx(best, abs=1e-6)


@pytest.mark.slow
def test_negatives_from_both_ranks_fused() -> None:
    material = material_of(find("sample"))
    options = wanted(5, negatives_from=NegativesFrom.HYBRID, negatives_with_answer=True)
    hybrid, bm25 = mine(options, material), mine(replace(options, negatives_from=NegativesFrom.BM25), material)
    assert (hybrid.rows >= 0).mean() > 0.9
    assert (hybrid.rows != bm25.rows).any()
    # scores of reciprocal rank fusion of two: at most twice 1 / (60 + 1)
    assert 0 < np.nanmin(hybrid.scores) < np.nanmax(hybrid.scores) <= 2 / 61
