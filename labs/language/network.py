"""Inside a transformer: loading, the tokens of a sentence, the vectors of each layer, and masked predictions."""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mrc_workbench.data.text.corpora import LanguageError
from mrc_workbench.data.workspace import read_json
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.language import tokenizer_training
from mrc_workbench.models.language.tokenizer_training import BLANKS, TRAINED, PreTokenization
from mrc_workbench.models.loading import most_tokens, select_prompts
from mrc_workbench.models.sources import ModelSource, is_starter

_WORD = re.compile(r"\S+")
MAX_TOKENS = 512  # of a sentence
_LM_HEAD_SUFFIXES = ("ForMaskedLM", "ForPreTraining", "WithLMHeadModel")  # architectures with the head
MASK = "[MASK]"  # in the user's text; replaced by the model's mask token
MAX_MASKS = 8
_TOKEN_PREFIXES = ("", "##", *BLANKS)  # of tokens inside a word, or after a space


@dataclass(frozen=True)
class SentenceToken:
    """A token of a sentence, for its characters `start` to `end`.

    `word` is the number of its space-separated word, -1 for special tokens. `text` is its characters, or the token's
    name if it is special or unknown.
    """

    text: str
    start: int
    end: int
    word: int

    @property
    def is_special(self) -> bool:
        return self.word < 0

    def overlaps(self, start: int, end: int) -> bool:
        """Whether an ordinary token has characters from `start` to `end`."""
        return not self.is_special and self.start < end and self.end > start


@dataclass(frozen=True)
class TransformerModel:
    """A loaded transformer with its fast tokenizer; it reads `max_tokens` of a sentence."""

    reference: str
    model: Any
    tokenizer: Any
    max_tokens: int

    @property
    def marks_morphemes(self) -> bool:
        """Whether this program trained its tokenizer on texts with these marks."""
        trained = self.tokenizer.init_kwargs.get(TRAINED)
        return isinstance(trained, dict) and trained.get("split") == PreTokenization.MORPHEMES

    def features(self, sentences: Sequence[str]) -> Any:
        """Return the tokens of sentences as tensors on the model's device, padded at the end and truncated."""
        texts = tokenizer_training.mark_morphemes(sentences) if self.marks_morphemes else list(sentences)
        shape = {"padding": True, "padding_side": "right", "truncation": True, "max_length": self.max_tokens}
        return self.tokenizer(texts, return_tensors="pt", **shape).to(self.model.device)

    def pieces(self, sentence: str) -> list[SentenceToken]:
        """Return the tokens of a normalized sentence in order, special ones included."""
        boundaries = np.zeros(0, dtype=np.int64)
        if self.marks_morphemes:
            (boundaries,) = tokenizer_training.morpheme_boundaries([sentence])
        text = tokenizer_training.insert_boundaries(sentence, boundaries)
        shape = {"truncation": True, "max_length": self.max_tokens, "return_special_tokens_mask": True}
        (encoding,) = self.tokenizer(text, **shape).encodings
        spans = tokenizer_training.to_unmarked_offsets(boundaries, np.array(encoding.offsets, dtype=np.int64)).tolist()
        word_starts = [match.start() for match in _WORD.finditer(sentence)]
        token_names = {self.tokenizer.unk_token_id: str(self.tokenizer.unk_token)}
        tokens = []
        for index, name in enumerate(encoding.tokens):
            if encoding.special_tokens_mask[index]:
                tokens.append(SentenceToken(name, 0, 0, -1))
            else:
                unknown = token_names.get(encoding.ids[index], "")
                tokens.append(_make_token(sentence, word_starts, name, spans[index], unknown))
        return tokens

    def hidden_states(self, sentence: str) -> np.ndarray:
        """Return each layer's vectors, `(n_layers + 1, n_tokens, dimensions)` float32, the input of layer 1 first."""
        import torch

        with torch.inference_mode():
            output = self.model(**self.features([sentence]), output_hidden_states=True)
            return np.stack([state[0].float().cpu().numpy() for state in output.hidden_states])

    def static_vectors(self, sentence: str) -> np.ndarray:
        """Return the tokens' rows of the embedding table, `(n_tokens, dimensions)` float32."""
        import torch

        with torch.inference_mode():
            table = self.model.get_input_embeddings()
            return np.asarray(table(self.features([sentence])["input_ids"])[0].float().cpu().numpy())


