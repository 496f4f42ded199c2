"""The report of a reading on the Data page, and the choice for files that can be read in several ways."""

from dataclasses import replace

from streamlit.testing.v1 import AppTest

from mrc_workbench.data.apart import UnusableFileError
from mrc_workbench.data.formats.columns import Columns
from mrc_workbench.data.formats.encodings import EncodingCandidate
from mrc_workbench.data.formats.opening import Proposal
from mrc_workbench.data.problems import DataError, Problem, ProblemCode
from mrc_workbench.data.questions.read import read
from mrc_workbench.workbench.views.data.preview import Preview, Read, preview_of
from tests.workbench.views.data.test_page import counts
from tests.workbench.views.driving import data_page, keys, opened, press, run, texts

FAQ = """질문,답변,상담 기록
배송은 며칠 걸리나요?,보통 이틀 걸립니다.,확인함
환불은 어떻게 하나요?,주문 목록에서 신청합니다.,보류
"""
TABLE = "질문,지문,<b>난이도</b>,메모\n수도는?,서울은 수도이다.,상,가\n강은?,한강이다.,하,나\n"


def page_with(preview: Preview) -> AppTest:
    app = opened(data_page, lang="ko")
    app.session_state["preview"] = preview
    return run(app)


def preview_with_report(**report: object) -> Preview:
    preview = preview_of([(TABLE.encode(), "set.csv")])
    reading = replace(read(TABLE.encode(), "set.csv"), **report)
    return replace(preview, read=Read.of(reading))


def refused(candidates: tuple[Columns, ...] = (), encodings: tuple[EncodingCandidate, ...] = ()) -> Preview:
    rows = ({"질문": "배송은 며칠 걸리나요?", "답변": "보통 이틀 걸립니다.", "상담 기록": "확인함"},)
    proposal = Proposal(Columns("질문", answers="답변"), ("질문", "답변", "상담 기록"), rows, candidates, encodings)
    error = UnusableFileError(DataError.of(ProblemCode.NO_QUESTION), proposal)
    return Preview(
        "faq.csv",
        "faq.csv",
        files=((FAQ.encode(), "faq.csv"),),
        key="0" * 16,
        columns=proposal.columns,
        available=proposal.available,
        first_rows=proposal.first_rows,
        candidates=candidates,
        encodings=encodings,
        error=error,
    )


def test_files_are_listed_in_natural_order() -> None:
    preview = preview_of([(f"{number}번째 글이다.".encode(), f"문서 {number}.txt") for number in (10, 2, 33, 1)])
    table = next(frame.value for frame in page_with(preview).dataframe if "role" in frame.value)
    assert list(table["file"]) == ["문서 1.txt", "문서 2.txt", "문서 10.txt", "문서 33.txt"]


def in_english(app: AppTest) -> str:
    app.query_params["lang"] = "en"
    return texts(run(app))


def test_a_part_with_too_few_questions_is_marked_beside_the_split() -> None:
    parts = ["test", *["train"] * 39]
    rows = "".join(f"{number}번 질문?,{number}번 지문이다.,{part}\n" for number, part in enumerate(parts))
    app = page_with(preview_of([(f"질문,지문,split\n{rows}".encode(), "set.csv")]))
    assert "평가 질문이 1개뿐" in texts(app)
    assert "Too few test questions: 1." in in_english(app)


def test_many_readings_are_shortened() -> None:
    app = page_with(refused(tuple(Columns("질문", f"칸{number}") for number in range(7))))
    assert len([key for key in keys(app) if key.startswith("reading_")]) == 5
    assert "열이 2개 더 있습니다." in texts(app)
    assert "Other possible columns: 2." in in_english(app)


def test_report_lists_the_use_of_every_column_without_markup() -> None:
    columns = {
        "used_columns": ("질문", "지문"),
        "metadata_columns": ("<b>난이도</b>",),
        "unused_columns": ("**굵게**",),
    }
    app = page_with(preview_with_report(**columns))
    (listed,) = [one.value for one in app.markdown if "사용하지 않음" in one.value]
    assert "#### 열과 키" in texts(app)
    assert "- **사용**: 질문 (질문), 지문 (지문)" in listed
    assert r"- **메타데이터로 저장**: \<b\>난이도" in listed
    assert r"- **사용하지 않음**: \*\*굵게\*\*" in listed


def test_report_says_whether_the_split_is_published() -> None:
    drawn = page_with(preview_of([(TABLE.encode(), "set.csv")]))
    assert "파일에 정해진 분할이 없어 질문을 새로 나눴습니다: 학습용 2" in texts(drawn)
    parts = "질문,지문,split\n수도는?,서울은 수도이다.,train\n강은?,한강이다.,test\n"
    published = page_with(preview_of([(parts.encode(), "set.csv")]))
    assert "파일에 정해진 분할을 그대로 사용합니다: 학습용 1, 검증용 0, 평가용 1" in texts(published)


