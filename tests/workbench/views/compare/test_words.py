"""The lab of words and a user dictionary as a person uses them: changes tried and used; words picked and kept."""

from functools import partial

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import Part, SplitOptions, split
from mrc_workbench.data.store import StoredSet, keep
from mrc_workbench.data.text.analyzers import Analyzer, Compounds
from mrc_workbench.data.text.dictionary import Dictionary, Word, load, stored, written
from mrc_workbench.data.text.dictionary import keep as keep_dictionary
from mrc_workbench.data.workspace import workspace
from mrc_workbench.retrieval.analysis.labs import best, changes, lab_figures, lexical_lab, tried
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, add, added
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, WindowedBM25Spec
from mrc_workbench.retrieval.lexical.bm25 import BM25
from mrc_workbench.retrieval.lexical.terms import cut_words
from mrc_workbench.retrieval.significance import question_groups
from mrc_workbench.workbench.views.compare.bench import names_by_reference, to_use
from mrc_workbench.workbench.views.resources.sets import question_set
from mrc_workbench.workbench.views.ui.words import free_name
from tests.workbench.views.compare import worlds
from tests.workbench.views.compare.worlds import compared, press, tables, texts
from tests.workbench.views.driving import run

TITLES = changes(title_weight=(2.0, 5.0))
COMPOUNDS = changes(compounds=(Compounds.SPLIT,))
opened = partial(worlds.at_labs, lab="lexical")
CHANGES = {"title": "Title weight (BM25F)", "feedback": "Query expansion (RM3)", "compounds": "Compounds"}
CHANGES["dictionary"] = "User dictionary"
ADDRESS = {"changes": "title|compounds", "titles": "2|5", "compounds": "split"}


@pytest.fixture
def data() -> StoredSet:
    return worlds.sample()


def rivers(passage: str = "{n}번 강은 북쪽으로 흐른다", question: str = "{n}번 강은 어디로 흐르나?") -> StoredSet:
    """Keep a set of twenty, read at once."""
    passages = tuple(Passage(f"p{n}", passage.format(n=n), f"River {n}") for n in range(20))
    questions = tuple(Question(f"q{n}", question.format(n=n), (), (f"p{n}",)) for n in range(20))
    return keep(QuestionSet("Rivers", passages, questions))


def told_of(data: StoredSet, *names: str) -> None:
    """Keep a comparison of these retrievers that words alone found: what it says is no matter."""
    asked = question_set(data.key)
    worlds.searched(data, asked, {name: BM25(name, asked.passages) for name in names})


@pytest.fixture
def _few() -> None:
    compared(rivers(), "BM25")


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
    assert pills(app, "changes") == [*CHANGES.values()]
    pick(app, "changes", "title", "compounds")
    pick(app, "titles", "2", "5")
    pick(app, "compounds", "split")
    assert starts(app) == ["Try 6 settings"]  # as it is, three changes alone, and two together
    press(app, "start_lexical")
    assert started == [lexical_lab(experiment, "BM25", [TITLES, COMPOUNDS])]
    assert (app.query_params["changes"], app.query_params["compounds"]) == ("title|compounds", "split")
    assert starts(opened("BM25", **ADDRESS)) == ["Try 6 settings"]


def test_without_a_value_or_with_too_many_nothing_is_started() -> None:
    told_of(rivers(), "BM25")
    app = opened("BM25", **ADDRESS)
    pick(app, "titles")
    assert worlds.informs(app, "Select at least one change")
    assert not starts(app)
    pick(app, "titles", "1", "2", "3", "5")
    pick(app, "compounds", "split", "whole", "both")
    pick(app, "changes", "title", "feedback", "compounds")
    pick(app, "passages", "3", "10")
    assert [error.value for error in app.error] == ["At most 60 settings can be tried at once. Select fewer values."]
    assert not starts(app)


def test_only_what_a_retriever_can_do_is_offered() -> None:
    data = rivers()
    add(data.fingerprint, BM25Spec(name="Words", analyzer=Analyzer.WORD))
    add(data.fingerprint, BM25Spec(name="Pairs", analyzer=Analyzer.BIGRAM, title=False))
    add(data.fingerprint, WindowedBM25Spec(name="Windows"))
    told_of(data, "Words", "Pairs", "Windows")
    names = ("Words", "Pairs", "Windows")
    offered = {"Words": ("title", "feedback", "dictionary"), "Pairs": ("feedback",)}
    for name, kinds in (offered | {"Windows": ("title", "compounds", "dictionary")}).items():
        assert pills(opened(*names, tuned=name), "changes") == [CHANGES[kind] for kind in kinds]


