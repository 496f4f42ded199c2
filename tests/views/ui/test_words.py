"""Every word on a page is in both languages, is used, and has the same fields."""

import re
import string

import pytest

from data.workspace import PROJECT
from training.runs.runs import Phase
from views.ui.words import LANGUAGES, catalog, plain

VIEWS = PROJECT / "views"
SOURCE = "".join(path.read_text(encoding="utf-8") for path in [*VIEWS.rglob("*.py"), VIEWS.parent / "workbench.py"])
WRITTEN = set(re.findall(r"""["']([a-z_]+\.[a-zA-Z0-9_]+)["']""", SOURCE))
# the columns of `views.ui.tables` find their explanations by their own key
EXPLAINED = {f"{key}_help" for key in re.findall(r"""tables\.[a-z_]+\(\s*"([a-z_]+\.[a-z0-9_]+)""", SOURCE)}
# keys put together while running: `word(f"part.{part}")` uses every key that begins with "part."
BEGINNINGS = tuple(set(re.findall(r"""f["']([a-z_]+\.(?:[a-z_]+_)?)\{""", SOURCE)))


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_both_languages_have_the_same_keys_with_the_same_fields() -> None:
    korean, english = (catalog(language) for language in LANGUAGES)
    assert korean.keys() == english.keys()
    different = [key for key in korean if fields(korean[key]) != fields(english[key])]
    assert different == []


def test_no_text_is_empty_or_left_in_the_other_language() -> None:
    hangul = re.compile("[가-힣]")
    names = {"sidebar.language"}  # names both languages, for who cannot read the one in use
    english = catalog("en")
    assert [key for key, text in english.items() if not text.strip()] == []
    assert [key for key, text in english.items() if hangul.search(text) and key not in names] == []


def test_every_key_in_the_code_has_a_text() -> None:
    sections = {key.split(".")[0] for key in catalog("en")}
    missing = [key for key in WRITTEN if key.split(".")[0] in sections and key not in catalog("en")]
    assert missing == []


def test_every_text_is_used() -> None:
    used = WRITTEN | EXPLAINED
    unused = [key for key in catalog("en") if key not in used and not key.startswith(BEGINNINGS)]
    assert unused == []


@pytest.mark.parametrize("phase", Phase)
def test_every_phase_has_words(phase: Phase) -> None:
    assert f"phase.{phase.value}" in catalog("ko")


def test_plain_leaves_nothing_for_markdown_to_read() -> None:
    assert plain("**a** [b](c) <i>") == r"\*\*a\*\* \[b\]\(c\) \<i\>"


def test_plain_makes_no_icon_of_a_text() -> None:
    """Streamlit looks for the names of icons and emoji after it has read what is escaped."""
    shown = re.sub(r"\\(.)", r"\1", plain("별 :material/star: :smile: 시간 12:30 a::b"))
    assert shown == "별 :\u2060material/star: :\u2060smile: 시간 12:30 a::b"


@pytest.mark.parametrize("language", ["ko", "en"])
def test_no_two_tildes_strike_out_what_is_between(language: str) -> None:
    struck = {key: text for key, text in catalog(language).items() if re.search(r"~\S.*\S~", text)}
    assert not struck
