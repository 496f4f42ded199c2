"""Every word a person reads, in the person's language."""

import math
import re
import tomllib
from datetime import UTC, datetime, tzinfo
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from mrc_workbench.data import problems
from mrc_workbench.labs import labs
from mrc_workbench.retrieval import takeaway

LANGUAGES = {"ko": "한국어", "en": "English"}
_NAMED = re.compile(r":(?=[\w+-]+(/\w+)?:)")  # icons and emoji are looked for after what is escaped was read
_FOLDER = Path(__file__).parents[1] / "locales"


class _Fields(Formatter):
    """Fills the fields of a text. `{count:row|rows}` is the word that fits a count: the first one for exactly 1."""

    def format_field(self, value: Any, format_spec: str) -> Any:
        singular, bar, plural = format_spec.partition("|")
        if not bar:
            return super().format_field(value, format_spec)
        return singular if str(value) == "1" else plural


_FIELDS = _Fields()


@cache
def catalog(language: str) -> dict[str, str]:
    """Return the texts of a language by key, `section.name`."""
    paths = sorted((_FOLDER / language).glob("*.toml"))
    paths += [path for lab in labs() if (path := lab.folder / f"words.{language}.toml").is_file()]
    if language == "en":
        paths += [problems.WORDS, takeaway.WORDS]
    return {
        f"{section}.{name}": text
        for sections in (tomllib.loads(path.read_text(encoding="utf-8")) for path in paths)
        for section, entries in sections.items()
        for name, text in entries.items()
    }


def language() -> str:
    """Return the language in use: the one in the address, else the browser's, else English."""
    chosen = st.query_params.get("lang") or st.session_state.get("language")
    if chosen in LANGUAGES:
        return str(chosen)
    return "ko" if (st.context.locale or "").lower().startswith("ko") else "en"


def word(key: str, /, **values: Any) -> str:
    """Return the text of a key, its `{fields}` filled in."""
    text = catalog(language())[key]
    return _FIELDS.format(text, **values) if values else text


def word_or(key: str, otherwise: str, /, **values: Any) -> str:
    """Return the text of a key; where there is none, as for what was added to the program, what to say instead."""
    return word(key, **values) if known(key) else otherwise


def known(key: str) -> bool:
    return key in catalog(language())


def duration(seconds: float) -> str:
    if seconds < 1:
        return word("time.under_a_second")
    if seconds < 60:
        return word("time.seconds", seconds=round(seconds))
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return word("time.minutes", minutes=minutes, seconds=rest)
    return word("time.hours", hours=minutes // 60, minutes=minutes % 60)


_CLOSED_DIGITS = set("013678")  # read 영, 일, 삼, 육, 칠, 팔, which end in a consonant
_CLOSED_LETTERS = set("lmnr")  # their Korean names do: 엘, 엠, 엔, 알


def particle(text: str, closed: str, open_: str) -> str:
    """Return the Korean particle that follows a text: `closed` after a final consonant (이, 은, 을), else `open_`.

    The last letter or digit decides; signs after it, such as a closing bracket, are passed over.
    """
    last = next((character for character in reversed(text) if character.isalnum()), "")
    if "가" <= last <= "힣":
        return closed if (ord(last) - ord("가")) % 28 else open_
    return closed if last in _CLOSED_DIGITS or last.lower() in _CLOSED_LETTERS else open_


def plain_number(value: float) -> str:
    """Return a number with two significant digits below 1, written without an exponent: 0.17, 0.000015."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 1:
        return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.1f}"
    decimals = 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{decimals}f}".rstrip("0").rstrip(".")


def signed(share: float) -> str:
    """Return a difference of shares in percentage points; nothing has no sign."""
    points = round(share * 100, 1)
    return f"{points:+.1f}" if points else "0.0"


def moment(iso: str) -> str:
    """Return a moment, an ISO 8601 time, as the person's clock shows it."""
    try:
        zone: tzinfo = ZoneInfo(st.context.timezone or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        zone = UTC
    return datetime.fromisoformat(iso).astimezone(zone).strftime("%Y-%m-%d %H:%M")


def plain(text: str) -> str:
    """Return user text for a Markdown place, so that none of it is read as Markdown."""
    text = _NAMED.sub(":\N{WORD JOINER}", text)
    return "".join(f"\\{character}" if character in "\\`*_{}[]()#+-.!|<>~$:&" else character for character in text)
