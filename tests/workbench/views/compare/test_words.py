"""The lab of BM25's options and user dictionaries: try and use changes; select and store words."""

from functools import partial

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import Part, SplitOptions, split
from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.data.text.analyzers import Analyzer, Compounds
from mrc_workbench.data.text.dictionary import Dictionary, Word, format_dictionary, load, stored
from mrc_workbench.data.text.dictionary import save as keep_dictionary
from mrc_workbench.data.workspace import workspace
from mrc_workbench.retrieval.analysis import labs
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, add_retriever, added_retrievers
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, WindowedBM25Spec
from mrc_workbench.retrieval.lexical.bm25 import BM25
from mrc_workbench.retrieval.lexical.terms import cut_words
from mrc_workbench.retrieval.significance import question_groups
from mrc_workbench.workbench.views.compare.bench import dictionary_names, named_setting
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.ui.words import free_name
from tests.workbench.views.compare import worlds
from tests.workbench.views.driving import run, texts

TITLES = labs.option_changes(title_weight=(2.0, 5.0))
COMPOUNDS = labs.option_changes(compounds=(Compounds.SPLIT,))
opened = partial(worlds.open_labs, lab="lexical")
CHANGES = {"title": "Title weight (BM25F)", "feedback": "Query expansion (RM3)", "compounds": "Compounds"}
CHANGES["dictionary"] = "User dictionary"
ADDRESS = {"changes": "title|compounds", "titles": "2|5", "compounds": "split"}


@pytest.fixture
def data() -> StoredSet:
    return worlds.sample()


def rivers(passage: str = "{n}번 강은 북쪽으로 흐른다", question: str = "{n}번 강은 어디로 흐르나?") -> StoredSet:
    """Store a dataset of twenty questions."""
    passages = tuple(Passage(f"p{n}", passage.format(n=n), f"River {n}") for n in range(20))
    questions = tuple(Question(f"q{n}", question.format(n=n), (), (f"p{n}",)) for n in range(20))
    return save_question_set(QuestionSet("Rivers", passages, questions))


def store_comparison(data: StoredSet, *names: str) -> None:
    """Store a comparison of these retrievers with the hits of BM25 for words; no test reads them."""
    dataset_questions = question_set(data.key)
    worlds.search_and_store(data, dataset_questions, {name: BM25(name, dataset_questions.passages) for name in names})


@pytest.fixture
def _few() -> None:
    worlds.compared(rivers(), "BM25")


def pills(app: AppTest, name: str) -> list[str]:
    (element,) = [element for element in app.pills if str(element.key).startswith(f"lab_{name}_")]
    return list(element.options)


def pick(app: AppTest, name: str, *values: str) -> None:
    (element,) = [element for element in app.pills if str(element.key).startswith(f"lab_{name}_")]
    element.set_value(list(values))
    run(app)


def starts(app: AppTest) -> list[str]:
    return [button.label for button in app.button if button.key == "start_lexical"]


def test_stores_selected_changes_in_address(data: StoredSet, started: list[Experiment]) -> None:
    experiment = worlds.compared(data, "BM25")
    app = opened("BM25")
    assert pills(app, "changes") == [*CHANGES.values()]
    pick(app, "changes", "title", "compounds")
    pick(app, "titles", "2", "5")
    pick(app, "compounds", "split")
    assert starts(app) == ["Try 6 settings"]  # the present options, three single changes, and two together
    worlds.press(app, "start_lexical")
    assert started == [labs.lexical_lab(experiment, "BM25", [TITLES, COMPOUNDS])]
    assert (app.query_params["changes"], app.query_params["compounds"]) == ("title|compounds", "split")
    assert starts(opened("BM25", **ADDRESS)) == ["Try 6 settings"]


