"""Detects the encoding of a text, or checks the encoding named by the user.

Byte order marks and valid UTF-8 decide first. Every other encoding is a guess: charset-normalizer rates how messy the
decoded text is. This fails for short texts: Korean in CP949 is also tidy Chinese in GB18030. So the characters are also
compared with the most frequent ones of the encoding's languages. If two different texts are equally likely, the error
contains a line decoded by each encoding, and the user names the encoding.
"""

import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import regex
from charset_normalizer import from_bytes
from charset_normalizer.constant import FREQUENCIES, IANA_SUPPORTED
from charset_normalizer.utils import iana_name

from mrc_workbench.data.formats.columns import NAMES, PAIR_NAMES
from mrc_workbench.data.formats.tables import REPLACEMENT, display_text
from mrc_workbench.data.problems import DataError, Problem, ProblemCode

if TYPE_CHECKING:
    from mrc_workbench.data.formats.text import Content

# Python's codecs by displayed name
_CODECS = {
    "UTF-8": "utf-8-sig", "UTF-16": "utf-16", "UTF-32": "utf-32",
    "CP949": "cp949", "Johab": "johab",
    "Shift-JIS": "cp932", "EUC-JP": "euc_jp", "ISO-2022-JP": "iso2022_jp_ext",
    "GB18030": "gb18030", "Big5": "cp950",
    "Windows-1252": "cp1252", "MacRoman": "mac_roman", "Windows-1250": "cp1250",
    "Windows-1251": "cp1251", "KOI8-R": "koi8_r",
}  # fmt: skip
ENCODINGS = tuple(_CODECS)
_NAMES = {codec: name for name, codec in _CODECS.items()}
_PREFERRED = ("cp949", "cp1252")  # among equally likely encodings; reported
ENCODING_PROBLEMS = (
    *(ProblemCode.UNKNOWN_ENCODING, ProblemCode.DOUBTFUL_ENCODING),
    *(ProblemCode.WRONG_ENCODING, ProblemCode.UNKNOWN_ENCODING_NAME),
)
_FLAG = "--encoding NAME"  # of the command line
_SAMPLE_BYTES = 8_192
_MAX_DOUBT = 0.35  # of a text in the encoding's languages
_MARGIN = 0.1  # minimum difference of ratings
_WEAK = 0.15  # a higher doubt needs a greater margin
_MAX_EXAMPLE_CHARACTERS = 40
_MAX_EXAMPLES = 4
_MAX_SAMPLE_CHARACTERS = 200  # of a line displayed for the choice of an encoding
_WIDE_FAMILIAR = re.compile("[\t\n\r -~\u00a0-\u06ff\u0900-\u0e7f\u3000-\u30ff一-鿿가-힣！-～]")
_MIN_FAMILIAR = 0.85  # of the characters: half of random byte pairs are familiar characters
_EAST_ASIAN = ("cp949", "cp932", "euc_jp", "gb18030", "cp950", "johab")
_ESCAPES = (b"\x1b$@", b"\x1b$B", b"\x1b$(")  # before Japanese in ISO-2022-JP
_UTF32_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_QUESTION_NAMES, _PAIR_NAMES = (
    [name for names in known.values() for name in names if len(name) > 1 and not name.isascii()]
    for known in (NAMES, PAIR_NAMES)
)  # of columns, not in ASCII, so that they depend on the encoding
_WESTERN = frozenset("áàâäãåæçéèêëíìîïñóòôöõøœúùûüýÿß")
_CENTRAL = frozenset("áâăäąćčçďéëěęíîľĺłńňóôőöřŕśšşșťţțúůűüýźžż")
_CYRILLIC = frozenset("абвгдеёжзийклмнопрстуфхцчшщъыьэюяєіїґў")
# quotation marks and dashes of other encodings, decoded as MacRoman
_NEVER_FIRST = frozenset("ìñë")
_NEVER_LAST = frozenset("îñ")
_TYPOGRAPHIC = frozenset("“”‘–—…«»¿¡„‚‹›€£¥§°·©®™ºª½¼¾×\xa0")
_FREQUENT_KOREAN = frozenset(FREQUENCIES["Korean"])
_FREQUENT_JAPANESE = frozenset(FREQUENCIES["Japanese"])
_FREQUENT_CHINESE = frozenset(FREQUENCIES["Chinese"]) | frozenset("這個們來為國時說會對過發後裡當沒動還開實問題內點長")
_KNOWN_AS = {"big5": "cp950"}  # the detector's name of a codec and the extended codec
# without characters of all East Asian encodings: ASCII, punctuation, full-width ASCII and units
_DISTINCTIVE = regex.compile(r"[^\x00-\x7f\p{P}\p{Z}！-～℃℉㎡㎞㎏№℡]")


