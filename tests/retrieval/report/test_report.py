"""The report, its scales and its pictures."""

import re
import string
import subprocess
import sys
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.retrieval.analysis.evidence import evidence
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.measures import Measure
from mrc_workbench.retrieval.report import charts
from mrc_workbench.retrieval.report import report as report_module
from mrc_workbench.retrieval.report.words import LANGUAGES, catalog, kind_label, recommend, translator
from mrc_workbench.retrieval.significance import question_groups
from tests.doubles import small_set
from tests.retrieval.compared import LATE, NONE, RIGHT, comparison_of, many_questions, partly_judged, repeated

pytestmark = pytest.mark.slow
USE = r"Use right: nDCG@10 100\.0"
POINTS = [(0.01236, "+1.24"), (-0.5, "−50.00"), (0.0, "0.00"), (-0.0, "0.00"), (-0.00002, "0.00")]
NO_OTHER = "no other retriever is significantly better"
HOSTILE = '<script>alert("x")</script>&amp;<img src=x onerror=alert(1)>{{ 7919 * 7907 }}{name}'


class Page(HTMLParser):
    """Every tag with its attributes, every text, and the tables as rows of cells."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.tables: list[list[list[str]]] = []
        self._within_cell = False
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._within_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._within_cell = False

    def handle_data(self, text: str) -> None:
        self.texts.append(text)
        if self._within_cell:
            self.tables[-1][-1][-1] += text + " "

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without pictures, which take a process: for tests of the text alone."""
    monkeypatch.setattr(charts, "render_svgs", lambda specifications: [None] * len(specifications))


@cache
def report_html(language: str) -> str:
    return report_module.report(many_questions()[1], language)


def hostile() -> Comparison:
    passages = (Passage("p1", HOSTILE, HOSTILE), Passage("p2", "둘째 지문", HOSTILE + "2"))
    relevant = enumerate(("p2", "p1") * 3)
    questions = tuple(
        Question(f"q{row}", f"{HOSTILE} {row}", (), (id_,), f"{HOSTILE}{row % 2}") for row, id_ in relevant
    )
    question_set = QuestionSet(HOSTILE, passages, questions)
    return comparison_of({HOSTILE: [[0, 1]] * 6, "other " + HOSTILE: [[1, 0]] * 6, HOSTILE + "!": None}, question_set)


@pytest.mark.parametrize("language", LANGUAGES)
def test_escapes_user_texts(language: str) -> None:
    page = Page(report_module.report(hostile(), language, name=HOSTILE))
    allowed = {"html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "b", "span", "div"}
    allowed |= {"table", "thead", "tbody", "tr", "th", "td", "small", "figure", "details", "summary", "dl", "dt", "dd"}
    allowed |= {"ul", "li", "svg", "g", "path", "rect", "text", "line", "defs", "clippath"}
    assert {tag for tag, _ in page.tags} <= allowed
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert page.text.count(HOSTILE) > 20
    assert str(7919 * 7907) not in page.text  # no template of theirs was carried out


@pytest.mark.parametrize("language", LANGUAGES)
def test_loads_no_external_resources(language: str) -> None:
    html = report_html(language)
    page = Page(html)
    for tag, attributes in page.tags:
        assert not {"src", "href", "srcset", "data", "action", "poster"} & set(attributes), tag
    assert "url(" not in html
    assert "@import" not in html
    names = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"https?://[^\"' <]*", html)) <= names
    policy = next(attributes for tag, attributes in page.tags if attributes.get("http-equiv"))
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'"