def test_starts_nothing_without_values_or_with_too_many() -> None:
    store_comparison(rivers(), "BM25")
    app = opened("BM25", **ADDRESS)
    pick(app, "titles")
    assert worlds.has_info(app, "Select at least one change")
    assert not starts(app)
    pick(app, "titles", "1", "2", "3", "5")
    pick(app, "compounds", "split", "whole", "both")
    pick(app, "changes", "title", "feedback", "compounds")
    pick(app, "passages", "3", "10")
    assert [error.value for error in app.error] == ["At most 60 settings can be tried at once. Select fewer values."]
    assert not starts(app)


def test_offers_only_supported_changes() -> None:
    data = rivers()
    add_retriever(data.fingerprint, BM25Spec(name="Words", analyzer=Analyzer.WORD))
    add_retriever(data.fingerprint, BM25Spec(name="Pairs", analyzer=Analyzer.BIGRAM, title=False))
    add_retriever(data.fingerprint, WindowedBM25Spec(name="Windows"))
    store_comparison(data, "Words", "Pairs", "Windows")
    names = ("Words", "Pairs", "Windows")
    offered = {"Words": ("title", "feedback", "dictionary"), "Pairs": ("feedback",)}
    for name, kinds in (offered | {"Windows": ("title", "compounds", "dictionary")}).items():
        assert pills(opened(*names, tuned=name), "changes") == [CHANGES[kind] for kind in kinds]


def test_offers_dictionaries_where_supported() -> None:
    data = rivers()
    words = keep_dictionary(Dictionary((Word("경인선"),)), "Words alone")
    both = keep_dictionary(Dictionary((Word("경인선"),), (("차", "자동차"),)), "Both")
    add_retriever(data.fingerprint, BM25Spec(name="Mine", dictionary=words.reference))
    add_retriever(data.fingerprint, BM25Spec(name="Words", analyzer=Analyzer.WORD))
    store_comparison(data, "Mine", "Words")
    of_kiwi = opened("Mine", "Words", tuned="Mine", changes="dictionary")
    assert pills(of_kiwi, "dictionaries") == ["No dictionary", "Both"]
    of_words = opened("Mine", "Words", tuned="Words", changes="dictionary", dictionaries=both.reference)
    assert pills(of_words, "dictionaries") == ["Both"]
    assert starts(of_words) == ["Try 2 settings"]


def test_displays_and_applies_effect_of_a_change(data: StoredSet, started: list[Experiment]) -> None:
    dictionary = keep_dictionary(Dictionary((Word("경인선"),)), "내 | 사전")
    changes = [TITLES, labs.option_changes(dictionary=(dictionary.reference,))]
    lab = worlds.finished(data, labs.lexical_lab(worlds.compared(data, "BM25"), "BM25", changes))
    app = opened("BM25", changes="title|dictionary", titles="2|5", dictionaries=dictionary.reference)
    comparison = compare(lab, question_set(data.key))
    metrics = labs.lab_results(comparison, "ndcg@10", question_groups(comparison.question_set))
    (table,) = worlds.tables(app, "change")
    for ours, theirs in (("value", "value"), ("difference", "difference"), ("difference_low", "difference_low")):
        assert sorted(table[ours]) == pytest.approx(sorted(metrics[theirs] * 100))
    alone = {"Title × 2", "Title × 5"}
    both = {f"Title × {weight} · Dictionary: 내 / 사전" for weight in (2, 5)}
    assert set(table["change"]) == {"None (current setting)", "Dictionary: 내 / 사전"} | alone | both
    assert table.set_index("change")["difference"]["None (current setting)"] == 0
    specs = [dict(spec) for spec in labs.tried_specs(lab)]
    name = next(spec["name"] for spec in specs if spec.get("dictionary") and spec["title_weight"] == 5)
    spec = named_setting(lab, name)
    assert spec.name == "BM25 · title weight 5 · dictionary 내 / 사전"
    worlds.select_setting(app, lab, data, table["change"].tolist().index("Title × 5 · Dictionary: 내 / 사전"))
    assert spec.name in texts(app)
    worlds.press(app, "use_lexical")
    assert added_retrievers(data.fingerprint) == [spec]
    assert app.query_params["retrievers"] == f"BM25|{spec.name}"
    assert app.query_params["part"] == "test"
    assert started[-1].retriever[-1] == spec