def test_words_of_a_dictionary_are_offered_where_they_are_of_use() -> None:
    data = rivers()
    words = keep_dictionary(Dictionary((Word("경인선"),)), "Words alone")
    both = keep_dictionary(Dictionary((Word("경인선"),), (("차", "자동차"),)), "Both")
    add(data.fingerprint, BM25Spec(name="Mine", dictionary=words.reference))
    add(data.fingerprint, BM25Spec(name="Words", analyzer=Analyzer.WORD))
    told_of(data, "Mine", "Words")
    of_kiwi = opened("Mine", "Words", tuned="Mine", changes="dictionary")
    assert pills(of_kiwi, "dictionaries") == ["No dictionary", "Both"]
    of_words = opened("Mine", "Words", tuned="Words", changes="dictionary", dictionaries=both.reference)
    assert pills(of_words, "dictionaries") == ["Both"]
    assert starts(of_words) == ["Try 2 settings"]


def test_what_a_change_brings_is_told_and_used(data: StoredSet, started: list[Experiment]) -> None:
    kept = keep_dictionary(Dictionary((Word("경인선"),)), "내 | 사전")
    lab = worlds.finished(
        data, lexical_lab(compared(data, "BM25"), "BM25", [TITLES, changes(dictionary=(kept.reference,))])
    )
    app = opened("BM25", changes="title|dictionary", titles="2|5", dictionaries=kept.reference)
    found = compare(lab, question_set(data.key))
    figures = lab_figures(found, "ndcg@10", question_groups(found.question_set))
    (table,) = tables(app, "change")
    for ours, theirs in (("value", "value"), ("difference", "difference"), ("difference_low", "difference_low")):
        assert sorted(table[ours]) == pytest.approx(sorted(figures[theirs] * 100))
    alone, both = {"Title × 2", "Title × 5"}, {f"Title × {weight} · Dictionary: 내 / 사전" for weight in (2, 5)}
    assert set(table["change"]) == {"None (current setting)", "Dictionary: 내 / 사전"} | alone | both
    assert table.set_index("change")["difference"]["None (current setting)"] == 0
    name = next(spec.name for spec in tried(lab) if dict(spec).get("dictionary") and dict(spec)["title_weight"] == 5)
    spec = to_use(lab, name)
    assert spec.name == "BM25 · title weight 5 · dictionary 내 / 사전"
    worlds.look_at(app, lab, data, table["change"].tolist().index("Title × 5 · Dictionary: 내 / 사전"))
    assert spec.name in texts(app)
    press(app, "use_lexical")
    assert added(data.fingerprint) == [spec]
    assert app.query_params["retrievers"] == f"BM25|{spec.name}"
    assert app.query_params["part"] == "test"
    assert started[-1].retriever[-1] == spec


def test_the_present_setting_is_nothing_to_use(data: StoredSet) -> None:
    lab = worlds.finished(data, lexical_lab(compared(data, "BM25"), "BM25", [TITLES]))
    app = opened("BM25", changes="title", titles="2|5")
    (table,) = tables(app, "change")
    worlds.look_at(app, lab, data, table["change"].tolist().index("None (current setting)"))
    assert worlds.informs(app, "This is the current setting.")
    assert not [button for button in app.button if button.key == "use_lexical"]
    found = compare(lab, question_set(data.key))
    assert best(lab_figures(found, "ndcg@10", question_groups(found.question_set))) in {one.name for one in tried(lab)}


def test_without_bm25_dictionaries_can_still_be_made() -> None:
    told_of(rivers(), "Dense")
    app = opened("Dense")
    assert worlds.informs(app, "To tune BM25 parameters")
    assert "User dictionary" in [heading.value for heading in app.subheader]


def type_words(app: AppTest, text: str, name: str = "") -> AppTest:
    (box,) = [one for one in app.text_area if str(one.key).startswith("typed_words")]
    box.set_value(text)
    if name:
        next(one for one in app.text_input if str(one.key).startswith("dictionary_name")).set_value(name)
    return press(app, "save_dictionary")


def upload(app: AppTest, content: bytes, name: str = "mine.txt") -> AppTest:
    (field,) = [one for one in app.get("file_uploader") if str(one.key).startswith("upload_dictionary")]
    field.set_value((name, content, "text/plain"))
    return run(app)


def kept_lines() -> list[tuple[str, str]]:
    return [(one.name, written(load(one.key))) for one in stored()]


