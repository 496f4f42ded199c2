"""What Compare says of what was judged: who is at a disadvantage, the figures of it, and the way to judge more."""

from dataclasses import replace

import pytest

from data.store import keep
from retrieval.comparison.compare import Result
from retrieval.comparison.experiment import Experiment
from retrieval.evaluation.measures import DEFAULT_KS
from tests.doubles import small_set
from tests.retrieval.compared import RIGHT, comparison_of, judged_apart
from tests.views.compare.worlds import kept, page, texts
from tests.views.driving import opened, run
from views.choices import choices_for
from views.ui.words import LANGUAGES, catalog

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("language", LANGUAGES)
def test_who_is_at_a_disadvantage_is_told_and_the_figures_are_there(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, compared = judged_apart(DEFAULT_KS, depth=100)
    data, words = keep(asked), catalog(language)
    by_name = dict(zip(choices_for(data).specs, compared.results, strict=False))
    results: list[Result] = [replace(result, name=name) for name, result in by_name.items()]
    folder = kept(data, by_name, asked, results)
    app = opened(page, lang=language, comparison=folder.name, data=data.key)
    best, behind = by_name
    told = words["compare.behind"].format(names=f"{behind} (60%)", best=best, share="100", k=10)
    assert [one.value.replace("\\", "") for one in app.warning] == [told]
    table = next(one.value for one in app.dataframe if "unjudged" in one.value).set_index("retriever")
    assert table["unjudged"].to_dict() == pytest.approx({best: 0, behind: 40})
    assert table["judged@10"].to_dict() == pytest.approx({best: 100, behind: 60})
    assert {"bpref@100", "ndcg_exp@10"} <= {*table.columns}
    assert words["compare.graded"].format(grade=1) in texts(app)
    went: list[dict[str, str]] = []
    monkeypatch.setattr("views.search.judging.open_page", lambda _, **address: went.append(address))
    app.button(key="pool_begin").click()
    run(app)
    assert went == [{"data": data.key, "pool": folder.name, "pool_n": "12", "pool_k": "10"}]
    by_grades = opened(page, comparison=folder.name, data=data.key, measure="ndcg_exp")
    assert by_grades.query_params["measure"] == "ndcg_exp"


def test_which_grade_is_relevant_is_chosen_where_there_are_several(started: list[Experiment]) -> None:
    asked, _ = judged_apart()
    mixed = replace(asked.questions[0], grades=((asked.questions[0].relevant[0], 1),))
    data = keep(replace(asked, questions=(mixed, *asked.questions[1:])))
    app = opened(page, data=data.key, grade="2")
    assert app.selectbox(key="grade_en").options == ["1", "2"]
    assert [one.relevant_from for one in started] == [2]
    opened(page, data=data.key, grade="7")
    assert [one.relevant_from for one in started] == [2, 1], "what is no grade of the set is the usual one"
    plain = opened(page, data=keep(small_set()).key)
    assert not [one for one in plain.selectbox if one.key == "grade_en"]


def test_where_only_relevant_passages_are_known_that_is_said_in_a_line() -> None:
    asked = small_set()
    data = keep(asked)
    names = [*choices_for(data).specs][:2]
    compared = comparison_of(dict.fromkeys(names, RIGHT), asked, DEFAULT_KS, depth=100)
    folder = kept(data, names, asked, compared.results)
    app = opened(page, comparison=folder.name, data=data.key, measure="ndcg_exp")
    assert catalog("en")["compare.only_relevant"] in texts(app)
    assert not [one for one in app.dataframe if "unjudged" in one.value]
    assert app.query_params["measure"] == "recall", "there is no other gain without grades"
    assert app.button(key="pool_begin")
