"""Rates how likely bytes are text of an encoding's languages.

charset-normalizer measures how messy a decoded text is. For a few short lines that is not enough: the bytes of Korean
in CP949 are tidy Chinese in GB18030. So the characters are also compared with those that the languages use.
"""

import unicodedata
from collections.abc import Callable, Mapping
from typing import NamedTuple

from charset_normalizer import from_bytes
from charset_normalizer.constant import FREQUENCIES

from mrc_workbench.data.formats.columns import NAMES

_COLUMN_NAMES = [name for names in NAMES.values() for name in names if len(name) > 1 and not name.isascii()]
_WESTERN = frozenset("áàâäãåæçéèêëíìîïñóòôöõøœúùûüýÿß")
_CENTRAL = frozenset("áâăäąćčçďéëěęíîľĺłńňóôőöřŕśšşșťţțúůűüýźžż")
_CYRILLIC = frozenset("абвгдеёжзийклмнопрстуфхцчшщъыьэюяєіїґў")
_NEVER_FIRST, _NEVER_LAST = frozenset("ìñë"), frozenset("îñ")  # what MacRoman makes of quotation marks and dashes
_TYPOGRAPHIC = frozenset("“”‘–—…«»¿¡„‚‹›€£¥§°·©®™ºª½¼¾×\xa0")
_FREQUENT_KOREAN = frozenset(FREQUENCIES["Korean"])
_FREQUENT_JAPANESE = frozenset(FREQUENCIES["Japanese"])
_FREQUENT_CHINESE = frozenset(FREQUENCIES["Chinese"]) | frozenset("這個們來為國時說會對過發後裡當沒動還開實問題內點長")
_KNOWN_AS = {"big5": "cp950"}  # what the detector calls a codec whose extension is used
_EAST_ASIAN_MARKS = frozenset("℃℉㎡㎞㎏№℡")


class Rating(NamedTuple):
    """How unlikely an encoding is (0: nothing speaks against it), and the text that it makes of the sample."""

    doubt: float
    codec: str
    text: str


def rate_encodings(sample: bytes, header: bytes) -> list[Rating]:
    """Rate every encoding that decodes a sample, the likeliest first; known names in the header count for it."""
    matches = from_bytes(
        sample, cp_isolation=[*_LANGUAGES, *_KNOWN_AS], threshold=1.0, preemptive_behaviour=False, enable_fallback=False
    )
    ratings: dict[str, Rating] = {}
    for match in matches:
        for name in (match.encoding, *match.could_be_from_charset):
            codec = _KNOWN_AS.get(name, name)
            if codec in _LANGUAGES and codec not in ratings:
                text = sample.decode(codec, "replace")
                doubt = match.chaos + 0.6 * (1 - _LANGUAGES[codec](text)) - 0.1 * match.coherence
                doubt -= 0.5 * any(name in header.decode(codec, "replace") for name in _COLUMN_NAMES)
                ratings[codec] = Rating(doubt, codec, text)
    return sorted((ratings[codec] for codec in _LANGUAGES if codec in ratings), key=lambda rating: rating.doubt)


def _korean(text: str) -> float:
    def script(character: str) -> float:
        if not "가" <= character <= "힣":
            return 0.0
        return 1.0 if min(character.encode("cp949")) >= 0xA1 else 0.5  # half of all syllables are rare

    return _east_asian(text, script, _FREQUENT_KOREAN)


def _japanese(text: str) -> float:
    def script(character: str) -> float:
        if "ぁ" <= character <= "ヿ" or "一" <= character <= "鿿" or character == "々":
            return 1.0
        return 0.5 if "ｦ" <= character <= "ﾟ" else 0.0

    frequent = _FREQUENT_JAPANESE | {character for character in text if "ぁ" <= character <= "ヿ"}
    return _east_asian(text, script, frequent)


def _chinese(codec: str, first: int, last: int) -> Callable[[str], float]:
    """Return what rates text by the common characters, which a codec has between two lead bytes; others are rarer."""

    def script(character: str) -> float:
        if not "一" <= character <= "鿿":
            return 0.0
        return 1.0 if first <= character.encode(codec)[0] <= last else 0.5

    return lambda text: _east_asian(text, script, _FREQUENT_CHINESE)


def _east_asian(text: str, script: Callable[[str], float], frequent: frozenset[str] | set[str]) -> float:
    """Return the fraction of characters in a script, less if few of them are frequent ones."""
    characters = [character for character in text if not character.isascii() and not _is_neutral(character)]
    if not characters:
        return 1.0
    in_script = sum(map(script, characters)) / len(characters)
    fraction = sum(character in frequent for character in characters) / len(characters)
    return in_script * (0.7 + 0.3 * min(1.0, 5 * fraction))


def _is_neutral(character: str) -> bool:
    """Whether all East Asian encodings have the character: punctuation, wide ASCII, units."""
    if character in _EAST_ASIAN_MARKS or "！" <= character <= "～":
        return True
    return unicodedata.category(character)[0] in "PZ"


def _alphabetic(letters: frozenset[str]) -> Callable[[str], float]:
    """Return what rates text by its letters beyond ASCII: capitals begin words, quotation marks stand at their ends."""

    def likely(before: str, character: str, after: str) -> bool:
        if character.lower() in letters:
            is_first, is_last = not before.isalpha(), not after.isalpha()
            if (is_first and character in _NEVER_FIRST) or (is_last and character in _NEVER_LAST):
                return False
            return character.islower() or is_first or before.isupper()
        if character == "’":
            return before.isalnum()
        return character in _TYPOGRAPHIC and not (before.isalpha() and after.isalpha())

    def rate(text: str) -> float:
        places = [place for place, character in enumerate(text) if not character.isascii()]
        padded = f" {text} "
        return sum(likely(*padded[place : place + 3]) for place in places) / max(1, len(places))

    return rate


_LANGUAGES: Mapping[str, Callable[[str], float]] = {
    "cp949": _korean,
    "cp1252": _alphabetic(_WESTERN),
    "cp932": _japanese,
    "euc_jp": _japanese,
    "gb18030": _chinese("gb18030", 0xB0, 0xD7),
    "cp950": _chinese("cp950", 0xA4, 0xC6),
    "johab": _korean,
    "cp1250": _alphabetic(_CENTRAL),
    "mac_roman": _alphabetic(_WESTERN),
    "cp1251": _alphabetic(_CYRILLIC),
    "koi8_r": _alphabetic(_CYRILLIC),
}
