"""The merges by which a BPE builds one word, of all that it learned those few that apply to it."""

from dataclasses import dataclass
from itertools import pairwise

from language.tokenizers.kinds import UNKNOWN
from language.tokenizers.merges import is_of_bytes, merges_of, readable
from language.tokenizers.prepared import PreparedTokenizer


@dataclass(frozen=True)
class Step:
    """The pieces of a word, readable, after the first `merges` of a tokenizer, when `pair` was `joined` last."""

    merges: int
    pair: tuple[str, str]
    joined: str
    pieces: tuple[str, ...]


def steps(word: str, tokenizer: PreparedTokenizer) -> list[Step]:
    """Return how a word is built: its letters or bytes first (`merges` 0, no `pair`), and then each merge that joins.

    Of the pairs that stand beside each other the one learned first is joined wherever it stands, until none was learned
    (Sennrich et al. 2016). `merges.built` has after n merges the pieces of the last step with at most n. Two steps may
    have as many: a pair learned early may stand beside each other only after one that was learned later is joined.
    Raises `LanguageError` `no_merges`.
    """
    told, in_bytes = merges_of(tokenizer), is_of_bytes(tokenizer)
    learned = {(first, second): row for row, (first, second) in enumerate(tokenizer.content["model"]["merges"])}
    parts = _letters(word, tokenizer)

    def step(merges: int, pair: tuple[str, str] = ("", ""), joined: str = "") -> Step:
        names = [readable(piece, in_bytes=in_bytes) for part in parts for piece in part]
        return Step(merges, pair, readable(joined, in_bytes=in_bytes), tuple(names))

    found = [step(0)]
    while pairs := [pair for part in parts for pair in pairwise(part) if pair in learned]:
        pair = min(pairs, key=lambda one: learned[one])
        parts = [_joined(part, pair) for part in parts]
        place = learned[pair]
        found.append(step(max(found[-1].merges, 1 + place), told[place], "".join(pair)))
    return found


def _letters(word: str, tokenizer: PreparedTokenizer) -> list[list[str]]:
    """The letters, or what stands for bytes, of every part that no piece crosses."""
    (given,) = tokenizer.prepared([word])
    made = tokenizer.tokenizer
    normal = made.normalizer.normalize_str(given) if made.normalizer else given
    parted = made.pre_tokenizer.pre_tokenize_str(normal) if made.pre_tokenizer else [(normal, None)]
    known = made.get_vocab()
    return [[letter if letter in known else UNKNOWN for letter in part] for part, _ in parted]


def _joined(part: list[str], pair: tuple[str, str]) -> list[str]:
    found: list[str] = []
    for piece in part:
        if found and (found[-1], piece) == pair:
            found[-1] += piece
        else:
            found.append(piece)
    return found
