"""Uploads on the Data page: replaced and completed files, the report of a reading, and possible readings."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import TextInput

from mrc_workbench.data.formats.columns import QuestionColumns
from mrc_workbench.data.formats.encodings import EncodingCandidate
from mrc_workbench.data.formats.opening import Proposal
from mrc_workbench.data.pairs import store as pair_store
from mrc_workbench.data.pairs.store import PAIR_CATALOG, read_pair_entry
from mrc_workbench.data.problems import DataError, Problem, ProblemCode
from mrc_workbench.data.questions.judgements import RelevanceVerdict, annotation_path, judge_passage
from mrc_workbench.data.questions.read import read
from mrc_workbench.data.store import load, stored
from mrc_workbench.data.subprocess_reader import UnusableFileError
from mrc_workbench.workbench.views.data.page import sample_csv
from mrc_workbench.workbench.views.data.preview import AuditedDataset, DatasetPreview, preview_of, preview_with
from mrc_workbench.workbench.views.ui.words import LANGUAGES, catalog
from tests.data.formats.test_refusals import DOCX, HWPX, PDF
from tests.data.layouts.written import beir
from tests.workbench.views.data.test_page import OTHER, counts, drop, statuses, upload
from tests.workbench.views.driving import data_page, keys, opened, press, run, texts

QUESTIONS_ONLY = "질문\n수도는?\n바다는?\n"
LARGER = OTHER + "강은?,한강은 서울을 지난다.\n"
BEIR = {name.split("/")[-1]: content for name, content in beir().items()}


@pytest.fixture
def app() -> AppTest:
    return opened(data_page, lang="ko")


def errors(app: AppTest) -> str:
    return " ".join(element.value for element in app.error)


def name_field(app: AppTest) -> TextInput:
    return next(element for element in app.text_input if (element.key or "").startswith("set_name_"))


def test_replaces_unreadable_file(app: AppTest) -> None:
    upload(app, DOCX, "manual.docx")
    assert "문서를 읽을 수 없습니다" in errors(app)
    upload(app, b"", "empty.csv")
    assert "파일이 비어 있습니다" in errors(app)
    assert "문서를 읽을 수 없습니다" not in errors(app)
    upload(app, QUESTIONS_ONLY, "only.csv")
    assert "지문 열을 찾지 못했습니다" in errors(app)
    upload(app, OTHER, "my3.csv")
    assert statuses(app) == ["success"]
    assert "모든 행을 문제없이 읽었습니다" in texts(app)
    assert not any(name in texts(app) for name in ("manual.docx", "empty.csv", "only.csv"))
    assert counts(app) == ["2", "2", "–"]


def test_reports_all_dropped_files(app: AppTest) -> None:
    for content in (DOCX, PDF, HWPX):
        upload(app, content, "a")
        assert "문서를 읽을 수 없습니다" in texts(app)
        assert "텍스트(.txt)" in texts(app), "what to do"
    drop(app, {"manual.docx": DOCX, "cut.json": b'{"data": ['})
    assert re.search(r"manual\.docx: 문서를 읽을 수 없습니다.*cut\.json: JSON", texts(app), re.DOTALL)
    assert statuses(app) == ["error"]
    assert "use" not in keys(app)
    drop(app, {"manual.docx": DOCX, "my3.csv": OTHER.encode(), "paper.pdf": PDF})
    assert statuses(app) == ["warning"]
    assert "모든 행을 문제없이 읽었습니다" not in texts(app)
    assert all(name in texts(app) for name in ("manual.docx", "paper.pdf"))
    assert counts(app) == ["2", "2", "–"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_accepts_collection_file_by_file_in_any_order(app: AppTest, order: tuple[int, ...]) -> None:
    for index in order:
        name = [*BEIR][index]
        upload(app, BEIR[name], name)
    assert "BEIR 구성 · 파일 3개 → 지문 5개, 질문 3개, 적합성 판정 5개" in texts(app)
    assert not app.error


def test_names_and_replaces_only_broken_file_of_a_collection() -> None:
    files = [(content, name) for name, content in BEIR.items()]
    preview = preview_of(files[:2])
    preview = preview_with([(b'{"query-id": \n', "test.jsonl")], preview)
    assert preview.read is not None
    assert "test.jsonl" in [gap.details.get("file") for gap in preview.read.reading.gaps]
    preview = preview_with([files[2]], preview)
    assert preview.read is not None
    assert len(preview.read.reading.files) == 3
    assert "test.jsonl" not in [name for _, name in preview.files]


def test_replaces_dataset_by_complete_dataset_and_reads_equal_files_once() -> None:
    rows = [("질문,지문\n수도는?,서울은 수도이다.\n".encode(), name) for name in ("first.csv", "second.csv")]
    files = [(content, name) for name, content in BEIR.items()]
    assert preview_with(rows[1:], preview_of(rows[:1])).name == "second.csv"
    assert preview_with(rows[:1], preview_of(files)).name == "first.csv"
    preview = preview_with(files, preview_of(files))
    assert preview.read is not None
    assert preview.read.reading.problems == ()


def test_completes_rows_with_wider_corpus() -> None:
    rows = ("질문,지문\n수도는?,서울은 수도이다.\n".encode(), "rows.csv")
    corpus = ('{"text": "부산은 항구이다."}\n{"text": "한강은 서울을 지난다."}\n'.encode(), "corpus.jsonl")
    for first, second in ((rows, corpus), (corpus, rows)):
        preview = preview_with([second], preview_of([first]))
        assert preview.read is not None
        question_set = preview.read.reading.question_set
        assert (len(question_set.passages), len(question_set.questions)) == (3, 1)


def test_does_not_combine_catalog_set_with_a_file(app: AppTest) -> None:
    press(app, "look_sample")
    upload(app, OTHER, "my.csv")
    assert counts(app) == ["2", "2", "–"]
    assert not app.error


@pytest.mark.parametrize("language", LANGUAGES)
def test_describes_every_document_and_reads_sample_csv(language: str) -> None:
    codes = (ProblemCode.WORD_DOCUMENT, ProblemCode.PDF_DOCUMENT, ProblemCode.HANGUL_DOCUMENT, ProblemCode.PRESENTATION)
    words = [catalog(language)[f"problem.{code}"] for code in codes]
    assert len({*words}) == 4
    assert all("CSV" in text for text in words), "each says what to do"
    content = sample_csv(language)
    assert content.startswith(b"\xef\xbb\xbf"), "spreadsheets read UTF-8 by its mark"
    reading = read(content, "sample.csv")
    assert (reading.problems, reading.left_out) == ((), 0)
    questions = reading.question_set.questions
    assert (len(questions), len(reading.question_set.passages)) == (4, 3)
    passages = {passage.id: passage for passage in reading.question_set.passages}
    for question in questions:
        passage = passages[question.relevant[0]]
        assert question.answers
        assert all(answer in passage.text for answer in question.answers)
        assert passage.title


def test_displays_formats_and_sample_csv(app: AppTest) -> None:
    assert "CSV · TSV · Excel · JSON(KorQuAD, DPR …) · JSONL · Parquet · Arrow · TXT · Markdown" in texts(app)
    assert "HTML · PDF · Word · PowerPoint · 한글(HWP) · zip" in texts(app)
    assert "예시 CSV 내려받기" in [button.label for button in app.get("download_button")]
    upload(app, sample_csv("ko"), "예시.csv")
    assert statuses(app) == ["success"]
    assert counts(app) == ["3", "4", "3"]


def test_names_set_in_preview(app: AppTest) -> None:
    upload(app, OTHER, "my30_cp949.csv")
    field = name_field(app)
    assert (field.label, field.value) == ("이름", "my30_cp949")
    field.input("  사내\n규정\x07 ../**FAQ**  ")
    press(app, "use")
    dataset = stored()[0]
    assert dataset.name == "사내 규정 ../**FAQ**"
    assert dataset.key == load(dataset.key).fingerprint[:16], "the name is no part of the key"
    assert r"사용 중인 데이터셋: 사내 규정 \.\./\*\*FAQ\*\*" in [element.value for element in app.header]
    upload(app, LARGER, "file.csv")
    name_field(app).input(" \t ")
    press(app, "use")
    assert stored()[0].name == "file", "an emptied name is that of the file"
    press(app, "look_sample")
    press(app, "use")
    assert "Korean sample" in [dataset.name for dataset in stored()], "unchanged in another language"


def test_renames_stored_set_and_keeps_its_address(app: AppTest) -> None:
    before = stored()[0]
    app.text_input(key=f"name_{before.key}").input("새 이름")
    press(app, f"rename_yes_{before.key}")
    assert stored()[0] == type(before)(**{**vars(before), "name": "새 이름"})
    assert "사용 중인 데이터셋: 새 이름" in texts(app)
    assert app.query_params["data"] in (before.key, [before.key])
    app.session_state["stored_look"] = "figures"
    run(app)
    assert load(before.key).name == "새 이름"


def test_names_and_renames_pairs() -> None:
    pairs_set = pair_store.save_pairs(read_pair_entry(PAIR_CATALOG["sample-sts"]).pairs, source="sample-sts")
    app = opened(data_page, lang="ko", sort="pairs")
    app.text_input(key=f"name_{pairs_set.key}").input("우리 쌍")
    press(app, f"rename_yes_{pairs_set.key}")
    (renamed,) = pair_store.stored()
    assert (renamed.key, renamed.name) == (pairs_set.key, "우리 쌍")
    assert pair_store.load(pairs_set.key).name == "우리 쌍"
    assert "저장된 데이터셋: 우리 쌍" in texts(app)
    rows = "sentence1\tsentence2\tscore\n" + "".join(f"가 {row}\t나 {row}\t{row % 6}\n" for row in range(12))
    drop(app, {"a.tsv": rows.encode()})
    name_field(app).input("평가용 쌍")
    press(app, "keep_pairs")
    assert {pairs_set.name for pairs_set in pair_store.stored()} == {"평가용 쌍", "우리 쌍"}


def test_reports_no_verdict_for_few_questions(app: AppTest) -> None:
    rows = "질문,지문\n" + "".join(f"{n}번 강은 어디인가?,{n}번 강은 {n}번 산에 있다.\n" for n in range(30))
    lines = rows.splitlines(keepends=True)
    upload(app, "".join(lines[:30]), "few.csv")
    assert "질문이 29개뿐이어서" in texts(app)
    assert "데이터입니다" not in texts(app)
    assert "30개 이상 필요합니다" in texts(app)
    press(app, "discard")
    upload(app, rows, "enough.csv")
    assert "뿐이어서" not in texts(app)


def test_reports_damaged_judgements(app: AppTest) -> None:
    question_set = load(stored()[0].key)
    judge_passage(question_set.corpus_fingerprint, "질문", question_set.passages[0].id, RelevanceVerdict.RIGHT)
    path = annotation_path("judgements", question_set.corpus_fingerprint)
    path.write_text(path.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    run(app)
    assert f"judgements/{path.name}" in texts(app)
    assert statuses(app) == ["warning"]
    judge_passage(question_set.corpus_fingerprint, "질문", question_set.passages[0].id, RelevanceVerdict.RIGHT)
    run(app)
    assert f"judgements/{path.name}.damaged" in texts(app)
    assert json.loads(path.read_text(encoding="utf-8"))["questions"]
    Path(f"{path}.damaged").unlink()
    run(app)
    assert not statuses(app)
    assert "use" not in keys(app)


FAQ = """질문,답변,상담 기록
배송은 며칠 걸리나요?,보통 이틀 걸립니다.,확인함
환불은 어떻게 하나요?,주문 목록에서 신청합니다.,보류
"""
TABLE = "질문,지문,<b>난이도</b>,메모\n수도는?,서울은 수도이다.,상,가\n강은?,한강이다.,하,나\n"


def page_with(preview: DatasetPreview) -> AppTest:
    app = AppTest.from_function(data_page, default_timeout=60)
    app.query_params["lang"] = "ko"
    app.session_state["preview"] = preview
    return run(app)


def preview_with_report(**report: object) -> DatasetPreview:
    preview = preview_of([(TABLE.encode(), "set.csv")])
    reading = replace(read(TABLE.encode(), "set.csv"), **report)
    return replace(preview, read=AuditedDataset.of(reading))


def refused(
    candidates: tuple[QuestionColumns, ...] = (), encodings: tuple[EncodingCandidate, ...] = ()
) -> DatasetPreview:
    rows = ({"질문": "배송은 며칠 걸리나요?", "답변": "보통 이틀 걸립니다.", "상담 기록": "확인함"},)
    columns = QuestionColumns("질문", answers="답변")
    proposal = Proposal(columns, ("질문", "답변", "상담 기록"), rows, candidates, encodings)
    error = UnusableFileError(DataError.from_code(ProblemCode.NO_QUESTION), proposal)
    files = ((FAQ.encode(), "faq.csv"),)
    return DatasetPreview("faq.csv", "faq.csv", files=files, key="0" * 16, **proposal._asdict(), error=error)


def test_lists_files_in_natural_order() -> None:
    preview = preview_of([(f"{number}번째 글이다.".encode(), f"문서 {number}.txt") for number in (10, 2, 33, 1)])
    table = next(frame.value for frame in page_with(preview).dataframe if "role" in frame.value)
    assert list(table["file"]) == ["문서 1.txt", "문서 2.txt", "문서 10.txt", "문서 33.txt"]


def in_english(app: AppTest) -> str:
    app.query_params["lang"] = "en"
    return texts(run(app))


def test_reports_use_of_every_column_without_markup_and_notices_about_files() -> None:
    whole = Problem.from_code(ProblemCode.DECIMAL_COMMA, column="점수", value="3,5", read="3.5")
    of_row = Problem.from_code(ProblemCode.TITLE_AS_TEXT, 3, id="p7")
    report = {"used_columns": ("질문", "지문"), "metadata_columns": ("<b>난이도</b>",), "unused_columns": ("**굵게**",)}
    app = page_with(preview_with_report(**report, problems=(whole, of_row), problem_count=2))
    (listed,) = [element.value for element in app.markdown if "사용하지 않음" in element.value]
    assert "#### 열과 키" in texts(app)
    assert "- **사용**: 질문 (질문), 지문 (지문)" in listed
    assert r"- **메타데이터로 저장**: \<b\>난이도" in listed
    assert r"- **사용하지 않음**: \*\*굵게\*\*" in listed
    assert "파일에 정해진 분할이 없어 질문을 새로 나눴습니다: 학습용 2" in texts(app)
    (notices,) = [element.value for element in app.markdown if "소수점" in element.value]
    assert notices.startswith("- ")
    assert "p7" not in notices
    others = next(element for element in app.expander if "확인할 점 1개" in element.label)
    assert ["p7" in element.value for element in others.text] == [True]


def test_marks_published_part_with_too_few_questions() -> None:
    parts = ["test", *["train"] * 39]
    rows = "".join(f"{number}번 질문?,{number}번 지문이다.,{part}\n" for number, part in enumerate(parts))
    app = page_with(preview_of([(f"질문,지문,split\n{rows}".encode(), "set.csv")]))
    assert "파일에 정해진 분할을 그대로 사용합니다: 학습용 34, 검증용 5, 평가용 1" in texts(app)
    assert "평가 질문이 1개뿐" in texts(app)
    assert "Too few test questions: 1." in in_english(app)


def test_offers_readings_with_first_rows() -> None:
    others = (QuestionColumns("질문", f"칸{number}") for number in range(5))
    app = page_with(refused((QuestionColumns("질문", "답변"), QuestionColumns("질문", "상담 기록"), *others)))
    page_text = texts(app)
    assert "#### 파일을 어떻게 읽을지 골라 주세요" in page_text
    assert "질문 ← 질문 · 지문 ← 상담 기록" in page_text
    first_rows = [table.value.iloc[0].to_dict() for table in app.dataframe]
    assert {"질문 (질문)": "배송은 며칠 걸리나요?", "지문 (상담 기록)": "확인함"} in first_rows
    readings = [f"reading_{'0' * 16}_{number}" for number in range(7)]
    assert keys(app).intersection(readings) == {*readings[:5]}
    assert "열이 2개 더 있습니다." in page_text
    assert app.button(key=readings[0]).label == "답변을 지문으로 검색"
    assert "Other possible columns: 2." in in_english(app)
    assert app.button(key=readings[0]).label == "Search the answers"
    press(app, readings[1])
    assert not app.error
    assert counts(app) == ["2", "2", "–"]
    assert next(box.value for box in app.selectbox if (box.key or "").startswith("column_context_")) == "상담 기록"
    press(app, "use")


# characters that several encodings decode, and one whose encoding is a guess
CYRILLIC = "вопрос,текст\nгде живёт выдра,выдра живёт у реки\nкогда прилетает журавль,журавль прилетает зимой\n"
GUESSED = "question,context\nWo?,Köln\n"


def test_uses_named_encoding_and_can_change_it() -> None:
    preview = refused(encodings=(EncodingCandidate("Windows-1251", "а"), EncodingCandidate("KOI8-R", "б")))
    files = ((CYRILLIC.replace("вопрос,текст", "question,context").encode("koi8_r"), "set.csv"),)
    app = page_with(replace(preview, files=files))
    assert [code.value for code in app.code] == ["а"]
    next(element for element in app.selectbox if element.label == "인코딩").select("KOI8-R")
    assert [code.value for code in run(app).code] == ["б"]
    press(app, f"encoding_{'0' * 16}")
    assert not app.error
    assert "KOI8-R" in texts(app)
    assert counts(app)[0] == "2"
    box = next(element for element in app.selectbox if element.label == "인코딩")
    assert (box.value, box.options) == ("KOI8-R", ["Windows-1251", "KOI8-R"])
    press(app, "use")


def test_replaces_guessed_or_unknown_encoding() -> None:
    preview = preview_of([(GUESSED.encode("cp1252"), "set.csv")])
    assert preview.read is not None
    assert preview.encodings[0].name == "Windows-1252"
    assert len(preview.encodings) > 1
    app = page_with(preview)
    assert "인코딩" in [element.label for element in app.selectbox]
    # an unknown encoding has several candidates
    preview = preview_of([("вопрос,текст\nгде,там\n".encode("koi8_r"), "set.csv")])
    assert preview.error is not None
    assert {"KOI8-R", "Windows-1251"} <= {encoding.name for encoding in preview.encodings}
    assert any(encoding.sample.startswith("вопрос") for encoding in preview.encodings)