def test_present_setting_cannot_be_applied(data: StoredSet) -> None:
    lab = worlds.finished(data, labs.lexical_lab(worlds.compared(data, "BM25"), "BM25", [TITLES]))
    app = opened("BM25", changes="title", titles="2|5")
    (table,) = worlds.tables(app, "change")
    worlds.select_setting(app, lab, data, table["change"].tolist().index("None (current setting)"))
    assert worlds.has_info(app, "This is the current setting.")
    assert not [button for button in app.button if button.key == "use_lexical"]
    comparison = compare(lab, question_set(data.key))
    results = labs.lab_results(comparison, "ndcg@10", question_groups(comparison.question_set))
    assert labs.best_setting_name(results) in {spec.name for spec in labs.tried_specs(lab)}


def test_creates_dictionaries_without_bm25() -> None:
    store_comparison(rivers(), "Dense")
    app = opened("Dense")
    assert worlds.has_info(app, "To tune BM25 parameters")
    assert "User dictionary" in [heading.value for heading in app.subheader]


def type_words(app: AppTest, text: str, name: str = "") -> AppTest:
    (box,) = [element for element in app.text_area if str(element.key).startswith("typed_words")]
    box.set_value(text)
    if name:
        next(element for element in app.text_input if str(element.key).startswith("dictionary_name")).set_value(name)
    return worlds.press(app, "save_dictionary")


def upload(app: AppTest, content: bytes, name: str = "mine.txt") -> AppTest:
    (field,) = [element for element in app.get("file_uploader") if str(element.key).startswith("upload_dictionary")]
    field.set_value((name, content, "text/plain"))
    return run(app)


def stored_lines() -> list[tuple[str, str]]:
    return [(dictionary.name, format_dictionary(load(dictionary.key))) for dictionary in stored()]


def test_adds_wrongly_cut_words_and_tries_them(data: StoredSet, started: list[Experiment]) -> None:
    experiment = worlds.compared(data, "BM25")
    app = opened("BM25")
    worlds.press(app, "find_cut_words")
    questions = question_set(data.key)
    rows = split(questions, SplitOptions()).rows
    unseen = {questions.questions[row].text for row in rows[Part.TEST]}
    tuning_questions = questions.with_questions(sorted({*rows[Part.TRAIN].tolist(), *rows[Part.VALIDATION].tolist()}))
    cut = cut_words(tuning_questions)
    (table,) = worlds.tables(app, "in_question")
    assert table["word"].tolist() == [cut_word.word for cut_word in cut]
    assert table["in_question"].tolist() == [" / ".join(cut_word.in_questions) for cut_word in cut]
    assert table["count"].tolist() == [len(cut_word.questions) for cut_word in cut]
    assert all(word in question for word, question in zip(table["word"], table["question"], strict=True))
    assert not unseen & set(table["question"])

    worlds.select(app, f"cut_words_{data.key}_", 0, 2)
    assert app.button(key="save_dictionary").label == "Save with selected words (2)"
    type_words(app, "자동차, 차량", name="철도")
    taken = Dictionary((Word(cut[0].word), Word(cut[2].word)), (("자동차", "차량"),))
    assert stored_lines() == [("철도", format_dictionary(taken))]
    assert "Saved **철도**." in texts(app)
    assert app.query_params["dictionary"] == stored()[0].reference  # the next words are added to it

    worlds.press(app, "try_dictionary")
    reference = stored()[0].reference
    assert started == [labs.lexical_lab(experiment, "BM25", [labs.option_changes(dictionary=(reference,))])]
    assert app.query_params["changes"] == "dictionary"
    assert app.query_params["dictionaries"] == reference
    assert not [button for button in app.button if button.key == "try_dictionary"]


