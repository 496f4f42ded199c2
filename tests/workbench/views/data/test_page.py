"""The Data page: uploads, changed columns, and using and removing sets."""

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Selectbox

from mrc_workbench.data.store import CATALOG, load, stored
from mrc_workbench.workbench.views.data.audit import _marked
from mrc_workbench.workbench.views.resources.sets import audit_of, question_set, split_of
from tests.data.layouts.written import beir, zipped
from tests.data.sample_files import ROWS, as_csv, as_squad
from tests.workbench.views.driving import data_page, keys, opened, press, run, texts

KORQUAD = "korquad-v1-dev"
TABLE = as_csv(ROWS).encode("cp949", "replace")
OTHER = "질문,지문\n수도는?,서울은 수도이다.\n바다는?,부산은 항구이다.\n"
NEXT_STEPS = ("이 데이터셋으로 비교하기", "이 데이터셋으로 학습하기", "이 데이터셋에서 검색하기")
FAULTY = "질문,지문\n수도는?,서울은 수도이다.\n,부산은 항구이다.\n=1+1,\n강은?,한강은 서울을 지난다.\n"


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> AppTest:
    monkeypatch.delenv("MRC_DATA", raising=False)
    return opened(data_page, lang="ko")


def upload(app: AppTest, content: str | bytes, name: str = "내 질문.csv") -> AppTest:
    return drop(app, {name: content.encode() if isinstance(content, str) else content})


def drop(app: AppTest, files: dict[str, bytes]) -> AppTest:
    app.file_uploader[0].set_value([(name, content, "application/octet-stream") for name, content in files.items()])
    return run(app)


def counts(app: AppTest) -> list[str]:
    return [metric.value for metric in app.metric[:3]]


def statuses(app: AppTest) -> list[str]:
    kinds = {"error": app.error, "warning": app.warning, "info": app.info, "success": app.success}
    return [name for name, kind in kinds.items() for _ in kind]


def ways(app: AppTest) -> list[tuple[str, str]]:
    """Return the labels and query parameters of the page links."""
    return [(link.proto.label, link.proto.query_string) for link in app.get("page_link")]


def column(app: AppTest, role: str) -> Selectbox:
    return next(box for box in app.selectbox if (box.key or "").startswith(f"column_{role}_"))


def test_displays_sample_on_first_visit(app: AppTest) -> None:
    assert "사용 중인 데이터셋: 한국어 샘플" in texts(app)
    assert counts(app) == ["200", "480", "20"]
    assert "use" not in keys(app)
    assert ways(app) == [(words, f"data={stored()[0].key}") for words in NEXT_STEPS], "once"
    assert "python -m" not in texts(app)
    assert "지문 언어는 **한국어**입니다. BM25의 기본 분석기: 형태소(Kiwi)와 글자 바이그램." in texts(app)
    assert "다른 언어" not in texts(app)


@pytest.mark.slow
def test_uses_cp949_table_on_every_page(app: AppTest) -> None:
    upload(app, TABLE)
    assert "행 3개 → 지문 2개, 질문 3개, 문서 2개 · CSV · CP949" in texts(app)
    assert [column(app, role).value for role in ("question", "context", "answers", "title", "id", "kind")] == [
        "질문", "지문", "정답", "제목", "번호", None,
    ]  # fmt: skip
    assert counts(app) == ["2", "3", "2"]
    assert [dataset.name for dataset in stored()] == ["Korean sample"]
    press(app, "use")
    used = next(dataset for dataset in stored() if dataset.name == "내 질문")
    assert app.query_params["data"] in (used.key, [used.key])
    assert "사용 중인 데이터셋: 내 질문" in texts(app)
    assert not keys(app) & {"use", "discard"}
    assert [message.value for message in app.success] == ["이제 모든 페이지에서 ‘내 질문’ 데이터셋을 사용합니다."]
    assert ways(app) == [(words, f"data={used.key}") for words in NEXT_STEPS], "once, below the message"
    upload(app, OTHER, "다른 것.csv")
    assert not ways(app)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "status"),
    [
        (OTHER, "success"),
        ("질문,지문\n수도는?,서울은 수도이다.\n수도는?,부산은 항구이다.\n", "info"),
        ("지문\n서울은 수도이다.\n", "info"),
        (FAULTY, "warning"),
        ("질문,지문,정답\n" + "".join(f"{n}번은?,{n}번째 지문이다.,{n % 2 == 0}\n" for n in range(20)), "warning"),
        ('{"data": [', "error"),
    ],
)
def test_displays_single_status_in_preview(app: AppTest, content: str | bytes, status: str) -> None:
    upload(app, content)
    assert statuses(app) == [status]
    assert ("모든 행을 문제없이 읽었습니다" in texts(app)) is (status == "success")