def test_report_shows_notices_about_whole_files_but_not_about_rows() -> None:
    whole = Problem.of(ProblemCode.DECIMAL_COMMA, column="점수", value="3,5", read="3.5")
    of_row = Problem.of(ProblemCode.TITLE_AS_TEXT, 3, id="p7")
    app = page_with(preview_with_report(problems=(whole, of_row), problem_count=2))
    (notices,) = [one.value for one in app.markdown if "소수점" in one.value]
    assert notices.startswith("- ")
    assert "p7" not in notices
    others = next(one for one in app.expander if "확인할 점 1개" in one.label)
    assert ["p7" in one.value for one in others.text] == [True]


def test_two_possible_readings_are_chosen_from_with_their_first_rows() -> None:
    app = page_with(refused((Columns("질문", "답변"), Columns("질문", "상담 기록"))))
    told = texts(app)
    assert "#### 파일을 어떻게 읽을지 골라 주세요" in told
    assert "질문 ← 질문 · 지문 ← 상담 기록" in told
    tables = [table.value for table in app.dataframe]
    assert {"질문 (질문)": "배송은 며칠 걸리나요?", "지문 (상담 기록)": "확인함"} in [
        table.iloc[0].to_dict() for table in tables
    ]
    press(app, f"reading_{'0' * 16}_1")
    assert not app.error
    assert counts(app) == ["2", "2", "–"]
    assert next(box.value for box in app.selectbox if (box.key or "").startswith("column_context_")) == "상담 기록"
    press(app, "use")


def test_answers_of_a_faq_are_searched_at_a_click() -> None:
    app = page_with(refused((Columns("질문", "답변"),)))
    in_english(app)
    assert "Search the answers" in [one.label for one in app.button]
    app.query_params["lang"] = "ko"
    button = next(one for one in run(app).button if (one.key or "").startswith("reading_"))
    assert button.label == "답변을 지문으로 검색"
    press(app, str(button.key))
    assert counts(app) == ["2", "2", "–"]
    assert "use" in keys(app)


def test_an_encoding_is_chosen_by_its_first_line() -> None:
    app = page_with(
        refused(encodings=(EncodingCandidate("shift_jis", "首都は?"), EncodingCandidate("gb18030", "庱搒偼")))
    )
    box = next(one for one in app.selectbox if one.label == "인코딩")
    assert box.options == ["shift_jis", "gb18030"]
    assert [code.value for code in app.code] == ["首都は?"]
    box.select("gb18030")
    app.run()
    assert [code.value for code in app.code] == ["庱搒偼"]


# letters that are tidy text in several encodings, and one that must be guessed
CYRILLIC = "вопрос,текст\nгде живёт выдра,выдра живёт у реки\nкогда прилетает журавль,журавль прилетает зимой\n"
GUESSED = "question,context\nWo?,Köln\n"


def test_a_named_encoding_is_used_and_can_be_changed_again() -> None:
    shown = refused(encodings=(EncodingCandidate("Windows-1251", "а"), EncodingCandidate("KOI8-R", "б")))
    files = ((CYRILLIC.replace("вопрос,текст", "question,context").encode("koi8_r"), "set.csv"),)
    app = page_with(replace(shown, files=files))
    next(one for one in app.selectbox if one.label == "인코딩").select("KOI8-R")
    run(app)
    press(app, f"encoding_{'0' * 16}")
    assert not app.error
    assert "KOI8-R" in texts(app)
    assert counts(app)[0] == "2"
    box = next(one for one in app.selectbox if one.label == "인코딩")
    assert (box.value, box.options) == ("KOI8-R", ["Windows-1251", "KOI8-R"])
    press(app, "use")


def test_a_guessed_or_unknown_encoding_can_be_replaced() -> None:
    preview = preview_of([(GUESSED.encode("cp1252"), "set.csv")])
    assert preview.read is not None
    assert preview.encodings[0].name == "Windows-1252"
    assert len(preview.encodings) > 1
    app = page_with(preview)
    assert "인코딩" in [one.label for one in app.selectbox]
    # text of an unknown encoding offers several
    preview = preview_of([("вопрос,текст\nгде,там\n".encode("koi8_r"), "set.csv")])
    assert preview.error is not None
    assert {"KOI8-R", "Windows-1251"} <= {encoding.name for encoding in preview.encodings}
    assert any(encoding.sample.startswith("вопрос") for encoding in preview.encodings)
