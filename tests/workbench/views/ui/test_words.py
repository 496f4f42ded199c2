"""Every text is in both languages, is used, and has the same fields. Errors and damaged files have texts as well."""

import errno
import re
from pathlib import Path
from string import Formatter

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data import problems
from mrc_workbench.data.formats.encodings import ENCODING_PROBLEMS
from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.problems import TEMPLATES, DataError, Failure, Problem, ProblemCode, as_missing_extra
from mrc_workbench.data.store import save_question_set, stored
from mrc_workbench.data.text.corpora import LanguageError
from mrc_workbench.data.workspace import PROJECT, workspace
from mrc_workbench.labs.reading.scores import ReadingError
from mrc_workbench.models.llm import EndpointError
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.store import ComparisonJob, damaged_comparisons
from mrc_workbench.retrieval.comparison.store import save_comparison as keep_comparison
from mrc_workbench.retrieval.outside import OutsideError
from mrc_workbench.training.runs import Phase, Run, damaged_runs
from mrc_workbench.workbench.views.ui import words as ui_words
from mrc_workbench.workbench.views.ui.words import LANGUAGES, catalog
from tests.doubles import small_set
from tests.hostile.damages import DEEP
from tests.workbench.views.driving import data_page, opened, run
from tests.workbench.views.train.worlds import create_test_run
from tests.workbench.views.train.worlds import page as train_page

VIEWS = PROJECT / "workbench" / "views"
PAGES = [*VIEWS.rglob("*.py"), VIEWS.parent / "frame.py", *(PROJECT / "labs").glob("*/pages/*.py")]
SOURCE = "".join(path.read_text(encoding="utf-8") for path in PAGES)
WRITTEN = set(re.findall(r"""["']([a-z_]+\.[a-zA-Z0-9_]+)["']""", SOURCE))
# the columns of `workbench.views.ui.tables` and `label_and_help` find explanations by their own key
_EXPLAINING = r"""(?:tables\.[a-z_]+|label_and_help)\(\s*"([a-z_]+\.[a-z0-9_]+)"""
EXPLAINED = {f"{key}_help" for key in re.findall(_EXPLAINING, SOURCE)}
# keys built at run time: `word(f"part.{part}")` uses every key that starts with "part."
BEGINNINGS = tuple(set(re.findall(r"""f["']([a-z_]+\.(?:[a-z_]+_)?)\{""", SOURCE)))
EN = catalog("en")
WORDS = {"name": "words", "kind": "bm25", "analyzer": "word"}
FIELDS_BELOW = ("missing_column", "evaluation_output", "unmarked_passages", "documents_by_name")
FULL = "The disk is not writable (No space left on device). Your data is safe. Free some space and reload the page."
MISSING = "This needs openai, which is not installed. Install it with: pip install 'mrc-workbench[llm]'"


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_both_languages_have_equal_keys_and_fields() -> None:
    korean, english = (catalog(language) for language in LANGUAGES)
    assert korean.keys() == english.keys()
    different = [key for key in korean if fields(korean[key]) != fields(english[key])]
    assert different == []


def test_no_text_is_empty_or_untranslated() -> None:
    hangul = re.compile("[가-힣]")
    names = {"sidebar.language"}  # in both languages, for users who cannot read the present one
    english = catalog("en")
    assert [key for key, text in english.items() if not text.strip()] == []
    assert [key for key, text in english.items() if hangul.search(text) and key not in names] == []


def test_every_key_in_code_has_a_text() -> None:
    sections = {key.split(".")[0] for key in catalog("en")}
    missing = [key for key in WRITTEN if key.split(".")[0] in sections and key not in catalog("en")]
    assert missing == []


def test_uses_every_text() -> None:
    used = WRITTEN | EXPLAINED | {f"study.{end}" for end in ("failed", "interrupted", "stopped")}  # by `draw_job`
    unused = [key for key in catalog("en") if key not in used and not key.startswith(BEGINNINGS)]
    assert unused == []


def test_translates_every_phase() -> None:
    assert {f"phase.{phase.value}" for phase in Phase} <= catalog("ko").keys()


def test_escapes_all_markdown_in_plain_text() -> None:
    """Streamlit replaces names of icons and emoji after it reads escapes."""
    assert ui_words.plain("**a** [b](c) <i>") == r"\*\*a\*\* \[b\]\(c\) \<i\>"
    displayed = re.sub(r"\\(.)", r"\1", ui_words.plain("별 :material/star: :smile: 시간 12:30 a::b"))
    assert displayed == "별 :\u2060material/star: :\u2060smile: 시간 12:30 a::b"