@pytest.mark.parametrize("language", LANGUAGES)
def test_displays_metrics(language: str) -> None:
    statistics = evidence(many_questions()[1])
    page = Page(report_html(language))
    metric_table, hits, pairs, *_ = page.tables
    assert metric_table[0][1:] == ["R@1 ", "R@3 ", "MRR@10 ", "nDCG@10 "]
    rows = {row[0].strip(): row[1:] for row in metric_table[1:]}
    low, high = (f"{share * 100:.1f}" for share in statistics.intervals["late"]["recall@1"])
    assert rows["late"][0].split() == ["8.33", "▼", f"{low}–{high}"]
    assert [cell.strip() for cell in rows["lost"]] == ["–"] * 4
    assert hits[0][1:] == ["Hit@1 ", "Hit@3 "]  # some questions have two relevant passages
    test = statistics.test("late", "ndcg@10")
    assert test is not None
    cells = [cell.strip() for cell in pairs[1]]
    assert cells[:2] == ["late", "right"]
    interval = f"{report_module.format_points(test.low)} ~ {report_module.format_points(test.high)}"
    assert cells[2:5] == [report_module.format_points(test.difference), interval, "< 0.001"]
    assert cells[5] == f"{test.wins} / {test.ties} / {test.losses}"
    assert "lost" not in {cell.strip() for row in pairs for cell in row}


def test_charts_use_text_colour_of_theme() -> None:
    html = report_html("ko")
    assert html.count("<svg") >= 3
    assert 'fill="currentColor"' in html
    assert 'fill="white"' not in html
    assert "prefers-color-scheme: dark" in html
    assert "질문 길이(글자)" in Page(html).text


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("rows_by_retriever", "sentence"),
    [
        ({"late": LATE, "right": RIGHT}, rf"{USE}; 32\.1 points above late \(95%: [\d.]+ to [\d.]+\)\."),
        ({"right": RIGHT, "late": LATE}, rf"{USE}; {NO_OTHER}\."),
        ({"right": RIGHT, "same": RIGHT}, rf"{USE}, not significantly different from same; {NO_OTHER}\."),
        ({"right": RIGHT}, r"right: nDCG@10 100\.0 \(95%: [\d.]+ to 100\.0\)\."),
        ({"right": None}, r"No retriever could be measured\."),
    ],
)
def test_headline_states_significance(rows_by_retriever: dict[str, list[list[int]] | None], sentence: str) -> None:
    many, _ = many_questions()
    rows = {name: of and repeated(of) for name, of in rows_by_retriever.items()}
    answers = re.findall(r'<div class="answer">(.*?)</div>', report_module.report(comparison_of(rows, many), "en"))
    assert len(answers) == 1
    assert re.fullmatch(sentence, re.sub(" ([:,])", r"\1", Page(answers[0]).text))


def test_headline_uses_ndcg_if_available_for_all() -> None:
    assert str(report_module.leading_measure(comparison_of({"right": RIGHT}, ks=(1, 10)))) == "ndcg@10"
    assert str(report_module.leading_measure(comparison_of({"right": RIGHT}, ks=(1, 3), depth=3))) == "ndcg@3"


@pytest.mark.usefixtures("undrawn")
def test_report_follows_recommendation() -> None:
    comparison = many_questions()[1]
    statistics = evidence(comparison)
    groups = question_groups(comparison.question_set)
    measure = Measure("recall", 1)
    recommended = recommend(comparison, measure, statistics.tests, baseline="late", groups=groups)
    page = Page(report_module.report(comparison, "en", evidence=evidence(comparison, "late"), recommended=recommended))
    sentence = "Use right: Recall@1 91.7, not significantly different from same; 83.3 points above late"
    assert sentence in re.sub(" ([:,])", r"\1", page.text)
    assert [row[0].strip() for row in page.tables[0][1:]] == ["right", "same", "late", "lost"]  # best first


@pytest.mark.usefixtures("undrawn")
def test_translates_default_names() -> None:
    many, _ = many_questions()
    rows = {"BM25": repeated(LATE), "Late": repeated(RIGHT), "Best mix": repeated(RIGHT)}
    comparison = comparison_of(rows, many)
    korean, english = (Page(report_module.report(comparison, language)) for language in ("ko", "en"))
    sentence = "후기 상호작용 방식을 쓰세요: nDCG@10 100.0. 최적 혼합 방식과 유의한 차이가 없습니다"
    assert sentence in re.sub(" ([:,.])", r"\1", korean.text)
    for table in korean.tables:
        assert not {"Late", "Best mix"} & {cell.strip() for row in table for cell in row}
    assert [row[0].strip() for row in korean.tables[0][1:]] == ["후기 상호작용", "최적 혼합", "BM25"]
    assert [row[0].strip() for row in english.tables[0][1:]] == ["Late", "Best mix", "BM25"]


