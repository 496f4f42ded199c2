"""What all commands share: help, options, errors and exit statuses.

A command is a typed function that returns its exit status; its docstring is the help. A group of commands is
`commands = commands_of("data", "...")` with functions added by `@commands.command`. `workbench/cli.py` lists the
commands and groups of `mrc`, which is `python -m mrc_workbench`, too. Every study has the same commands: see
`study_commands`.
"""

import inspect
import json
import signal
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import Field, asdict, fields
from difflib import get_close_matches
from enum import IntEnum, StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cyclopts import App, CoercionError, CycloptsError, Parameter, Token, UnknownCommandError
from cyclopts.help import HelpPanel, PlainFormatter

from mrc_workbench.data.problems import Failure, raise_missing_extra
from mrc_workbench.data.terminal import (
    ClosedOutputError,
    ProgressMode,
    end_progress_line,
    let_idle_threads_sleep,
    print_line,
    quiet,
    raise_on_ctrl_c,
    report_progress,
    show_progress,
)
from mrc_workbench.data.workspace import error_message, read_json

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

    from mrc_workbench.data.studies import Study, StudyJob

Command = TypeVar("Command", bound=Callable[..., int])
AsJson = Annotated[bool, Parameter(name="json", negative="", help="print JSON")]
_VERBOSE = ("-v", "--verbose")
_PROGRESS = "--progress"
_GLOBAL_OPTIONS_HELP = """Options of every command
  -v, --verbose     show messages of the libraries
  --progress MODE   progress on stderr: auto, plain, json or none"""
_INDENT = 2
_NAME_WIDTH = 22


class ExitStatus(IntEnum):
    """How every command ends."""

    DONE = 0
    FAILED = 1  # a retriever, model or training failed, or a gate was not reached
    NOTHING_DONE = 2  # the error says why
    STOPPED = 128 + signal.SIGINT
    OUTPUT_CLOSED = 128 + 13  # as of a program that SIGPIPE ends


class HelpColumns(PlainFormatter):
    """Writes help as names and descriptions in two columns, under a heading."""

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: HelpPanel) -> None:
        """Write the commands, arguments or options of a panel."""
        del options
        if not panel.entries:
            return
        lines = [str(panel.title)]
        for entry in panel.entries:
            metadata = [f"[choices: {', '.join(entry.choices)}]"] if entry.choices else []
            metadata += [f"[default: {entry.default}]"] if entry.default is not None else []
            metadata += ["[required]"] if entry.required else []
            description = " ".join([_plain(entry.description), *metadata]).strip()
            lines += _help_lines(", ".join(entry.display_labels_with_metavar), description, console.width)
        console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
        console.print()

    def render_description(self, console: "Console", options: "ConsoleOptions", description: Any) -> None:
        """Write paragraphs, wrapped anew: line breaks of a docstring end no line."""
        del options
        for paragraph in _plain(description).split("\n\n"):
            console.print(textwrap.fill(" ".join(paragraph.split()), console.width), highlight=False, markup=False)
            console.print()


def _plain(text: Any) -> str:
    return str(getattr(text, "primary_renderable", text) or "").strip()


def _help_lines(name: str, description: str, width: int) -> list[str]:
    """Return a name with its description beside it, or below it if the name is too long."""
    column = _INDENT + _NAME_WIDTH
    described = textwrap.wrap(
        description, max(width - column, _NAME_WIDTH), break_long_words=False, break_on_hyphens=False
    )
    first = " " * _INDENT + name
    if len(name) < _NAME_WIDTH - 1 and described:
        first = first.ljust(column) + described.pop(0)
    return [first, *(" " * column + line for line in described)]


def command_group(name: str, about: str, **options: Any) -> App:
    """Return a group of commands, empty yet: functions that return an exit status are added by `.command`."""
    return App(
        name=name,
        help=about,
        help_format="plaintext",
        help_formatter=HelpColumns(),
        help_epilogue=_GLOBAL_OPTIONS_HELP,
        default_parameter=Parameter(
            negative_iterable=(), consume_multiple=True, allow_repeating=True, show_default=_default_text
        ),
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
        **{"version_flags": ()} | options,
    )


