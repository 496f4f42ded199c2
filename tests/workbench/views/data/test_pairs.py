"""Sentence pairs on the Data page: preview, corrections, storing and removing."""

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Selectbox

from mrc_workbench.data import store
from mrc_workbench.data.pairs import PairKind
from mrc_workbench.data.pairs.store import PAIR_CATALOG, load, stored
from mrc_workbench.data.split import PARTS, Part
from mrc_workbench.workbench.views.resources.sets import pair_audit, pair_set, parts_of
from tests.data.sample_files import ROWS, as_squad
from tests.workbench.views.driving import keys, opened, press, run, texts

HEADER = "sentence1\tsentence2\tscore\n"
SCORED = HEADER + "".join(f"하나 {row}\t둘 {row}\t{row % 6}\n" for row in range(20))
LABELS = ("entailment", "neutral", "contradiction")
LABELLED = [
    {"guid": str(row), "premise": f"전제 {row}", "hypothesis": f"가설 {row}", "gold_label": LABELS[row % 3]}
    for row in range(12)
]
KLUE_STS = [
    {"sentence1": f"하나 {row}", "sentence2": f"둘 {row}", "labels": {"label": row % 6, "real-label": 1}}
    for row in range(12)
]


def page() -> None:
    from mrc_workbench.workbench.views.data import page as data_page

    data_page.draw()


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> AppTest:
    monkeypatch.delenv("MRC_DATA", raising=False)
    return opened(page, sort="pairs")


def upload(app: AppTest, *files: tuple[str, str]) -> AppTest:
    app.file_uploader[0].set_value([(name, content.encode(), "text/plain") for name, content in files])
    return run(app)


