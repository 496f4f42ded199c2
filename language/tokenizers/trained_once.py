"""Tokenizers that comparisons trained, each with its figures: what was trained and measured once is not again.

They lie in the workspace's cache, in a folder each that is named by all that decides how they come out.
"""

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from data.cache import is_sound, key_of, sealing
from data.workspace import read_json, replacing, workspace, write_json
from language.corpus import Corpus
from language.tokenizers.fertility import Fertility
from language.train import TRAINED, TokenizerOptions, TrainedTokenizer
from text.analyzers import VERSION as ANALYZER_VERSION

_VERSION = 1  # raise when the same options would come out different, or figures be others
_FIGURES = "figures.json"
_TOKENIZER = "tokenizer"  # the folder of what `TrainedTokenizer.save` wrote
_READER = TypeAdapter(Fertility)


def keep(corpus: Corpus, trained: TrainedTokenizer, figures: Fertility) -> None:
    """Keep a tokenizer that was trained on a corpus, and its figures there. Raises `OSError`."""
    with sealing(_folder(corpus, trained.options)) as new:
        trained.save(new / _TOKENIZER)
        write_json(new / _FIGURES, figures.as_dict())


def kept(corpus: Corpus, options: TokenizerOptions) -> tuple[dict[str, Any], Fertility] | None:
    """Return how a tokenizer was trained, and its figures; None where it was not, or not by this version."""
    folder = _folder(corpus, options)
    if not is_sound(folder):
        return None
    try:
        figures = _READER.validate_python(read_json(folder / _FIGURES))
    except ValidationError:
        return None
    return read_json(folder / _TOKENIZER / "tokenizer_config.json")[TRAINED], figures


def copy(corpus: Corpus, options: TokenizerOptions, folder: Path) -> None:
    """Put the tokenizer that is kept into a folder; one that stands there is replaced. Raises `OSError`."""
    with replacing(folder) as new:
        shutil.copytree(_folder(corpus, options) / _TOKENIZER, new)


def _folder(corpus: Corpus, options: TokenizerOptions) -> Path:
    told = (corpus.fingerprint, options.kind, options.vocabulary, asdict(options.sample))
    return workspace() / "cache" / "compared_tokenizers" / key_of(_VERSION, ANALYZER_VERSION, *told)
