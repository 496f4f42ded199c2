"""The lab of words as a person uses it: changes picked, tried one at a time and together, and the best one used."""

import pytest
from streamlit.testing.v1 import AppTest

from data.store import StoredSet
from retrieval.analysis.labs import best, changes, lab_figures, lexical_lab, tried
from retrieval.comparison.compare import compare
from retrieval.comparison.experiment import Experiment, add, added
from retrieval.comparison.first_stage import BM25Spec, WindowedBM25Spec
from retrieval.comparison.store import ComparisonJob
from retrieval.evaluation.significance import question_groups
from tests.views.compare.worlds import compared, finished, opened, sample, texts
from tests.views.driving import run
from text.analyzers import Analyzer, Compounds
from text.dictionary import Dictionary, Word
from text.kept_dictionaries import keep
from views.compare.tune.bench import to_use
from views.resources.sets import question_set

TITLES = changes(title_weight=(2.0, 5.0))
COMPOUNDS = changes(compounds=(Compounds.SPLIT,))
ADDRESS = {"changes": "title|compounds", "titles": "2|5", "compounds": "split"}


@pytest.fixture
def data() -> StoredSet:
    return sample()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Experiment]:
    """The experiments started, in place of their processes."""
    experiments: list[Experiment] = []
    monkeypatch.setattr(ComparisonJob, "start", lambda _, experiment: experiments.append(experiment))
    return experiments


def pills(app: AppTest, name: str) -> list[str]:
    (one,) = [one for one in app.pills if str(one.key).startswith(f"lab_{name}_")]
    return list(one.options)


def pick(app: AppTest, name: str, *values: str) -> None:
    (one,) = [one for one in app.pills if str(one.key).startswith(f"lab_{name}_")]
    one.set_value(list(values))
    run(app)


def starts(app: AppTest) -> list[str]:
    return [button.label for button in app.button if button.key == "start_lexical"]


def test_changes_are_picked_and_lie_in_the_address(data: StoredSet, started: list[Experiment]) -> None:
    experiment = compared(data, "BM25")
    app = opened("BM25")
    assert pills(app, "changes") == [
        "Title counted apart",
        "Ask again with words found",
        "Compounds",
        "User dictionary",
    ]
    pick(app, "changes", "title", "compounds")
    pick(app, "titles", "2", "5")
    pick(app, "compounds", "split")
    assert starts(app) == ["Try 6 settings"]  # as it is, three changes alone, and two together
    app.button(key="start_lexical").click()
    run(app)
    assert started == [lexical_lab(experiment, "BM25", [TITLES, COMPOUNDS])]
    assert {name: app.query_params[name] for name in ("changes", "compounds")} == {
        "changes": "title|compounds",
        "compounds": "split",
    }
    assert starts(opened("BM25", **ADDRESS)) == ["Try 6 settings"]


@pytest.mark.usefixtures("started")
def test_without_a_value_or_with_too_many_nothing_is_started(data: StoredSet) -> None:
    compared(data, "BM25")
    app = opened("BM25", **ADDRESS)
    pick(app, "titles")
    assert any(info.value.startswith("Pick at least one thing to change") for info in app.info)
    assert not starts(app)
    pick(app, "titles", "1", "2", "3", "5")
    pick(app, "compounds", "split", "whole", "both")
    pick(app, "changes", "title", "feedback", "compounds")
    pick(app, "passages", "3", "10")
    assert [error.value for error in app.error] == ["At most 60 settings are tried at once. Pick fewer values."]
    assert not starts(app)


@pytest.mark.usefixtures("started")
def test_only_what_a_retriever_can_do_is_offered(data: StoredSet) -> None:
    add(data.fingerprint, BM25Spec(name="Words", analyzer=Analyzer.WORD))
    add(data.fingerprint, BM25Spec(name="Pairs", analyzer=Analyzer.BIGRAM, title=False))
    add(data.fingerprint, WindowedBM25Spec(name="Windows"))
    compared(data, "Words", "Pairs", "Windows")
    names = ("Words", "Pairs", "Windows")
    assert pills(opened(*names, tuned="Words"), "changes") == [
        "Title counted apart",
        "Ask again with words found",
        "User dictionary",
    ]
    assert pills(opened(*names, tuned="Pairs"), "changes") == ["Ask again with words found"]
    assert pills(opened(*names, tuned="Windows"), "changes") == ["Title counted apart", "Compounds", "User dictionary"]