def metric_values(app: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def field(app: AppTest, name: str) -> Selectbox:
    return next(box for box in app.selectbox if re.fullmatch(rf"pairs_{name}_\d+", box.key or ""))


def choose(app: AppTest, name: str, value: object) -> AppTest:
    field(app, name).set_value(value)
    return run(app)


@pytest.mark.slow
def test_stores_kind_of_data_in_address() -> None:
    app = opened(page)
    assert "sort" not in app.query_params
    assert "Dataset in use: Korean sample" in texts(app)
    app.segmented_control[0].set_value("pairs")
    run(app)
    assert app.query_params["sort"] in ("pairs", ["pairs"])
    assert "No stored sets yet" in texts(app)
    assert "Set in use" not in texts(app)


def test_previews_stores_lists_and_removes_samples(app: AppTest) -> None:
    press(app, "look_sample-sts")
    assert "300 rows → 300 scored pairs" in texts(app)
    assert metric_values(app)["Rows"] == "300"
    assert "No sentence occurs in more than one" in texts(app)
    assert stored() == []
    press(app, "keep_pairs")
    (similarity,) = stored()
    assert (similarity.name, similarity.source) == ("Korean sample, similarity", "sample-sts")
    assert (similarity.rows, similarity.kind) == (300, PairKind.SCORED)
    assert "“Korean sample: similarity” was saved." in texts(app)
    assert "Stored dataset: Korean sample: similarity" in texts(app)
    ways = [(link.proto.label, link.proto.query_string) for link in app.get("page_link")]
    evaluation = ("Evaluate encoders with this dataset", f"pairs={similarity.key}")
    training = ("Train with this dataset", f"train=sentences&pairs={similarity.key}")
    assert ways == [evaluation, training]
    press(app, "look_sample-nli")
    table = next(element.value for element in app.dataframe if "share" in element.value and "label" in element.value)
    assert table["label"].tolist() == ["entailment", "neutral", "contradiction"]
    assert table["count"].sum() == 300
    assert table["share"].sum() == pytest.approx(1)
    press(app, "keep_pairs")
    (inference,) = [pairs_set for pairs_set in stored() if pairs_set != similarity]
    assert "Stored dataset: Korean sample: inference" in texts(app)
    press(app, f"see_{similarity.key}")
    assert "Stored dataset: Korean sample: similarity" in texts(app)
    assert app.query_params["pairs"] in (similarity.key, [similarity.key])
    press(app, f"remove_yes_{similarity.key}")
    assert stored() == [inference]
    assert "Stored dataset: Korean sample: inference" in texts(app)


@pytest.mark.slow
def test_reads_files_of_three_parts_as_a_set(app: AppTest) -> None:
    names = ("good_train.tsv", "good_dev.tsv", "good_test.tsv")
    upload(app, *((name, SCORED.replace("둘", letter)) for name, letter in zip(names, "가나다", strict=True)))
    assert "60 rows → 60 scored pairs" in texts(app)
    assert metric_values(app)["Test rows with training sentences"] == "20"
    press(app, "keep_pairs")
    (pairs_set,) = stored()
    assert pairs_set.name == "good"
    assert np.bincount(load(pairs_set.key).published).tolist() == [20, 20, 20]


@pytest.mark.slow
def test_changes_part_of_a_file(app: AppTest) -> None:
    upload(app, ("one.tsv", SCORED), ("two_test.tsv", SCORED.replace("둘", "셋")))
    assert [field(app, f"part_{index}").value for index in (0, 1)] == [None, Part.TEST]
    choose(app, "part_0", Part.TRAIN)
    press(app, "keep_pairs")
    published = load(stored()[0].key).published
    assert np.bincount(published).tolist() == [20, 0, 20]
    assert (published[:20] == PARTS.index(Part.TRAIN)).all()


def test_reads_klue_json(app: AppTest) -> None:
    upload(app, ("klue-sts-v1.1_dev.json", json.dumps(KLUE_STS)))
    assert "12 rows → 12 scored pairs" in texts(app)
    assert "klue-sts-v1.1_dev.json · JSON · UTF-8 · 12 rows" in texts(app)
    assert field(app, "score").value == "labels.label"
    upload(app, ("klue-nli-v1.1_dev.json", json.dumps(LABELLED)))
    assert "klue-sts" not in texts(app), "a second file replaces the first"
    assert "12 rows → 12 labelled pairs" in texts(app)
    assert field(app, "label").value == "gold_label"
    press(app, "keep_pairs")
    assert [pairs_set.name for pairs_set in stored()] == ["klue-nli-v1.1_dev"]


def left_out(app: AppTest) -> pd.DataFrame:
    return next(element.value for element in app.dataframe if "problem" in element.value)


def test_leaves_out_invalid_row_and_displays_rest(app: AppTest) -> None:
    too_large = "".join(f"하나\t둘\t{score}\n" for score in ("1e39", "-1e300", "9" * 5000))
    upload(app, ("pairs.tsv", f"{SCORED}하나\t둘\t많이\n{too_large}"))
    assert "4 of 24 rows were skipped." in texts(app)
    table = left_out(app)
    assert table["row"].tolist() == [22, 23, 24, 25]
    assert table["problem"][0] == "The score (score) is not a number: 많이. Type a number, or remove the row."
    assert table["problem"][1:].str.startswith("The score (score) is too large: ").all()
    assert table["score"][0] == "많이"
    assert not app.error
    rows = [*LABELLED, LABELLED[0] | {"gold_label": "maybe", "premise": "다른 전제"}]
    upload(app, ("nli.json", json.dumps(rows)))
    assert left_out(app)["problem"].tolist()[0].startswith("The label (gold_label) is unknown: maybe.")


def test_groups_left_out_rows_by_file(app: AppTest) -> None:
    bad = "하나\t둘\t많이\n"
    upload(app, ("a_train.tsv", SCORED), ("a_test.tsv", SCORED.replace("둘", "셋") + bad))
    headings = [element.value for element in app.markdown if element.value.startswith("**a")]
    assert headings == [r"**a\_test\.tsv**"]
    assert "1 of 21 rows were skipped." in texts(app)


def test_reads_single_class_rows_as_plain_pairs(app: AppTest) -> None:
    same = [row | {"gold_label": "neutral"} for row in LABELLED]
    upload(app, ("same.json", json.dumps(same)))
    assert "All 12 rows have the same score or label (neutral)" in texts(app)
    assert "keep_pairs" not in keys(app)
    choose(app, "kind", PairKind.PARALLEL)
    assert not app.error
    assert "12 rows → 12 pairs without a score" in texts(app)


def test_accepts_ten_rows(app: AppTest) -> None:
    for rows in (10, 9):
        upload(app, ("few.tsv", "".join(SCORED.splitlines(keepends=True)[: rows + 1])))
        assert ("Too few usable rows (9)" in texts(app)) is (rows < 10)
        if rows == 10:
            assert "keep_pairs" in keys(app)
            press(app, "discard_pairs")
    assert "keep_pairs" not in keys(app)


@pytest.mark.slow
def test_reads_again_with_changed_column(app: AppTest) -> None:
    rows = "".join(f"가 {n}\t나 {n}\t{n % 6}\t{n % 3}\n" for n in range(12))
    upload(app, ("pairs.tsv", f"앞\t뒤\t유사도\t다른 점수\n{rows}"))
    choose(app, "sentence1", "앞")
    choose(app, "sentence2", "뒤")
    assert "12 rows → 12 scored pairs" in texts(app)
    field(app, "score").set_value("다른 점수")
    press(app, "keep_pairs")  # in the same run
    assert load(stored()[0].key).values.tolist() == [row % 3 for row in range(12)]


@pytest.mark.slow
def test_changes_scale(app: AppTest) -> None:
    upload(app, ("pairs.tsv", SCORED))
    low, high = app.number_input
    assert (low.value, high.value) == (0, 5)
    high.set_value(4)
    run(app)
    assert "3 of 20 rows were skipped." in texts(app)  # scores of 5: rows 5, 11 and 17
    app.number_input[0].set_value(4)
    run(app)
    assert "The lowest score must be below the highest." in texts(app)
    press(app, "keep_pairs")
    assert stored()[0].scale == (0, 4)


@pytest.mark.slow
def test_keeps_loaded_set_if_next_file_is_invalid(app: AppTest) -> None:
    upload(app, ("good.tsv", SCORED))
    upload(app, ("broken.json", '{"data": [\n{"title": '))
    assert "The JSON ends in the middle, at line 2" in texts(app)
    assert "Preview: broken.json" in texts(app)
    assert "20 rows → 20 scored pairs" in texts(app)
    assert metric_values(app)["Rows"] == "20"
    upload(app, ("other.json", "["))
    assert "broken" not in texts(app)
    press(app, "close_failed")
    assert not app.error
    press(app, "keep_pairs")
    assert [pairs_set.name for pairs_set in stored()] == ["good"]
    # with several files, the report names the file
    upload(app, ("good.tsv", SCORED), ("broken.json", "["))
    assert app.error[0].value.replace("\\", "").startswith("broken.json: The JSON ends in the middle")
    press(app, "close_failed")
    assert "Preview" not in texts(app)


def test_links_question_set_to_its_page(app: AppTest) -> None:
    upload(app, ("korquad.json", as_squad(ROWS)))
    assert "This looks like a question dataset" in texts(app)
    assert [box.key for box in app.selectbox] == ["public_pairs"]


def test_creates_set_from_sentences_of_dataset(app: AppTest) -> None:
    press(app, "take_sentences")
    assert "Preview: Sentences of Korean sample" in texts(app)
    press(app, "keep_pairs")
    (pairs_set,) = stored()
    pairs = load(pairs_set.key)
    assert (pairs.kind, pairs_set.name) == (PairKind.SENTENCES, "Sentences of Korean sample")
    questions = store.load(store.stored()[0].key)
    passages = "\n".join(questions.passages.texts)
    assert len(pairs) == len(set(pairs.sentences)) > len(questions.passages)
    assert all(sentence in passages for sentence in pairs.sentences)
    question_texts = {question.text for question in questions.questions}
    assert not question_texts & set(pairs.sentences)


def test_takes_public_set_from_data_folder(app: AppTest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    content = json.dumps(KLUE_STS).encode()
    entry = PAIR_CATALOG["klue-sts-dev"]
    file = replace(entry.files[0], sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    (tmp_path / file.path).write_bytes(content)
    monkeypatch.setitem(PAIR_CATALOG, entry.id, replace(entry, files=(file,)))
    monkeypatch.setenv("MRC_DATA", str(tmp_path))
    app.selectbox(key="public_pairs").set_value("klue-sts-dev")
    run(app)
    assert "CC BY-SA 4.0" in texts(app)
    press(app, "look_public")
    assert "12 rows → 12 scored pairs" in texts(app)
    assert "No training rows" in texts(app)
    assert "No test rows. Rows used for evaluation: Validation." in texts(app)
    press(app, "keep_pairs")
    assert (stored()[0].name, stored()[0].source) == ("KLUE-STS dev", "klue-sts-dev")


def test_explains_failed_download(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = PAIR_CATALOG["korsts"]
    files = tuple(replace(file, address="http://127.0.0.1:9/x.tsv") for file in entry.files)
    monkeypatch.setitem(PAIR_CATALOG, entry.id, replace(entry, files=files))
    press(app, "look_public")
    assert "KorSTS train could not be downloaded from http://127.0.0.1:9/x.tsv" in texts(app)
    assert "keep_pairs" not in keys(app)
    press(app, "close_failed")
    press(press(app, "take_sentences"), "look_public")
    assert app.error
    assert "Preview: Sentences of Korean sample" in texts(app)


@pytest.mark.slow
def test_reports_damaged_set(app: AppTest, tmp_path: Path) -> None:
    press(press(app, "look_sample-sts"), "keep_pairs")
    folder = tmp_path / "workspace" / "pairs" / stored()[0].key
    (folder / "pairs.arrow").write_bytes(b"ARROW1 damaged")
    for cached in (pair_audit, parts_of, pair_set):
        cached.clear()
    run(app)
    assert "cannot be read" in app.error[0].value
    (folder / "set.json").write_text("{", encoding="utf-8")
    press(run(app), f"damaged_yes_{folder.name}")
    assert not folder.exists()


def test_escapes_texts_of_a_file(app: AppTest) -> None:
    upload(app, ("a*b.tsv", SCORED.replace("하나 1\t", "<script>**굵게**\t")))
    written = [element.value for kind in (app.markdown, app.subheader, app.caption) for element in kind]
    assert r"Preview: a\*b" in written
    assert any(value.startswith(r"a\*b\.tsv · ") for value in written)
    assert not any("<script" in value for value in written)


def test_translates_messages(app: AppTest) -> None:
    app.query_params["lang"] = "ko"
    run(app)
    upload(app, ("pairs.tsv", HEADER + "하나\t둘\t많이\n"))
    assert "쓸 수 있는 행이 없습니다" in texts(app)
    assert "점수(score)가 숫자가 아닙니다: 많이" in texts(app)