def test_words_cut_wrongly_are_taken_and_tried_at_once(data: StoredSet, started: list[Experiment]) -> None:
    experiment = compared(data, "BM25")
    app = opened("BM25")
    press(app, "find_cut_words")
    questions = question_set(data.key)
    rows = split(questions, SplitOptions()).rows
    unseen = {questions.questions[row].text for row in rows[Part.TEST]}
    asked = questions.with_questions(sorted({*rows[Part.TRAIN].tolist(), *rows[Part.VALIDATION].tolist()}))
    found = cut_words(asked)
    (table,) = tables(app, "in_question")
    assert table["word"].tolist() == [one.word for one in found]
    assert table["in_question"].tolist() == [" / ".join(one.in_questions) for one in found]
    assert table["count"].tolist() == [len(one.questions) for one in found]
    assert all(word in question for word, question in zip(table["word"], table["question"], strict=True))
    assert not unseen & set(table["question"])

    worlds.select(app, f"cut_words_{data.key}_", 0, 2)
    assert app.button(key="save_dictionary").label == "Save with selected words (2)"
    type_words(app, "자동차, 차량", name="철도")
    taken = Dictionary((Word(found[0].word), Word(found[2].word)), (("자동차", "차량"),))
    assert kept_lines() == [("철도", written(taken))]
    assert "Saved **철도**." in texts(app)
    assert app.query_params["dictionary"] == stored()[0].reference  # the next words come on top of it

    press(app, "try_dictionary")
    reference = stored()[0].reference
    assert started == [lexical_lab(experiment, "BM25", [changes(dictionary=(reference,))])]
    assert app.query_params["changes"] == "dictionary"
    assert app.query_params["dictionaries"] == reference
    assert not [button for button in app.button if button.key == "try_dictionary"]


@pytest.mark.usefixtures("_few")
def test_more_words_make_another_version() -> None:
    first = keep_dictionary(Dictionary((Word("경인선"),)), "철도")
    app = opened("BM25", dictionary=first.reference)
    type_words(app, "누리호")
    assert sorted(kept_lines()) == [("철도", "경인선\n"), ("철도 2", "경인선\n누리호\n")]


@pytest.mark.usefixtures("_few")
def test_what_is_wrong_in_typed_lines_is_told_with_its_row() -> None:
    app = opened("BM25")
    type_words(app, "")
    assert worlds.informs(app, "Select words in the table")
    type_words(app, "누리호\n세종시 세종\n자동차, ")
    (error,) = app.error
    said = error.value.replace("\\", "")
    assert "Row 2: the parts “세종” do not add up to “세종시”" in said
    assert "Row 3: a word is missing" in said
    assert not stored()


@pytest.mark.usefixtures("_few")
def test_a_file_is_uploaded_once_and_a_bad_one_told() -> None:
    app = opened("BM25")
    upload(app, "# 철도\n경인선\n국립중앙박물관 국립 중앙 박물관\n".encode(), "철도.txt")
    assert kept_lines() == [("철도", "경인선\n국립중앙박물관 국립 중앙 박물관\n")]
    assert not app.error
    run(app)
    assert len(stored()) == 1
    upload(app, "경인선\n<b>누리호</b>\tXYZ\n".encode() + b"\xff", "bad.txt")
    (error,) = app.error
    assert "Row 3: byte 0xFF is not valid UTF" in error.value.replace("\\", "")
    app = opened("BM25")
    upload(app, "\n".join(f"누리호{row}\tXYZ" for row in range(30)).encode(), "bad.txt")
    (error,) = app.error
    said = error.value.replace("\\", "")
    assert "Row 20: “XYZ” is not a Kiwi tag" in said
    assert "Row 21" not in said
    assert "and 10 more" in said
    assert len(stored()) == 1


@pytest.mark.usefixtures("_few")
def test_kept_ones_are_listed_and_removed_and_one_that_was_changed_is_told() -> None:
    kept = keep_dictionary(Dictionary((Word("경인선"),), (("차", "자동차", "차량"),)), "**굵은** <b>")
    app = opened("BM25")
    assert "**** 굵은** <b>**".replace(" ", "") in texts(app).replace(" ", "")
    assert "words: 1 · synonym groups: 1" in texts(app)
    press(app, f"remove_yes_{kept.key}")
    assert not stored()
    kept = keep_dictionary(Dictionary((Word("경인선"),)), "철도")
    (workspace() / "dictionaries" / kept.key / "dictionary.txt").write_text("다른 것\n", encoding="utf-8")
    app = opened("BM25", dictionary=kept.reference)
    assert {error.value.replace("\\", "") for error in app.error} == {
        "The saved dictionary “철도” has changed on disk. Delete it and upload its file again."
    }
    assert [button.key for button in app.button if str(button.key).startswith("remove_yes_")]


def test_of_texts_that_are_not_korean_synonyms_alone_are_spoken_of() -> None:
    compared(rivers("The river number {n} flows north", "Where does river {n} flow?"), "BM25")
    app = opened("BM25")
    assert worlds.informs(app, "This dataset is not Korean")
    assert not [button for button in app.button if button.key == "find_cut_words"]
    type_words(app, "river, stream", name="Water")
    assert kept_lines() == [("Water", "river, stream\n")]


def test_names_are_told_apart() -> None:
    assert free_name("A", [], "{} {}") == "A"
    assert free_name("A", ["A", "A 2"], "{} {}") == "A 3"
    one, two = (keep_dictionary(Dictionary((Word(word),)), "같음") for word in ("경인선", "누리호"))
    assert names_by_reference() == {two.reference: f"같음 ({two.key[:6]})", one.reference: f"같음 ({one.key[:6]})"}
