"""Pages that are generated at build time: commands, experiment files and options, from their types.

mkdocs calls `on_files` (`hooks` in mkdocs.yml). Descriptions of flags and fields come from the program; only one
sentence at the head of each page is written by hand.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from enum import StrEnum
from inspect import Parameter, cleandoc
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from cyclopts import App, Argument
from docstring_parser import parse
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic import BaseModel
from pydantic.fields import FieldInfo

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from mrc_workbench.training.options import TrainingOptions  # noqa: E402
from mrc_workbench.training.recipes import RECIPES  # noqa: E402
from mrc_workbench.workbench.cli import COMMANDS, all_commands  # noqa: E402

_MAX_REPEATED_ROWS = 3  # rows of a table that may stand again
_TYPE_LABELS = {int: "a number", float: "a number", str: "text", bool: "`true` or `false`", Path: "a path"}
_COMMANDS_HEAD = """\
# Commands

Every command is `mrc`, which `pip install .` installs; in a checkout it is `python -m mrc_workbench`. `--help` after
any command prints its part of this page, and `-v` shows messages of the libraries. The exit status is 0 when the
command is done, 1 when a retriever, model or training failed or a gate was not reached, 2 when nothing was done,
130 after Ctrl-C, and 141 when the reader of the output has closed it.
"""
_EXPERIMENT_HEAD = """\
# Experiment files

Three commands read a TOML file: `compare` a comparison, `reading evaluate` one with readers and generators,
`ablate` one of language models. A field that is not known is refused.
"""
_TRAINING_HEAD = """\
# Training options

What each kind of training can be told. On the command line `batch_size` is `--batch-size`, in the `[language_model]`
and `[fine_tuning]` parts of an ablation it is `batch_size`, and on the Train page it is a field of the form. The usual
values are those for a transformer; a starter's training suits them to itself.
"""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the written pages to the files of the site."""
    for path, write in PAGES.items():
        files.append(File.generated(config, path, content=write()))
    files.append(File.generated(config, "icon.svg", abs_src_path=str(ROOT / "workbench" / "views" / "icon.svg")))
    return files


def commands() -> str:
    """Return the page of all commands with their flags."""
    lines = [_COMMANDS_HEAD]
    heading = ""
    mrc = all_commands(COMMANDS)
    for name, entry in COMMANDS.items():
        if entry.heading != heading:
            heading = entry.heading
            lines.append(f"## {heading}\n")
        lines += _command(mrc[name], f"mrc {name}", "###")
    return "\n".join(lines)


def experiment_files() -> str:
    """Return the page of the fields of every experiment file."""
    from mrc_workbench.labs.reading.evaluate import ReaderSpec, ReadingExperiment
    from mrc_workbench.labs.reading.generator import GeneratorSpec
    from mrc_workbench.retrieval.comparison.experiment import KINDS, Experiment
    from mrc_workbench.training.ablation import AblationExperiment

    parts: list[tuple[str, type[BaseModel], type[BaseModel] | None]] = [("A comparison", Experiment, None)]
    parts += [(f'`[[retriever]]`, `kind = "{kind.model_fields["kind"].default}"`', kind, None) for kind in KINDS]
    parts += [("Reading, besides", ReadingExperiment, Experiment)]
    parts += [("`[[reader]]`", ReaderSpec, None), ("`[[generator]]`", GeneratorSpec, None)]
    parts += [("An ablation", AblationExperiment, None)]
    lines = [_EXPERIMENT_HEAD]
    for title, model, base_model in parts:
        known = {
            name: field
            for name, field in model.model_fields.items()
            if not base_model or name not in base_model.model_fields
        }
        rows = [_field_row(name, field) for name, field in known.items()]
        lines += [f"## {title}\n", f"{cleandoc(model.__doc__ or '')}\n"]
        lines += _table(("field", "holds", "usually", "limits"), rows)
    return "\n".join(lines)


def training_options() -> str:
    """Return the page of the options of every kind of training."""
    common = {known.name for known in fields(TrainingOptions)}
    lines = [_TRAINING_HEAD, "## Every kind\n", *_option_table(TrainingOptions, set())]
    for kind, recipe in RECIPES.items():
        lines += [f"## {kind}\n", f"{cleandoc(recipe.options.__doc__ or '')}\n", *_option_table(recipe.options, common)]
    return "\n".join(lines)