@pytest.mark.parametrize("language", ["ko", "en"])
def test_no_text_has_strikethrough_tildes(language: str) -> None:
    struck = {key: text for key, text in catalog(language).items() if re.search(r"~\S.*\S~", text)}
    assert not struck


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("code", ProblemCode)
def test_translates_every_problem_with_equal_fields(code: ProblemCode, language: str) -> None:
    text = catalog(language)[f"problem.{code.value}"]
    assert fields(text) == fields(TEMPLATES[code])
    assert ui_words.problem_text(Problem(code, 7, dict.fromkeys(fields(text), 3)), catalog(language))


@pytest.mark.parametrize(
    ("code", "control"),
    [
        *((ProblemCode(code), {"en": "the fields below", "ko": "아래 칸"}) for code in FIELDS_BELOW),
        *((code, {"en": "“Encoding” below", "ko": "아래 ‘인코딩’ 칸"}) for code in ENCODING_PROBLEMS),
        (ProblemCode.ANSWERS_ALONE, {"en": "“Search the answers” below", "ko": "아래 ‘답변을 지문으로 검색’ 버튼"}),
        (ProblemCode.GUESSED_ENCODING, {"en": "Choose another encoding” above", "ko": "다른 인코딩 고르기’"}),
    ],
)
def test_names_page_control_instead_of_command_flag(code: ProblemCode, control: dict[str, str]) -> None:
    details = dict.fromkeys(fields(TEMPLATES[code]), "x") | {"role": "context", "flags": "--columns context=x"}
    problem = Problem(code, None, details)
    assert "--columns context=x" in problem.message
    for language, words in control.items():
        text = ui_words.problem_text(problem, catalog(language))
        assert words in text
        assert "--" not in text


def test_no_page_message_names_a_flag() -> None:
    flagged = [(language, key) for language in LANGUAGES for key, text in catalog(language).items() if "(--" in text]
    assert flagged == []


@pytest.mark.parametrize(("count", "words"), [("1", "1 question"), ("0", "0 questions"), ("1,001", "1,001 questions")])
def test_uses_singular_for_exactly_1(count: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamlit.query_params", {"lang": "en"})
    assert ui_words.word("data_page.questions", questions=count) == words


def test_problem_texts_match_problem_codes() -> None:
    assert TEMPLATES.keys() == {"row", *ProblemCode}


@pytest.mark.parametrize("code", ProblemCode)
def test_english_problem_texts_match_data_templates(code: ProblemCode) -> None:
    problem = Problem(code, None, dict.fromkeys(fields(TEMPLATES[code]), 3))
    assert ui_words.problem_text(problem, catalog("en")) == problem.message


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (
            Problem.from_code(ProblemCode.WRONG_SHAPE, found="a list whose first item is a list"),
            "(목록의 첫 항목: 목록)",
        ),
        (
            Problem.from_code(ProblemCode.WRONG_SHAPE, found="an object without a list of objects (keys: a list b, c)"),
            "(객체의 목록이 없는 객체 (키: a list b, c))",
        ),
        (
            Problem.from_code(ProblemCode.TOO_LARGE, size="9", unit="unpacked bytes", limit="8"),
            "9 바이트(압축을 푼 크기)",
        ),
        (Problem.from_code(ProblemCode.NOT_AN_OBJECT, 3, found="A list"), "3행: 한 행의 열이 든 객체가"),
        (
            Problem.from_code(
                ProblemCode.MISSING_COLUMN, role="context", available="a list", known_names="w", flags=""
            ),
            "지문 열을 찾지 못했습니다. 파일에 있는 열: a list.",
        ),
    ],
)
def test_translates_reader_values_but_not_file_values(problem: Problem, words: str) -> None:
    assert words in ui_words.problem_text(problem, catalog("ko"))


def test_omits_row_from_reason() -> None:
    problem = Problem.from_code(ProblemCode.EMPTY_CONTEXT, 12, column="본문")
    assert ui_words.reason_text(problem, catalog("en")).startswith("The passage (본문) is empty.")


def test_shows_rows_of_an_error() -> None:
    row = Problem.from_code(ProblemCode.EMPTY_CONTEXT, 2, column="c")
    error = DataError(Problem.from_code(ProblemCode.NO_GOOD_ROW, rows=1, first=row.message), [row])
    assert error.others == (row,)


@pytest.mark.parametrize(
    ("room", "words", "kind"),
    [
        ("models/llm*.py", "chat", EndpointError),
        ("labs/language/**/*.py", "language", LanguageError),
        ("labs/reading/**/*.py", "reading", ReadingError),
        ("retrieval/outside/**/*.py", "outside", OutsideError),
    ],
)
def test_translates_every_failure_with_its_own_text(room: str, words: str, kind: type[Failure]) -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in PROJECT.glob(room))
    raised = set(re.findall(rf'{kind.__name__}\(\s*"([a-z_]+)"', source))
    raised |= set(re.findall(r'^    "[A-Z]\w+Error": "([a-z_]+)"', source, re.MULTILINE))
    assert len(raised) >= 10
    for code in raised:
        text = catalog("en")[f"{words}.{code}"]
        values = {name: f"the {name}" for name in fields(text)}
        assert ui_words.failure_text(kind(code, "in English", **values)) == text.format(**values)


