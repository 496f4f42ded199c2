"""One shape for every command line: typed functions are the commands, their docstrings are the help.

The `cli.py` of a room makes `commands = commands_of("retrieval", "...")` and adds functions by `@commands.command`.
`workbench/cli.py` puts the rooms together as `mrc`, which is `python -m mrc_workbench`, too.
"""

import inspect
import json
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import Field, asdict, fields
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from cyclopts import App, CoercionError, CycloptsError, Parameter, Token

from mrc_workbench.data.interrupts import raise_on_ctrl_c
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.terminal import ProgressMode, end_progress_line, quiet, show_progress, tell
from mrc_workbench.data.threads import let_idle_threads_sleep
from mrc_workbench.data.workspace import error_message

Command = TypeVar("Command", bound=Callable[..., int])
AsJson = Annotated[bool, Parameter(name="json", negative="", help="print JSON")]
_VERBOSE = ("-v", "--verbose")
_PROGRESS = "--progress"
_EVERYWHERE = """Every command takes:

-v, --verbose: show messages of the libraries

--progress auto|plain|json|none: how to show progress on stderr (auto: a line a minute outside a terminal)"""
_STOPPED = 128 + signal.SIGINT
_NOTHING_DONE = 2
Refused = Callable[[Exception], int]


class Commands(App):
    """Commands, and how they report an error of the work; without `refused` it is one line, and the status is 2."""

    refused: Refused | None = None


def commands_of(name: str, about: str, *, refused: Refused | None = None, **options: Any) -> Commands:
    """Return the commands of a room, empty yet: functions that return an exit status are put in by `.command`.

    `refused` reports an error of the work and returns the exit status.
    """
    commands = Commands(
        name=name,
        help=about,
        help_format="markdown",
        help_formatter="plain",
        help_epilogue=_EVERYWHERE,
        default_parameter=Parameter(
            negative_iterable=(), consume_multiple=True, allow_repeating=True, show_default=_value
        ),
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
        **{"version_flags": ()} | options,
    )
    commands.refused = refused
    return commands


def run(room: App, words: Sequence[str]) -> int:
    """Run what follows `mrc ROOM` on the command line; returns the exit status, see `carry_out`."""
    mrc = commands_of("mrc", "")
    mrc.command(room)
    return carry_out(mrc, [room.name[0], *words])


def carry_out(commands: App, words: Sequence[str]) -> int:
    """Do what words say; returns the exit status: 2 where nothing could be done, 130 after Ctrl-C."""
    let_idle_threads_sleep()
    try:
        raise_on_ctrl_c()
        words = _with_options_of_all(words)
        status = commands(words)
    except CycloptsError as error:
        error.verbose = False
        return _refused(error)
    except (Failure, OSError, ValueError, MemoryError) as error:
        end_progress_line()
        return _refused(error) if isinstance(error, MemoryError) else _refusal_of(commands, words)(error)
    except KeyboardInterrupt as stopped:
        end_progress_line()
        tell(str(stopped) or "Stopped.", error=True)
        return _STOPPED
    return int(status or 0)


def _refusal_of(commands: App, words: Sequence[str]) -> Refused:
    """Return how the room that these words name reports an error."""
    _, rooms, _ = commands.parse_commands(words)
    named = (room.refused for room in reversed(rooms) if isinstance(room, Commands) and room.refused)
    return next(named, _refused)


def _refused(error: Exception) -> int:
    tell(f"error: {error_message(error)}", error=True)
    return _NOTHING_DONE


def _with_options_of_all(words: Sequence[str]) -> list[str]:
    """Apply the options that every command takes; returns the other words. Raises `CycloptsError`."""
    others, left = list[str](), list(words)
    mode = ProgressMode.AUTO
    while left:
        word = left.pop(0)
        option, equals, value = word.partition("=")
        if option == _PROGRESS:
            value = value if equals else left.pop(0) if left else ""
            if value not in [*ProgressMode]:
                raise CoercionError(msg=f"{_PROGRESS} takes {', '.join(ProgressMode)}, not {value!r}")
            mode = ProgressMode(value)
        elif word not in _VERBOSE:
            others.append(word)
    quiet(verbose=any(word in _VERBOSE for word in words))
    show_progress(mode)
    return others


class Stopped(KeyboardInterrupt):
    """Ctrl-C; the message says what is kept."""


@contextmanager
def stop_message(text: str) -> Iterator[None]:
    """Say `text` where the user presses Ctrl-C: what is kept, and how to go on."""
    try:
        yield
    except Stopped:
        raise
    except KeyboardInterrupt as error:
        raise Stopped(text) from error


def one_of(kind: type[StrEnum], **more: Any) -> Parameter:
    """Let an option be given by the value of a choice, as it stands in files and in the figures."""
    return Parameter(converter=lambda _, tokens: kind(tokens[0].value), choices=_values(kind), **more)


def several_of(kind: type[StrEnum], **more: Any) -> Parameter:
    """Let one or several choices follow a flag, or the flag be given several times."""
    several = {"choices": _values(kind), "n_tokens": -1} | more
    return Parameter(converter=lambda _, tokens: tuple(kind(token.value) for token in tokens), **several)


def _values(kind: type[StrEnum]) -> tuple[str, ...] | None:
    return tuple(one.value for one in kind) or None


def _value(default: Any) -> str | None:
    """What help tells as the default: nothing where an option that is not given changes nothing."""
    return None if default is False or default in (None, "", ()) else str(default)


def tell_kept(kept: Sequence[Any], line: Callable[[Any], str], *, as_json: bool, empty: str) -> int:
    """Print stored items, dataclasses, a line each or all as JSON, or `empty` on stderr; returns the exit status."""
    if as_json:
        tell(json.dumps([asdict(one) for one in kept], ensure_ascii=False, indent=2))
    elif not kept:
        tell(empty, error=True)
    for one in () if as_json else kept:
        tell(line(one))
    return 0


def columns_of(roles: type[Any]) -> Parameter:
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


def takes(
    options: type[Any],
    *,
    without: Collection[str] = (),
    required: Collection[str] = (),
    suited: Any = None,
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Command], Command]:
    """Let the `**chosen` of a command be given by flags, one for each field of a dataclass of options.

    A field's metadata has its `help`. `renamed` maps earlier names to fields: they are accepted, and not shown. Only
    what was given is in `chosen`: the defaults, those of `suited`, an instance, or else of the fields, are told and not
    passed on.
    """

    def flag(known: Field[Any]) -> inspect.Parameter:
        kind, default = type(known.default), getattr(suited, known.name, known.default)
        chosen = one_of(kind) if issubclass(kind, StrEnum) else Parameter()
        return inspect.Parameter(
            known.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if known.name in required else default,
            annotation=Annotated[kind, chosen, Parameter(help=known.metadata["help"])],
        )

    def earlier(name: str, known: Field[Any]) -> inspect.Parameter:
        kind: Any = type(known.default) | None
        annotation = Annotated[kind, Parameter(show=False)]
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)

    def with_flags(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True)
        said = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        flags = [flag(known) for known in fields(options) if known.name not in without]
        flags += [earlier(old, known) for old, new in renamed.items() for known in fields(options) if known.name == new]
        signature = own.replace(parameters=[*said, *flags])
        command.__signature__ = signature  # type: ignore[attr-defined]
        command.__annotations__ = {name: one.annotation for name, one in signature.parameters.items()}
        return command

    return with_flags
