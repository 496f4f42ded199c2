"""A transformer as it is looked into: how it is loaded, the pieces of a sentence, and what each layer makes of them.

At a masked place a masked language model is asked what it expects: the likeliest pieces, and how likely a word is.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mrc_workbench.data.text.corpora import LanguageError
from mrc_workbench.data.workspace import read_json
from mrc_workbench.models.files import ModelError, loading
from mrc_workbench.models.language import tokenizer_training
from mrc_workbench.models.language.tokenizer_training import BLANKS, TRAINED, PreTokenization
from mrc_workbench.models.loading import WEIGHTS, most_tokens, require_readable, require_trained, where_of
from mrc_workbench.models.sources import ModelSource, is_starter

_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class SentenceToken:
    """A token of a sentence, for its characters `start` to `end`.

    `word` numbers its word, between spaces; -1 of special tokens. `text` is its characters, or the token's name if it
    is special or unknown.
    """

    text: str
    start: int
    end: int
    word: int

    @property
    def is_special(self) -> bool:
        return self.word < 0


@dataclass(frozen=True)
class TransformerModel:
    """A loaded transformer with its fast tokenizer; `longest` is how many tokens of a sentence it reads."""

    reference: str
    model: Any
    tokenizer: Any
    max_tokens: int

    @property
    def marks_morphemes(self) -> bool:
        """Whether its tokenizer was trained here on texts with these marks."""
        trained = self.tokenizer.init_kwargs.get(TRAINED)
        return isinstance(trained, dict) and trained.get("split") == PreTokenization.MORPHEMES

    def features(self, sentences: Sequence[str]) -> Any:
        """Return the tokens of sentences as tensors on the model's device, padded at the end and cut at `longest`."""
        texts = tokenizer_training.mark_morphemes(sentences) if self.marks_morphemes else list(sentences)
        shape = {"padding": True, "padding_side": "right", "truncation": True, "max_length": self.max_tokens}
        return self.tokenizer(texts, return_tensors="pt", **shape).to(self.model.device)

    def pieces(self, sentence: str) -> list[SentenceToken]:
        """Return the tokens of a sentence (`composed`) in order, special ones included."""
        boundaries = np.zeros(0, dtype=np.int64)
        if self.marks_morphemes:
            (boundaries,) = tokenizer_training.morpheme_boundaries([sentence])
        text = tokenizer_training.insert_boundaries(sentence, boundaries)
        shape = {"truncation": True, "max_length": self.max_tokens, "return_special_tokens_mask": True}
        (encoding,) = self.tokenizer(text, **shape).encodings
        offsets = tokenizer_training.to_unmarked_offsets(
            boundaries, np.array(encoding.offsets, dtype=np.int64)
        ).tolist()
        word_starts = [match.start() for match in _WORD.finditer(sentence)]
        token_names = {self.tokenizer.unk_token_id: str(self.tokenizer.unk_token)}
        return [
            SentenceToken(name, 0, 0, -1)
            if is_added
            else _make_token(sentence, word_starts, name, span, token_names.get(number, ""))
            for name, span, number, is_added in zip(
                encoding.tokens, offsets, encoding.ids, encoding.special_tokens_mask, strict=True
            )
        ]

    def hidden_states(self, sentence: str) -> np.ndarray:
        """Return each layer's vectors, `(n_layers + 1, n_pieces, dimensions)` float32; the first go into layer 1."""
        import torch

        with torch.inference_mode():
            output = self.model(**self.features([sentence]), output_hidden_states=True)
            return np.stack([state[0].float().cpu().numpy() for state in output.hidden_states])

    def static_vectors(self, sentence: str) -> np.ndarray:
        """Return the rows of the table of pieces, `(n_pieces, dimensions)` float32: the same in every sentence."""
        import torch

        with torch.inference_mode():
            table = self.model.get_input_embeddings()
            return np.asarray(table(self.features([sentence])["input_ids"])[0].float().cpu().numpy())


def normalize_text(text: str) -> str:
    """Return a text in composed letters (NFC) without outer spaces."""
    return tokenizer_training.normalize_text(text).strip()


def _make_token(
    sentence: str, word_starts: Sequence[int], name: str, span: tuple[int, int], unknown: str
) -> SentenceToken:
    start, end = span
    while start < end and sentence[start].isspace():  # some pieces stand for the space before their word, too
        start += 1
    if name in BLANKS:  # or for nothing else, though some tokenizers say that they hold the word's first letter
        end = start
    word = max(bisect_right(word_starts, start) - 1, 0)
    return SentenceToken(unknown or sentence[start:end] or name, start, end, word)


