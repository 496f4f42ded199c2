"""What the API shows: its errors, tables in a notebook whose texts are escaped, and progress bars."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from numbers import Integral, Real
from typing import TypeGuard

import pandas as pd
from markupsafe import Markup

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.terminal import quiet_libraries

_CELL = Markup('<{tag} style="text-align:{side};padding:2px 10px;border:0">{text}</{tag}>')
_TABLE = Markup(
    '<table><caption style="text-align:left;caption-side:top">{}</caption><thead>{}</thead><tbody>{}</tbody></table>{}'
)
_LONGEST = 80  # characters of a cell
OnProgress = Callable[[str, float], None]  # what is running, and the fraction of all work that is done, 0 to 1
_BAR = "{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"


class ApiError(Failure, ValueError):
    """An argument that cannot be used. The message names what was given and what was expected."""


def unknown_name(what: str, name: object, known: Iterable[str]) -> ApiError:
    """Return the error for a name that is not among the known names, with the nearest of them."""
    names = list(known)
    by_folded = {known_name.casefold(): known_name for known_name in names}
    nearest = get_close_matches(str(name).casefold(), by_folded, n=1)
    guess = f"; did you mean {by_folded[nearest[0]]!r}?" if nearest else "."
    return ApiError("unknown_name", f"no {what} is called {name!r}{guess} Known: {', '.join(names)}", name=str(name))


def is_whole_number(value: object) -> TypeGuard[int]:
    """Whether a value is an integer of Python or NumPy."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is an integer or a float of Python or NumPy."""
    return isinstance(value, Real) and not isinstance(value, bool)


def html_table(table: pd.DataFrame, *, caption: str, notes: Sequence[str] = ()) -> str:
    """Return a table as HTML. Every text is escaped, and long cells are cut."""
    sides = ["right" if pd.api.types.is_numeric_dtype(table[column]) else "left" for column in table.columns]

    def row(tag: str, texts: Iterable[object]) -> Markup:
        cells = [_CELL.format(tag=tag, side=side, text=text) for side, text in zip(sides, texts, strict=True)]
        return Markup("<tr>{}</tr>").format(Markup("").join(cells))

    body = Markup("").join(row("td", map(_cell_text, values)) for values in table.itertuples(index=False, name=None))
    lines = Markup("").join(Markup("<div>{}</div>").format(note) for note in notes)
    return str(_TABLE.format(caption, row("th", table.columns), body, lines))


def _cell_text(value: object) -> str:
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    text = "" if value is None or value is pd.NA else str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


@contextmanager
def progress_bar(title: str, *, enabled: bool = True) -> Iterator[OnProgress]:
    """Yield a function that shows the progress of a job; libraries draw no bars of their own meanwhile.

    A notebook shows a widget and a terminal a line; if the standard error is a file, nothing is written.
    """
    with quiet_libraries():
        if not enabled:
            yield lambda *_: None
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # without ipywidgets a notebook gets the line of a terminal
            from tqdm.auto import tqdm

        with tqdm(total=100.0, desc=title, bar_format=_BAR, leave=False, disable=None) as bar:

            def report(name: str, fraction: float) -> None:
                bar.set_description_str(f"{title}: {name}" if name else title, refresh=False)
                bar.update(max(0.0, 100.0 * fraction - bar.n))

            yield report
