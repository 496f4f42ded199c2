"""Files on the Data page: one that cannot be read is replaced, a collection comes file by file, sets have names."""

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.pairs import store as pair_store
from mrc_workbench.data.pairs.store import PAIR_CATALOG, read_pair_entry
from mrc_workbench.data.problems import ProblemCode
from mrc_workbench.data.questions.judgements import Verdict, judge, path_of
from mrc_workbench.data.questions.read import read
from mrc_workbench.data.store import load, stored
from mrc_workbench.workbench.views.data.page import sample_csv
from mrc_workbench.workbench.views.data.preview import preview_of, preview_with
from mrc_workbench.workbench.views.ui.words import LANGUAGES, catalog
from tests.data.formats.test_refusals import DOCX, PDF
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
    return " ".join(one.value for one in app.error)


def test_a_new_file_replaces_one_that_cannot_be_read(app: AppTest) -> None:
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


def test_files_dropped_together_are_all_told(app: AppTest) -> None:
    drop(app, {"manual.docx": DOCX, "my3.csv": OTHER.encode(), "paper.pdf": PDF})
    assert statuses(app) == ["warning"]
    assert "모든 행을 문제없이 읽었습니다" not in texts(app)
    assert all(name in texts(app) for name in ("manual.docx", "paper.pdf"))
    assert counts(app) == ["2", "2", "–"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_collection_may_come_file_by_file_in_any_order(app: AppTest, order: tuple[int, ...]) -> None:
    for place in order:
        name = [*BEIR][place]
        upload(app, BEIR[name], name)
    assert "BEIR 구성 · 파일 3개 → 지문 5개, 질문 3개, 적합성 판정 5개" in texts(app)
    assert not app.error


def test_a_broken_file_of_a_collection_is_named_and_replaced_alone() -> None:
    files = [(content, name) for name, content in BEIR.items()]
    shown = preview_of(files[:2])
    shown = preview_with([(b'{"query-id": \n', "test.jsonl")], shown)
    assert shown.read is not None
    assert "test.jsonl" in [gap.details.get("file") for gap in shown.read.reading.gaps]
    shown = preview_with([files[2]], shown)
    assert shown.read is not None
    assert len(shown.read.reading.files) == 3
    assert "test.jsonl" not in [name for _, name in shown.files]


def test_a_complete_dataset_replaces_another_one_and_the_same_files_are_read_once() -> None:
    rows = [("질문,지문\n수도는?,서울은 수도이다.\n".encode(), name) for name in ("first.csv", "second.csv")]
    files = [(content, name) for name, content in BEIR.items()]
    assert preview_with(rows[1:], preview_of(rows[:1])).name == "second.csv"
    assert preview_with(rows[:1], preview_of(files)).name == "first.csv"
    shown = preview_with(files, preview_of(files))
    assert shown.read is not None
    assert shown.read.reading.problems == ()


def test_a_wider_corpus_completes_rows() -> None:
    rows = ("질문,지문\n수도는?,서울은 수도이다.\n".encode(), "rows.csv")
    corpus = ('{"text": "부산은 항구이다."}\n{"text": "한강은 서울을 지난다."}\n'.encode(), "corpus.jsonl")
    for first, second in ((rows, corpus), (corpus, rows)):
        shown = preview_with([second], preview_of([first]))
        assert shown.read is not None
        question_set = shown.read.reading.question_set
        assert (len(question_set.passages), len(question_set.questions)) == (3, 1)


def test_a_known_set_is_not_read_together_with_a_file(app: AppTest) -> None:
    press(app, "look_sample")
    upload(app, OTHER, "my.csv")
    assert counts(app) == ["2", "2", "–"]
    assert not app.error


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_document_has_its_words_and_the_sample_csv_is_read_right(language: str) -> None:
    codes = (ProblemCode.WORD_DOCUMENT, ProblemCode.PDF_DOCUMENT, ProblemCode.HANGUL_DOCUMENT, ProblemCode.PRESENTATION)
    words = [catalog(language)[f"problem.{code}"] for code in codes]
    assert len({*words}) == 4
    assert all("CSV" in one for one in words), "each says what to do"
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


def test_the_page_shows_the_formats_and_offers_the_sample_csv(app: AppTest) -> None:
    assert "CSV · TSV · Excel · JSON(KorQuAD, DPR …) · JSONL · Parquet · Arrow · TXT · Markdown" in texts(app)
    assert "HTML · PDF · Word · PowerPoint · 한글(HWP) · zip" in texts(app)
    assert "예시 CSV 내려받기" in [button.label for button in app.get("download_button")]
    upload(app, sample_csv("ko"), "예시.csv")
    assert statuses(app) == ["success"]
    assert counts(app) == ["3", "4", "3"]


def test_a_set_is_named_in_the_preview(app: AppTest) -> None:
    upload(app, OTHER, "my30_cp949.csv")
    field = next(one for one in app.text_input if (one.key or "").startswith("set_name_"))
    assert (field.label, field.value) == ("이름", "my30_cp949")
    field.input("  사내\n규정\x07 ../**FAQ**  ")
    press(app, "use")
    kept = stored()[0]
    assert kept.name == "사내 규정 ../**FAQ**"
    assert kept.key == load(kept.key).fingerprint[:16], "the name is no part of the key"
    assert r"사용 중인 데이터셋: 사내 규정 \.\./\*\*FAQ\*\*" in [one.value for one in app.header]
    upload(app, LARGER, "file.csv")
    next(one for one in app.text_input if (one.key or "").startswith("set_name_")).input(" \t ")
    press(app, "use")
    assert stored()[0].name == "file", "an emptied name is that of the file"
    press(app, "look_sample")
    press(app, "use")
    assert "Korean sample" in [kept.name for kept in stored()], "unchanged in another language"


def test_a_stored_set_is_renamed_and_its_address_stays(app: AppTest) -> None:
    before = stored()[0]
    app.text_input(key=f"name_{before.key}").input("새 이름")
    press(app, f"rename_yes_{before.key}")
    assert stored()[0] == type(before)(**{**vars(before), "name": "새 이름"})
    assert "사용 중인 데이터셋: 새 이름" in texts(app)
    assert app.query_params["data"] in (before.key, [before.key])
    app.session_state["kept_look"] = "figures"
    run(app)
    assert load(before.key).name == "새 이름"


def test_pairs_are_renamed_and_named_in_the_preview() -> None:
    kept = pair_store.keep(read_pair_entry(PAIR_CATALOG["sample-sts"]).pairs, source="sample-sts")
    app = opened(data_page, lang="ko", sort="pairs")
    app.text_input(key=f"name_{kept.key}").input("우리 쌍")
    press(app, f"rename_yes_{kept.key}")
    (renamed,) = pair_store.stored()
    assert (renamed.key, renamed.name) == (kept.key, "우리 쌍")
    assert pair_store.load(kept.key).name == "우리 쌍"
    assert "저장된 데이터셋: 우리 쌍" in texts(app)
    rows = "sentence1\tsentence2\tscore\n" + "".join(f"가 {row}\t나 {row}\t{row % 6}\n" for row in range(12))
    drop(app, {"a.tsv": rows.encode()})
    next(one for one in app.text_input if (one.key or "").startswith("set_name_")).input("평가용 쌍")
    press(app, "keep_pairs")
    assert {kept.name for kept in pair_store.stored()} == {"평가용 쌍", "우리 쌍"}


def test_few_questions_have_no_verdict(app: AppTest) -> None:
    rows = "질문,지문\n" + "".join(f"{n}번 강은 어디인가?,{n}번 강은 {n}번 산에 있다.\n" for n in range(30))
    lines = rows.splitlines(keepends=True)
    upload(app, "".join(lines[:30]), "few.csv")
    assert "질문이 29개뿐이어서" in texts(app)
    assert "데이터입니다" not in texts(app)
    assert "30개 이상 필요합니다" in texts(app)
    press(app, "discard")
    upload(app, rows, "enough.csv")
    assert "뿐이어서" not in texts(app)


def test_damaged_judgements_are_told(app: AppTest) -> None:
    question_set = load(stored()[0].key)
    judge(question_set.corpus_fingerprint, "질문", question_set.passages[0].id, Verdict.RIGHT)
    path = path_of("judgements", question_set.corpus_fingerprint)
    path.write_text(path.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    run(app)
    assert f"judgements/{path.name}" in texts(app)
    assert statuses(app) == ["warning"]
    judge(question_set.corpus_fingerprint, "질문", question_set.passages[0].id, Verdict.RIGHT)
    run(app)
    assert f"judgements/{path.name}.damaged" in texts(app)
    assert json.loads(path.read_text(encoding="utf-8"))["questions"]
    Path(f"{path}.damaged").unlink()
    run(app)
    assert not statuses(app)
    assert "use" not in keys(app)