def changelog() -> str:
    """Return CHANGELOG.md, whose links begin at the project's folder, as a page of the site."""
    return (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")


PAGES: dict[str, Callable[[], str]] = {
    "reference/commands.md": commands,
    "reference/experiment.md": experiment_files,
    "reference/training.md": training_options,
    "changelog.md": changelog,
}


def _command(command: App, path: str, level: str) -> Iterator[str]:
    """Yield the section of a command or a group."""
    yield f"{level} {path}\n"
    docstring = parse(command.help or "")
    yield (
        "\n\n".join(_sentence(part) for part in (docstring.short_description, docstring.long_description) if part)
        + "\n"
    )
    if command.default_command is None:
        yield from _group(command, path, f"{level}#")
        return
    name = path.rsplit(maxsplit=1)[-1]
    rows, is_complete = _rows(command, name)
    yield "\n".join(_table(("", "says", "holds", "usually"), rows))
    if not is_complete:
        options = f"[every option of {name}](training.md#{name}) and [of every kind](training.md#every-kind)"
        yield f"Besides, {options}, as flags.\n"


def _group(group: App, path: str, level: str) -> Iterator[str]:
    """Yield the sections of a group's commands; a table that an earlier command has is linked, not repeated."""
    first: dict[str, str] = {}
    for name in group:
        command = group[name]
        if name.startswith("-") or not command.show:
            continue
        section = [*_command(command, f"{path} {name}", level)]
        rows, _ = _rows(command, name)
        table = "\n".join(_table(("", "says", "holds", "usually"), rows))
        if first.setdefault(table, name) != name and len(rows) > _MAX_REPEATED_ROWS:
            anchor = f"{path} {first[table]}".replace(" ", "-")
            section[section.index(table)] = f"Its flags are those of [{first[table]}](#{anchor}).\n"
        yield from section


def _rows(command: App, name: str) -> tuple[list[tuple[str, ...]], bool]:
    """Return a row for each flag but those of a training's options, and whether these are all flags."""
    descriptions = {argument.arg_name: argument.description or "" for argument in parse(command.help or "").params}
    optional = {known.name for known in fields(RECIPES[name].options)} if name in RECIPES else set()
    arguments = [argument for argument in command.assemble_argument_collection() if argument.show]
    own = [argument for argument in arguments if argument.field_info.name not in optional]
    return [_flag_row(argument, descriptions) for argument in own], len(own) == len(arguments)


def _sentence(text: str) -> str:
    text = text[0].upper() + text[1:]
    return text if text.endswith((".", ":", "?")) else f"{text}."


def _flag_row(argument: Argument, descriptions: Mapping[str, str]) -> tuple[str, ...]:
    known = argument.field_info
    names = ", ".join(f"`{name}`" for name in argument.names if not name.startswith("--empty-"))
    has_hidden_default = argument.required or argument.parameter.show_default is False
    return (
        names + (" (needed)" if argument.required else ""),
        argument.parameter.help or descriptions.get(known.name, ""),
        "" if argument.hint is bool else _describe_type(argument.hint),
        ""
        if has_hidden_default or known.default is Parameter.empty or known.default is False
        else _format_value(known.default),
    )


def _field_row(name: str, field: FieldInfo) -> tuple[str, ...]:
    words = {"ge": "{} or more", "gt": "above {}", "le": "{} or less", "lt": "below {}", "min_length": "not empty"}
    limits = [
        word.format(_format_number(value))
        for constraint in field.metadata
        for limit, word in words.items()
        if (value := getattr(constraint, limit, None)) is not None
    ]
    return (
        f"`{name}`{' (needed)' if field.is_required() else ''}",
        _describe_type(field.annotation),
        "" if field.is_required() else _format_value(field.get_default(call_default_factory=True)),
        ", ".join(limits),
    )


def _option_table(options: type[Any], skipped: set[str]) -> list[str]:
    types = get_type_hints(options)
    rows = []
    for known in fields(options):
        if known.name in skipped or "help" not in known.metadata:
            continue
        low = known.metadata.get("low")
        high = known.metadata.get("high")
        limits = (
            ""
            if low is None
            else f"{_format_number(low)} or more"
            if high is None
            else f"{_format_number(low)} to {_format_number(high)}"
        )
        default = "" if known.default is MISSING else _format_value(known.default)
        rows.append((f"`{known.name}`", known.metadata["help"], _describe_type(types[known.name]), default, limits))
    return _table(("option", "says", "holds", "usually", "limits"), rows)


def _format_value(value: Any) -> str:
    if value is None or value == "" or value in ((), {}):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple | list):
        return f"`{list(value)}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _format_number(value: Any) -> str:
    if isinstance(value, bool | str):
        return str(value)
    return f"{int(value):,}" if int(value) == value else f"{value:g}"


def _describe_type(hint: Any) -> str:
    """Say what a value of a type looks like in a file or after a flag."""
    origin = get_origin(hint)
    parts = get_args(hint)
    if hasattr(hint, "__metadata__"):  # Annotated
        return _describe_type(parts[0])
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        parts = tuple(hint)
        origin = Literal
    if origin is Literal:
        return ", ".join(f"`{part}`" for part in parts)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_describe_type(part) for part in parts if part is not NoneType))
    if origin in (tuple, list):
        return f"several: {_describe_type(parts[0])}"
    is_table = isinstance(hint, type) and issubclass(hint, BaseModel | dict)
    return _TYPE_LABELS.get(hint, "text" if origin is None and not is_table else "a table")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table's lines without the columns in which nothing stands."""
    if not rows:
        return []
    columns = [column for column in range(len(head)) if any(row[column] for row in rows)]
    cells = [[row[column].replace("|", "\\|").replace("\n", " ") for column in columns] for row in rows]
    lines = [[head[column] for column in columns], ["---"] * len(columns), *cells]
    return [*(f"| {' | '.join(line)} |" for line in lines), ""]
