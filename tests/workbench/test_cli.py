"""The command line: help, completion and exit status of every command."""

import os
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App

from mrc_workbench.data.commands import ExitStatus
from mrc_workbench.data.workspace import PROJECT, project_version
from mrc_workbench.workbench.cli import _INTERNAL, COMMANDS, all_commands, main

WIDTH = 80
LOST = 'data = "sample"\nks = [1]\n[[retriever]]\nname = "lost"\nkind = "dense"\nmodel = "no such model!"\n'
WORDS = 'data = "sample"\nks = [1]\n[[retriever]]\nname = "words"\nkind = "bm25"\nanalyzer = "word"\n'
# invalid arguments for a command of every group, and for every command with a file or a reference
NOTHING_DONE = [
    *(["compare", "none.toml"], ["tune", "none.toml", "BM25"], ["show", "none"], ["report", "none", "--out", "out"]),
    *(["rename", "none", "new"], ["delete", "none"], ["export", "none", "BM25", "--to", "vespa", "--out", "out"]),
    *(["serve", "none"], ["encode", "--data", "none", "--model", "starter", "--out", "out"]),
    *(["train", "bi-encoder", "--data", "none"], ["sweep", "bi-encoder", "--data", "none"], ["ablate", "none.toml"]),
    *([*("runs", name), "none"] for name in ("stop", "resume", "use-best", "delete")),
    *(["data", "inspect", "none"], ["data", "import", "none"], ["data", "export", "none", "--out", "out.zip"]),
    *(["data", "generate", "none", "--by", "title"], ["pairs", "inspect", "none"], ["pairs", "import", "none"]),
    *(["dictionaries", "import", "none"], ["reading", "evaluate", "none.toml"]),
    ["reading", "score", "--data", "none", "--predictions", "none.json"],
    ["embeddings", "evaluate", "--data", "none", "--model", "starter"],
    *(["language", "compare-tokenizers", "--data", "none"], ["language", "import", "none"]),
]


