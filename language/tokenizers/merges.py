"""The merges of a BPE in the order they were made, and a word as it is cut after the first of them."""

import json
from functools import cache

from language.problems import LanguageError
from language.tokenizers.prepared import PreparedTokenizer

_BLANK = "▁"


def merges_of(tokenizer: PreparedTokenizer) -> list[tuple[str, str]]:
    """Return the pairs of pieces that were merged, the first first, each readable.

    Raises `LanguageError` `no_merges` where the tokenizer is no BPE: WordPiece keeps none, Unigram makes none.
    """
    in_bytes = is_of_bytes(tokenizer)
    return [
        (readable(first, in_bytes=in_bytes), readable(second, in_bytes=in_bytes)) for first, second in _pairs(tokenizer)
    ]


def built(word: str, tokenizer: PreparedTokenizer, merges: int) -> list[str]:
    """Return the pieces of a word, readable, after the first so many merges: with 0 its letters or bytes, with all of
    them what the tokenizer cuts.

    Raises `LanguageError` `no_merges`.
    """
    from tokenizers import Tokenizer

    pairs, content = _pairs(tokenizer), tokenizer.content
    model = {**content["model"], "merges": pairs[:merges]}
    if merges < len(pairs):
        model["ignore_merges"] = False  # else a word that is a piece is one from the beginning
    after = Tokenizer.from_str(json.dumps({**content, "model": model}))
    (given,) = tokenizer.prepared([word])
    names = after.encode(given, add_special_tokens=False).tokens
    return [readable(name, in_bytes=is_of_bytes(tokenizer)) for name in names]


def readable(name: str, *, in_bytes: bool) -> str:
    """Return a piece as a person reads it: blanks as ▁; of bytes, their text, or their numbers where they are none."""
    if not in_bytes or not set(name) <= _byte_of().keys():
        return name
    content = bytes(_byte_of()[letter] for letter in name)
    try:
        return content.decode().replace(" ", _BLANK)
    except UnicodeDecodeError:
        return f"<{content.hex(' ').upper()}>"


def is_of_bytes(tokenizer: PreparedTokenizer) -> bool:
    """Whether its pieces are of bytes, which `readable` has to know."""
    return "ByteLevel" in json.dumps(tokenizer.content["pre_tokenizer"])


def _pairs(tokenizer: PreparedTokenizer) -> list[tuple[str, str]]:
    pairs = tokenizer.content["model"].get("merges")
    if pairs is None:
        message = f"{tokenizer.name} is no BPE, and has no merges: choose bpe or byte-bpe"
        raise LanguageError("no_merges", message, name=tokenizer.name)
    return [(first, second) for first, second in pairs]


@cache
def _byte_of() -> dict[str, int]:
    """The bytes by the letters that stand for them in byte-level BPE (Radford et al. 2019): those that can be seen are
    themselves, the others are 256 and what follows, in order.
    """
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {chr(256 + row): byte for row, byte in enumerate(others)}
