"""Metrics by the names of ir_measures: `nDCG@10`, `AP`, `P@5`, `RBP(rel=1)`, `ERR@10`.

Names of the project's own measures (`Recall@10`, `R@10`, `Hit@10`, `MRR@10`, `nDCG@10`, `Judged@10`, `Bpref@100`) are
computed by `measures.evaluate`, which equals ir_measures and knows groups of passages. Every other name is computed by
ir_measures (MacAvaney, Macdonald & Ounis 2022). All scores are per question; higher is better for all but counts.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from subprocess import CalledProcessError
from typing import Any

import numpy as np

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.retrieval.evaluation.measures import Measure, evaluate
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings

# names without parameters that the project computes itself, in any spelling of the field
_OWN_NAMES = {
    "recall": "recall",
    "r": "recall",
    "hit": "hit",
    "success": "hit",
    "mrr": "mrr",
    "rr": "mrr",
    "ndcg": "ndcg",
    "ndcg_exp": "ndcg_exp",
    "ndcg(dcg='exp-log2')": "ndcg_exp",
    "judged": "judged",
    "bpref": "bpref",
}
_WITH_CUT = re.compile(r"(?P<name>.+)@(?P<cut>[1-9]\d{0,8})")
_WHOLE_NUMBERS = {"cutoff": 10**9, "rel": 10**9}  # the largest value of each; the least is 1
_EXAMPLE_VALUES = {"cutoff": 10, "recall": 0.5, "max_rel": 1}
_SUGGESTED = (
    "nDCG@10",
    "R@10",
    "Success@10",
    "RR@10",
    "AP",
    "P@5",
    "RBP(rel=1)",
    "ERR@10",
    "Rprec",
    "Bpref",
    "Judged@10",
)


class MetricError(Failure, ValueError):
    """A metric that is unknown, lacks a parameter, or cannot be computed here; the detail `metric` is its name."""

    def __init__(self, code: str, message: str, metric: str) -> None:
        super().__init__(code, message, metric=metric)


def own_measure(name: str) -> Measure | None:
    """Return the project's own measure of this name, None if ir_measures computes it."""
    matched = _WITH_CUT.fullmatch(name.strip())
    known = _OWN_NAMES.get(matched["name"].strip().casefold().replace('"', "'")) if matched else None
    return Measure(known, int(matched["cut"])) if matched and known else None


def check_metric(name: str) -> None:
    """Raise `MetricError` if no metric has this name, or a parameter is missing or out of range."""
    if not own_measure(name):
        _parsed(name)


def cutoff_of(name: str) -> int | None:
    """Return how many results a metric looks at; None if it looks at all of them. Raises `MetricError`."""
    if own := own_measure(name):
        return own.cut
    cutoff: int | None = _parsed(name).params.get("cutoff")
    return cutoff


