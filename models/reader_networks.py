"""Readers and masked language models in the form of sentence-transformers, with the transformer in the first module.

Precision, frozen layers, adapters and batches by length therefore work as for other models. A reader scores every token
as begin and end of the answer; position 0 means "no answer" (Devlin et al. 2019, 4.3). A masked language model predicts
hidden tokens and, for pairs, whether the second text followed. A base that is a sentence encoder stays one: its
configuration (pooling, prompts, maximum length) is written beside the new weights.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from mrc_workbench.data.jobs.processes import release_large_blocks
from mrc_workbench.data.workspace import write_text
from mrc_workbench.models import files, loading
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.sources import ModelSource, is_starter

Features = dict[str, Any]
IGNORED = -100  # label of visible tokens
GUESSES = "guesses"  # heads
FOLLOWS = "follows"
# heads that accept single vectors; others compute logits of all tokens, which is slower
_HEADS = {"bert": "cls.predictions", **dict.fromkeys(("roberta", "xlm-roberta", "camembert"), "lm_head")}
_FOLLOWS_HEAD = ("bert.pooler", "cls.seq_relationship")
_LARGE_VOCABULARY = 60_000  # pieces: their logits are memory blocks of unusual sizes
_MAX_LOGITS_PER_BLOCK = 1 << 25  # tokens times pieces: 128 MiB in float32
_MODULES_FILE = "modules.json"
_TRANSFORMER_FILE = "sentence_bert_config.json"
_MODULE_NAME = re.compile(r"\w{1,64}")  # also the name of a folder


class TransformerModule(torch.nn.Module):
    """A transformer with its tokenizer."""

    def __init__(self, network: Any, tokenizer: Any) -> None:
        super().__init__()
        self.model = network
        self.tokenizer = tokenizer

    @property
    def auto_model(self) -> Any:
        return self.model

    def preprocess(self, texts: list[str], **_: Any) -> Features:
        return dict(self.tokenizer(texts, padding=True, truncation=True, return_tensors="pt"))


class TrainedNetwork(torch.nn.Sequential):
    """A network that returns a loss for every row of at most `max_tokens` tokens."""

    trained_by = "losses"  # the output that training minimises

    def __init__(self, module: TransformerModule, max_tokens: int) -> None:
        super().__init__(module)
        self.max_seq_length = max_tokens

    @property
    def tokenizer(self) -> Any:
        return self[0].tokenizer

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def preprocess(self, texts: list[str], **_: Any) -> Features:
        return dict(self[0].preprocess(texts))

    def save_pretrained(self, folder: str, **_: Any) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        self[0].model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


class SpanModule(TransformerModule):
    """The transformer of `AutoModelForQuestionAnswering` with its tokenizer."""

    def forward(self, features: Features, **_: Any) -> Features:
        names = ("input_ids", "attention_mask", "token_type_ids")
        output = self.model(**{name: features[name] for name in names if name in features})
        return {"starts": output.start_logits, "ends": output.end_logits}


class SpanNetwork(TrainedNetwork):
    """A reader in training, which returns a loss of at least 0 for every window."""

    def __init__(self, network: Any, tokenizer: Any, max_tokens: int) -> None:
        super().__init__(SpanModule(network, tokenizer), max_tokens)

    @property
    def has_segments(self) -> bool:
        return "token_type_ids" in self.tokenizer.model_input_names

    def forward(self, features: Features, **_: Any) -> Features:
        """Return the loss of every window, `losses` `(n_windows,)`.

        It is the mean of -log P of the begins and of the ends that are marked in `begins` and `finishes`, `(n_windows,
        width)` bool each; P is a softmax over `allowed` positions, summed over all marked ones (the marginal
        likelihood: Karpukhin et al. 2020).
        """
        logits = self[0](features)
        sides = (("starts", "starts"), ("ends", "ends"))
        losses = [_negative_log_likelihood(logits[name], features["allowed"], features[mark]) for name, mark in sides]
        return {"losses": (losses[0] + losses[1]) / 2}


def log_probabilities(logits: Tensor, allowed: Tensor) -> Tensor:
    """Return the log softmax over allowed positions, minus infinity elsewhere."""
    return torch.log_softmax(logits.float().masked_fill(~allowed, float("-inf")), dim=-1)


def _negative_log_likelihood(logits: Tensor, allowed: Tensor, marked: Tensor) -> Tensor:
    # a finite number instead of infinity, for a gradient of 0 at other positions
    allowed_logits = logits.float().masked_fill(~allowed, torch.finfo(torch.float32).min)
    marked_logits = logits.float().masked_fill(~(marked & allowed), torch.finfo(torch.float32).min)
    return torch.logsumexp(allowed_logits, dim=-1) - torch.logsumexp(marked_logits, dim=-1)


class MaskedModule(TransformerModule):
    """The transformer of a masked language model with its tokenizer."""

    def forward(self, features: Features, **_: Any) -> Features:
        """Return `hidden` `(n, width, dimensions)` and `pooled` `(n, dimensions)`, or `logits` of other heads."""
        network = without_adapters(self.model)
        segments = ("token_type_ids",) if getattr(network.config, "type_vocab_size", 0) > 1 else ()
        inputs = {name: features[name] for name in ("input_ids", "attention_mask", *segments) if name in features}
        if network.config.model_type not in _HEADS:
            return {"logits": network(**inputs).logits}
        output = network.base_model(**inputs)
        pooled = getattr(output, "pooler_output", None)
        return {"hidden": output.last_hidden_state} | ({} if pooled is None else {"pooled": pooled})


class MaskedNetwork(TrainedNetwork):
    """A masked language model in training, with untrained `new_heads` and the `extra_files` of a sentence encoder."""

    new_heads: tuple[str, ...] = ()
    pairs_weight: float = 1.0  # of their loss, as in BERT
    extra_files: Mapping[str, str] = MappingProxyType({})

    def __init__(self, network: Any, tokenizer: Any, max_tokens: int) -> None:
        super().__init__(MaskedModule(network, tokenizer), max_tokens)

    def save_pretrained(self, folder: str, **_: Any) -> None:
        super().save_pretrained(folder)
        for name, text in self.extra_files.items():
            Path(folder, name).parent.mkdir(exist_ok=True)
            write_text(Path(folder, name), text)

    def forward(self, features: Features, **_: Any) -> Features:
        """Return the loss of every row, `losses` `(n,)`, with the same mean as the loss of transformers' models.

        That is the mean of -ln P over hidden tokens, plus the mean over pairs times `pairs_weight`. `shares` `(n, 1)`
        are rows over hidden tokens of the whole batch.
        """
        scores = self.score_tokens(features)
        losses = scores["token_losses"] * features["weights"][:, 0]
        if "follow_losses" in scores:
            losses = losses + self.pairs_weight * scores["follow_losses"]
        return {"losses": losses}

    def score_tokens(self, features: Features) -> dict[str, Tensor]:
        """Return scores of each row, `(n,)` each, for `labels` `(n, width)`, `IGNORED` at visible tokens.

        `token_losses` is the sum of -ln P of hidden tokens, `hidden` their number, `right` the number of correct
        predictions. Pairs, with `follows` `(n, 1)`, also have `follow_losses` and `follow_right`.
        """
        outputs = self[0](features)
        labels = features["labels"]
        is_masked = labels != IGNORED
        rows = is_masked.nonzero()[:, 0]
        losses, right = self._score_masked(outputs, is_masked, labels[is_masked])
        zeros = losses.new_zeros(len(labels))
        scores = {"token_losses": zeros.index_add(0, rows, losses), "right": zeros.index_add(0, rows, right)}
        scores["hidden"] = is_masked.sum(dim=1)
        if "follows" in features:
            follows = features["follows"][:, 0]
            pair_logits = without_adapters(self[0].model).cls.seq_relationship(outputs["pooled"]).float()
            scores["follow_losses"] = cross_entropy(pair_logits, follows, reduction="none")
            scores["follow_right"] = pair_logits.argmax(dim=1) == follows
        return scores

    def _score_masked(self, outputs: Features, is_masked: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return -ln P of the masked tokens and whether each prediction is correct (1 or 0), `(n_masked,)` each."""
        network = without_adapters(self[0].model)
        head = None if "logits" in outputs else network.get_submodule(_HEADS[network.config.model_type])
        hidden = outputs["hidden" if head else "logits"][is_masked]
        parts = []
        size = max(1, len(labels) if torch.is_grad_enabled() else _MAX_LOGITS_PER_BLOCK // network.config.vocab_size)
        for block, pieces in zip(hidden.split(size), labels.split(size), strict=True):
            logits = (head(block) if head else block).float()
            parts.append((cross_entropy(logits, pieces, reduction="none"), logits.argmax(dim=1) == pieces))
        losses, right = (torch.cat(column) for column in zip(*parts, strict=True))
        return losses, right.to(losses.dtype)


def without_adapters(network: Any) -> Any:
    """Return the transformer without low-rank adapters."""
    return network.get_base_model() if hasattr(network, "get_base_model") else network


def new_masked(configuration: Mapping[str, Any], tokenizer: Any, *, pairs: bool, seed: int) -> MaskedNetwork:
    """Return an untrained BERT of this configuration, deterministic by seed, with an optional head for `pairs`."""
    from transformers import BertConfig, BertForMaskedLM, BertForPreTraining

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = (BertForPreTraining if pairs else BertForMaskedLM)(BertConfig(**configuration))
    model = _masked_network(network, tokenizer)
    model.new_heads = (GUESSES, FOLLOWS) if pairs else (GUESSES,)
    return model


def load_network(
    source: ModelSource, load: Callable[..., Any], tokenizer: Any = None, *, new_head: bool
) -> tuple[Any, Any, Any]:
    """Return a float32 network, its tokenizer, and its missing weights, set deterministically. Raises `ModelError`.

    `load` is the method `from_pretrained` of a class of transformers.
    """
    from transformers import AutoTokenizer

    where = loading.where_of(source)
    name = where.pop("model_name_or_path")
    with torch.random.fork_rng(devices=[]), files.loading(source.reference):
        torch.manual_seed(0)
        network, info = load(name, **where, **loading.WEIGHTS, output_loading_info=True)
        tokenizer = tokenizer or AutoTokenizer.from_pretrained(name, **where)
        loading.require_trained(source.reference, network, new_head=new_head)
        loading.require_readable(source.reference, tokenizer, network)
    loading.use_single_segment(tokenizer, network.config)
    if torch.cuda.is_available():
        network.to("cuda")
    return network.eval(), tokenizer, info["missing_keys"]


def load_masked(source: ModelSource, *, pairs: bool = False) -> MaskedNetwork:
    """Load a masked language model; missing heads are initialized. Raises `ModelError` (`no_pairs`)."""
    from transformers import AutoConfig, AutoModelForMaskedLM, BertForPreTraining

    tokenizer = masked_tokenizer(source)
    where = loading.where_of(source)
    if pairs:
        with files.loading(source.reference):
            options = {name: value for name, value in where.items() if name != "model_name_or_path"}
            configuration = AutoConfig.from_pretrained(where["model_name_or_path"], **options)
        if configuration.model_type != "bert":
            message = f"{source.reference!r} is no BERT, and has no head for pairs: train without pairs"
            raise ModelError("no_pairs", message, model=source.reference)
    kind = BertForPreTraining if pairs else AutoModelForMaskedLM
    network, tokenizer, missing = load_network(source, kind.from_pretrained, tokenizer, new_head=True)
    model = _masked_network(network, tokenizer)
    backbone = f"{network.base_model_prefix}."
    is_new = {
        GUESSES: any(not name.startswith((backbone, *_FOLLOWS_HEAD)) for name in missing),
        FOLLOWS: any(name.startswith(_FOLLOWS_HEAD) for name in missing),
    }
    model.new_heads = tuple(head for head in is_new if is_new[head])
    model.extra_files = sentence_modules(loading.files_of(source, where))
    return model


def masked_tokenizer(source: ModelSource) -> Any:
    """Load the tokenizer of a masked language model. Raises `ModelError`: `starter_language`, `no_mask`."""
    from transformers import AutoTokenizer

    if is_starter(source):
        raise ModelError("starter_language", "a starter predicts no tokens: use a transformer", model=source.reference)
    where = loading.where_of(source)
    with files.loading(source.reference):
        tokenizer = AutoTokenizer.from_pretrained(where.pop("model_name_or_path"), **where)
    if tokenizer.mask_token_id is None:
        message = f"the tokenizer of {source.reference!r} has no mask token: use a masked language model"
        raise ModelError("no_mask", message, model=source.reference)
    return tokenizer


def _masked_network(network: Any, tokenizer: Any) -> MaskedNetwork:
    if network.config.vocab_size > _LARGE_VOCABULARY:
        release_large_blocks()
    if torch.cuda.is_available():
        network.to("cuda")
    return MaskedNetwork(network.eval(), tokenizer, loading.most_tokens(tokenizer, network.config))


def sentence_modules(find: Callable[[str], Path | None]) -> dict[str, str]:
    """Return the files of a sentence encoder by name, with the transformer at the top; `find` returns a file."""
    listed = find(_MODULES_FILE)
    try:
        first, *others = json.loads(listed.read_text(encoding="utf-8")) if listed else []
        fitting = all(module["type"].startswith("sentence_transformers.") for module in (first, *others))
        fitting &= all(module["type"].rpartition(".")[2] in ("Pooling", "Normalize") for module in others)
        fitting &= all(_MODULE_NAME.fullmatch(module["path"]) for module in others)
        folder = first["path"] if _MODULE_NAME.fullmatch(first["path"]) else ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    if not fitting:
        return {}
    files = {_MODULES_FILE: json.dumps([{**first, "path": ""}, *others], indent=2)}
    for name in ("config_sentence_transformers.json", *(f"{module['path']}/config.json" for module in others)):
        if path := find(name):
            files[name] = path.read_text(encoding="utf-8")
    if path := find(f"{folder}/{_TRANSFORMER_FILE}" if folder else _TRANSFORMER_FILE):
        files[_TRANSFORMER_FILE] = path.read_text(encoding="utf-8")
    return files
