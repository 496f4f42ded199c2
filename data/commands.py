"""Help, options, errors and exit statuses of all commands.

A command is a typed function that returns its exit status; its docstring is the help. A group of commands is
`commands = command_group("data", "...")` with functions added by `@commands.command`. `workbench/cli.py` lists the
commands and groups of `mrc` (`python -m mrc_workbench`). `study_commands` returns the commands of every study.
"""

import inspect
import json
import signal
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import Field, asdict, fields
from difflib import get_close_matches
from enum import IntEnum, StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cyclopts import App, CoercionError, CycloptsError, Parameter, Token, UnknownCommandError
from cyclopts.help import HelpPanel, PlainFormatter

from mrc_workbench.data import terminal
from mrc_workbench.data.problems import Failure, raise_missing_extra
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
_KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY
_VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD
_INDENT = 2
_NAME_WIDTH = 22


class ExitStatus(IntEnum):
    """The exit statuses of all commands."""

    DONE = 0
    FAILED = 1  # a retriever, model or training failed, or a gate failed
    NOTHING_DONE = 2  # an error was printed
    STOPPED = 128 + signal.SIGINT
    OUTPUT_CLOSED = 128 + 13  # like a program ended by SIGPIPE


class HelpColumns(PlainFormatter):
    """Writes help as names and descriptions in two columns, under a heading."""

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: HelpPanel) -> None:
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
        """Write paragraphs, without the line breaks of the docstring."""
        del options
        for paragraph in _plain(description).split("\n\n"):
            console.print(textwrap.fill(" ".join(paragraph.split()), console.width), highlight=False, markup=False)
            console.print()


def _plain(text: Any) -> str:
    return str(getattr(text, "primary_renderable", text) or "").strip()


def _help_lines(name: str, description: str, width: int) -> list[str]:
    column = _INDENT + _NAME_WIDTH
    width = max(width - column, _NAME_WIDTH)
    described = textwrap.wrap(description, width, break_long_words=False, break_on_hyphens=False)
    first = " " * _INDENT + name
    if len(name) < _NAME_WIDTH - 1 and described:
        first = first.ljust(column) + described.pop(0)
    return [first, *(" " * column + line for line in described)]


def command_group(name: str, about: str, **options: Any) -> App:
    """Return an empty group of commands; `.command` adds functions that return an exit status."""
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
    """Run the command of a command line and return its `ExitStatus`; `error_lines` adds lines to its error."""
    terminal.let_idle_threads_sleep()
    try:
        terminal.raise_on_ctrl_c()
        arguments = _apply_global_options(arguments)
        with raise_missing_extra(f"`mrc {arguments[0]}`" if arguments else "mrc"):
            status = commands(arguments)
    except CycloptsError as error:
        error.verbose = False
        return _report_error(_unknown_command(error) if isinstance(error, UnknownCommandError) else error)
    except terminal.ClosedOutputError:
        return ExitStatus.OUTPUT_CLOSED
    except (Failure, OSError, ValueError, MemoryError) as error:
        terminal.end_progress_line()
        return _report_error(error, error_lines(error))
    except KeyboardInterrupt as stopped:
        terminal.end_progress_line()
        terminal.print_line(str(stopped) or "Stopped.", error=True)
        return ExitStatus.STOPPED
    return int(status or ExitStatus.DONE)


def _report_error(error: Exception, extra_lines: Sequence[str] = ()) -> int:
    for line in (f"error: {error_message(error)}", *extra_lines):
        terminal.print_line(line, error=True)
    return ExitStatus.NOTHING_DONE