def visible(app: App, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of every visible command and group."""
    for name in app:
        if not name.startswith("-") and app[name].show:
            yield (*path, name)
            if app[name].default_command is None:
                yield from visible(app[name], (*path, name))


PATHS = [*visible(all_commands())]
ALL = {" ".join(path) for path in PATHS}


def test_lists_every_command_of_the_table() -> None:
    assert [path[0] for path in PATHS if len(path) == 1] == [*COMMANDS]
    assert {"compare", "runs list", "train bi-encoder", "sweep cross-encoder", "data import", "reading score"} <= ALL


def test_maps_each_function_to_one_command() -> None:
    mrc = all_commands()
    functions = []
    for path in PATHS:
        app = mrc
        for name in path:
            app = app[name]
        if app.default_command is not None:
            functions.append(app.default_command)
    assert [function for function, count in Counter(map(id, functions)).items() if count > 1] == []


def test_accepts_earlier_name_for_inspecting_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for name in (["pairs", "inspect"], ["data", "inspect-pairs"]):
        assert main([*name, "sample-sts", "--json"]) == ExitStatus.DONE
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != ""
    assert "data inspect-pairs" not in ALL


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_prints_help_and_rejects_unknown_option(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*path, "--help"]) == ExitStatus.DONE
    captured = capsys.readouterr()
    assert captured.err == ""
    usage, _, summary, *_ = captured.out.splitlines()
    assert usage.startswith(f"Usage: mrc {' '.join(path)}")
    assert summary.endswith(".")
    assert "object at" not in captured.out
    assert "Options of every command" in captured.out
    if len(path) == 1:
        assert summary == COMMANDS[path[0]].summary
        assert main([*path, "--no-such-option"]) == ExitStatus.NOTHING_DONE
        assert capsys.readouterr().err.startswith("error: ")


def test_groups_commands_under_headings_in_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == ExitStatus.DONE
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= WIDTH
    headings = [entry.heading for entry in COMMANDS.values()]
    assert [line for line in lines if line in headings] == [*dict.fromkeys(headings)]
    for name, entry in COMMANDS.items():
        assert [line.split(maxsplit=1)[1] for line in lines if line.startswith(f"  {name} ")] == [entry.summary]
    assert "internal" not in "\n".join(lines)


@pytest.mark.slow
def test_help_imports_no_library() -> None:
    rooms = "('mrc_workbench.retrieval', 'mrc_workbench.training', 'mrc_workbench.labs', 'numpy', 'pandas', 'torch')"
    program = "import sys; from mrc_workbench.workbench.cli import main; main(['--help']); main(['comparre'])\n"
    program += f"print([name for name in sys.modules if name.startswith({rooms}) and name != 'mrc_workbench.labs'])"
    done = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_lists_internal_commands_of_jobs() -> None:
    internal = all_commands()["internal"]
    assert not internal.show
    for name in _INTERNAL:
        assert internal[name].default_command is not None


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_script_names_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == ExitStatus.DONE
    assert_names_every_command(capsys.readouterr().out)


def assert_names_every_command(script: str) -> None:
    assert [path for path in PATHS if path[-1] not in script.replace("\\", "")] == []
    assert "internal" not in script


def test_completes_commands_and_options_in_bash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == ExitStatus.DONE
    script = tmp_path / "mrc.bash"
    script.write_text(capsys.readouterr().out, encoding="utf-8")
    assert_names_every_command(script.read_text(encoding="utf-8"))
    program = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _mrc; echo "${COMPREPLY[@]}"'

    def completed(*words: str) -> list[str]:
        command = ["bash", "-c", program, str(script), "mrc", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    assert set(completed("")) >= set(COMMANDS)
    assert completed("co") == ["compare", "completion"]
    assert set(completed("runs", "")) >= {"list", "stop", "resume", "use-best", "delete", "push"}
    assert completed("export", "--to", "op") == ["opensearch"]
    assert "--learning-rate" in completed("train", "bi-encoder", "--lea")


def test_installs_completion_for_every_new_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["completion", "bash", "--install"]) == ExitStatus.DONE
    (script_path,) = [word.rstrip(":") for word in capsys.readouterr().out.split() if word.startswith(str(tmp_path))]
    assert "complete -F _mrc mrc" in Path(script_path).read_text(encoding="utf-8")
    assert script_path in (tmp_path / ".bashrc").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["comparre", "x"], "unknown command 'mrc comparre': did you mean 'compare'?"),
        (["data", "imprt", "x"], "unknown command 'mrc data imprt': did you mean 'import'?"),
        (["retrieval", "list"], "unknown command 'mrc retrieval': `mrc --help` lists the commands"),
        (["runs", "x"], "unknown command 'mrc runs x': `mrc runs --help` lists the commands"),
    ],
)
def test_suggests_nearest_command(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == ExitStatus.NOTHING_DONE
    assert capsys.readouterr().err == f"error: {message}\n"


@pytest.mark.parametrize("words", NOTHING_DONE, ids=" ".join)
def test_returns_status_2_if_nothing_runs(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == ExitStatus.NOTHING_DONE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert "Traceback" not in captured.err
    assert not (tmp_path / "out").exists()


def test_returns_status_1_for_failed_retriever_or_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(LOST, encoding="utf-8")
    assert main(["compare", str(path)]) == ExitStatus.FAILED
    assert "lost failed: " in capsys.readouterr().err
    path.write_text(WORDS, encoding="utf-8")
    assert main(["compare", str(path), "--at-least", "recall@1=1.0"]) == ExitStatus.FAILED
    assert main(["compare", str(path), "--at-least", "recall@1=0.0"]) == ExitStatus.DONE


def test_prints_version_in_checkout_and_installed_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--version"]) == ExitStatus.DONE
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert capsys.readouterr().out == f"{project['version']}\n"
    monkeypatch.setattr("mrc_workbench.data.workspace.PROJECT", tmp_path)
    monkeypatch.setattr("importlib.metadata.version", lambda name: f"{name} 9.9")
    assert project_version() == "mrc-workbench 9.9"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="pipes are those of Unix")
def test_ends_quietly_if_output_is_closed() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "mrc_workbench", "completion", "bash"]
    with os.fdopen(writing, "wb") as output:
        done = subprocess.run(
            command, cwd=PROJECT, stdout=output, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )
    assert (done.returncode, done.stderr) == (ExitStatus.OUTPUT_CLOSED, "")
