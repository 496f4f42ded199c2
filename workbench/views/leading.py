"""The metric that every page leads with: nDCG@10, or what the user chose on Compare.

The choice is kept in the address of Compare and, for the other pages, in the session.
"""

from collections.abc import Mapping, Sequence

from mrc_workbench.retrieval.analysis.evidence import usual_figure
from mrc_workbench.retrieval.measures import CUT, DEFAULT_KS, Measure
from mrc_workbench.workbench.views.ui.state import remembered

DEFAULT = "ndcg"
MEASURES = ("ndcg", "recall", "hit", "mrr", "ndcg_exp")  # the last only of questions with grades


def leading_name(known: Sequence[str] = MEASURES) -> str:
    """Return the name of the leading metric without its K, of those `known`."""
    return remembered("measure", DEFAULT if DEFAULT in known else known[0], known)


def leading_measure(ks: Sequence[int] = DEFAULT_KS) -> Measure:
    """Return the leading metric at the K the user chose, if it is one of `ks`, else at the default K."""
    default = usual_figure(leading_name(), ks)
    return Measure(default.name, int(remembered("k", str(default.cut), [str(k) for k in ks])))


def best_by(measure: Measure, figures: Mapping[str, Mapping[str, float]]) -> tuple[str, Measure, float] | None:
    """Return the best retriever by a metric, the metric and its mean; by nDCG@10 if no retriever has the metric."""
    for column in (measure, Measure(DEFAULT, CUT)):
        means = {name: values[str(column)] for name, values in figures.items() if str(column) in values}
        if means:
            best = max(means, key=means.__getitem__)
            return best, column, means[best]
    return None