@pytest.mark.usefixtures("started")
def test_words_of_a_dictionary_are_offered_where_they_are_of_use(data: StoredSet) -> None:
    words = keep(Dictionary((Word("경인선"),)), "Words alone")
    both = keep(Dictionary((Word("경인선"),), (("차", "자동차"),)), "Both")
    add(data.fingerprint, BM25Spec(name="Mine", dictionary=words.reference))
    add(data.fingerprint, BM25Spec(name="Words", analyzer=Analyzer.WORD))
    compared(data, "Mine", "Words")
    of_kiwi = opened("Mine", "Words", tuned="Mine", changes="dictionary")
    assert pills(of_kiwi, "dictionaries") == ["No dictionary", "Both"]
    of_words = opened("Mine", "Words", tuned="Words", changes="dictionary", dictionaries=both.reference)
    assert pills(of_words, "dictionaries") == ["Both"]
    assert starts(of_words) == ["Try 2 settings"]


def test_what_a_change_brings_is_told_and_used(data: StoredSet, started: list[Experiment]) -> None:
    kept = keep(Dictionary((Word("경인선"),)), "내 | 사전")
    lab = finished(data, lexical_lab(compared(data, "BM25"), "BM25", [TITLES, changes(dictionary=(kept.reference,))]))
    app = opened("BM25", changes="title|dictionary", titles="2|5", dictionaries=kept.reference)
    found = compare(lab, question_set(data.key))
    figures = lab_figures(found, "ndcg@10", question_groups(found.question_set))
    (table,) = [one.value for one in app.dataframe if "change" in one.value]
    for ours, theirs in (("value", "value"), ("difference", "difference"), ("difference_low", "difference_low")):
        assert sorted(table[ours]) == pytest.approx(sorted(figures[theirs] * 100))
    assert set(table["change"]) == {
        "Nothing (the present setting)",
        "Title × 2",
        "Title × 5",
        "Dictionary: 내 / 사전",
        "Title × 2 · Dictionary: 내 / 사전",
        "Title × 5 · Dictionary: 내 / 사전",
    }
    assert table.set_index("change")["difference"]["Nothing (the present setting)"] == 0

    name = next(spec.name for spec in tried(lab) if dict(spec).get("dictionary") and dict(spec)["title_weight"] == 5)
    spec = to_use(lab, name)
    assert spec.name == "BM25 · title weight 5 · dictionary 내 / 사전"
    place = table["change"].tolist().index("Title × 5 · Dictionary: 내 / 사전")
    key = f"lexical_table_{ComparisonJob.of(lab, data.fingerprint).folder}"
    app.session_state[key] = {"selection": {"rows": [place], "columns": [], "cells": []}}
    run(app)
    assert spec.name in texts(app)
    app.button(key="use_lexical").click()
    run(app)
    assert added(data.fingerprint) == [spec]
    assert app.query_params["retrievers"] == f"BM25|{spec.name}"
    assert app.query_params["part"] == "test"
    assert started[-1].retriever[-1] == spec


@pytest.mark.usefixtures("started")
def test_the_present_setting_is_nothing_to_use(data: StoredSet) -> None:
    lab = finished(data, lexical_lab(compared(data, "BM25"), "BM25", [TITLES]))
    app = opened("BM25", changes="title", titles="2|5")
    (table,) = [one.value for one in app.dataframe if "change" in one.value]
    place = table["change"].tolist().index("Nothing (the present setting)")
    key = f"lexical_table_{ComparisonJob.of(lab, data.fingerprint).folder}"
    app.session_state[key] = {"selection": {"rows": [place], "columns": [], "cells": []}}
    run(app)
    assert any(info.value.startswith("This is the present setting.") for info in app.info)
    assert not [button for button in app.button if button.key == "use_lexical"]
    found = compare(lab, question_set(data.key))
    assert best(lab_figures(found, "ndcg@10", question_groups(found.question_set))) in {one.name for one in tried(lab)}


@pytest.mark.slow
@pytest.mark.usefixtures("started")
def test_without_bm25_dictionaries_can_still_be_made(data: StoredSet) -> None:
    compared(data, "Dense")
    app = opened("Dense")
    assert any(info.value.startswith("This lab varies the settings of BM25") for info in app.info)
    assert "User dictionary" in [heading.value for heading in app.subheader]