def normalize_text(text: str) -> str:
    """Return a text in NFC without outer spaces."""
    return tokenizer_training.normalize_text(text).strip()


def _make_token(
    sentence: str, word_starts: Sequence[int], name: str, span: tuple[int, int], unknown: str
) -> SentenceToken:
    start, end = span
    while start < end and sentence[start].isspace():  # some tokens include the space before their word
        start += 1
    if name in BLANKS:  # only the space, although some tokenizers report the first letter of the word
        end = start
    word = max(bisect_right(word_starts, start) - 1, 0)
    return SentenceToken(unknown or sentence[start:end] or name, start, end, word)


def load_encoder(source: ModelSource) -> TransformerModel:
    """Load a transformer without its head, in float32, with attention as probabilities.

    Raises `ModelError`, and `LanguageError`: `no_layers` (a starter or an encoder-decoder), `no_offsets`.
    """
    from transformers import AutoModel

    _require_layers(source)
    # faster implementations do not return the probabilities
    return _load(source, partial(AutoModel.from_pretrained, attn_implementation="eager"), new_head=True)


def load_masked_lm(source: ModelSource) -> TransformerModel:
    """Load a masked language model in float32. Raises as `load_encoder`, and `no_mlm_head` without a complete head."""
    from transformers import AutoModelForMaskedLM

    def load(name: str, **where: Any) -> Any:
        try:
            return AutoModelForMaskedLM.from_pretrained(name, **where)
        except ValueError as error:  # an architecture without a head
            raise _missing_head_error(source) from error

    _require_layers(source)
    if not may_have_mlm_head(source):
        raise _missing_head_error(source)
    network = _load(source, load, new_head=False)
    if network.tokenizer.mask_token_id is None:
        raise _missing_head_error(source)
    return network


def model_prompts(source: ModelSource) -> tuple[str, str]:
    """Return a model folder's prompts for questions and passages; empty for a hub model."""
    config = read_json(source.folder / "config_sentence_transformers.json") if source.folder else {}
    prompts = config.get("prompts")
    return select_prompts(prompts if isinstance(prompts, dict) else {}, config.get("default_prompt_name"))


def may_have_mlm_head(source: ModelSource) -> bool:
    """Whether a model may have a masked language model's head, by its config."""
    if is_starter(source):
        return False
    config = read_json(source.folder / "config.json") if source.folder else {}
    kinds = config.get("architectures") or ()
    return not kinds or any(str(kind).endswith(_LM_HEAD_SUFFIXES) for kind in kinds)


def _load(source: ModelSource, load: Callable[..., Any], *, new_head: bool) -> TransformerModel:
    from mrc_workbench.models.reader_networks import load_network

    try:
        model, tokenizer, _ = load_network(source, load, new_head=new_head)
    except ModelError as error:
        raise _missing_head_error(source) if error.code == "no_head" else error from error
    if not tokenizer.is_fast:
        message = f"the tokenizer of {source.reference!r} does not report the characters of a token"
        raise LanguageError("no_offsets", message, model=source.reference)
    return TransformerModel(source.reference, model, tokenizer, min(most_tokens(tokenizer, model.config), MAX_TOKENS))


def _require_layers(source: ModelSource) -> None:
    if is_starter(source):
        message = f"{source.reference!r} is a starter, which has no layers: use a transformer"
        raise LanguageError("no_layers", message, model=source.reference)


def _missing_head_error(source: ModelSource) -> LanguageError:
    problem = f"{source.reference!r} has no masked language model's head"
    message = f"{problem}; use one such as klue/roberta-base, or train one"
    return LanguageError("no_mlm_head", message, model=source.reference)