@pytest.mark.usefixtures("undrawn")
def test_marks_times_of_another_machine() -> None:
    comparison = many_questions()[1]
    first, *others = comparison.results
    marked = replace(comparison, results=(replace(first, elsewhere_seconds=first.query_seconds), *others))
    text = report_module.report(marked, "en")
    assert "12.5*" in text
    note = catalog("en")["section.cost_elsewhere"]
    assert note in text
    assert note not in report_module.report(comparison, "en")


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(("language", "name"), [("en", "Korean sample"), ("ko", "한국어 샘플")])
def test_translates_sample_name(language: str, name: str) -> None:
    sample = replace(small_set(), name="Korean sample")
    text = report_module.report(comparison_of({"right": RIGHT}, sample), language)
    assert f'<p class="soft">{name}: ' in text


@pytest.mark.usefixtures("undrawn")
def test_displays_warnings() -> None:
    compared = comparison_of({"right": RIGHT, "lost": None, "late": LATE})
    results = list(compared.results)
    results[0] = replace(results[0], incomplete=3, unanswered=1)
    specs = list(compared.experiment.retriever)
    specs[2] = specs[2].model_copy(update={"selected_on": Part.VALIDATION})
    experiment = compared.experiment.model_copy(update={"retriever": tuple(specs)})
    text = Page(report_module.report(Comparison(experiment, compared.question_set, tuple(results)), "en")).text
    assert "lost could not be measured and has no score: it is <lost>" in text.replace("  ", " ")
    assert "Questions with fewer than 10 results: right 3." in text
    assert "Questions without any result (counted as misses): right 1." in text
    assert "The settings of late were chosen on questions that are scored here (validation part)" in text


@pytest.mark.usefixtures("undrawn")
def test_names_rankings_too_shallow_for_metrics() -> None:
    short = comparison_of({"short": RIGHT}, depth=3)
    notice = translator("ko")("notice.shallow_retrievers", name="short", depth="3", needed="5")
    assert notice in report_module.report(short, "ko")
    assert notice not in report_module.report(comparison_of({"short": RIGHT}), "ko")


@pytest.mark.usefixtures("undrawn")
def test_reports_unjudged_results_if_judgements_exist() -> None:
    say = translator("ko")
    compared = partly_judged()[1]
    text = report_module.report(compared, "ko")
    notice = say("notice.behind", name="unknown", best="known", share="60", of_best="100")
    for expected in (notice, say("section.judged"), *(say(f"term.{name}") for name in ("ndcg_exp", "judged", "bpref"))):
        assert expected in text
    assert "<th>Judged@10</th>" in text
    assert say("section.judged") not in report_module.report(many_questions()[1], "ko")
    higher = replace(compared, experiment=compared.experiment.model_copy(update={"relevance_level": 2}))
    assert say("notice.relevance_level", grade=2) in report_module.report(higher, "ko")
    assert say("notice.relevance_level", grade=1) not in text


@pytest.mark.usefixtures("undrawn")
def test_warns_about_synthetic_questions() -> None:
    small = small_set()
    first, *others = small.questions
    partly_synthetic = replace(small, questions=(replace(first, generator="sentence", hidden=True), *others))
    compared = (comparison_of({"A": RIGHT}, dataset) for dataset in (partly_synthetic, small))
    synthetic_html, original_html = (report_module.report(comparison, "ko") for comparison in compared)
    words = catalog("ko")["notice.synthetic_questions"].split("<b>")[1].split("</b>")[0]
    assert words in synthetic_html
    assert words not in original_html


@pytest.mark.usefixtures("undrawn")
def test_lists_hardest_questions_first() -> None:
    compared = comparison_of({"right": RIGHT, "none": NONE, "late": LATE})
    *_, hardest, _ = Page(report_module.report(compared, "en")).tables
    assert [cell.strip() for cell in hardest[0][2:]] == ["right", "none", "late"]
    ranks = [[cell.strip() for cell in row[2:]] for row in hardest[1:]]
    assert all(row == ["1", "–", "2"] for row in ranks[:5])
    assert ranks[5] == ["1", "–", "1"]
    assert hardest[6][0].strip() == small_set().questions[5].text