@pytest.mark.slow
def test_downloads_set_in_public_layouts_and_splits_by_passage(app: AppTest) -> None:
    app.session_state["stored_look"] = "figures"
    run(app)
    assert "다른 도구에서 쓰기" in texts(app)
    labels = [button.label for button in app.get("download_button")]
    assert {"BEIR 구성으로 내려받기 (zip)", "MTEB 구성으로 내려받기 (zip)"} <= {*labels}
    upload(app, OTHER)
    assert "제목이 없어서 지문 단위로" in texts(app)
    assert "문서 단위로" not in texts(app)
    upload(app, TABLE)
    assert "문서 단위로" in texts(app)


def test_reports_location_in_broken_file_and_keeps_data(app: AppTest) -> None:
    before = app.query_params["data"]
    upload(app, '{"data": [\n{"title": ', "broken.json")
    assert "2번째 줄에서 중간에 끝납니다" in texts(app)
    assert app.query_params["data"] == before
    assert counts(app) == ["200", "480", "20"]
    assert "use" not in keys(app)
    press(app, "discard")
    assert not app.error
    upload(app, "질문,지문\n,부산은 항구이다.\n")
    assert "첫 번째 문제: 2행: 질문(질문)이 비어 있습니다" in texts(app), "of rows, none of which is good"


@pytest.mark.slow
def test_reads_again_with_changed_column(app: AppTest) -> None:
    upload(app, TABLE)
    column(app, "title").select_index(0)
    assert counts(run(app)) == ["2", "3", "–"]
    column(app, "title").select("제목")
    assert counts(run(app)) == ["2", "3", "2"]
    column(app, "context").select_index(0)
    run(app)
    assert "지문 열을 찾지 못했습니다" in texts(app)
    column(app, "context").select("지문")
    assert counts(run(app)) == ["2", "3", "2"]
    assert not app.error


def test_click_beside_changed_column_uses_new_reading(app: AppTest) -> None:
    upload(app, "질문,지문,메모\n수도는?,서울은 수도이다.,가 메모\n바다는?,부산은 항구이다.,나 메모\n")
    column(app, "context").select("메모")
    press(app, "use")
    assert [*load(stored()[0].key).passages.texts] == ["가 메모", "나 메모"]


def test_click_is_forgotten_if_changed_column_is_unusable(app: AppTest) -> None:
    upload(app, TABLE)
    column(app, "context").select_index(0)
    press(app, "use")
    assert "지문 열을 찾지 못했습니다" in texts(app)
    column(app, "context").select("지문")
    run(app)
    assert "use" in keys(app)
    assert [item.source for item in stored()] == ["sample"]


def test_lists_left_out_rows_in_user_language(app: AppTest) -> None:
    upload(app, FAULTY)
    assert "4개 행 가운데 1개를 제외했습니다" in texts(app)
    table, first_rows = (element.value for element in app.dataframe[:2])
    assert first_rows["질문"].tolist() == ["수도는?", "", "=1+1"]
    assert list(table.columns) == ["행", "문제", "질문", "지문"]
    assert table["행"].tolist() == [4]
    assert table["문제"].tolist() == ["지문(지문)이 비어 있습니다. 지문을 채우거나 행을 지워 주세요."]
    app.query_params["lang"] = "en"
    assert "4 rows → 3 passages, 2 questions · CSV · UTF-8" in texts(run(app))
    assert app.dataframe[0].value["problem"].tolist()[0].startswith("The passage (지문) is empty.")


LABELS = "질문,지문,정답\n" + "".join(f"{n}번은 맞나?,{n}번째 지문이다.,{n % 2 == 0}\n" for n in range(20))


def test_leaves_out_answers_that_are_labels(app: AppTest) -> None:
    upload(app, LABELS)
    assert "분류 값(True, False)만 있습니다" in texts(app), "also of few questions"
    kinds = ("button", "selectbox", "arrow_data_frame")
    element_types = [element.type for element in app.main if element.type in kinds]
    assert "button" in element_types[: element_types.index("selectbox")], "buttons come before what the set is like"
    assert app.button[0].key == "use"
    press(app, "leave_labels_out")
    assert column(app, "answers").value is None
    assert "분류 값" not in texts(app)
    press(app, "use")
    assert {question.answers for question in load(stored()[0].key).questions} == {()}
    # also for a layout without columns
    questions = [{"id": str(n), "question": f"{n}번은?", "answers": [{"text": str(n % 2 == 0)}]} for n in range(20)]
    paragraphs = [{"context": f"{n}번째 지문", "qas": [entry]} for n, entry in enumerate(questions)]
    upload(app, json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}), "set.json")
    press(app, "leave_labels_out")
    press(app, "use")
    assert {question.answers for question in load(stored()[0].key).questions} == {()}