@pytest.mark.usefixtures("_few")
def test_adding_words_creates_another_version() -> None:
    first = keep_dictionary(Dictionary((Word("경인선"),)), "철도")
    app = opened("BM25", dictionary=first.reference)
    type_words(app, "누리호")
    assert sorted(stored_lines()) == [("철도", "경인선\n"), ("철도 2", "경인선\n누리호\n")]


@pytest.mark.usefixtures("_few")
def test_reports_row_of_invalid_line() -> None:
    app = opened("BM25")
    type_words(app, "")
    assert worlds.has_info(app, "Select words in the table")
    type_words(app, "누리호\n세종시 세종\n자동차, ")
    (error,) = app.error
    message = error.value.replace("\\", "")
    assert "Row 2: the parts “세종” do not add up to “세종시”" in message
    assert "Row 3: a word is missing" in message
    assert not stored()


@pytest.mark.usefixtures("_few")
def test_uploads_file_once_and_reports_invalid_file() -> None:
    app = opened("BM25")
    upload(app, "# 철도\n경인선\n국립중앙박물관 국립 중앙 박물관\n".encode(), "철도.txt")
    assert stored_lines() == [("철도", "경인선\n국립중앙박물관 국립 중앙 박물관\n")]
    assert not app.error
    run(app)
    assert len(stored()) == 1
    upload(app, "경인선\n<b>누리호</b>\tXYZ\n".encode() + b"\xff", "bad.txt")
    (error,) = app.error
    assert "Row 3: byte 0xFF is not valid UTF" in error.value.replace("\\", "")
    app = opened("BM25")
    upload(app, "\n".join(f"누리호{row}\tXYZ" for row in range(30)).encode(), "bad.txt")
    (error,) = app.error
    message = error.value.replace("\\", "")
    assert "Row 20: “XYZ” is not a Kiwi tag" in message
    assert "Row 21" not in message
    assert "and 10 more" in message
    assert len(stored()) == 1


@pytest.mark.usefixtures("_few")
def test_lists_and_removes_dictionaries_and_reports_changed_file() -> None:
    dictionary = keep_dictionary(Dictionary((Word("경인선"),), (("차", "자동차", "차량"),)), "**굵은** <b>")
    app = opened("BM25")
    assert "**** 굵은** <b>**".replace(" ", "") in texts(app).replace(" ", "")
    assert "words: 1 · synonym groups: 1" in texts(app)
    worlds.press(app, f"remove_yes_{dictionary.key}")
    assert not stored()
    dictionary = keep_dictionary(Dictionary((Word("경인선"),)), "철도")
    (workspace() / "dictionaries" / dictionary.key / "dictionary.txt").write_text("다른 것\n", encoding="utf-8")
    app = opened("BM25", dictionary=dictionary.reference)
    assert {error.value.replace("\\", "") for error in app.error} == {
        "The saved dictionary “철도” has changed on disk. Delete it and upload its file again."
    }
    assert [button.key for button in app.button if str(button.key).startswith("remove_yes_")]


def test_offers_only_synonyms_for_other_languages() -> None:
    worlds.compared(rivers("The river number {n} flows north", "Where does river {n} flow?"), "BM25")
    app = opened("BM25")
    assert worlds.has_info(app, "This dataset is not Korean")
    assert not [button for button in app.button if button.key == "find_cut_words"]
    type_words(app, "river, stream", name="Water")
    assert stored_lines() == [("Water", "river, stream\n")]


def test_numbers_equal_names() -> None:
    assert free_name("A", [], "{} {}") == "A"
    assert free_name("A", ["A", "A 2"], "{} {}") == "A 3"
    first, second = (keep_dictionary(Dictionary((Word(word),)), "같음") for word in ("경인선", "누리호"))
    assert dictionary_names() == {stored.reference: f"같음 ({stored.key[:6]})" for stored in (second, first)}