class Encoding(NamedTuple):
    """Python's codec, its displayed name, its error handler, and problems of replaced bytes."""

    codec: str
    name: str
    errors: str = "strict"
    problems: tuple[Problem, ...] = ()


class EncodingCandidate(NamedTuple):
    """A possible encoding, as named in `--encoding`, and a decoded line."""

    name: str
    sample: str


class Rating(NamedTuple):
    """The doubt of an encoding (0: none) and the decoded sample."""

    doubt: float
    codec: str
    text: str


def detect_encoding(content: "Content", named: str = "") -> Encoding:
    """Return the named or detected encoding. Raises `DataError` if it is invalid, unknown or ambiguous."""
    if named:
        return _encoding_by_name(content, named)
    if (wide := _detect_wide(content)) is not None:
        return wide
    if any(escape in content.start for escape in _ESCAPES) and _first_invalid(content, "iso2022_jp_ext") is None:
        return Encoding("iso2022_jp_ext", "ISO-2022-JP")
    if _first_invalid(content, "utf-8") is None:
        return Encoding("utf-8-sig", "UTF-8")
    if _is_mostly(content.start, "utf-8"):
        return _decodable(content, Encoding("utf-8-sig", "UTF-8"))
    return _detect_by_rating(content)


def _encoding_by_name(content: "Content", named: str) -> Encoding:
    plain = {_plain(name): name for name in ENCODINGS}
    name = plain.get(_plain(named), named)
    codec = _CODECS.get(name)
    if codec is None:
        codec = iana_name(named, strict=False)
        if codec not in IANA_SUPPORTED:  # not all codecs are encodings, such as base64
            details = {"name": display_text(named, 80), "names": ", ".join(ENCODINGS), "flags": _FLAG}
            raise DataError.from_code(ProblemCode.UNKNOWN_ENCODING_NAME, **details)
    if codec == "utf-16" and not content.start.startswith(_UTF16_MARKS):
        codec = _wide_without_mark(content.whole) or "utf-16-le"
    return _decodable(content, Encoding(codec, name))


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def _decodable(content: "Content", encoding: Encoding) -> Encoding:
    """Return the encoding, which replaces a few broken bytes. Raises `DataError` if there are many."""
    if (position := _first_invalid(content, encoding.codec)) is None:
        return encoding
    byte, line = _byte_and_line(content.whole, position)
    if not _is_mostly(content.start, encoding.codec):
        raise DataError.from_code(ProblemCode.WRONG_ENCODING, name=encoding.name, byte=byte, line=line, flags=_FLAG)
    count = content.whole.decode(encoding.codec, "replace").count(REPLACEMENT)
    problem = Problem.from_code(ProblemCode.MENDED_BYTES, encoding=encoding.name, count=count, line=line)
    return encoding._replace(errors="replace", problems=(problem,))


def _is_mostly(start: bytes, codec: str) -> bool:
    text = start[:1_000_000].decode(codec, "replace")
    broken = text.count(REPLACEMENT)
    return sum(not character.isascii() for character in text) - broken > 10 * broken


def _first_invalid(content: "Content", codec: str) -> int | None:
    """Return the position of the first invalid byte for a codec, None if all are valid."""
    decoder = codecs.getincrementaldecoder(codec)()
    position = 0
    try:
        for part in content.parts():
            pending = len(decoder.getstate()[0])
            decoder.decode(part)
            position += len(part)
        pending = len(decoder.getstate()[0])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        return max(0, position - pending + error.start)
    except UnicodeError:  # UTF-16 and UTF-32 without a byte order mark
        return position
    return None


def _byte_and_line(content: bytes, position: int) -> tuple[str, int]:
    position = min(position, len(content) - 1)
    return f"0x{content[position]:02X}", content.count(b"\n", 0, position) + 1


def _detect_wide(content: "Content") -> Encoding | None:
    if content.start.startswith(_UTF32_MARKS):
        return _decodable(content, Encoding("utf-32", "UTF-32"))
    if content.start.startswith(_UTF16_MARKS):
        return _decodable(content, Encoding("utf-16", "UTF-16"))
    if any(b"\x00" in part for part in content.parts()) and (codec := _wide_without_mark(content.whole)) is not None:
        return Encoding(codec, codec[:6].upper())
    return None