@dataclass(frozen=True)
class TokenPrediction:
    """A token as text, and its probability, 0 to 1."""

    token: str
    probability: float


def masked_probabilities(network: TransformerModel, text: str) -> np.ndarray:
    """Return P(token given the rest) for every token at every masked position, `(n_masks, n_tokens)` float64.

    Predicts each position with the others masked. Raises `LanguageError`: `no_mask`, `many_masks`.
    """
    import torch

    features = network.features([normalize_text(text).replace(MASK, network.tokenizer.mask_token)])
    mask_positions = (features["input_ids"][0] == network.tokenizer.mask_token_id).nonzero()[:, 0]
    if not 0 < len(mask_positions) <= MAX_MASKS:
        code = "many_masks" if len(mask_positions) else "no_mask"
        raise LanguageError(code, f"put 1 to {MAX_MASKS} {MASK} in {text[:80]!r}", mask=MASK, most=MAX_MASKS)
    with torch.inference_mode():
        logits = network.model(**features).logits[0, mask_positions]
        return np.asarray(torch.softmax(logits.double(), dim=-1).cpu().numpy())


def fill_masks(network: TransformerModel, text: str, k: int = 10) -> list[list[TokenPrediction]]:
    """Return the `k` most likely tokens at every masked position. Raises as `masked_probabilities` does."""

    def best_tokens(row: np.ndarray) -> list[TokenPrediction]:
        best = np.argsort(-row, kind="stable")[:k].tolist()
        return [TokenPrediction(_token_text(network.tokenizer, token_id), float(row[token_id])) for token_id in best]

    return [best_tokens(row) for row in masked_probabilities(network, text)]


@dataclass(frozen=True)
class CheckpointPredictions:
    """Predictions of the checkpoints of a training at the first masked position, `(n_models, n_tokens)` float64."""

    reference: str
    tokenizer: Any
    probabilities: np.ndarray

    def word_probability(self, word: str) -> np.ndarray:
        """Return the probability of a word by each model, `(n_models,)`: the sum over its tokens.

        A word may be a token both after a space and inside another word. Raises `LanguageError` `not_one_piece` if the
        tokenizer has no token for the whole word.
        """
        word = normalize_text(word)
        numbers = _token_ids(self.tokenizer, word)
        if not numbers:
            pieces = " · ".join(self.tokenizer.tokenize(word))
            message = f"{self.reference!r} splits {word!r} into several tokens: {pieces}"
            raise LanguageError("not_one_piece", message, word=word, pieces=pieces, model=self.reference)
        return np.asarray(self.probabilities[:, numbers].sum(axis=1))

    def top_words(self, k: int) -> list[str]:
        """Return the last model's `k` most likely words of letters, the most likely first."""
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
    """Query at least one model, and load one at a time.

    Raises as `masked_probabilities` and `load_masked_lm` do, and `ValueError` if vocabularies differ in size.
    """
    rows = []
    for index, source in enumerate(sources):
        network = load_masked_lm(source)
        rows.append(masked_probabilities(network, text)[0])
        if on_progress:
            on_progress((index + 1) / len(sources))
    return CheckpointPredictions(network.reference, network.tokenizer, np.stack(rows))


def _token_ids(tokenizer: Any, word: str) -> list[int]:
    tokenized = [tokenizer.tokenize(f"{space}{word}") for space in ("", " ")]
    texts = {f"{prefix}{word}" for prefix in _TOKEN_PREFIXES} | {tokens[0] for tokens in tokenized if len(tokens) == 1}
    numbers = {tokenizer.convert_tokens_to_ids(token) for token in texts}
    return sorted(numbers - {tokenizer.unk_token_id, None})


def _token_text(tokenizer: Any, token_id: int) -> str:
    """Return a token as text, or as the vocabulary writes it if it has no letter."""
    text: str = tokenizer.decode([token_id]).strip()
    return text or str(tokenizer.convert_ids_to_tokens(token_id))