def score_by_name(rankings: Rankings, question_set: QuestionSet, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return per-question values `(n_questions,)` float64 by the names given, in their order.

    A metric that looks deeper than the rankings counts nothing there, as in trec_eval. Raises `MetricError`, and
    `ValueError` if a question has no relevant passage.
    """
    own = {name: measure for name in names if (measure := own_measure(name))}
    values = _own_values(rankings, question_set, own)
    others = [name for name in names if name not in values]
    if others:
        values |= _values_of_ir_measures(rankings, question_set, others)
    return {name: values[name] for name in names}


def _own_values(rankings: Rankings, question_set: QuestionSet, own: dict[str, Measure]) -> dict[str, np.ndarray]:
    """Return the values of the project's own measures; those of graded judgements are left out where none are known."""
    if not own:
        return {}
    ks = tuple(sorted({measure.cut for measure in own.values()}))
    depth = min(max(ks), len(question_set.passages))
    per_question = evaluate(_padded(rankings, depth), question_set, ks).per_question
    return {name: per_question[str(measure)] for name, measure in own.items() if str(measure) in per_question}


def _padded(rankings: Rankings, depth: int) -> Rankings:
    """Return rankings of at least so many columns: what is missing was not retrieved."""
    missing = max(0, depth - rankings.indices.shape[1])
    columns = ((0, 0), (0, missing))
    return Rankings(
        np.pad(rankings.indices, columns, constant_values=NOT_FOUND),
        np.pad(rankings.scores, columns, constant_values=-np.inf),
    )


def _values_of_ir_measures(
    rankings: Rankings, question_set: QuestionSet, names: Sequence[str]
) -> dict[str, np.ndarray]:
    import ir_measures

    parsed = {name: _parsed(name) for name in names}
    run = _run_of(rankings)
    judgements = _judgements_of(question_set)
    values = {name: np.zeros(len(question_set.questions)) for name in names}
    for name, measure in parsed.items():
        try:
            for metric in ir_measures.iter_calc([measure], judgements, run):
                values[name][int(metric.query_id)] = metric.value
        except ZeroDivisionError as error:
            reason = "it divides by zero for the ranking of a question"
            raise MetricError("unsupported_metric", f"ir_measures cannot compute {name}: {reason}", name) from error
        except (ValueError, AssertionError, TypeError, KeyError, RuntimeError, OverflowError) as error:
            reason = str(error) or type(error).__name__
            raise MetricError("unsupported_metric", f"ir_measures cannot compute {name}: {reason}", name) from error
        except (CalledProcessError, OSError) as error:
            message = f"{name} cannot be computed: ir_measures runs gdeval for it, which needs perl ({error})"
            raise MetricError("unsupported_metric", message, name) from error
    return values


def _run_of(rankings: Rankings) -> dict[str, dict[str, float]]:
    """Return rankings as a run of ir_measures: ids are rows, which no tool misreads, and scores descend by rank.

    Questions without results are left out, because Judged divides by the number of results.
    """
    depth = rankings.indices.shape[1]
    run: dict[str, dict[str, float]] = {}
    for question, row in enumerate(rankings.indices.tolist()):
        scores = {str(passage): float(depth - place) for place, passage in enumerate(row) if passage != NOT_FOUND}
        if scores:
            run[str(question)] = scores
    return run


def _judgements_of(question_set: QuestionSet) -> dict[str, dict[str, int]]:
    """Return the judgements by rows; passages of a grade that does not count as relevant here have grade 0."""
    row_of = question_set.row_of_passage
    judgements: dict[str, dict[str, int]] = {}
    for row, question in enumerate(question_set.questions):
        relevant = set(question.relevant)
        grades = question.grade_of
        judgements[str(row)] = {str(row_of[id_]): grade if id_ in relevant else 0 for id_, grade in grades.items()}
    return judgements


def _parsed(name: str) -> Any:
    """Return the measure of ir_measures. Raises `MetricError`."""
    import ir_measures

    try:
        measure = ir_measures.parse_measure(name)
    except (NameError, ValueError, TypeError, SyntaxError, KeyError, AttributeError) as error:
        known = [*_SUGGESTED, *(ir_measures.measures.registry)]
        folded = {one.casefold(): one for one in reversed(known)}
        nearest = get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)
        guess = f"; did you mean {', '.join(folded[one] for one in nearest)}?" if nearest else "."
        message = f"no metric is called {name!r}{guess} Names are those of ir_measures, such as nDCG@10 or AP"
        raise MetricError("unknown_metric", message, name) from error
    _check_parameters(name, measure)
    return measure


def _check_parameters(name: str, measure: Any) -> None:
    """Raise `MetricError` for parameters that ir_measures does not check; some of them end the process."""
    missing = [key for key, of in measure.SUPPORTED_PARAMS.items() if of.required and key not in measure.params]
    if missing:
        example = _example(measure, missing)
        message = f"{name} needs a value of {' and '.join(missing)}: write for example {example}"
        raise MetricError("wrong_parameter", message, name)
    if unknown := [key for key in measure.params if key not in measure.SUPPORTED_PARAMS]:
        raise MetricError("wrong_parameter", f"{measure.NAME} takes no {' or '.join(unknown)}: {name}", name)
    for key, largest in _WHOLE_NUMBERS.items():
        value = measure.params.get(key, 1)
        if type(value) is not int or not 1 <= value <= largest:
            message = f"{key} of {name} must be a whole number from 1 to {largest:,}, not {value!r}"
            raise MetricError("wrong_parameter", message, name)


def _example(measure: Any, missing: Sequence[str]) -> str:
    """Return the name of the measure with example values of the missing parameters: `BPM(max_rel=1)@10`."""
    values = measure.params | {key: _EXAMPLE_VALUES.get(key, 1) for key in missing}
    at = f"@{values.pop(measure.AT_PARAM)}" if measure.AT_PARAM in values else ""
    inner = ",".join(f"{key}={value!r}" for key, value in values.items())
    return f"{measure.NAME}({inner}){at}" if inner else f"{measure.NAME}{at}"