MAX_TOKENS = 512  # of a sentence: more are neither drawn nor needed
_LM_HEAD_SUFFIXES = ("ForMaskedLM", "ForPreTraining", "WithLMHeadModel")  # of architectures that hold the head


def load_encoder(source: ModelSource) -> TransformerModel:
    """Load a transformer without its head, in float32, with attention as probabilities.

    Raises `ModelError`, and `LanguageError`: `no_layers` of a starter or an encoder-decoder, `no_offsets`.
    """
    from transformers import AutoModel

    _require_layers(source)
    # other implementations are faster and never hold the probabilities
    return _load(source, lambda name, **where: AutoModel.from_pretrained(name, attn_implementation="eager", **where))


def load_masked_lm(source: ModelSource) -> TransformerModel:
    """Load a masked language model in float32. Raises as `load_encoder`, and `no_mlm_head` without a complete head."""
    from transformers import AutoModelForMaskedLM

    def load(name: str, **where: Any) -> Any:
        try:
            return AutoModelForMaskedLM.from_pretrained(name, **where)
        except ValueError as error:  # an architecture that has none
            raise _missing_head_error(source) from error

    _require_layers(source)
    if not may_have_mlm_head(source):
        raise _missing_head_error(source)
    network = _load(source, load, head=True)
    if network.tokenizer.mask_token_id is None:
        raise _missing_head_error(source)
    return network


def model_prompts(source: ModelSource) -> tuple[str, str]:
    """Return a model folder's prompts for questions and passages; empty for a hub model."""
    config = read_json(source.folder / "config_sentence_transformers.json") if source.folder else {}
    prompts = config.get("prompts")
    if not isinstance(prompts, dict):
        return "", ""

    def prompt(*names: str) -> str:
        name = next((name for name in names if name in prompts), config.get("default_prompt_name"))
        return str(prompts.get(name) or "")

    return prompt("query"), prompt("document", "passage", "corpus")


def may_have_mlm_head(source: ModelSource) -> bool:
    """Whether a model may have a masked language model's head, by its config, before it is loaded."""
    if is_starter(source):
        return False
    config = read_json(source.folder / "config.json") if source.folder else {}
    kinds = config.get("architectures") or ()
    return not kinds or any(str(kind).endswith(_LM_HEAD_SUFFIXES) for kind in kinds)


def _load(source: ModelSource, load: Callable[..., Any], *, head: bool = False) -> TransformerModel:
    import torch
    from transformers import AutoTokenizer

    where = where_of(source)
    name = where.pop("model_name_or_path")
    with loading(source.reference):
        model = load(name, **where, **WEIGHTS)
        tokenizer = AutoTokenizer.from_pretrained(name, **where)
    try:
        require_trained(source.reference, model, new_head=not head)
    except ModelError as error:
        raise _missing_head_error(source) if error.code == "no_head" else error from error
    with loading(source.reference):
        require_readable(source.reference, tokenizer, model)
    if not tokenizer.is_fast:
        message = f"the tokenizer of {source.reference!r} does not tell which letters a piece stands for"
        raise LanguageError("no_offsets", message, model=source.reference)
    if torch.cuda.is_available():
        model.to("cuda")
    longest = min(most_tokens(tokenizer, model.config), MAX_TOKENS)
    return TransformerModel(source.reference, model.eval(), tokenizer, longest)


def _require_layers(source: ModelSource) -> None:
    if is_starter(source):
        message = f"{source.reference!r} is a starter, which has no layers: take a transformer"
        raise LanguageError("no_layers", message, model=source.reference)


def _missing_head_error(source: ModelSource) -> LanguageError:
    message = (
        f"{source.reference!r} has no head that tells masked pieces; take a masked language model such as "
        "klue/roberta-base, or one trained here"
    )
    return LanguageError("no_mlm_head", message, model=source.reference)


MASK = "[MASK]"  # how a person marks a place; every model has a token of its own for it
MAX_MASKS = 8
_TOKEN_PREFIXES = ("", "##", *BLANKS)  # how pieces are written that stand inside a word, or after a space


@dataclass(frozen=True)
class TokenPrediction:
    """A piece, as it is read, and its probability, 0 to 1."""

    token: str
    probability: float