def _wide_without_mark(content: bytes) -> str | None:
    """Return the codec of UTF-16 or UTF-32 with the most familiar characters and no NUL."""
    best = None
    best_fraction = _MIN_FAMILIAR
    for codec in ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be"):
        try:
            start = content.decode(codec)[:10_000]
        except UnicodeDecodeError:
            continue
        fraction = len(_WIDE_FAMILIAR.findall(start)) / len(start)
        # other encodings with a NUL decode to neither line breaks nor mostly ASCII
        is_text = "\n" in start or "\r" in start or 2 * sum(map(str.isascii, start)) > len(start)
        if is_text and fraction > best_fraction and "\x00" not in start:
            best = codec
            best_fraction = fraction
    return best


def _detect_by_rating(content: "Content") -> Encoding:
    """Return the only likely encoding, or the preferred one of several. Raises `DataError`."""
    if (codec := _codec_of_header(content)) is not None:
        return Encoding(codec, _NAMES[codec])
    ratings = _ratings(content)
    best = next((rating for rating in ratings if _first_invalid(content, rating.codec) is None), None)
    if best is None or best.doubt > _MAX_DOUBT:
        byte, line = _byte_and_line(content.whole, _first_invalid(content, "utf-8") or 0)
        raise DataError.from_code(ProblemCode.UNKNOWN_ENCODING, byte=byte, line=line, flags="--encoding Shift-JIS")
    margin, max_doubt = (_MARGIN, best.doubt + _MARGIN) if best.doubt < _WEAK else (3 * _MARGIN, float("inf"))
    different = [candidate for candidate in ratings if candidate.text != best.text and candidate.doubt < max_doubt]
    others = [candidate for candidate in different if _first_invalid(content, candidate.codec) is None]
    likely = [best, *(rating for rating in others if rating.doubt - best.doubt < margin)]
    if len(likely) == 1 and (best.doubt < _WEAK or not others):
        return Encoding(best.codec, _NAMES[best.codec])
    if len(likely) == 1:
        return _guessed_encoding(best, [best, *others])
    preferred = next((rating for codec in _PREFERRED for rating in likely if rating.codec == codec), None)
    if preferred is None:
        raise DataError.from_code(ProblemCode.DOUBTFUL_ENCODING, candidates=_examples(likely, likely), flags=_FLAG)
    return _guessed_encoding(preferred, likely)


def _ratings(content: "Content") -> list[Rating]:
    return rate_encodings(_sample(content.start), content.start.partition(b"\n")[0])


def _codec_of_header(content: "Content") -> str | None:
    """Return the only East Asian codec for which the first line contains a known column name, such as 질문 or 本文."""
    header = content.start.lstrip()[:300].partition(b"\n")[0]
    decoded = {codec: header.decode(codec, "replace") for codec in _EAST_ASIAN}
    known_names = (*_QUESTION_NAMES, *_PAIR_NAMES)
    matches = [codec for codec, text in decoded.items() if any(name in text for name in known_names)]
    return matches[0] if len(matches) == 1 and _first_invalid(content, matches[0]) is None else None


def _guessed_encoding(selected: Rating, likely: Sequence[Rating]) -> Encoding:
    others = _examples([rating for rating in likely if rating is not selected], likely)
    problem = Problem.from_code(ProblemCode.GUESSED_ENCODING, name=_NAMES[selected.codec], others=others, flags=_FLAG)
    return Encoding(selected.codec, _NAMES[selected.codec], problems=(problem,))


def _sample(start: bytes) -> bytes:
    """Return the first lines and fields that are not ASCII; no encoding uses the bytes of line breaks and commas."""
    fields = list[bytes]()
    size = 0
    for field in re.split(rb"[\r\n,]", start):
        if size >= _SAMPLE_BYTES:
            break
        if not field.isascii():
            fields.append(field[:_SAMPLE_BYTES])
            size += len(field)
    if len(fields) > 1 and start.endswith(fields[-1]):
        fields.pop()  # the sample may end inside a character
    return b"\n".join(fields)


def _examples(ratings: Sequence[Rating], compared: Sequence[Rating]) -> str:
    position = _first_differing_line([rating.text for rating in compared])
    lines = ((_NAMES[rating.codec], rating.text.split("\n")[position].strip()) for rating in ratings[:_MAX_EXAMPLES])
    return "; ".join(f"{name}: {display_text(line, _MAX_EXAMPLE_CHARACTERS)}" for name, line in lines)


