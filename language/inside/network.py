"""A transformer as it is looked into: the pieces of a sentence, and what each layer makes of them."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from language.tokenizers.kinds import Split
from language.tokenizers.morphemes import composed_letters, mark, marked, morpheme_cuts, unmarked
from language.tokenizers.train import TRAINED

_WORD = re.compile(r"\S+")
_SPACES = ("▁", "Ġ")  # how pieces are written that are a space and no letter


@dataclass(frozen=True)
class Piece:
    """A piece of a sentence and the letters `start` to `end` it stands for.

    `word` numbers its word, the words being separated by spaces; -1 of what the tokenizer adds, as [CLS] and [SEP].
    `text` is its letters, but for what is added and what the tokenizer does not know: these are called as it does.
    """

    text: str
    start: int
    end: int
    word: int

    @property
    def special(self) -> bool:
        """Whether the tokenizer added it."""
        return self.word < 0


@dataclass(frozen=True)
class Network:
    """A loaded transformer with its fast tokenizer; `longest` is how many tokens of a sentence it reads."""

    reference: str
    model: Any
    tokenizer: Any
    longest: int

    @property
    def marks_morphemes(self) -> bool:
        """Whether its tokenizer was trained here on texts in which morphemes are marked, and expects them so."""
        trained = self.tokenizer.init_kwargs.get(TRAINED)
        return isinstance(trained, dict) and trained.get("split") == Split.MORPHEMES

    def features(self, sentences: Sequence[str]) -> Any:
        """Tokens of sentences as tensors on the model's device, padded at the end and cut at `longest`."""
        texts = marked(sentences) if self.marks_morphemes else list(sentences)
        shape = {"padding": True, "padding_side": "right", "truncation": True, "max_length": self.longest}
        return self.tokenizer(texts, return_tensors="pt", **shape).to(self.model.device)

    def pieces(self, sentence: str) -> list[Piece]:
        """Return the pieces of a sentence (`composed`) in order, those that the tokenizer adds among them."""
        places = morpheme_cuts([sentence])[0] if self.marks_morphemes else np.zeros(0, dtype=np.int64)
        text = mark(sentence, places)
        told = self.tokenizer(text, truncation=True, max_length=self.longest, return_special_tokens_mask=True)
        encoding = told.encodings[0]
        offsets = unmarked(places, np.array(encoding.offsets, dtype=np.int64)).tolist()
        begins = [match.start() for match in _WORD.finditer(sentence)]
        return [
            Piece(name, 0, 0, -1) if added else _piece(sentence, begins, name, span, self._unknown(number))
            for name, span, number, added in zip(
                encoding.tokens, offsets, encoding.ids, encoding.special_tokens_mask, strict=True
            )
        ]

    def _unknown(self, number: int) -> str:
        return str(self.tokenizer.unk_token) if number == self.tokenizer.unk_token_id else ""

    def hidden_states(self, sentence: str) -> np.ndarray:
        """Return what every layer makes of every piece, `(n_layers + 1, n_pieces, dimensions)` float32.

        The first is what goes into the first layer: pieces with their positions.
        """
        import torch

        with torch.inference_mode():
            told = self.model(**self.features([sentence]), output_hidden_states=True)
            return np.stack([state[0].float().cpu().numpy() for state in told.hidden_states])

    def static_vectors(self, sentence: str) -> np.ndarray:
        """Return the rows of the table of pieces, `(n_pieces, dimensions)` float32: the same in every sentence."""
        import torch

        with torch.inference_mode():
            table = self.model.get_input_embeddings()
            found: np.ndarray = table(self.features([sentence])["input_ids"])[0].float().cpu().numpy()
            return found


def composed(text: str) -> str:
    """Return a text in composed letters (NFC) without outer spaces, so that what looks alike is alike."""
    return composed_letters(text).strip()


def _piece(sentence: str, begins: Sequence[int], name: str, span: tuple[int, int], unknown: str) -> Piece:
    start, end = span
    while start < end and sentence[start].isspace():  # some pieces stand for the space before their word, too
        start += 1
    if name in _SPACES:  # or for nothing else, though some tokenizers say that they hold the word's first letter
        end = start
    word = max(bisect_right(begins, start) - 1, 0)
    return Piece(unknown or sentence[start:end] or name, start, end, word)
