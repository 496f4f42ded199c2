"""A lab is one folder: a new folder adds pages, commands and results; the program works without a removed folder."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mrc_workbench.data.workspace import PROJECT
from tests.programs import run_module

pytestmark = pytest.mark.slow
COMMANDS = """
import io, json, sys
from contextlib import redirect_stdout
from mrc_workbench.workbench.cli import main
outputs = []
for words in json.loads(sys.argv[1]):
    with redirect_stdout(io.StringIO()) as output:
        status = main(words)
    assert not status, words
    outputs.append(output.getvalue())
print(json.dumps(outputs))
"""
ROOMS = ("mrc_workbench", "data", "models", "retrieval", "training", "labs", "workbench")
ARCHITECTURE = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
LAB = {  # the documented lab, with a fraction
    "__init__.py": '"""How long the passages of a dataset are."""\n',
    "lab.toml": 'summary = "Measure how long passages are."\nicon = "straighten"\n',
    "words.en.toml": '[page]\nlengths = "Passage lengths"\n[lengths]\npurpose = "How long are the passages?"\n',
    "words.ko.toml": '[page]\nlengths = "지문 길이"\n[lengths]\npurpose = "지문은 얼마나 길까요?"\n',
    "study.py": re.search("^# labs/lengths/study.py\n.*?(?=^```)", ARCHITECTURE, re.M | re.S)[0]  # type: ignore[index]
    .replace('"passages": result.counts}', '"passages": result.counts, "share": result.counts / result.counts.sum()}')
    .replace(
        's", ColumnUnit.COUNT))',
        's", ColumnUnit.COUNT), Column("share", ColumnUnit.FRACTION, 1))',
    ),
}
PAGE = """
import json, time
from streamlit.testing.v1 import AppTest

def page():
    from mrc_workbench.workbench.views.navigation import PAGES
    from mrc_workbench.workbench.views.resources.sets import require_set
    require_set()
    import streamlit as st
    page = next(page for page in PAGES if page.name == "lengths")
    st.caption(page.title)
    from importlib import import_module
    import_module("mrc_workbench.workbench.views.study").draw(page.lab)

app = AppTest.from_function(page, default_timeout=60)
app.query_params["lang"] = "ko"
app.run()
assert not app.exception, app.exception
app.button[0].click().run()
until = time.monotonic() + 60
while not app.dataframe and time.monotonic() < until:
    time.sleep(0.2)
    app.run()
table = app.dataframe[0].value
print(json.dumps({
    "title": app.title[0].value, "page": app.caption[0].value, "passages": table["passages"].tolist(),
    "charts": len(app.get("vega_lite_chart")), "downloads": [button.label for button in app.get("download_button")],
}))
"""
PROGRAM = """
import importlib, json, sys
from pathlib import Path
from streamlit.testing.v1 import AppTest
from mrc_workbench.workbench.views.navigation import PAGES

def page(name):
    from importlib import import_module
    from mrc_workbench.workbench.views.navigation import PAGES
    from mrc_workbench.workbench.views.resources.sets import require_set
    require_set()
    import_module(next(page for page in PAGES if page.name == name).module).draw()

rooms = sys.argv[1].split(",")
names = [
    ".".join(["mrc_workbench", *path.with_suffix("").parts]).removesuffix(".__init__")
    for room in rooms if room != "mrc_workbench" for path in Path(room).rglob("*.py")
    if "scripts" not in path.parts
]
for name in names:
    importlib.import_module(name)
drawn = {}
for opened in PAGES:
    app = AppTest.from_function(page, args=(opened.name,), default_timeout=60).run()
    assert not app.exception, (opened.name, app.exception)
    drawn[opened.name] = len(app.main)
