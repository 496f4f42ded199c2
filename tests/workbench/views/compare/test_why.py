"""The Why tab: the listed questions, and a single question with its reasons, notes and marks."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.questions.judgements import load_remarks, mark_negative, write_note
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import Part, SplitOptions, split
from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.retrieval.combine import Hybrid
from mrc_workbench.retrieval.comparison.experiment import add_run
from mrc_workbench.retrieval.lexical.bm25 import BM25
from mrc_workbench.retrieval.rankings import Rankings
from mrc_workbench.workbench.views.ui.words import catalog
from tests.doubles import PASSAGES, small_set
from tests.retrieval.compared import rankings_of
from tests.workbench.views import driving
from tests.workbench.views.compare.worlds import html, page, page_text, search_and_store, store_results, tables

pytestmark = pytest.mark.usefixtures("data")
EN = catalog("en")
NAMES = ("BM25", "Dense", "Hybrid", "Reranked")
HOSTILE = "<img src=x onerror=alert(1)> **굵게** 한글 <script>alert(2)</script>"


class Fixed:
    """Returns passages in a fixed order for each question."""

    def __init__(self, name: str, rows: list[list[int]]) -> None:
        self.name = name
        self.rows = rows

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        assert len(questions) == len(self.rows)
        return rankings_of(self.rows, k)


# Dense loses q1, ranks the passage of q2 last, and one of q6 fourth
DENSE = [[1, 2, 3], [4, 3, 0, 2, 1], [2], [3], [4], [4, 3, 0, 1, 2]]


def compared(question_set: QuestionSet, dense: list[list[int]] = DENSE) -> StoredSet:
    """Store a dataset and a finished comparison: BM25, a fixed Dense, Hybrid of both, Reranked in the order of BM25."""
    data = save_question_set(question_set)
    bm25 = BM25("BM25", question_set.passages)
    fixed = Fixed("Dense", dense)
    hybrid = Hybrid("Hybrid", [bm25, fixed], n_passages=len(question_set.passages))
    search_and_store(data, question_set, dict(zip(NAMES, (bm25, fixed, hybrid, bm25), strict=True)))
    return data


@pytest.fixture
def data() -> StoredSet:
    return compared(small_set())


def opened(**address: str) -> AppTest:
    app = driving.opened(page, view="why", **address)
    assert not app.error
    return app


def run(app: AppTest) -> AppTest:
    assert not driving.run(app).error
    return app


def press(app: AppTest, key: str) -> AppTest:
    app.button(key=key).click()
    return run(app)


def listed_ids(app: AppTest) -> list[str]:
    question_table = tables(app, "overlap")
    return question_table[0]["id"].tolist() if question_table else []


def counts(app: AppTest) -> list[int]:
    labels = [button.label for button in app.button if (button.key or "").startswith("why_quadrant")]
    return [int(re.findall(r"\*\*([\d,]+)\*\*", label)[0]) for label in labels]


def test_lists_all_questions_with_ranks_most_disputed_first() -> None:
    app = opened(k="1")
    assert listed_ids(app)[0] == "q1"
    assert set(listed_ids(app)) == {f"q{n}" for n in range(1, 7)}
    table = tables(app, "overlap")[0].set_index("id")
    assert table.loc["q2", "rank_1"] == 5
    assert table.loc["q1", "rank_0"] == 1
    assert table["rank_1"].isna()["q1"]
    assert "**All 6 questions**" in page_text(app)
    dense = tables(app, "retriever")[0].set_index("retriever").loc["Dense"]
    assert dense.tolist() == [3, 2, 0, 0, 0, 0, 1]  # the numbers of the map
    assert len(app.get("vega_lite_chart")) == 1
    (question_table,) = [element for element in app.dataframe if "overlap" in element.value]
    columns = json.loads(question_table.proto.columns)
    widths = {name: settings["width"] for name, settings in columns.items() if "width" in settings}
    assert max(widths, key=lambda name: widths[name]) == "question"
    assert question_table.proto.row_height > 64  # Streamlit wraps the text of such rows
    assert columns["overlap"]["type_config"]["format"] == "%d%%"
    overlap = table["overlap"]
    assert overlap.between(0, 100).all()
    assert (overlap == overlap.round()).all()
    assert overlap.max() > 1


def test_filters_by_quadrant_and_clears() -> None:
    app = opened(k="1", a="BM25", b="Dense")
    assert counts(app) == [3, 3, 0, 0]
    press(app, "why_quadrant_only_first")
    assert app.query_params["quadrant"] == "only_first"
    assert set(listed_ids(app)) == {"q1", "q2", "q6"}
    assert "**3 of 6 questions**: BM25 finds it in the top 1, Dense does not" in page_text(app)
    press(app, "why_quadrant_only_second")
    assert listed_ids(app) == []
    assert EN["why.none_listed"] in [info.value for info in app.info]
    press(app, "why_quadrant_only_second")  # a second click clears the filter
    assert len(listed_ids(app)) == 6


def test_selects_most_different_retriever_as_second() -> None:
    app = opened(k="1")
    assert [app.selectbox(key=f"why_{letter}").value for letter in "ab"] == ["BM25", "Dense"]
    app.selectbox(key="why_a").set_value("Dense")
    run(app)
    assert app.selectbox(key="why_a").value == "Dense"
    assert app.selectbox(key="why_b").value != "Dense"


def test_combines_filters_of_words_slices_and_outcomes() -> None:
    app = opened()
    app.text_input(key="why_words").set_value("한강")
    run(app)
    assert set(listed_ids(app)) == {"q2", "q3", "q6"}
    app.selectbox(key="why_slice").set_value("article")
    run(app)
    assert set(listed_ids(app)) == {"q2", "q3", "q6"}  # the address names none yet
    options = app.selectbox(key="why_within").options
    assert any("한강" in option for option in options)
    app.selectbox(key="why_within").set_value(str([("한강" in option) for option in options].index(True) - 1))
    run(app)
    assert set(listed_ids(app)) == {"q2", "q6"}
    assert "한강" in page_text(app)
    app.selectbox(key="why_slice").set_value("question_length")
    run(app)
    assert app.selectbox(key="why_within").value == ""
    press(app, "why_clear")
    assert len(listed_ids(app)) == 6
    assert app.text_input(key="why_words").value == ""
    assert not {"words", "slice", "within"} & set(app.query_params)


def test_address_restores_the_list() -> None:
    lost = opened(of="Dense", fate="not_found", k="1")
    assert listed_ids(lost) == ["q1"]
    assert "Dense does not find it at all" in page_text(lost)
    below = opened(of="Dense", fate="below", k="1", words="서울")
    assert listed_ids(below) == ["q6"]
    # the map starts with the questions that BM25 ranks first, here all, and among them with those of Dense
    first = opened(block="0-3 Dense")
    assert "one block of the map: Dense ranks it 1" in page_text(first)
    assert set(listed_ids(first)) == {"q3", "q4", "q5"}


@pytest.mark.parametrize(
    "address",
    [
        "quadrant=none&block=0-99 BM25&fate=lost&of=Dense&slice=colour&within=0&a=Nobody&b=BM25&n=7&shows=nothing",
        "block=x&fate=below&of=Nobody&slice=article&within=99",
        "slice=article&within=-1",
    ],
)
def test_ignores_invalid_filters_of_address(address: str) -> None:
    assert len(listed_ids(opened(**dict(parse_qsl(address))))) == 6


def test_reports_missing_question(data: StoredSet) -> None:
    app = opened(question="gone*")
    assert app.warning[0].value.startswith("Too few questions are compared: 6.")
    assert app.warning[1].value.replace("\\", "").startswith("This comparison has no question with the id “gone*”")
    assert len(listed_ids(app)) == 6


def test_single_retriever_has_no_pair(data: StoredSet) -> None:
    search_and_store(data, small_set(), {"BM25": BM25("BM25", PASSAGES)})
    app = opened(retrievers="BM25")
    assert counts(app) == []
    assert len(listed_ids(app)) == 6


def test_opens_browses_and_closes_a_question() -> None:
    app = opened(k="1", quadrant="only_first", a="BM25", b="Dense")
    ids = listed_ids(app)
    press(app, "why_first")
    assert app.subheader[0].value.replace("\\", "") == "한글을 만든 왕은 누구인가?"
    assert "1 of 3 · BM25 finds it in the top 1, Dense does not" in page_text(app)
    assert app.button(key="why_before").disabled
    press(app, "why_after")
    assert app.query_params["question"] == ids[1]
    press(app, "why_before")
    press(app, "why_back")
    assert listed_ids(app) == ids


def test_displays_stored_ranking_of_each_retriever() -> None:
    app = opened(question="q2", n="3")
    columns = html(app).split('class="results-head"')[1:]
    assert len(columns) == 4
    bm25, dense = columns[:2]
    assert "Answer passage at rank 1" in bm25
    assert "Answer passage at rank 5" in dense
    ranks = re.findall(r'<span class="rank">(\d+)</span>', dense)
    assert ranks == ["5", "1", "2", "3"]  # the answer passage is on top, at any rank
    assert '<div role="listitem" class="gold">' in dense
    assert "<u>서해</u>" in bm25
    assert "BM25 #1 · Dense #5" in columns[2]


def test_explains_each_rank_in_a_sentence() -> None:
    text = html(opened(question="q1"))
    reasons = re.findall(r'<p class="reason".*?<b>(.*?)</b> (.*?)</p>', text)
    assert [name for name, _ in reasons] == list(NAMES)
    reason_by_name = dict(reasons)
    assert reason_by_name["BM25"].startswith(
        "ranks the answer passage first. The answer passage contains 4 of the question&#x27;s 5 words; "
    )
    assert reason_by_name["BM25"].endswith("No passage contains “누구”.")
    assert reason_by_name["Dense"] == "does not find the answer passage in its top 100."
    assert "BM25 1, Dense not in its top 100" in reason_by_name["Hybrid"]
    assert reason_by_name["Reranked"].startswith("ranks the answer passage first.")


def test_marks_passages_of_same_article_as_confusers() -> None:
    first = Passage("a1", "세종은 한글을 만들었다", "세종")
    second = Passage("a2", "세종은 한글 책을 펴냈다", "세종")
    passages = (first, second, Passage("b1", "한글 간판이 늘었다", "간판"))
    question_set = QuestionSet("articles", passages, (Question("q1", "한글을 만든 세종", ("세종",), ("a1",)),))
    compared(question_set, [[1, 0, 2]])
    dense = html(opened(question="q1")).split('class="results-head"')[2]
    gold, confuser, other = dense.split('role="listitem"')[1:]
    assert 'class="confuser"' in confuser
    assert 'class="confuser"' not in gold
    assert 'class="confuser"' not in other


def test_displays_shallow_imported_run_beside_others() -> None:
    question_set = small_set()
    data = save_question_set(question_set)
    lines = []
    for question in question_set.questions:
        for index, row in enumerate((4, 0, 1), start=1):
            lines.append(f"{question.id} Q0 {question_set.passages[row].id} {index} {9 - index} x")
    add_run(question_set, "Elsewhere", "\n".join(lines).encode(), "elsewhere.trec")
    ours = search_and_store(data, question_set, {"BM25": BM25("BM25", question_set.passages)})
    theirs = search_and_store(data, question_set, {"Elsewhere": Fixed("Elsewhere", [[4, 0, 1]] * 6)}, depth=3)
    store_results(data, ["BM25", "Elsewhere"], question_set, [*ours, *theirs])
    address = {"retrievers": "BM25|Elsewhere", "k": "10"}
    app = opened(**address)
    assert len(listed_ids(app)) == 6
    app = opened(**address, question="q3")
    assert "does not find the answer passage in its top 3." in html(app)
    app = opened(**address, question="q3", shows="scores", explained="Elsewhere")
    assert EN["why.whole_run"] in [info.value for info in app.info]
    # below its depth the outcome is unknown: at 1 two are lost, at 10 the filter is ignored
    assert set(listed_ids(opened(**address | {"k": "1"}, of="Elsewhere", fate="not_found"))) == {"q3", "q4"}
    assert len(listed_ids(opened(**address, of="Elsewhere", fate="not_found"))) == 6


def test_marks_passage_as_hard_negative_and_lists_it(data: StoredSet) -> None:
    app = opened(question="q2")
    app.checkbox(key="mark_Dense 4").check()
    run(app)
    assert load_remarks(data.fingerprint).negatives == (("q2", "p5"),)
    assert app.checkbox(key="mark_Dense 4").value
    keys = [element.key or "" for element in app.checkbox if (element.key or "").startswith("mark_")]
    assert "mark_Dense 1" not in keys  # not the answer passage
    app.text_area(key="note_q2").set_value("왜 *졌을까*")
    run(app)
    assert load_remarks(data.fingerprint).note("q2") == "왜 *졌을까*"
    press(app, "why_back")
    (expander,) = [element for element in app.expander if element.label == EN["why.remarks"].format(count=2)]
    table = expander.dataframe[0].value
    assert table["note"].tolist() == ["왜 *졌을까*", ""]
    assert table["passage_id"].tolist() == ["", "p5"]
    app = opened(question="q2")
    assert app.text_area(key="note_q2").value == "왜 *졌을까*"
    app.checkbox(key="mark_Dense 4").uncheck()
    run(app)
    assert load_remarks(data.fingerprint).negatives == ()


def test_marks_only_training_questions() -> None:
    parts = split(small_set(), SplitOptions()).rows
    for part, is_marked in ((Part.TRAIN, True), (Part.TEST, False)):
        question = small_set().questions[parts[part][0]]
        keys = [item.key or "" for item in opened(question=question.id).checkbox]
        assert any(key.startswith("mark_") for key in keys) is is_marked


def test_removes_selected_remarks(data: StoredSet) -> None:
    from mrc_workbench.workbench.views.compare.why import _remove_remarks

    mark_negative(data.fingerprint, "q1", "p2")
    mark_negative(data.fingerprint, "q1", "p3")
    write_note(data.fingerprint, "q1", "note")
    app = opened()
    assert app.button(key="why_remove").disabled
    _remove_remarks(data.fingerprint, [["q1", "p2"], ["q1", ""]])
    known = load_remarks(data.fingerprint)
    assert (known.negatives, known.notes) == ((("q1", "p3"),), ())


def test_escapes_user_text_in_html_and_markdown() -> None:
    question_set = small_set()
    answer = '"><b>답</b>'
    passages = (Passage("<i>id</i>", f"{HOSTILE} {answer}", HOSTILE), *question_set.passages)
    questions = (Question("<i>q</i>", HOSTILE, (answer,), ("<i>id</i>",)), *question_set.questions)
    hostile = QuestionSet("hostile", passages, tuple(replace(item, kind="<u>kind</u>") for item in questions))
    data = compared(hostile, [[1, 0], *[[0, 1]] * 6])
    write_note(data.fingerprint, "<i>q</i>", HOSTILE)
    for address in ({}, {"question": "<i>q</i>"}, {"question": "<i>q</i>", "shows": "scores"}):
        app = opened(data=data.key, words="<script>", **address)
        page_html = re.sub(r"<script>/\* \d+ \*/ document[^<]*</script>", "", html(app))  # HTML without user text
        for never in ("<img", "<script", "<i>", "<b>답"):
            assert never not in page_html
        for element in (*app.markdown, *app.caption, *app.subheader):
            assert "<img" not in element.value.replace("\\<", "")
            assert "**굵게**" not in element.value


def test_imports_neither_torch_nor_faiss() -> None:
    script = (
        "import sys; from mrc_workbench.models.packaged import PackagedBase; PackagedBase.path = None\n"
        "from tests.workbench.views.compare.test_why import opened as why\n"
        "from tests.workbench.views.driving import opened\n"
        "from tests.workbench.views.search.test_page import QUESTION, page\n"
        "app = opened(page, columns='BM25', q=QUESTION)\n"
        "assert any('class=\"results\"' in str(one.value) for one in app.get('html'))\n"
        "app = why(question='q2', shows='scores', explained='BM25', retrievers='BM25|Dense|Hybrid|Reranked')\n"
        "assert app.dataframe\n"
        "assert 'torch' not in sys.modules and 'faiss' not in sys.modules, sorted(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