def _first_differing_line(texts: Sequence[str]) -> int:
    lines = zip(*(text.split("\n") for text in texts), strict=False)
    return next((index for index, line in enumerate(lines) if len(set(line)) > 1), 0)


def encoding_candidates(content: "Content") -> tuple[EncodingCandidate, ...]:
    """Return encodings with different texts, the likeliest first; all encodings if some bytes are invalid for each."""
    texts: dict[str, str] = {}  # by codec
    for rating in _ratings(content):
        if rating.text not in texts.values() and _first_invalid(content, rating.codec) is None:
            texts[rating.codec] = rating.text
    if not texts:
        sample = _sample(content.start)
        mended = {codec: sample.decode(codec, "replace") for codec in _NAMES if not codec.startswith("utf")}
        texts = dict(sorted(mended.items(), key=lambda item: item[1].count(REPLACEMENT)))
    position = _first_differing_line([*texts.values()])
    lines = {codec: text.split("\n")[position].strip() for codec, text in texts.items()}
    return tuple(
        EncodingCandidate(_NAMES[codec], display_text(line, _MAX_SAMPLE_CHARACTERS)) for codec, line in lines.items()
    )


def codec_of_names(names: bytes) -> str | None:
    """Return the codec of file names in an archive, one per line; None if no codec is likely."""
    likely = [rating for rating in rate_encodings(names, b"") if rating.doubt <= _MAX_DOUBT]
    near = [rating.codec for rating in likely if rating.doubt - likely[0].doubt < 2 * _MARGIN]
    for codec in ("utf-8", *sorted(near, key=lambda codec: codec != _PREFERRED[0])):
        with suppress(UnicodeDecodeError):
            names.decode(codec)
            return codec
    return None


def rate_encodings(sample: bytes, header: bytes) -> list[Rating]:
    """Rate every encoding that decodes a sample, the likeliest first; known names in the header reduce the doubt."""
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
                doubt -= 0.5 * any(name in header.decode(codec, "replace") for name in _QUESTION_NAMES)
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
    """Return a function that rates text by common characters, whose lead bytes are between `first` and `last`."""

    def script(character: str) -> float:
        if not "一" <= character <= "鿿":
            return 0.0
        return 1.0 if first <= character.encode(codec)[0] <= last else 0.5

    return lambda text: _east_asian(text, script, _FREQUENT_CHINESE)


def _east_asian(text: str, script: Callable[[str], float], frequent: frozenset[str] | set[str]) -> float:
    """Return the fraction of characters in a script, reduced if few of them are frequent."""
    characters = _DISTINCTIVE.findall(text)
    if not characters:
        return 1.0
    in_script = sum(map(script, characters)) / len(characters)
    fraction = sum(character in frequent for character in characters) / len(characters)
    return in_script * (0.7 + 0.3 * min(1.0, 5 * fraction))


def _alphabetic_rater(alphabet: frozenset[str]) -> Callable[[str], float]:
    """Return a function that rates text by letters (capitals begin words) and quotation marks that are not ASCII."""

    def is_likely(before: str, character: str, after: str) -> bool:
        if character.lower() in alphabet:
            is_first = not before.isalpha()
            is_last = not after.isalpha()
            if (is_first and character in _NEVER_FIRST) or (is_last and character in _NEVER_LAST):
                return False
            return character.islower() or is_first or before.isupper()
        if character == "’":
            return before.isalnum()
        return character in _TYPOGRAPHIC and not (before.isalpha() and after.isalpha())

    def rate(text: str) -> float:
        positions = [position for position, character in enumerate(text) if not character.isascii()]
        padded = f" {text} "
        return sum(is_likely(*padded[position : position + 3]) for position in positions) / max(1, len(positions))

    return rate


_LANGUAGES: Mapping[str, Callable[[str], float]] = {
    "cp949": _korean,
    "cp1252": _alphabetic_rater(_WESTERN),
    "cp932": _japanese,
    "euc_jp": _japanese,
    "gb18030": _chinese("gb18030", 0xB0, 0xD7),
    "cp950": _chinese("cp950", 0xA4, 0xC6),
    "johab": _korean,
    "cp1250": _alphabetic_rater(_CENTRAL),
    "mac_roman": _alphabetic_rater(_WESTERN),
    "cp1251": _alphabetic_rater(_CYRILLIC),
    "koi8_r": _alphabetic_rater(_CYRILLIC),
}
