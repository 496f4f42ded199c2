"""Finished comparisons in the store of the Compare page, and helpers that read the page."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import pandas as pd
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import CATALOG, StoredSet, read_entry, save_question_set
from mrc_workbench.data.workspace import workspace, write_json
from mrc_workbench.retrieval.comparison.compare import Comparison, Result, compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.pace import reader_key
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.comparison.store import ComparisonJob
from mrc_workbench.retrieval.comparison.store import save_comparison as keep_comparison
from mrc_workbench.retrieval.measures import DEFAULT_KS, evaluate
from mrc_workbench.retrieval.rankings import Retriever
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.resources.sets import question_set
from tests.doubles import small_set, texts_of
from tests.retrieval.compared import comparison_of
from tests.workbench.views.driving import opened, run

RowsByRetriever = Mapping[str, Sequence[Sequence[int]] | None]


def page() -> None:
    from mrc_workbench.workbench.views.compare import page as compare_page

    compare_page.draw()


def whole_page() -> None:
    from mrc_workbench.workbench.views import sidebar
    from mrc_workbench.workbench.views.compare import page as compare_page

    sidebar.draw()
    compare_page.draw()


@cache
def whole_sample() -> QuestionSet:
    """The sample, read once per process."""
    return read_entry(CATALOG["sample"]).question_set


def sample() -> StoredSet:
    """The sample with every fourth question, read in a second."""
    return save_question_set(whole_sample().with_questions(range(0, len(whole_sample().questions), 4)))


def store_results(data: StoredSet, names: Iterable[str], question_set: QuestionSet, results: Iterable[Result]) -> Path:
    """Store these rows as the comparison of all questions that the page opens first; return its folder."""
    experiment = choices_for(data).experiment(data, list(names), Part.ALL)
    folder = ComparisonJob.of(experiment, data.fingerprint).folder
    keep_comparison(Comparison(experiment, question_set, tuple(results)), folder)
    return folder


def results_of(rows_by_name: RowsByRetriever, question_set: QuestionSet | None = None) -> tuple[Result, ...]:
    """Return results with every metric of the page, see `comparison_of`."""
    return comparison_of(rows_by_name, question_set, DEFAULT_KS, depth=100).results


def store_rows(data: StoredSet, rows_by_name: RowsByRetriever, question_set: QuestionSet | None = None) -> Path:
    """Store the comparison with these rows of passages for each question, of the small dataset by default."""
    return store_results(data, rows_by_name, question_set or small_set(), results_of(rows_by_name, question_set))


def search_and_store(
    data: StoredSet, question_set: QuestionSet, by: Mapping[str, Retriever], depth: int = 100
) -> Sequence[Result]:
    """Store a comparison of these retrievers by name; return it."""
    experiment = choices_for(data).experiment(data, list(by), Part.ALL)
    results = []
    for name, retriever in by.items():
        rankings = retriever.search(texts_of(question_set.questions), depth)
        results.append(Result(name, rankings, evaluate(rankings, question_set, experiment.ks)))
    store_results(data, by, question_set, results)
    return results


def finished(data: StoredSet, experiment: Experiment) -> Experiment:
    """Run an experiment and store its result for the page."""
    keep_comparison(compare(experiment, question_set(data.key)), ComparisonJob.of(experiment, data.fingerprint).folder)
    return experiment


def compared(data: StoredSet, *names: str, part: Part = Part.ALL) -> Experiment:
    """Run and store a comparison of selectable retrievers on all questions or a part."""
    return finished(data, choices_for(data).experiment(data, list(names), part))


def store_seconds(spec: Spec, seconds: float) -> None:
    """Store that this retriever takes so long for any texts."""
    pace = {"setup_seconds": seconds, "seconds_per_character": 0.0}
    write_json(workspace() / "cache" / "pace.json", {reader_key(spec): pace})


def open_labs(*names: str, **address: str) -> AppTest:
    """Open the Tune tab with these retrievers, in English."""
    return opened(page, view="tune", part="all", retrievers="|".join(names), **address)


def press(app: AppTest, name: str) -> AppTest:
    """Press the button with this key or label."""
    next(element for element in app.button if name in (element.key, element.label)).click()
    return run(app)


def select(app: AppTest, key: str, *rows: int) -> AppTest:
    """Select rows of a table; `AppTest` forgets them with every run."""
    app.session_state[key] = {"selection": {"rows": [*rows], "columns": [], "cells": []}}
    return run(app)


def select_setting(app: AppTest, lab: Experiment, data: StoredSet, row: int) -> AppTest:
    """Select a row of a lab's table."""
    return select(app, f"{lab.lab}_table_{ComparisonJob.of(lab, data.fingerprint).folder}", row)


def tables(app: AppTest, column: str) -> list[pd.DataFrame]:
    return [table.value for table in app.dataframe if column in table.value]


def has_info(app: AppTest, start: str) -> bool:
    return any(element.value.startswith(start) for element in app.info)


def page_text(app: AppTest) -> str:
    parts = [*app.markdown, *app.caption, *app.info, *app.warning, *app.error]
    return "\n".join(part.value for part in parts)


def html(app: AppTest) -> str:
    return "\n".join(str(element.value) for element in app.get("html"))
