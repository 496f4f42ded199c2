"""Texts, numbers and error messages in the user's language."""

import logging
import math
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from functools import cache
from itertools import chain, count
from pathlib import Path
from string import Formatter
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data import problems
from mrc_workbench.data.formats.encodings import ENCODING_PROBLEMS
from mrc_workbench.data.problems import DataError, Failure, Problem
from mrc_workbench.data.questions.judgements import damaged_files
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.text.corpora import LanguageError
from mrc_workbench.data.text.dictionary import DictionaryError
from mrc_workbench.data.workspace import LimitError, is_disk_error, workspace
from mrc_workbench.labs import labs
from mrc_workbench.labs.reading.scores import ReadingError
from mrc_workbench.retrieval.export import DIFFERENCES_FILE

logger = logging.getLogger(__name__)
LANGUAGES = {"ko": "한국어", "en": "English"}
_NAMED = re.compile(r":(?=[\w+-]+(/\w+)?:)")  # Streamlit replaces icon and emoji names after it reads escapes
_FOLDER = Path(__file__).parents[1] / "locales"
_CLOSED_DIGITS = set("013678")  # 영, 일, 삼, 육, 칠, 팔 end in a consonant
_CLOSED_LETTERS = set("lmnr")  # so do the Korean names 엘, 엠, 엔, 알
_NAMED_BY_READERS = ("found", "expected", "unit", "reason")
# Locale keys of page controls by problem, in place of command line flags; the default is the column fields
_CONTROLS = {
    problems.ProblemCode.ANSWERS_ALONE: "search_answers",
    problems.ProblemCode.GUESSED_ENCODING: "other_encoding",
    **dict.fromkeys(ENCODING_PROBLEMS, "encoding"),
}


class _Fields(Formatter):
    """Format the fields of a text. `{count:row|rows}` is the singular for exactly 1, else the plural."""

    def format_field(self, value: Any, format_spec: str) -> Any:
        singular, bar, plural = format_spec.partition("|")
        if not bar:
            return super().format_field(value, format_spec)
        return singular if str(value) == "1" else plural


_FIELDS = _Fields()


@cache
def catalog(language: str) -> dict[str, str]:
    paths = sorted((_FOLDER / language).glob("*.toml"))
    paths += [path for lab in labs() if (path := lab.folder / f"words.{language}.toml").is_file()]
    if language == "en":
        paths += [problems.WORDS, DIFFERENCES_FILE]
    texts: dict[str, str] = {}
    for path in paths:
        try:
            for section, entries in tomllib.loads(path.read_text(encoding="utf-8")).items():
                texts |= {f"{section}.{name}": text for name, text in entries.items()}
        except (AttributeError, ValueError) as error:  # a lab's file
            logger.warning("%s is left out: %s", path, error)
    return texts


def language() -> str:
    selected = st.query_params.get("lang") or st.session_state.get("language")
    if selected in LANGUAGES:
        return str(selected)
    return "ko" if (st.context.locale or "").lower().startswith("ko") else "en"


def word(key: str, /, **values: Any) -> str:
    text = catalog(language())[key]
    return _FIELDS.format(text, **values) if values else text


def word_or(key: str, otherwise: str, /, **values: Any) -> str:
    """Return the text of a key, or `otherwise` if it has none, such as a key of a plugin."""
    return word(key, **values) if has_text(key) else otherwise


def label_and_help(key: str, /, **values: Any) -> dict[str, Any]:
    return {"label": word(key, **values), "help": word(f"{key}_help", **values)}


def has_text(key: str) -> bool:
    return key in catalog(language())


def free_name(name: str, taken: Collection[str], form: str = "{} ({})") -> str:
    """Return the name, with the first number from 2 that makes it unique if it is taken."""
    numbered = (form.format(name, number) for number in count(2))
    return next(candidate for candidate in chain([name], numbered) if candidate not in taken)


