"""Measures of rankings, per question and averaged.

For a question with relevant passages R, of which r_K are among the first K results, the first one at rank f:
Recall@K = r_K / |R|; Hit@K = 1 if r_K > 0 (also called top-K accuracy); RR@K = 1 / f if f <= K, else 0, with the mean
MRR@K; nDCG@K = DCG / ideal DCG with DCG = sum of 1 / log2(rank + 1) over relevant passages in the first K (Jarvelin &
Kekalainen 2002). All are between 0 and 1, higher is better.

Graded passages are relevant from `RELEVANT_GRADE` on, and DCG sums grade / log2(rank + 1): the linear gain of
trec_eval. With grades above 1, nDCG(dcg='exp-log2'), a name of ir-measures, additionally sums (2^grade - 1) / log2(rank
+ 1) (Burges et al. 2005). If a question needs a passage of each of several groups, Recall@K is the fraction of groups
with a passage among the first K.

If the judged passages are known, relevant or not, Judged@K is the fraction of judged results among the first K. Bpref
(Buckley & Voorhees 2004) ignores unjudged results: with R relevant and N judged non-relevant passages it is 1/R times
the sum, over relevant results, of 1 - min(n, R) / min(R, N), with n judged non-relevant results above. It uses the
deepest K of the rankings.

Metrics have the names of ir_measures (MacAvaney, Macdonald & Ounis 2022): `nDCG@10`, `AP`, `P@5`, `RBP(rel=1)`.
`evaluate` computes the measures above, with the same values and support for groups; ir_measures computes all others.
Scores are per question; higher is better, except for counts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from subprocess import CalledProcessError
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings

DEFAULT_CUTOFF = 10  # of MRR and nDCG, and the least depth of a search
DEFAULT_KS = (1, 5, 10, 20, 50, 100)
_NAMES = {
    **{"recall": "Recall", "hit": "Hit", "mrr": "MRR", "ndcg": "nDCG"},
    **{"ndcg_exp": "nDCG(dcg='exp-log2')", "judged": "Judged", "bpref": "Bpref"},
}
# names without parameters that the project computes itself, in any spelling of the field
_OWN_NAMES = {
    **dict.fromkeys(("recall", "r"), "recall"),
    **dict.fromkeys(("hit", "success"), "hit"),
    **dict.fromkeys(("mrr", "rr"), "mrr"),
    **dict.fromkeys(("ndcg_exp", "ndcg(dcg='exp-log2')"), "ndcg_exp"),
    **{name: name for name in ("ndcg", "judged", "bpref")},
}
_WITH_CUT = re.compile(r"(?P<name>.+)@(?P<cut>[1-9]\d{0,8})")
_MAX_VALUES = {"cutoff": 10**9, "rel": 10**9}  # of parameters; the least is 1
_EXAMPLE_VALUES = {"cutoff": 10, "recall": 0.5, "max_rel": 1}
_SUGGESTED = (
    *("nDCG@10", "R@10", "Success@10", "RR@10", "AP", "P@5", "RBP(rel=1)"),
    *("ERR@10", "Rprec", "Bpref", "Judged@10"),
)


class Measure(NamedTuple):
    """A measure and its K. As text, in files and as a key of scores, it is "recall@10"."""

    name: str
    cutoff: int

    @classmethod
    def parse(cls, text: str) -> Self:
        name, _, cutoff = text.partition("@")
        if name not in _NAMES:
            raise ValueError(f"a measure is one of {', '.join(_NAMES)} with its K, like recall@10, not {text!r}")
        return cls(name, int(cutoff))

    def __str__(self) -> str:
        return f"{self.name}@{self.cutoff}"

    @property
    def long_name(self) -> str:
        return f"{_NAMES[self.name]}@{self.cutoff}"

    @property
    def short_name(self) -> str:
        return f"R@{self.cutoff}" if self.name == "recall" else self.long_name


@dataclass(frozen=True)
class Scores:
    """Every known measure of one retriever: `per_question["recall@10"]` is `(n_questions,)` float64."""

    ks: tuple[int, ...]
    per_question: dict[str, np.ndarray]

    def means(self) -> dict[str, float]:
        return {measure: float(values.mean()) for measure, values in self.per_question.items()}


def measure_names(ks: Sequence[int]) -> list[str]:
    """Return the names of the measures of ungraded datasets for these K, in the order of tables."""
    cuts = sorted({*ks, DEFAULT_CUTOFF})
    return [
        *(f"{name}@{k}" for name in ("recall", "hit") for k in ks),
        *(f"{name}@{k}" for name in ("mrr", "ndcg") for k in cuts),
    ]


def required_depth(ks: Sequence[int]) -> int:
    """Return the depth of a search for these K and for MRR@10 and nDCG@10."""
    return max(DEFAULT_CUTOFF, *ks)


def evaluate(rankings: Rankings, question_set: QuestionSet, ks: Sequence[int] = DEFAULT_KS) -> Scores:
    """Score rankings of the set's questions, row by row.

    Measures deeper than the rankings are omitted, unless these cover the whole corpus. Raises `ValueError` if the
    number of rankings differs from the number of questions, or a question has no relevant passage.
    """
    n_rankings, depth = rankings.indices.shape
    if n_rankings != len(question_set.questions) or not n_rankings:
        raise ValueError(f"{n_rankings} rankings for {len(question_set.questions)} questions; at least 1 is needed")
    relevant_counts = np.diff(question_set.relevance.indptr)
    if not relevant_counts.all():
        raise ValueError("a question without a relevant passage cannot be scored")
    hits = relevant_hits(rankings, question_set)
    hit_counts = hits.cumsum(axis=1)
    first_ranks = _first_hit_ranks(hits)
    covers_corpus = depth >= len(question_set.passages)
    known_ks = tuple(k for k in ks if k <= depth or covers_corpus)
    hits_at_k = {k: hit_counts[:, min(k, depth) - 1] for k in known_ks}
    group_recalls = _group_recalls(rankings, question_set, known_ks)
    per_question = {f"recall@{k}": group_recalls.get(k, hits_at_k[k] / relevant_counts) for k in known_ks}
    per_question |= {f"hit@{k}": (hits_at_k[k] > 0).astype(np.float64) for k in known_ks}
    cuts = sorted({*known_ks, DEFAULT_CUTOFF} if depth >= DEFAULT_CUTOFF or covers_corpus else {*known_ks})
    per_question |= {
        f"mrr@{k}": np.where((first_ranks > 0) & (first_ranks <= k), 1 / np.maximum(first_ranks, 1), 0.0) for k in cuts
    }
    per_question |= {f"ndcg@{k}": _ndcg(hits[:, :k], relevant_counts) for k in cuts}
    if (gains := question_set.gains) is not None and cuts:
        per_question |= {f"ndcg@{k}": values for k, values in _graded_ndcg(rankings, gains, cuts).items()}
        if gains.data.max() > 1:  # else both gains are equal
            raised = csr_array((np.exp2(gains.data) - 1, gains.indices, gains.indptr), shape=gains.shape)
            per_question |= {f"ndcg_exp@{k}": values for k, values in _graded_ndcg(rankings, raised, cuts).items()}
        per_question |= _judged_measures(rankings, question_set.judged, hits, relevant_counts[:, None], cuts)
    return Scores(known_ks, per_question)


def _graded_ndcg(rankings: Rankings, gains: csr_array, cuts: Sequence[int]) -> dict[int, np.ndarray]:
    ranked_gains = _values_at_hits(rankings, gains)
    question_rows = np.repeat(np.arange(gains.shape[0]), np.diff(gains.indptr))
    order = np.lexsort((-gains.data, question_rows))  # grouped by question
    positions = np.arange(len(question_rows)) - gains.indptr[question_rows]
    ideal = np.zeros((len(ranked_gains), max(*cuts, int(np.diff(gains.indptr).max()))))
    ideal[question_rows, positions] = gains.data[order]
    discounts = 1.0 / np.log2(np.arange(2, ideal.shape[1] + 2))
    n_ranked = ranked_gains.shape[1]
    return {k: (ranked_gains[:, :k] @ discounts[: min(k, n_ranked)]) / (ideal[:, :k] @ discounts[:k]) for k in cuts}


def _judged_measures(
    rankings: Rankings, known: csr_array, hits: np.ndarray, relevant: np.ndarray, cuts: Sequence[int]
) -> dict[str, np.ndarray]:
    """Return Judged@K, 1 without results, and Bpref; `known` are judged, `relevant` counts `(n_questions, 1)`."""
    judged = _values_at_hits(rankings, known)
    is_hit = rankings.indices != NOT_FOUND
    depth = cuts[-1]
    values = {}
    for k in cuts:
        n_hits = is_hit[:, :k].sum(axis=1)
        values[f"judged@{k}"] = np.where(n_hits, judged[:, :k].sum(axis=1) / np.maximum(n_hits, 1), 1.0)
    non_relevant = np.diff(known.indptr)[:, None] - relevant
    above = np.minimum((judged & ~hits).cumsum(axis=1), relevant)
    contributions = 1 - above / np.maximum(np.minimum(relevant, non_relevant), 1)
    return values | {f"bpref@{depth}": (contributions * hits)[:, :depth].sum(axis=1) / relevant[:, 0]}


def _group_recalls(rankings: Rankings, question_set: QuestionSet, ks: Sequence[int]) -> dict[int, np.ndarray]:
    """Return Recall by K of groups of passages; a question without groups has one per passage. Empty without any."""
    if not any(question.groups for question in question_set.questions):
        return {}
    needed = [question.groups or tuple((id_,) for id_ in question.relevant) for question in question_set.questions]
    recalls = {k: np.zeros(len(needed)) for k in ks}
    for row, groups in enumerate(needed):
        passages = rankings.indices[row].tolist()
        rank = {passage: position for position, passage in enumerate(passages, 1)}
        distinct = [*dict.fromkeys(filter(None, groups)), *(group for group in groups if not group)]
        members = [{question_set.row_of_passage[id_] for id_ in group} for group in distinct]
        missing = len(passages) + 1
        firsts = [min((rank.get(member, missing) for member in group), default=missing) for group in members]
        for k in ks:
            recalls[k][row] = np.mean([first <= min(k, len(passages)) for first in firsts])
    return recalls


def _ndcg(top: np.ndarray, relevant_counts: np.ndarray) -> np.ndarray:
    discounts = 1.0 / np.log2(np.arange(2, top.shape[1] + 2))
    ideal = discounts.cumsum()[np.minimum(relevant_counts, top.shape[1]) - 1]
    return np.asarray((top @ discounts) / ideal)


def first_relevant_ranks(rankings: Rankings, question_set: QuestionSet) -> np.ndarray:
    """Return the rank (1 is best) of each question's first relevant result, `(n_questions,)` int64, or 0."""
    return _first_hit_ranks(relevant_hits(rankings, question_set))


