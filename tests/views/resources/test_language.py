"""What the Language page keeps: made once, and told of outside of what is kept."""

from pathlib import Path

import pytest
from streamlit.runtime.scriptrunner_utils.script_run_context import in_cached_function

from data.pairs.records import PairKind, PairSet
from data.pairs.store import keep
from data.split import Part
from tests.language.tiny_bert import PEAR, SHIP, written
from views.resources.language import course_of, scores_by_layer

pytestmark = pytest.mark.slow


def test_progress_is_told_where_it_may_be_drawn_and_once(tmp_path: Path) -> None:
    """What is drawn inside a cached function is drawn again whenever it is called, also where its place is gone."""
    cached: list[bool] = []
    shares: list[float] = []

    def tell(share: float) -> None:
        cached.append(in_cached_function.get())
        shares.append(share)

    sides = [[SHIP, PEAR, "나는 배"], [PEAR, "사과를 먹었다", SHIP]]
    data = keep(PairSet.of("few", PairKind.SCORED, sides, [1, 4, 2], published=[2] * 3, scale=(0, 5)))
    model = written(tmp_path / "tiny").reference
    first, second = (scores_by_layer(model, data.key, Part.TEST, tell) for _ in range(2))
    assert first is second
    assert (shares, cached) == ([0.0, 1.0], [False, False])
    folders = (tmp_path / "tiny",)
    assert course_of("tiny", folders, "[MASK]", tell) is course_of("tiny", folders, "[MASK]", tell)
    written(tmp_path / "tiny", seed=1)
    again = course_of("tiny", folders, "[MASK]", tell)
    assert again.reference == "tiny"
    assert shares == [0.0, 1.0] * 3