def test_displays_audit_findings_beside_button_and_text_notes_in_summary(app: AppTest) -> None:
    rows = "수도는?,<p>서울은 *수도*이다.</p>,서울\n수도는?,부산은 항구이다.,인천\n"
    upload(app, f"질문,지문,정답\n{rows}")
    assert "사용 전 확인할 점: 중복 질문 2 · 지문에 없는 정답 1" in texts(app)
    for lang, start in {"en": "In the texts:", "ko": "글에서 확인할 점:"}.items():
        app.query_params["lang"] = lang
        (box,) = [info.value for info in run(app).info if info.value.startswith(start)]
        assert "HTML" in box
        assert r"\*수도\*" in box, "texts of a file are never markup"
    press(app, "discard")
    assert not [info for info in app.info if info.value.startswith("글에서 확인할 점:")]


def test_uses_and_removes_stored_sets_except_current(app: AppTest) -> None:
    upload(app, TABLE)
    assert not app.file_uploader[0].value, "the preview holds the file"
    press(app, "discard")
    assert counts(app) == ["200", "480", "20"], "closing the preview leaves the set in use"
    upload(app, TABLE)
    press(app, "use")
    by_name = {dataset.name: dataset for dataset in stored()}
    sample = by_name["Korean sample"]
    mine = by_name["내 질문"]
    press(app, f"use_{sample.key}")
    assert counts(app) == ["200", "480", "20"]
    press(app, f"use_{mine.key}")
    assert f"remove_yes_{mine.key}" not in keys(app)
    press(app, f"remove_yes_{sample.key}")
    assert stored() == [mine]
    assert f"remove_yes_{sample.key}" not in keys(app)
    upload(app, b"PK\x03\x04broken", "broken.xlsx")
    assert app.error
    assert counts(app) == ["2", "3", "2"], "a broken file leaves the set in use"


