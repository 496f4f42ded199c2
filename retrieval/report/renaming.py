"""A comparison with its retrievers called as the reader's language calls them: for display, never for storage."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mrc_workbench.retrieval.analysis.evidence import Evidence
from mrc_workbench.retrieval.analysis.recommendation import Recommendation
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.evaluation.significance import PairTest

Names = Mapping[str, str]


def renamed_comparison(comparison: Comparison, names: Names) -> Comparison:
    """Return the comparison with every retriever, and every part of one, called by `names`."""
    content: dict[str, Any] = comparison.experiment.model_dump(mode="json", exclude_none=True)
    for spec in content["retriever"]:
        spec["name"] = names[spec["name"]]
        if "of" in spec:
            spec["of"] = [names[part] for part in spec["of"]]
        if "first" in spec:
            spec["first"] = names[spec["first"]]
    results = tuple(replace(result, name=names[result.name]) for result in comparison.results)
    return Comparison(Experiment.model_validate(content), comparison.question_set, results, comparison.parts)


def renamed_evidence(evidence: Evidence, names: Names) -> Evidence:
    """Return the intervals and the tests with every retriever called by `names`."""
    return Evidence(
        names.get(evidence.baseline, evidence.baseline),
        {names[name]: intervals for name, intervals in evidence.intervals.items()},
        tuple(_renamed_test(test, names) for test in evidence.against),
        tuple(_renamed_test(test, names) for test in evidence.others),
    )


def renamed_recommendation(found: Recommendation, names: Names) -> Recommendation:
    """Return the recommendation with every retriever called by `names`."""
    return replace(
        found,
        name=names[found.name],
        best=names[found.best],
        baseline=names.get(found.baseline, found.baseline),
        ties=tuple(names[name] for name in found.ties),
        untimed=tuple(names[name] for name in found.untimed),
        gain=found.gain and _renamed_test(found.gain, names),
        from_best=found.from_best and _renamed_test(found.from_best, names),
    )


def _renamed_test(test: PairTest, names: Names) -> PairTest:
    return replace(test, a=names[test.a], b=names[test.b])
