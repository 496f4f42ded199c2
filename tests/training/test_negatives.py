import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from data.records import Passage, Question, QuestionSet
from retrieval.rankings import Rankings
from tests.doubles import small_set
from training.negatives import hard_negatives


def ranking(*rows: list[int]) -> Rankings:
    indices = np.array(rows, dtype=np.int32)
    return Rankings(indices, np.where(indices >= 0, -np.arange(indices.shape[1]), -np.inf).astype(np.float32))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Rankings, QuestionSet, np.ndarray]:
    n_passages, n_questions = draw(st.integers(1, 12)), draw(st.integers(1, 6))
    depth = draw(st.integers(1, 15))
    rows = st.lists(st.integers(0, n_passages - 1), unique=True, max_size=depth)
    found = [draw(rows) for _ in range(n_questions)]
    relevant = [tuple(f"p{row}" for row in draw(rows)) for _ in range(n_questions)]
    question_set = QuestionSet(
        "drawn",
        tuple(Passage(f"p{row}", f"text {row}") for row in range(n_passages)),
        tuple(Question(f"q{row}", "?", (), ids) for row, ids in enumerate(relevant)),
    )
    allowed = np.array(draw(st.lists(st.booleans(), min_size=n_passages, max_size=n_passages)))
    return ranking(*([*row, *[-1] * (depth - len(row))] for row in found)), question_set, allowed


@given(worlds(), st.integers(1, 20), st.integers(0, 5), st.booleans())
def test_negatives_are_what_they_should_be(
    world: tuple[Rankings, QuestionSet, np.ndarray], count: int, seed: int, all_allowed: bool
) -> None:
    rankings, question_set, allowed = world
    mask = None if all_allowed else allowed
    drawn = hard_negatives(rankings, question_set, count, seed, mask)
    assert drawn.shape == (len(question_set.questions), count)
    assert drawn.dtype == np.int32
    for question, row, found in zip(question_set.questions, drawn.tolist(), rankings.indices.tolist(), strict=True):
        relevant = {question_set.row_of_passage[id_] for id_ in question.relevant}
        usable = {p for p in found if p >= 0 and p not in relevant and (all_allowed or allowed[p])}
        chosen = [passage for passage in row if passage != -1]
        assert set(chosen) <= usable
        assert len(set(chosen)) == len(chosen) == min(count, len(usable))
        assert row == [*chosen, *[-1] * (count - len(chosen))]
    np.testing.assert_array_equal(drawn, hard_negatives(rankings, question_set, count, seed, mask))


def test_by_hand() -> None:
    # of five passages; q1 is answered by p1 (row 0), q6 by p2 and p3 (rows 1 and 2)
    question_set = small_set().with_questions([0, 5])
    drawn = hard_negatives(ranking([3, 0, 1, -1], [2, 4, 1, 0]), question_set, 3, seed=0)
    assert [sorted(row) for row in drawn.tolist()] == [[-1, 1, 3], [-1, 0, 4]]
    allowed = np.array([True, True, True, False, True])
    drawn = hard_negatives(ranking([3, 0, 1, -1], [2, 4, 1, 0]), question_set, 1, seed=0, allowed=allowed)
    assert drawn[0].tolist() == [1]
    assert drawn[1, 0] in (0, 4)


def test_every_seed_draws_anew_and_every_place_is_drawn() -> None:
    question_set = small_set().with_questions([0])
    drawn = [int(hard_negatives(ranking([0, 1, 2, 3, 4]), question_set, 1, seed)[0, 0]) for seed in range(400)]
    shares = np.bincount(drawn, minlength=5) / 400
    assert shares[0] == 0
    # four passages of equal chance: three standard deviations of a share of 400 draws are 0.065
    np.testing.assert_allclose(shares[1:], 0.25, atol=0.08)