def failing(error: Exception) -> None:
    from mrc_workbench.workbench.views.ui.words import show_errors

    with show_errors():
        raise error


@pytest.mark.parametrize(
    ("error", "words", "other"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), FULL, OSError(errno.ENOENT, "No such file")),
        (ModuleNotFoundError("No", name="openai"), MISSING, ModuleNotFoundError("No", name="no_such_library")),
    ],
)
def test_shows_full_disk_and_missing_library_but_raises_others(error: Exception, words: str, other: Exception) -> None:
    app = AppTest.from_function(failing, args=(error,))
    app.query_params["lang"] = "en"
    run(app)
    assert [re.sub(r"\\(.)", r"\1", element.value) for element in app.error] == [words]
    assert len(AppTest.from_function(failing, args=(other,)).run().exception) == 1


def test_names_extra_of_a_failed_import() -> None:
    error = ModuleNotFoundError("No module named 'faiss'", name="faiss")
    stored = Failure.from_dict(problems.failure_dict(as_missing_extra(error)))
    expected = catalog("en")["extra.missing_extra"].format(module="faiss", extra="models")
    texts = [ui_words.failure_text(error), ui_words.failure_text(stored), ui_words.search_failure_text(error)]
    assert texts == [expected] * 3


def ended_run(name: str) -> Run:
    return create_test_run(State.STOPPED, name=name, step=3, total_steps=9)


def remove_reported(app: AppTest, lost: Path) -> None:
    """Remove a damaged folder by the button of its report."""
    report = ui_words.plain(lost.name)
    about = EN["damaged.about"].split("{name}")[1]
    assert any(report in element.value and about in element.value for element in app.markdown)
    app.button(f"damaged_yes_{lost.name}").click()
    assert not any(report in element.value for element in run(app).markdown)
    assert not lost.exists()


def test_lists_and_removes_run_with_unreadable_plan() -> None:
    ended_run("whole")
    lost = ended_run("lost").folder
    (lost / "run.json").write_bytes(DEEP)
    app = opened(train_page)
    assert any("whole" in element.value for element in app.markdown)
    remove_reported(app, lost)
    assert damaged_runs() == []


@pytest.mark.parametrize("name", ["status.json", "scores.json", "provenance.json", "progress.jsonl"])
def test_lists_run_with_other_damaged_files(name: str) -> None:
    training_run = ended_run("mine")
    (training_run.folder / name).write_bytes(DEEP)
    app = opened(train_page)
    assert any("mine" in element.value for element in app.markdown)
    assert (EN["failure.damaged"] in [element.value for element in app.error]) is (name == "status.json")


def test_lists_and_removes_unreadable_dataset() -> None:
    dataset = save_question_set(small_set())
    lost = workspace() / "datasets" / save_question_set(small_set("other").with_questions([0, 1])).key
    (lost / "set.json").write_bytes(DEEP)
    remove_reported(opened(data_page, data=dataset.key), lost)
    assert [item.key for item in stored()] == [dataset.key]


@pytest.mark.parametrize("name", ["scores.json", "provenance.json"])
def test_lists_and_removes_unreadable_comparison(name: str) -> None:
    data = save_question_set(small_set())
    whole, lost = (store_small_comparison(data.key, data.fingerprint, ks) for ks in ((1, 3), (1, 2)))
    (lost / name).write_bytes(DEEP)
    remove_reported(opened(compare_page, data=data.key, comparison=whole.name, view="kept"), lost)
    assert damaged_comparisons() == []
    assert whole.is_dir()


def compare_page() -> None:
    from mrc_workbench.workbench.views.compare import page

    page.draw()


def store_small_comparison(data: str, fingerprint: str, ks: tuple[int, ...]) -> Path:
    experiment = Experiment.model_validate({"data": data, "ks": ks, "retriever": [WORDS]})
    folder = ComparisonJob.of(experiment, fingerprint).folder
    keep_comparison(compare(experiment, small_set()), folder)
    return folder


def test_selects_particle_by_last_sound() -> None:
    closed = ("지문", "nDCG@10", "BM", *(f"88.{digit}" for digit in "013678"))
    opened = ("문서", "(비교)", "Late", "", *(f"88.{digit}" for digit in "2459"))
    expected = dict.fromkeys(closed, "이") | dict.fromkeys(opened, "가")
    assert {text: ui_words.particle(text, "이", "가") for text in expected} == expected


def test_writes_small_numbers_without_exponent() -> None:
    numbers = (0.1666, 0.000015, 0.00002, 1.5e-5 / 2, 0.0, 1.25, 12.7, 1234.0, float("nan"))
    written = ["0.17", "0.000015", "0.00002", "0.0000075", "0", "1.2", "13", "1,234", "nan"]
    assert [ui_words.plain_number(number) for number in numbers] == written