def masked_probabilities(network: TransformerModel, text: str) -> np.ndarray:
    """Return P(token given the rest) for every token at every masked position, `(n_masks, n_pieces)` float64.

    Several positions are predicted each alone, the others staying masked. Raises `LanguageError`: `no_mask`,
    `many_masks`.
    """
    import torch

    features = network.features([normalize_text(text).replace(MASK, network.tokenizer.mask_token)])
    mask_positions = (features["input_ids"][0] == network.tokenizer.mask_token_id).nonzero()[:, 0]
    if not 0 < len(mask_positions) <= MAX_MASKS:
        code, expected = (
            ("many_masks", f"{MAX_MASKS} places at most") if len(mask_positions) else ("no_mask", "a place")
        )
        raise LanguageError(code, f"mark {expected} with {MASK} in {text[:80]!r}", mask=MASK, most=MAX_MASKS)
    with torch.inference_mode():
        logits = network.model(**features).logits[0, mask_positions]
        return np.asarray(torch.softmax(logits.double(), dim=-1).cpu().numpy())


def fill_masks(network: TransformerModel, text: str, k: int = 10) -> list[list[TokenPrediction]]:
    """Return the `k` likeliest tokens at every masked position. Raises as `probabilities` does."""
    rows = [(row, np.argsort(-row, kind="stable")[:k].tolist()) for row in masked_probabilities(network, text)]
    return [
        [TokenPrediction(_token_text(network.tokenizer, token_id), float(row[token_id])) for token_id in best]
        for row, best in rows
    ]


@dataclass(frozen=True)
class CheckpointPredictions:
    """Predictions of models with one tokenizer, as the steps of a training, at the first masked position of a text.

    `probabilities` `(n_models, n_pieces)` float64, in the order of the models.
    """

    reference: str
    tokenizer: Any
    probabilities: np.ndarray

    def word_probability(self, word: str) -> np.ndarray:
        """Return the probability of a word by each model, `(n_models,)`: the sum over the tokens that read so.

        A word may be a token both after a space and inside another word. Raises `LanguageError` `not_one_piece` if the
        tokenizer has no token for the whole word.
        """
        word = normalize_text(word)
        numbers = _token_ids(self.tokenizer, word)
        if not numbers:
            pieces = " · ".join(self.tokenizer.tokenize(word))
            message = f"{word!r} is no single piece for {self.reference!r}, but {pieces}"
            raise LanguageError("not_one_piece", message, word=word, pieces=pieces, model=self.reference)
        return np.asarray(self.probabilities[:, numbers].sum(axis=1))

    def top_words(self, k: int) -> list[str]:
        """Return the last model's `k` likeliest tokens that are words of letters, the likeliest first."""
        words: dict[str, None] = {}
        for token_id in np.argsort(-self.probabilities[-1], kind="stable"):
            text = _token_text(self.tokenizer, int(token_id))
            if text.isalnum() and _token_ids(self.tokenizer, text):
                words[text] = None
            if len(words) == k:
                break
        return [*words]


def predict_by_checkpoint(
    sources: Sequence[ModelSource], text: str, on_progress: Callable[[float], None] | None = None
) -> CheckpointPredictions:
    """Query one model after the other, each loaded alone; at least one.

    Raises as `probabilities` and `load_masked` do, and `ValueError` if vocabularies differ in size.
    """
    rows = []
    for index, source in enumerate(sources):
        network = load_masked_lm(source)
        rows.append(masked_probabilities(network, text)[0])
        if on_progress:
            on_progress((index + 1) / len(sources))
    return CheckpointPredictions(network.reference, network.tokenizer, np.stack(rows))


def _token_ids(tokenizer: Any, word: str) -> list[int]:
    alone = {tuple(tokenizer.tokenize(f"{space}{word}")) for space in ("", " ")}
    texts = {f"{beginning}{word}" for beginning in _TOKEN_PREFIXES} | {token[0] for token in alone if len(token) == 1}
    numbers = {tokenizer.convert_tokens_to_ids(token) for token in texts}
    return sorted(numbers - {tokenizer.unk_token_id, None})


def _token_text(tokenizer: Any, token_id: int) -> str:
    """Return a token as text, or as the vocabulary writes it if it has no letter."""
    text: str = tokenizer.decode([token_id]).strip()
    return text or str(tokenizer.convert_ids_to_tokens(token_id))
