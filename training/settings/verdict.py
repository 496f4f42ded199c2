"""What trials came to, told with the statistics of every other comparison here."""

from collections.abc import Mapping

import numpy as np

from data.statistics import LEVEL
from retrieval.evaluation.significance import Pair, intervals_of, paired_tests
from training.runs.sweeps import DEFAULTS, Findings, Tried
from training.settings.grid import Changes
from training.settings.measured import Measured


def findings(
    measure: str,
    changes: list[Changes],
    measured: Mapping[int, Measured],
    losses: Mapping[int, float | None],
    groups: np.ndarray,
    *,
    epochs: float,
    untrained: float,
    failed: tuple[int, ...] = (),
) -> Findings:
    """Compare each trial with the defaults, where both had come as far as it came.

    The differences are paired by question and tested together, all trials measured (`paired_tests`). That holds for
    the best of them, too: it is one of the family. Raises `KeyError` where the defaults were not measured.
    """
    defaults = measured[DEFAULTS]
    last = {number: max(share for share in of if share in defaults) for number, of in measured.items() if of}
    others = [number for number in last if number != DEFAULTS]
    pairs = [
        Pair(str(number), "defaults", measure, *(of[last[number]][1].per_question[measure] for of in (mine, defaults)))
        for number, mine in ((number, measured[number]) for number in others)
    ]
    tests = dict(zip(others, paired_tests(pairs, groups), strict=True))
    tried = []
    for number, share in sorted(last.items()):
        step, scores = measured[number][share]
        low, high = intervals_of(scores, groups)[measure]
        test = tests.get(number)
        tried.append(
            Tried(
                number,
                changes[number - 1],
                share=share,
                epochs=epochs * share,
                steps=step,
                value=scores.means()[measure],
                low=low,
                high=high,
                difference=test.difference if test else 0.0,
                difference_low=test.low if test else 0.0,
                difference_high=test.high if test else 0.0,
                p_family=test.p_family if test else 1.0,
                loss=losses.get(number),
            )
        )
    best = _best(tried)
    sure = best.p_family < 1 - LEVEL and best.difference > 0
    return Findings(
        measure=measure,
        questions=len(groups),
        untrained=untrained,
        best=best.number,
        chosen=best.number if sure else DEFAULTS,
        tried=tuple(tried),
        failed=failed,
        untried=tuple(set(range(1, len(changes) + 1)) - set(last) - set(failed)),
    )


def _best(tried: list[Tried]) -> Tried:
    """The best of those that came furthest; the defaults among equals. Where they alone came so far, the round before.

    Then the difference at that round decides, since the defaults' own value is of another length.
    """
    others = [one for one in tried if one.number != DEFAULTS]
    furthest = max((one.share for one in others), default=0.0)
    best = max((one for one in others if one.share == furthest), key=lambda one: one.difference, default=tried[0])
    return best if best.difference > 0 else tried[0]