print(json.dumps({"folder": [*sys.modules["mrc_workbench.training"].__path__], "modules": len(names), "pages": drawn}))
"""


def copy_program(folder: Path) -> Path:
    """Copy the program, as a checkout has it, into a folder."""
    for room in ROOMS:
        shutil.copytree(PROJECT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__", "*.nbc", "*.nbi"))
    shutil.copy(PROJECT / "app.py", folder / "app.py")
    shutil.copy(PROJECT / "pyproject.toml", folder / "pyproject.toml")
    return folder


def run_script(program: Path, script: str, *words: str, workspace: Path) -> Any:
    """Run a script with a copy of the program in a separate workspace; returns the JSON that it prints last."""
    (program / "script.py").write_text(script, encoding="utf-8")
    command = ("tests.labs.copied_program", program, "script.py", *words)
    done = run_module(*command, environment={"MRC_WORKSPACE": str(workspace)})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copy_program(tmp_path_factory.mktemp("program"))
    (folder / "labs" / "lengths").mkdir()
    for name, content in LAB.items():
        (folder / "labs" / "lengths" / name).write_text(content, encoding="utf-8")
    return folder


def test_command_runs_stores_reports_renames_and_deletes(program: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = ("lengths", "run", "--data", "sample", "--bars", "2")
    listing = ("lengths", "list", "--json")
    commands = (("--help",), ("lengths", "run", "--help"), (*run, "--out", str(out)), listing, (*run, "--json"))
    helped, described, printed, listed, again = run_script(program, COMMANDS, json.dumps(commands), workspace=tmp_path)
    assert "lengths" in helped
    assert "number of bars" in described
    lines = printed.splitlines()
    assert lines[0].split() == ["passages", "share", "(%)"]
    rows = [line.split() for line in lines[1:3]]
    counts = [int(row[1].replace(",", "")) for row in rows]
    assert [float(row[2]) for row in rows] == [round(100 * count / sum(counts), 1) for count in counts]
    report = (out / "report.md").read_text(encoding="utf-8")
    assert "- bars: 2" in report
    assert f"| {counts[0]:,} |" in report
    assert (out / "histogram.csv").read_text(encoding="utf-8-sig").startswith("upto,passages,share")
    (stored,) = json.loads(listed)
    assert json.loads(again) == json.loads((Path(stored["folder"]) / "scores.json").read_text(encoding="utf-8"))
    changes = (("rename", stored["key"], "two bars"), ("show", "two bars"), ("delete", "two bars"))
    commands = (*(("lengths", *words) for words in changes), listing)
    _, displayed, _, listed = run_script(program, COMMANDS, json.dumps(commands), workspace=tmp_path)
    assert "share (%)" in displayed
    assert json.loads(listed) == []


def test_refused_options_name_the_field(program: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "mrc_workbench", "lengths", "run", "--data", "sample", "--bars", "0"]
    environment = {**os.environ, "MRC_WORKSPACE": str(tmp_path), "PYTHONPATH": str(program)}
    done = subprocess.run(words, cwd=program, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "bars" in done.stderr
    assert "greater than or equal to 1" in done.stderr


def test_page_starts_the_job_and_shows_table_chart_and_downloads(program: Path, tmp_path: Path) -> None:
    page_content = run_script(program, PAGE, workspace=tmp_path)
    assert (page_content["title"], page_content["page"]) == ("지문은 얼마나 길까요?", "지문 길이")
    assert len(page_content["passages"]) == 10
    assert sum(page_content["passages"]) == 200
    assert page_content["charts"] == 1
    assert page_content["downloads"] == ["표 내려받기 (CSV)", "보고서 내려받기"]


def test_program_works_without_the_language_lab(tmp_path: Path) -> None:
    program = copy_program(tmp_path / "program")
    shutil.rmtree(program / "labs" / "language")
    counts = run_script(program, PROGRAM, ",".join(ROOMS), workspace=tmp_path)
    assert counts["folder"] == [str(program / "training")]
    assert counts["modules"] > 200
    assert counts["pages"].keys() == {"compare", "data", "train", "search", "answers", "embeddings"}
    assert all(counts["pages"].values())
    commands = (("--help",), ("train", "language-model", "--help"))
    helped, described = run_script(program, COMMANDS, json.dumps(commands), workspace=tmp_path)
    assert "Compare tokenizers" not in helped
    assert "masked" in described
