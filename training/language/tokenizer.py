"""The tokenizer of a language model's training: the base's, one that was trained before, or one trained first thing."""

from pathlib import Path
from typing import Any

from data.cache import key_of
from data.seal import is_sound, sealing
from data.split import SplitOptions
from data.workspace import workspace
from language.corpus import Corpus
from language.material import Sample
from language.problems import LanguageError
from language.tokenizers import TokenizerOptions, train
from models.sources import STARTER, find_model
from training.options.language_model import LanguageOptions

_VERSION = 1  # raise when a tokenizer of the same documents would come out different
_LEAST_READ = 512  # tokens that a new model reads


def tokenizer_of(corpus: Corpus, shares: SplitOptions, options: LanguageOptions) -> Any:
    """Return a fast tokenizer of transformers that has a mask token.

    Raises `LanguageError`: `no_offsets`, it does not tell letters; and as `train` where one is trained. Raises
    `ModelError` where it is the base's and the base cannot be had.
    """
    from transformers import AutoTokenizer

    if options.base == STARTER:
        folder = Path(options.tokenizer) if options.tokenizer.strip() else _trained(corpus, shares, options)
        found = AutoTokenizer.from_pretrained(folder, model_max_length=max(_LEAST_READ, options.max_length))
    else:
        from models.masked_network import masked_tokenizer

        found = masked_tokenizer(find_model(options.base))
    if not found.is_fast:
        message = f"the tokenizer of {options.base!r} does not tell which letters a piece stands for"
        raise LanguageError("no_offsets", message, model=options.base)
    return found


def _trained(corpus: Corpus, shares: SplitOptions, options: LanguageOptions) -> Path:
    """Train one on the documents that are learned from, once in this workspace."""
    sample = Sample(held_out=shares.test + shares.validation, seed=shares.seed)
    wanted = TokenizerOptions(options.tokenizer_kind, options.vocabulary, sample)
    told = (wanted.kind, wanted.vocabulary, sample.held_out, sample.seed)
    folder = workspace() / "cache" / "tokenizers" / key_of(_VERSION, corpus.fingerprint, *told)
    if not is_sound(folder):
        with sealing(folder) as new:
            train(corpus, wanted).save(new)
    return folder