def relevant_hits(rankings: Rankings, question_set: QuestionSet) -> np.ndarray:
    """Return whether each result is relevant, `(n_questions, k)` bool."""
    return _values_at_hits(rankings, question_set.relevance)


def _values_at_hits(rankings: Rankings, values: csr_array) -> np.ndarray:
    """Return the values of a matrix `(n_questions, n_passages)` at each result, `(n_questions, k)`, else 0."""
    rows = np.arange(len(rankings.indices))[:, None]
    ranked = np.asarray(values[rows, np.maximum(rankings.indices, 0)].todense())
    return np.where(rankings.indices != NOT_FOUND, ranked, ranked.dtype.type(0))


def _first_hit_ranks(hits: np.ndarray) -> np.ndarray:
    return np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, 0) if hits.size else np.zeros(len(hits), np.int64)


class MetricError(Failure, ValueError):
    """A metric that is unknown, lacks a parameter, or cannot be computed; the detail `metric` is its name."""

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
        _parse_metric(name)


def cutoff_of(name: str) -> int | None:
    """Return the cutoff of a metric; None if it uses all results. Raises `MetricError`."""
    own = own_measure(name)
    cutoff: int | None = own.cutoff if own else _parse_metric(name).params.get("cutoff")
    return cutoff


def score_by_name(rankings: Rankings, question_set: QuestionSet, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return per-question values `(n_questions,)` float64 by name. Raises `MetricError` and `ValueError`."""
    own_measures = {name: measure for name in names if (measure := own_measure(name))}
    values = {}
    if own_measures:
        ks = tuple(sorted({measure.cutoff for measure in own_measures.values()}))
        rankings_to_k = rankings.padded(min(max(ks), len(question_set.passages)))
        scores = evaluate(rankings_to_k, question_set, ks).per_question
        # without graded judgements, ir_measures computes the graded measures
        values = {name: scores[str(measure)] for name, measure in own_measures.items() if str(measure) in scores}
    if others := [name for name in names if name not in values]:
        values |= _ir_measures_values(rankings, question_set, others)
    return {name: values[name] for name in names}


def _ir_measures_values(rankings: Rankings, question_set: QuestionSet, names: Sequence[str]) -> dict[str, np.ndarray]:
    import ir_measures

    parsed = {name: _parse_metric(name) for name in names}
    run = _to_run(rankings)
    row_of = question_set.row_of_passage
    judgements = {  # grades by rows; 0 below the relevance level
        str(row): {str(row_of[id_]): grade * (id_ in question.relevant) for id_, grade in question.grade_of.items()}
        for row, question in enumerate(question_set.questions)
    }
    values = {name: np.zeros(len(question_set.questions)) for name in names}
    for name, measure in parsed.items():
        try:
            for metric in ir_measures.iter_calc([measure], judgements, run):
                values[name][int(metric.query_id)] = metric.value
        except (ValueError, AssertionError, TypeError, KeyError, RuntimeError, ArithmeticError) as error:
            reason = str(error) or type(error).__name__
            if isinstance(error, ZeroDivisionError):
                reason = "it divides by zero for the ranking of a question"
            raise MetricError("unsupported_metric", f"ir_measures cannot compute {name}: {reason}", name) from error
        except (CalledProcessError, OSError) as error:
            message = f"{name} cannot be computed: ir_measures runs gdeval for it, which needs perl ({error})"
            raise MetricError("unsupported_metric", message, name) from error
    return values


def _to_run(rankings: Rankings) -> dict[str, dict[str, float]]:
    depth = rankings.indices.shape[1]
    run: dict[str, dict[str, float]] = {}
    for question, row in enumerate(rankings.indices.tolist()):
        scores = {str(passage): float(depth - position) for position, passage in enumerate(row) if passage != NOT_FOUND}
        if scores:
            run[str(question)] = scores
    return run


def _parse_metric(name: str) -> Any:
    import ir_measures

    try:
        measure = ir_measures.parse_measure(name)
    except (NameError, ValueError, TypeError, SyntaxError, KeyError, AttributeError) as error:
        known = [*_SUGGESTED, *(ir_measures.measures.registry)]
        folded = {candidate.casefold(): candidate for candidate in reversed(known)}
        nearest = get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)
        guess = f"; did you mean {', '.join(folded[candidate] for candidate in nearest)}?" if nearest else "."
        message = f"no metric is called {name!r}{guess} Names are those of ir_measures, such as nDCG@10 or AP"
        raise MetricError("unknown_metric", message, name) from error
    _check_parameters(name, measure)
    return measure


def _check_parameters(name: str, measure: Any) -> None:
    """Raise `MetricError` for parameters that ir_measures does not check; some of them crash the process."""
    supported = measure.SUPPORTED_PARAMS
    missing = [key for key in supported if supported[key].required and key not in measure.params]
    if missing:
        message = f"{name} needs a value of {' and '.join(missing)}: write for example {_example(measure, missing)}"
        raise MetricError("wrong_parameter", message, name)
    if unknown := [key for key in measure.params if key not in supported]:
        raise MetricError("wrong_parameter", f"{measure.NAME} takes no {' or '.join(unknown)}: {name}", name)
    for key, largest in _MAX_VALUES.items():
        value = measure.params.get(key, 1)
        if type(value) is not int or not 1 <= value <= largest:
            message = f"{key} of {name} must be a whole number from 1 to {largest:,}, not {value!r}"
            raise MetricError("wrong_parameter", message, name)


def _example(measure: Any, missing: Sequence[str]) -> str:
    values = measure.params | {key: _EXAMPLE_VALUES.get(key, 1) for key in missing}
    cutoff_suffix = f"@{values.pop(measure.AT_PARAM)}" if measure.AT_PARAM in values else ""
    parameters = ",".join(f"{key}={value!r}" for key, value in values.items())
    return f"{measure.NAME}({parameters}){cutoff_suffix}" if parameters else f"{measure.NAME}{cutoff_suffix}"