def duration(seconds: float) -> str:
    if seconds < 1:
        return word("time.under_a_second")
    if seconds < 60:
        return word("time.seconds", seconds=round(seconds))
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return word("time.minutes", minutes=minutes, seconds=rest)
    return word("time.hours", hours=minutes // 60, minutes=minutes % 60)


def rounded_duration(seconds: float) -> str:
    """Return a duration for a forecast: minutes without seconds."""
    if seconds < 60:
        return duration(seconds)
    minutes = round(seconds / 60)
    return word("time.only_minutes", minutes=minutes) if minutes < 60 else duration(60 * minutes)


def particle(text: str, closed: str, open_: str) -> str:
    """Return the Korean particle after a text: `closed` (이, 은, 을) after a final consonant, else `open_`."""
    last = next((character for character in reversed(text) if character.isalnum()), "")
    if "가" <= last <= "힣":
        return closed if (ord(last) - ord("가")) % 28 else open_
    return closed if last in _CLOSED_DIGITS or last.lower() in _CLOSED_LETTERS else open_


def plain_number(value: float) -> str:
    """Return a number without an exponent, with two significant digits below 1: 0.17, 0.000015."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 1:
        return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.1f}"
    decimals = 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{decimals}f}".rstrip("0").rstrip(".")


def signed(fraction: float) -> str:
    """Return a difference of fractions in percentage points, with a sign unless it rounds to 0.0."""
    points = round(fraction * 100, 1)
    return f"{points:+.1f}" if points else "0.0"


def signed_interval(difference: float, low: float, high: float) -> dict[str, str]:
    """Return a difference of fractions and its interval in percentage points, as fields of a text."""
    return {"points": signed(difference), "low": signed(low), "high": signed(high)}


def moment(iso: str) -> str:
    """Return an ISO 8601 time in the user's time zone."""
    try:
        zone: tzinfo = ZoneInfo(st.context.timezone or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        zone = UTC
    return datetime.fromisoformat(iso).astimezone(zone).strftime("%Y-%m-%d %H:%M")


def plain(text: str) -> str:
    """Escape text of a user for Markdown."""
    text = _NAMED.sub(":\N{WORD JOINER}", text)
    return "".join(f"\\{character}" if character in "\\`*_{}[]()#+-.!|<>~$:&" else character for character in text)


@contextmanager
def show_errors() -> Iterator[None]:
    """Display errors of data, texts, limits, a full disk or a missing library, rather than raise them."""
    try:
        yield
    except (DataError, DictionaryError, LanguageError, LimitError, ImportError) as error:
        extra = problems.as_missing_extra(error)
        if isinstance(error, ImportError) and not isinstance(extra, problems.MissingExtraError):
            raise
        st.error(plain(failure_text(error)), icon=":material/error:")
    except OSError as error:
        if not is_disk_error(error):
            raise
        st.error(word("app.disk", reason=plain(error.strerror or str(error))), icon=":material/error:")


def attempt(
    action: Callable[[], object],
    problem: str,
    container: DeltaGenerator | None = None,
    *,
    errors: tuple[type[Exception], ...] = (OSError,),
) -> bool:
    """Return whether an action succeeds; else draw the limit, or the text `problem` with the reason."""
    try:
        action()
    except LimitError as error:
        why = plain(failure_text(error))
    except errors as error:
        why = word(problem, reason=plain(str(error)))
    else:
        return True
    (container or st).error(why, icon=":material/error:")
    return False


def failure_text(error: Exception) -> str:
    """Return the translated message of an error, else its own. It is not Markdown: escape it with `plain`."""
    error = problems.as_missing_extra(error)
    if isinstance(error, DataError):
        first = next((problem for problem in error.others if problem.leaves_out_row), None)
        return problem_text(error.problem, None, **({"first": problem_text(first)} if first else {}))
    if isinstance(error, Failure) and (key := next(filter(has_text, _keys_of(error)), None)):
        return word(key, **error.details)
    return str(error)


def _keys_of(error: Failure) -> tuple[str, ...]:
    """Return the locale keys that may have the message of a failure."""
    code = error.code
    match error:
        case LanguageError():
            return (f"language.{code}",)
        case ReadingError():
            return (f"reading.{code}",)
        case DictionaryError():
            return (f"dictionary.{code}",)
    if code.startswith("outside_"):
        return (f"outside.{code}",)
    # The stored error of a job has lost its class
    keys = (f"model.{code}", f"imported.{code}", f"milvus.{code}", f"made.{code}", f"limit.{code}", f"extra.{code}")
    return (*keys, f"embedding.{code}", f"chat.{code}", f"dictionary.{code}")


def search_failure_text(error: Exception) -> str:
    """Return the message of a failed search; for an unexpected error, a note with its first line."""
    if isinstance(problems.as_missing_extra(error), Failure):
        return failure_text(error)
    first_line = next(iter(str(error).splitlines()), "")[:300]
    return word("search.failed", reason=first_line or type(error).__name__)


def draw_training_failure(
    code: str, message: str, base: str, unforeseen: str = "failure.unexpected", **details: str
) -> None:
    """Draw why a training or a dry run failed, with the original message if that says more."""
    foreseen = code != "unexpected" and has_text(f"failure.{code}")
    words = word(f"failure.{code}" if foreseen else unforeseen, base=plain(base), **details)
    st.error(words, icon=":material/error:")
    if message and code in ("data", "disk", "memory", problems.MISSING_EXTRA, "option", "unexpected"):
        st.code(message, language=None, wrap_lines=True)


def problem_text(problem: Problem, texts: Mapping[str, str] | None = None, **values: str) -> str:
    """Return the message of a problem, after its row; pass `texts` outside a page."""
    texts = texts or catalog(language())
    details = {name: _detail(problem, name, value, texts) for name, value in problem.details.items()}
    translated = Problem(problem.code, problem.row, {**details, **values})
    return " ".join(translated.format_message(texts[f"problem.{problem.code}"], texts["problem.row"]).split())


def reason_text(problem: Problem, texts: Mapping[str, str] | None = None) -> str:
    return problem_text(Problem(problem.code, None, problem.details), texts)


def _detail(problem: Problem, name: str, value: str | int, texts: Mapping[str, str]) -> str | int:
    if not isinstance(value, str):
        return value
    if name == "role":
        return texts[f"column.{value}"]
    if name == "flags":
        control = _CONTROLS.get(problem.code, "columns")
        return texts[f"control.{control}"].format(label=texts[f"data_page.{control}"])
    return _translated(value, texts) if name in _NAMED_BY_READERS else value


def _translated(value: str, texts: Mapping[str, str]) -> str:
    start = value[:1].lower() + value[1:]
    phrases = [key.removeprefix("detail.") for key in texts if key.startswith("detail.")]
    known = [phrase for phrase in phrases if start == phrase or start.startswith(f"{phrase} ")]
    if not known:
        return value
    longest = max(known, key=len)
    rest = value[len(longest) :].strip()
    if not longest.endswith(":"):  # names of the user's file follow a colon
        rest = _translated(rest, texts)
    return f"{texts[f'detail.{longest}']} {rest}".strip()


def draw_damaged_files(questions: QuestionSet) -> None:
    """Draw a warning with the damaged files of judgements and remarks of a dataset, which are not overwritten."""
    paths = damaged_files(questions.corpus_fingerprint, questions.fingerprint)
    if listed := ", ".join(f"`{path.relative_to(workspace()).as_posix()}`" for path in paths):
        st.warning(word("damaged.files", names=listed), icon=":material/warning:")


def draw_damaged(names: Sequence[str], remove: Callable[[str], None]) -> None:
    for name in names:
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            st.markdown(word("damaged.about", name=plain(name)), width="stretch")
            with st.popover(word("damaged.remove"), icon=":material/delete:", key=f"damaged_{name}"):
                st.markdown(word("damaged.sure"))
                if st.button(word("damaged.remove"), type="primary", key=f"damaged_yes_{name}"):
                    remove(name)
                    st.rerun()


def draw_remove(key: str, remove: Callable[[str], None], *, confirmation: str, message: str) -> None:
    with st.popover(word("data_page.remove"), icon=":material/delete:", key=f"remove_{key}"):
        st.markdown(confirmation)
        if st.button(word("data_page.remove_yes"), icon=":material/delete:", key=f"remove_yes_{key}"):
            with show_errors():
                remove(key)
                st.toast(message, icon=":material/delete:")
                st.rerun()