def run_command_line(
    commands: App, arguments: Sequence[str], error_lines: Callable[[Exception], Sequence[str]] = lambda _: ()
) -> int:
    """Run the command that the words name and return its `ExitStatus`; `error_lines` adds lines to its error."""
    let_idle_threads_sleep()
    try:
        raise_on_ctrl_c()
        arguments = _apply_global_options(arguments)
        with raise_missing_extra(f"`mrc {arguments[0]}`" if arguments else "mrc"):
            status = commands(arguments)
    except CycloptsError as error:
        error.verbose = False
        return _report_error(_unknown_command(error) if isinstance(error, UnknownCommandError) else error)
    except ClosedOutputError:
        return ExitStatus.OUTPUT_CLOSED
    except (Failure, OSError, ValueError, MemoryError) as error:
        end_progress_line()
        return _report_error(error, error_lines(error))
    except KeyboardInterrupt as stopped:
        end_progress_line()
        print_line(str(stopped) or "Stopped.", error=True)
        return ExitStatus.STOPPED
    return int(status or ExitStatus.DONE)


def _report_error(error: Exception, extra_lines: Sequence[str] = ()) -> int:
    for line in (f"error: {error_message(error)}", *extra_lines):
        print_line(line, error=True)
    return ExitStatus.NOTHING_DONE