def _unknown_command(error: UnknownCommandError) -> Exception:
    """Return an error that names the nearest command. The message of `error` itself would import every package."""
    word = (error.unused_tokens or [""])[0]
    app = error.app
    names = [name for name in app or () if not name.startswith("-")]
    path = ["mrc", *(error.command_chain or ())]
    nearest = get_close_matches(word, names, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"`{' '.join(path)} --help` lists the commands"
    return ValueError(f"unknown command '{' '.join([*path, word])}': {hint}")


def _apply_global_options(arguments: Sequence[str]) -> list[str]:
    """Apply the options of every command; returns the other arguments. Raises `CycloptsError`."""
    remaining_arguments = list[str]()
    remaining = list(arguments)
    mode = terminal.ProgressMode.AUTO
    while remaining:
        argument = remaining.pop(0)
        option, equals, value = argument.partition("=")
        if option == _PROGRESS:
            value = value if equals else remaining.pop(0) if remaining else ""
            if value not in [*terminal.ProgressMode]:
                raise CoercionError(msg=f"{_PROGRESS} takes {', '.join(terminal.ProgressMode)}, not {value!r}")
            mode = terminal.ProgressMode(value)
        elif argument not in _VERBOSE:
            remaining_arguments.append(argument)
    terminal.quiet(verbose=any(argument in _VERBOSE for argument in arguments))
    terminal.show_progress(mode)
    return remaining_arguments


@contextmanager
def stop_message(text: str) -> Iterator[None]:
    """Set the message for Ctrl-C: what was stored and how to continue."""
    try:
        yield
    except KeyboardInterrupt as error:
        if error.args:  # an inner block set a message
            raise
        raise KeyboardInterrupt(text) from error


def choice_option(kind: type[StrEnum], **more: Any) -> Parameter:
    """Return a parameter that takes the values of an enum."""
    return Parameter(converter=lambda _, tokens: kind(tokens[0].value), choices=_values(kind), **more)


def choices_option(kind: type[StrEnum], **more: Any) -> Parameter:
    """Return a parameter that takes several values of an enum after one flag, or after repeated flags."""
    several = {"choices": _values(kind), "n_tokens": -1} | more
    return Parameter(converter=lambda _, tokens: tuple(kind(token.value) for token in tokens), **several)


def _values(kind: type[StrEnum]) -> tuple[str, ...] | None:
    return tuple(member.value for member in kind) or None


def _default_text(default: Any) -> str | None:
    if default is False or default in (None, "", ()):
        return None
    return " ".join(map(str, default)) if isinstance(default, tuple) else str(default)


def add_list_command(
    commands: App,
    items: str,
    stored: Callable[[], Sequence[Any]],
    format_line: Callable[[Any], str],
    *,
    empty: str,
    to_entry: Callable[[Any], Any] = asdict,
) -> None:
    """Add `list`, which prints the stored items line by line or as JSON; without items, it prints `empty` on stderr."""

    def list_command(*, as_json: AsJson = False) -> int:
        listed = stored()
        if as_json:
            terminal.print_line(json.dumps([to_entry(item) for item in listed], ensure_ascii=False, indent=2))
        elif not listed:
            terminal.print_line(empty, error=True)
        for item in () if as_json else listed:
            terminal.print_line(format_line(item))
        return ExitStatus.DONE

    list_command.__doc__ = f"List the {items}, the newest first."
    commands.command(list_command, name="list")


def columns_option(roles: type[Any]) -> Parameter:
    """Return a parameter that takes ROLE=NAME several times after one flag; roles are the fields of a dataclass."""
    names = ", ".join(role.name for role in fields(roles))

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
    """Return a decorator that adds a flag per field of a dataclass to a command with `**keywords`.

    A field's metadata has its `help`. `earlier_names` maps earlier flags, accepted but hidden, to fields. The keywords
    contain only the given values; defaults (of `default_instance`, else of the fields) are only displayed.
    """

    def make_flag(option: Field[Any]) -> inspect.Parameter:
        kind: Any = type(option.default)
        default = getattr(default_instance, option.name, option.default)
        choice = choice_option(kind) if issubclass(kind, StrEnum) else Parameter()
        default = inspect.Parameter.empty if option.name in required else default
        annotation = Annotated[kind, choice, Parameter(help=option.metadata["help"])]
        return inspect.Parameter(option.name, _KEYWORD_ONLY, default=default, annotation=annotation)

    def make_earlier_flag(name: str, option: Field[Any]) -> inspect.Parameter:
        kind: Any = type(option.default) | None
        annotation = Annotated[kind, Parameter(show=False)]
        return inspect.Parameter(name, _KEYWORD_ONLY, default=None, annotation=annotation)

    def with_flags(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        parameters = [parameter for parameter in signature.parameters.values() if parameter.kind is not _VAR_KEYWORD]
        option_of = {option.name: option for option in fields(options)}
        parameters += [make_flag(option) for name, option in option_of.items() if name not in excluded]
        parameters += [make_earlier_flag(old, option_of[new]) for old, new in earlier_names.items() if new in option_of]
        signature = signature.replace(parameters=parameters)
        command.__signature__ = signature  # type: ignore[attr-defined]
        command.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
        return command

    return with_flags


Key = Annotated[str, Parameter(help="key or name of a stored result")]
Out = Annotated[Path | None, Parameter(help="folder for report.md and a CSV file of each table")]


def study_commands(study: "Study[Any, Any]") -> App:
    """Return `mrc NAME run`, `list`, `show`, `report`, `rename`, `delete`; fields of the spec are options of `run`."""
    from mrc_workbench.data.store import find  # not at the top: `mrc --help` imports no heavy library

    commands = command_group(study.name, study.summary)

    def run(*, spec: Any, out: Out = None, as_json: AsJson = False) -> int:
        job = study.job_on(spec, find(spec.data).fingerprint if hasattr(spec, "data") else "")
        if not (job.done and job.is_readable):
            job.write_spec(spec)
            with stop_message("Stopped. Run the same command again to continue."):
                if status := job.run(terminal.report_progress):
                    return status
            terminal.end_progress_line()
        return _show(job, out, as_json=as_json)

    run.__doc__ = study.summary
    run.__annotations__["spec"] = Annotated[study.spec, Parameter(name="*")]
    commands.command(_with_default_spec(run, study.spec))

    empty = f"No results yet: `mrc {study.name} run` computes one."
    add_list_command(commands, "stored results", study.stored, _job_line, empty=empty, to_entry=_job_entry)

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
        terminal.print_line(f"renamed {key}")
        return ExitStatus.DONE

    @commands.command
    def delete(key: Key, /) -> int:
        """Delete a stored result."""
        study.find(key).delete()
        terminal.print_line(f"deleted {key}")
        return ExitStatus.DONE

    return commands


def _with_default_spec(run: Command, spec: Any) -> Command:
    with suppress(TypeError, ValueError):  # a spec with required fields
        run.__kwdefaults__ = {**(run.__kwdefaults__ or {}), "spec": spec()}
    return run


def _job_line(job: "StudyJob[Any, Any]") -> str:
    return f"{job.id}  {job.stored_at[:16]}  {job.name}"


def _job_entry(job: "StudyJob[Any, Any]") -> dict[str, str]:
    return {"key": job.id, "name": job.name, "stored_at": job.stored_at, "folder": str(job.folder)}


def _show(job: "StudyJob[Any, Any]", out: Path | None, *, as_json: bool) -> int:
    result = job.load()
    if as_json:
        terminal.print_line(json.dumps(read_json(job.result), ensure_ascii=False, indent=2))
    else:
        for table in job.study.tables:
            terminal.print_line("\n".join(table.lines(result)))
    return _export(job, out) if out else ExitStatus.DONE


def _export(job: "StudyJob[Any, Any]", out: Path) -> int:
    job.export(out)
    terminal.print_line(f"written to {out}")
    return ExitStatus.DONE