def test_takes_catalog_file_from_data_folder_or_explains_failed_download(
    app: AppTest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    content = as_squad(ROWS).encode()
    entry = replace(CATALOG[KORQUAD], sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    monkeypatch.setitem(CATALOG, KORQUAD, replace(entry, address="http://127.0.0.1:9/x.json"))
    message = texts(press(app, f"look_{KORQUAD}"))
    assert "KorQuAD 1.0 dev 파일을 내려받지 못했습니다" in message
    assert "http://127.0.0.1:9/x.json 주소에서 직접 받아 여기에 올려 주세요" in message
    assert counts(app) == ["200", "480", "20"]
    press(app, "discard")
    (tmp_path / entry.path).write_bytes(content)
    monkeypatch.setenv("MRC_DATA", str(tmp_path))
    press(app, f"look_{KORQUAD}")
    assert "문단 2개 → 지문 2개, 질문 3개, 문서 2개 · SQuAD JSON · UTF-8" in texts(app)
    press(app, "use")
    assert "사용 중인 데이터셋: KorQuAD 1.0 dev" in texts(app)
    assert stored()[0].source == KORQUAD


def test_escapes_texts_of_a_file(app: AppTest) -> None:
    app.session_state["stored_look"] = "passages"
    row = {"question": "<script>q()</script>?", "context": "<img src=x onerror=p()> 답 **굵게**", "answer": "답"}
    upload(app, json.dumps([row | {"title": "**제목** $x$"}]), "a*b.json")
    page_html = "".join(str(element.proto.body) for element in app.get("html"))
    assert "&lt;script&gt;q()&lt;/script&gt;?" in page_html
    assert "<script" not in page_html
    assert "<img" not in page_html
    assert ">답</mark>" in page_html
    written = [element.value for element in app.markdown] + [element.value for element in app.subheader]
    assert r"**\*\*제목\*\* \$x\$**" in written
    assert r"미리 보기: a\*b" in written


def test_filters_and_pages_passages(app: AppTest) -> None:
    app.session_state["stored_look"] = "passages"
    run(app)
    assert "at" not in app.query_params, "the first page is no news"
    assert "지문 200개 가운데 200개" in texts(app)
    app.pagination[0].set_value(2)
    assert app.pagination[0].value == 2
    run(app)
    assert app.query_params["at"] in ("2", ["2"])
    app.text_input(key="find").input("자격루")
    run(app)
    assert app.pagination[0].value == 1
    assert "지문 200개 가운데 200개" not in texts(app)
    app.text_input(key="find").input("세상에 없는 말")
    run(app)
    assert "지문이 없습니다" in texts(app)


def test_reports_damaged_stored_set(app: AppTest, tmp_path: Path) -> None:
    upload(app, TABLE)
    press(app, "use")
    dataset = next(dataset for dataset in stored() if dataset.name == "내 질문")
    folder = tmp_path / "workspace" / "datasets" / dataset.key
    (folder / "questions.parquet").write_bytes(b"PAR1 damaged")
    for cached in (audit_of, question_set, split_of):
        cached.clear()
    run(app)
    assert "원래 파일을 다시 올려 주세요" in texts(app)


TEXT = "서울은 수도이다. 서울은 크다."


@pytest.mark.parametrize(
    ("answers", "spans"),
    [
        (["서울"], [(0, "서울")]),
        (["수도", "서울"], [(0, "서울"), (4, "수도")]),
        (["서울은 수", "수도"], [(0, "서울은 수도")]),  # overlapping answers
        (["없다", ""], []),
    ],
)
def test_marks_first_occurrence_of_answers(answers: list[str], spans: list[tuple[int, str]]) -> None:
    pieces = re.split(r"</?mark[^>]*>", re.sub(r"</?div[^>]*>", "", _marked(TEXT, answers)))
    assert "".join(pieces) == TEXT
    starts = [sum(map(len, pieces[:index])) for index in range(1, len(pieces), 2)]
    assert list(zip(starts, pieces[1::2], strict=True)) == spans


def test_uses_beir_zip_on_every_page(app: AppTest) -> None:
    upload(app, zipped(beir()), "scifact.zip")
    summary = "읽은 내용: BEIR 구성 · 파일 3개 → 지문 5개, 질문 3개, 적합성 판정 5개, 문서 2개, 등급이 있는 질문 2개"
    assert summary in texts(app).replace("**", "")
    assert "판정이 없는 질문이 1개 있습니다(예: q3)." in texts(app)
    assert "#### 파일 3개" in texts(app)
    files = next(table.value for table in app.dataframe if "role" in table.value)
    assert [name.rpartition("/")[2] for name in files["file"]] == ["corpus.jsonl", "test.tsv", "queries.jsonl"]
    counted = {"rows": 5, "left_out": 0}
    about = {"file": "scifact/qrels/test.tsv", "role": "적합성 판정", "format": "TSV", "encoding": "UTF-8"}
    assert files.iloc[1].to_dict() == about | counted
    assert statuses(app) == ["info"]
    assert not [box for box in app.selectbox if (box.key or "").startswith("column_")]
    press(app, "use")
    dataset = stored()[0]
    assert (dataset.name, dataset.source, dataset.passages, dataset.questions) == ("scifact", "scifact.zip", 5, 3)
    assert load(dataset.key).questions[0].grade_of == {"d1": 2, "d3": 1, "d4": 0}


def test_reads_dropped_collection_and_reports_missing_parts(app: AppTest) -> None:
    files = {name.split("/")[-1]: content for name, content in beir().items()}
    files["test.tsv"] += b"q1\tnowhere\t1\nq1\td5\tmany\n"
    app.query_params["lang"] = "en"
    drop(app, files)
    assert statuses(app) == ["warning"]
    assert "Judgements of passages that are not in the corpus were skipped: 1 (ids: 1), such as nowhere." in texts(app)
    assert "1 of 15 rows were skipped." in texts(app)
    rejected = next(element.value for element in app.dataframe if "problem" in element.value)
    assert rejected["row"].tolist() == [8]
    assert rejected["problem"][0].startswith("test.tsv: The score (score) is not a whole number up to 1,000: many.")


@pytest.mark.slow
@pytest.mark.parametrize("first", [OTHER.encode(), b'{"data": [', None])
def test_replaces_files_by_unrelated_file(app: AppTest, first: bytes | None) -> None:
    drop(app, {"first": first} if first else beir())
    upload(app, OTHER, "rows.csv")
    assert "미리 보기: rows" in texts(app)
    assert not app.error
    assert counts(app) == ["2", "2", "–"]


def test_warns_of_questions_in_another_language() -> None:
    app = opened(data_page, lang="en")
    passage = "The museum is open every day from nine in the morning until five in the afternoon."
    upload(app, f"question,context\nWhen is the museum open?,{passage}\n박물관은 언제 여나요?,{passage}\n", "rows.csv")
    assert "Passages are in **English**. BM25's default analyzer: English: stems." in texts(app)
    assert "**1 of 2 questions** are in another language than the passages (Korean 1)." in texts(app)