def _unknown_command(error: UnknownCommandError) -> Exception:
    """Return an error that names the nearest command; the message of `error` itself would import every room."""
    word = (error.unused_tokens or [""])[0]
    app = error.app
    names = [name for name in app or () if not name.startswith("-")]
    path = ["mrc", *(error.command_chain or ())]
    nearest = get_close_matches(word, names, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"`{' '.join(path)} --help` lists the commands"
    return ValueError(f"unknown command '{' '.join([*path, word])}': {hint}")


def _apply_global_options(arguments: Sequence[str]) -> list[str]:
    """Apply the options that every command takes; returns the other words. Raises `CycloptsError`."""
    remaining_arguments = list[str]()
    remaining = list(arguments)
    mode = ProgressMode.AUTO
    while remaining:
        argument = remaining.pop(0)
        option, equals, value = argument.partition("=")
        if option == _PROGRESS:
            value = value if equals else remaining.pop(0) if remaining else ""
            if value not in [*ProgressMode]:
                raise CoercionError(msg=f"{_PROGRESS} takes {', '.join(ProgressMode)}, not {value!r}")
            mode = ProgressMode(value)
        elif argument not in _VERBOSE:
            remaining_arguments.append(argument)
    quiet(verbose=any(argument in _VERBOSE for argument in arguments))
    show_progress(mode)
    return remaining_arguments


@contextmanager
def stop_message(text: str) -> Iterator[None]:
    """Say `text` where the user presses Ctrl-C: what is kept, and how to go on."""
    try:
        yield
    except KeyboardInterrupt as error:
        if error.args:  # what stopped inside has its own message
            raise
        raise KeyboardInterrupt(text) from error


def choice_option(kind: type[StrEnum], **more: Any) -> Parameter:
    """Let an option be given by the value of a choice, as it stands in files and in the figures."""
    return Parameter(converter=lambda _, tokens: kind(tokens[0].value), choices=_values(kind), **more)


def choices_option(kind: type[StrEnum], **more: Any) -> Parameter:
    """Let one or several choices follow a flag, or the flag be given several times."""
    several = {"choices": _values(kind), "n_tokens": -1} | more
    return Parameter(converter=lambda _, tokens: tuple(kind(token.value) for token in tokens), **several)


def _values(kind: type[StrEnum]) -> tuple[str, ...] | None:
    return tuple(member.value for member in kind) or None


def _default_text(default: Any) -> str | None:
    """Return the default as help shows it; None if an option that is not given changes nothing."""
    if default is False or default in (None, "", ()):
        return None
    return " ".join(map(str, default)) if isinstance(default, tuple) else str(default)


def print_stored(
    items: Sequence[Any], format_line: Callable[[Any], str], *, as_json: bool, empty: str, to_entry: Any = asdict
) -> int:
    """Print stored items a line each, or as a JSON list of entries, or `empty` on stderr; returns the exit status."""
    if as_json:
        print_line(json.dumps([to_entry(item) for item in items], ensure_ascii=False, indent=2))
    elif not items:
        print_line(empty, error=True)
    for item in () if as_json else items:
        print_line(format_line(item))
    return ExitStatus.DONE


def columns_option(roles: type[Any]) -> Parameter:
    """Let columns of a file be named as ROLE=NAME, several after one flag; roles are the fields of a dataclass."""
    names = ", ".join(known.name for known in fields(roles))

    def by_role(_: Any, tokens: Sequence[Token]) -> dict[str, str]:
        named = {}
        for token in tokens:
            role, mark, name = token.value.partition("=")
            if not mark or role not in names.split(", "):
                raise CoercionError(msg=f"{token.value!r} is not ROLE=NAME with a role of {names}")
            named[role] = name
        return named

    about = f"name columns yourself, for example {fields(roles)[0].name}=질문; roles: {names}"
    return Parameter(converter=by_role, n_tokens=-1, accepts_keys=False, help=about, metavar="ROLE=NAME")


def add_options(
    options: type[Any],
    *,
    excluded: Collection[str] = (),
    required: Collection[str] = (),
    default_instance: Any = None,
    earlier_names: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Command], Command]:
    """Let the `**chosen` of a command be given by flags, one for each field of a dataclass of options.

    A field's metadata has its `help`. `renamed` maps earlier names to fields; they are accepted and hidden. `chosen`
    has only the given values: the defaults (those of the instance `suited`, else of the fields) are only displayed.
    """

    def make_flag(option: Field[Any]) -> inspect.Parameter:
        kind = type(option.default)
        default = getattr(default_instance, option.name, option.default)
        choice = choice_option(kind) if issubclass(kind, StrEnum) else Parameter()
        return inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if option.name in required else default,
            annotation=Annotated[kind, choice, Parameter(help=option.metadata["help"])],
        )

    def make_earlier_flag(name: str, option: Field[Any]) -> inspect.Parameter:
        kind: Any = type(option.default) | None
        annotation = Annotated[kind, Parameter(show=False)]
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)

    def with_flags(command: Command) -> Command:
        own_signature = inspect.signature(command, eval_str=True)
        own_parameters = [
            parameter
            for parameter in own_signature.parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        flags = [make_flag(option) for option in fields(options) if option.name not in excluded]
        flags += [
            make_earlier_flag(old, option)
            for old, new in earlier_names.items()
            for option in fields(options)
            if option.name == new
        ]
        signature = own_signature.replace(parameters=[*own_parameters, *flags])
        command.__signature__ = signature  # type: ignore[attr-defined]
        command.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
        return command

    return with_flags


Key = Annotated[str, Parameter(help="key or name of a stored result")]
Out = Annotated[Path | None, Parameter(help="folder for report.md and a CSV file of each table")]


def study_commands(study: "Study[Any, Any]") -> App:
    """Return `mrc NAME run`, `list`, `show`, `report`, `rename`, `delete`; fields of the spec are options of `run`."""
    from mrc_workbench.data.store import find  # `mrc --help` imports no library of a room

    commands = command_group(study.name, study.summary)

    def run(*, spec: Any, out: Out = None, as_json: AsJson = False) -> int:
        data = getattr(spec, "data", "")  # a reference to a dataset, if the spec has such a field
        job = study.job(spec, *((find(data).fingerprint,) if data else ()))
        if not job.done:
            job.write_spec(spec)
            with stop_message("Stopped. Run the same command again to continue."):
                if status := job.run(report_progress):
                    return status
            end_progress_line()
        return _show(job, out, as_json=as_json)

    run.__doc__ = study.summary
    run.__annotations__["spec"] = Annotated[study.spec, Parameter(name="*")]
    commands.command(run)

    @commands.command(name="list")
    def list_command(*, as_json: AsJson = False) -> int:
        """List the stored results, the newest first."""
        return print_stored(
            study.stored(),
            lambda job: f"{job.id}  {job.stored_at[:16]}  {job.name}",
            as_json=as_json,
            empty=f"No results yet: `mrc {study.name} run` makes one.",
            to_entry=lambda job: {"key": job.id, "name": job.name, "stored_at": job.stored_at, "folder": str(job.folder)},
        )

    @commands.command
    def show(key: Key, /, *, as_json: AsJson = False) -> int:
        """Show a stored result."""
        return _show(study.find(key), None, as_json=as_json)

    @commands.command(name="report")
    def report_command(key: Key, /, *, out: Annotated[Path, Parameter(help="folder to write")]) -> int:
        """Write a report and a CSV file of each table."""
        return _export(study.find(key), out)

    @commands.command
    def rename(key: Key, name: Annotated[str, Parameter(help="new name")], /) -> int:
        """Rename a stored result."""
        study.find(key).rename(name)
        print_line(f"renamed {key}")
        return ExitStatus.DONE

    @commands.command
    def delete(key: Key, /) -> int:
        """Delete a stored result."""
        study.find(key).delete()
        print_line(f"deleted {key}")
        return ExitStatus.DONE

    return commands


def _show(job: "StudyJob[Any, Any]", out: Path | None, *, as_json: bool) -> int:
    result = job.load()
    if as_json:
        print_line(json.dumps(read_json(job.result), ensure_ascii=False, indent=2))
    else:
        for table in job.study.tables:
            print_line("\n".join(table.lines(result)))
    return _export(job, out) if out else ExitStatus.DONE


def _export(job: "StudyJob[Any, Any]", out: Path) -> int:
    job.export(out)
    print_line(f"written to {out}")
    return ExitStatus.DONE
