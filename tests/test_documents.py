"""The documents are correct: commands exist, examples run, links resolve, and both READMEs have the same content."""

import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cyclopts import App
from pydantic import BaseModel

from mrc_workbench.data.store import find
from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.labs.reading.evaluate import ReadingExperiment
from mrc_workbench.retrieval.comparison import experiment as experiment_file
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, read_experiment
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.training.ablation import AblationExperiment
from mrc_workbench.workbench.cli import COMMANDS, all_commands, main
from tests.doubles import PASSAGES, small_set
from tests.retrieval.test_contract import check_contract, makers

DOCS = PROJECT / "docs"
READMES = [PROJECT / "README.md", PROJECT / "README.ko.md"]
PAGES = [*READMES, PROJECT / "CONTRIBUTING.md", PROJECT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
WRITTEN = {"reference/commands.md", "reference/experiment.md", "reference/training.md", "changelog.md"}
ROOMS = ("data", "models", "retrieval", "training", "labs", "workbench", "benchmarks", "docs", "tests", "mrc_workbench")
# programs of others: what follows them is not looked at, but for paths
OTHERS = ("pip", "pre-commit", "docker", "export", "rsync", "systemctl", "git", "curl", "ip", "milvus-lite", "cd")


def blocks(kind: str, pages: list[Path] = PAGES) -> list[Any]:
    """The blocks of a kind, each once, called by its page and line."""
    parameters: dict[str, Any] = {}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for block in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            if block[1] == kind:
                line = text.count("\n", 0, block.start()) + 1
                parameters.setdefault(block[2], pytest.param(block[2], id=f"{page.relative_to(PROJECT)}:{line}"))
    return [*parameters.values()]


def command_lines(block: str) -> list[list[str]]:
    """The words of each command: `[--flag]` is as good as `--flag`, and `A && B` is two."""
    lines = block.replace("\\\n", " ").splitlines()
    words = [shlex.split(re.sub(r"\[(--.*?)\]", r"\1", line), comments=True) for line in lines]
    return [part for line in words for part in _commands(line) if part]


def _commands(words: list[str]) -> list[list[str]]:
    commands: list[list[str]] = [[]]
    for word in words:
        if word in ("&&", "|"):
            commands.append([])
        elif not (re.fullmatch(r"[A-Z_]+=.*", word) and not commands[-1]):
            commands[-1].append(word.removesuffix(";").removesuffix("..."))
    return commands


def require_known(words: list[str]) -> None:
    """Fail where words are no command of this project, or of one that is known here."""
    program = Path(words[0]).name
    if "-m" in words and program in ("python", "torchrun"):
        at = words.index("-m")
        require_module(words[at + 1], words[at + 2 :])
    elif program == "mrc":
        require_command(words[1:])
    elif program == "make":
        assert re.search(rf"^{words[1]}:", (PROJECT / "Makefile").read_text(), re.MULTILINE), words
    elif program == "streamlit":
        assert words[1:] == ["run", "app.py"]
    elif words[:2] == ["python", "engine.py"]:  # of a folder that is taken away
        assert words[2] in ("load", "check", "ask")
    elif words[:2] == ["python", "-c"]:
        compile(words[2], "<document>", "exec")
    else:
        assert program in OTHERS, words
    for word in words:
        if word.startswith("docs/"):
            assert (PROJECT / word).exists(), word


def require_module(module: str, words: list[str]) -> None:
    if module == "benchmarks":  # not imported: it reads what every benchmark needs
        assert set(words) <= benchmarks()
        return
    assert module == "mrc_workbench"
    require_command(words)


def benchmarks() -> set[str]:
    """Every word of the benchmarks' command, their names among them."""
    return set(re.findall(r"\w+", (PROJECT / "benchmarks" / "__main__.py").read_text(encoding="utf-8")))


@cache
def mrc() -> App:
    return all_commands()


def require_command(words: list[str]) -> None:
    mrc().parse_args(words, exit_on_error=False, print_error=False)


def require_named(text: str, source: Path) -> None:
    """Fail if a text names a command that does not exist, as `mrc NAME` or `python -m mrc_workbench NAME NAME`."""
    for name, command in re.findall(r"(?:`mrc|-m mrc_workbench) ([a-z][\w-]*)(?: ([a-z][\w-]*))?", text):
        assert name in COMMANDS, (source, name)
        if command and mrc()[name].default_command is None:
            assert command in mrc()[name], (source, name, command)


def test_readme_is_a_page() -> None:
    for page in READMES:
        assert len(page.read_text(encoding="utf-8").splitlines()) <= 200


def test_both_readmes_say_the_same() -> None:
    english, korean = (re.sub(r" +# .*", "", page.read_text(encoding="utf-8")) for page in READMES)  # less remarks
    korean = korean.replace("tutorial.ko.md", "tutorial.md")
    for pattern in (r"^(#+) ", r"^```.*?^```$", r"\]\((?!README)([^)]*)\)"):
        flags = re.MULTILINE | re.DOTALL if "`" in pattern else re.MULTILINE
        assert re.findall(pattern, english, flags) == re.findall(pattern, korean, flags)
    rows = [re.findall(r"^\|[^|]*(\|.*\|)$", text, re.MULTILINE) for text in (english, korean)]
    assert len(rows[0]) == len(rows[1])
    numbers = [[re.findall(r"\d+\.\d\d", row) for row in side if re.search(r"\d\.\d", row)] for side in rows]
    assert numbers[0] == numbers[1]
    assert len(numbers[0]) == 7


@pytest.mark.parametrize("block", blocks("bash"))
def test_commands_are_commands(block: str) -> None:
    for words in command_lines(block):
        require_known(words)


def test_commands_in_sentences_are_commands() -> None:
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for name in re.findall(r"`python -m benchmarks ([a-z][\w-]*)[^`]*`", text):
            require_module("benchmarks", [name])
        require_named(text, page)


def test_commands_in_the_app_and_in_messages_are_commands() -> None:
    rooms = [PROJECT / room for room in ("data", "models", "retrieval", "training", "labs", "workbench")]
    files = [path for room in rooms for kind in ("py", "toml", "html", "jinja") for path in room.rglob(f"*.{kind}")]
    texts = {path: path.read_text(encoding="utf-8").replace("mrc internal ", "") for path in files}
    assert sum("mrc_workbench data import" in text for text in texts.values()) == 2  # the Data page in two languages
    for path, text in texts.items():
        require_named(text, path)


@pytest.mark.parametrize("block", blocks("toml"))
def test_experiment_files_are_read(block: str) -> None:
    values = tomllib.loads(block)
    if "auth" in values or "project" in values:  # of Streamlit, or of a package
        return
    kind: type[BaseModel] = Experiment
    if "language_model" in values:
        kind = AblationExperiment
    elif "reader" in values or "generator" in values:
        kind = ReadingExperiment
    if kind is Experiment:
        values.setdefault("data", "sample")
    kind.model_validate(values)


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks("toml", READMES))
def test_the_readme_s_experiment_is_run(block: str, tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(block, encoding="utf-8")
    experiment = read_experiment(path)
    comparison = compare(experiment, find(experiment.data))
    assert [result.error for result in comparison.results] == [None] * len(experiment.retriever)


@pytest.mark.parametrize("block", [*blocks("csv"), *blocks("json"), *blocks("text")])
def test_files_are_read(block: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    is_pairs = block.startswith("sentence1")
    is_dictionary = block.startswith("#")
    path = tmp_path / ("words.txt" if is_dictionary else "file.json" if block.startswith("{") else "file.csv")
    head, _, rows = block.partition("\n")
    path.write_text(f"{head}\n{rows * 5}" if is_pairs else block, encoding="utf-8")  # a set of pairs has ten
    if is_dictionary:
        assert main(["dictionaries", "import", str(path)]) == 0
        return
    assert main(["pairs" if is_pairs else "data", "inspect", str(path)]) == 0
    output = capsys.readouterr().out
    assert "Problems: none" in output


def examples(file: str) -> list[Any]:
    """The Python blocks whose first line names a file like this one."""
    return [block for block in blocks("python") if block.values[0].startswith(f"# {file}")]


def test_every_python_block_is_run_by_a_test() -> None:
    assert len(blocks("python")) == len([*examples("retrieval/"), *examples("labs/")])


@pytest.mark.slow
@pytest.mark.parametrize("block", examples("labs/"))
def test_a_lab_is_added(block: str) -> None:
    names: dict[str, Any] = {}
    exec(compile(block, "<document>", "exec"), names)  # noqa: S102 - an example of ours
    study = names["STUDY"]
    job = study.job(study.spec(data="sample"))
    job.folder.mkdir(parents=True)
    job.write_spec(study.spec(data="sample"))
    assert job.run() == 0, job.status().message
    (table,) = study.tables
    assert table.rows(job.load())["passages"].sum() == len(find("sample").passages)


@pytest.mark.slow
@pytest.mark.parametrize("block", examples("retrieval/"))
def test_a_retriever_is_added(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps the contract of all, is read from a file, and compared."""
    names: dict[str, Any] = {}
    exec(compile(block, "<document>", "exec"), names)  # noqa: S102 - an example of ours
    (added,) = (cls for cls in names.values() if isinstance(cls, type) and issubclass(cls, Spec) and cls is not Spec)
    monkeypatch.setattr(experiment_file, "KINDS", (*experiment_file.KINDS, added))
    kind = added.model_fields["kind"].default
    make = makers()[f"{kind} kind"]
    check_contract(make(PASSAGES), make(PASSAGES), PASSAGES, 3)
    path = tmp_path / "experiment.toml"
    path.write_text(f'data = "small"\n[[retriever]]\nname = "Added"\nkind = "{kind}"\n', encoding="utf-8")
    comparison = compare(read_experiment(path), small_set())
    assert [result.error for result in comparison.results] == [None]
    assert comparison.scores["Added"].means()["hit@1"] > 0.5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if not link.startswith(("http:", "https:")):
            target = (page.parent / link).resolve()
            assert target.exists() or str(target).removeprefix(f"{DOCS}/") in WRITTEN, link
    before = ("text", "chat", "questions", "jobs", "embeddings", "language", "reading", "serving", "views")
    rooms = "|".join((*ROOMS, *(() if page.name == "CHANGELOG.md" else before)))
    for path in re.findall(rf"`((?:{rooms})/[\w./-]*)`", text):
        assert (PROJECT / path).exists(), path


def test_measured_sections_have_a_benchmark() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        names = re.findall(r"<!-- bench: (\w+) -->", text)
        assert len(names) == text.count("<!-- /bench -->")
        assert set(names) <= benchmarks(), page


def test_architecture_names_every_requirement() -> None:
    architecture = (DOCS / "architecture.md").read_text(encoding="utf-8").lower()
    for path in (PROJECT / "requirements.txt", *(PROJECT / "requirements").glob("*.txt")):
        for name in re.findall(r"^([A-Za-z0-9_.-]+)(?:\[\w+\])?==", path.read_text(), re.MULTILINE):
            assert re.search(rf"\b{re.escape(name.lower())}\b", architecture), f"{name} of {path.name}"


@pytest.mark.slow
def test_builds_the_site_without_external_requests(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the documents' own requirements are not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        html = page.read_text(encoding="utf-8")
        external_urls = re.findall(r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=[\"']?(https?:[^\"' >]+)", html)
        assert not external_urls, (page.name, external_urls)
        assert 'class="mermaid"' not in html  # the theme would ask for its library elsewhere
    commands = (tmp_path / "site" / "reference" / "commands.html").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f'id="mrc-{name}"' in commands