def test_labels_question_types_as_on_page() -> None:
    say = translator("ko")
    assert kind_label("paraphrase", say) == "바꿔 쓴 표현"
    assert kind_label("a type of their own", say) == "a type of their own"


@pytest.mark.usefixtures("undrawn")
def test_compares_many_retrievers_with_baseline_only() -> None:
    compared = comparison_of({f"r{number}": RIGHT if number % 2 else LATE for number in range(9)})
    page = Page(report_module.report(compared, "en"))
    assert "Only the pairs with r0 are listed" in page.text
    assert len(page.tables[2]) == 1 + 8  # after figures and hits: a head and the pairs with the first


@pytest.mark.parametrize(("share", "text"), POINTS)
def test_zero_difference_has_no_sign(share: float, text: str) -> None:
    assert report_module.format_points(share) == text


def test_rejects_unknown_language() -> None:
    with pytest.raises(ValueError, match="in en or ko, not in 'de'"):
        report_module.report(comparison_of({"right": RIGHT}), "de")


def test_languages_share_keys_fields_and_tags() -> None:
    english = catalog("en")
    korean = catalog("ko")
    assert list(english) == list(korean)
    for key, text in english.items():
        assert fields(text) == fields(korean[key]), key
        assert sorted(re.findall(r"</?\w+>", text)) == sorted(re.findall(r"</?\w+>", korean[key])), key


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_uses_every_text_key() -> None:
    folder = Path(report_module.__file__).parent
    written = "".join(path.read_text(encoding="utf-8") for path in [*folder.glob("*.py"), folder / "template.html"])
    # say(f"part.{…}")
    computed = ["part.", "headline.", "retriever.", "property.", "fate.", "term.", "notice."]
    computed += ["question_kind.", "split."]
    for key in catalog("en"):
        section = key.split(".")[0] + "."
        assert f'"{key}"' in written or section in computed, key
    assert all(f'"{prefix}' in written for prefix in computed)


@pytest.mark.usefixtures("undrawn")
def test_report_survives_failed_chart() -> None:
    html = report_module.report(hostile(), "en")
    assert html.count("This chart could not be drawn.") >= 3
    assert "<svg" not in html
    assert Page(html).tables


def bars(text: str) -> dict[str, Any]:
    encoding = {"y": {"field": "name", "type": "nominal"}, "x": {"field": "value", "type": "quantitative"}}
    return {"data": {"values": [{"name": text, "value": 1}]}, "mark": "bar", "encoding": encoding}


def test_renders_hostile_texts_and_skips_invalid_chart() -> None:
    texts = ["\x01\x08\x0b\x0c\x1b[2J\x1f\ufffe\uffff", "\ud800", "\x00", "after"]
    *rendered, failed = [svg or "" for svg in charts.render_svgs([*map(bars, texts), {"mark": "none"}])]
    assert ["�" in svg for svg in rendered] == [True, True, True, False]
    assert ">after</text>" in rendered[3]
    assert failed == ""
    assert charts.render_svgs([]) == []


def test_restarts_renderer_after_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a character that the renderer does not survive."""
    monkeypatch.setattr(charts, "_sanitized", lambda value: value)
    rendered = charts.render_svgs([bars("a"), bars("종류\x1b"), bars("b"), bars("c")])
    assert [svg is not None for svg in rendered] == [True, False, True, True]


def test_gives_up_on_hanging_renderer(monkeypatch: pytest.MonkeyPatch) -> None:
    run = subprocess.run

    def stuck(_: list[str], **more: Any) -> Any:
        return run([sys.executable, "-c", "import time; time.sleep(60)"], **more | {"timeout": 0.5})

    monkeypatch.setattr(subprocess, "run", stuck)
    assert charts.render_svgs([bars("a")]) == [None]
