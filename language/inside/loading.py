"""How the transformers that are looked into are loaded: with probabilities of attention, or with the head of masks."""

from collections.abc import Callable
from typing import Any

from data.workspace import read_json
from language.inside.network import Network
from language.problems import LanguageError
from models.hub import ModelError
from models.loading import WEIGHTS, most_tokens, where_of
from models.soundness import loading, require_readable, require_trained
from models.sources import ModelSource, is_starter

MOST_TOKENS = 512  # of a sentence: more are neither drawn nor needed
_HEADS = ("ForMaskedLM", "ForPreTraining", "WithLMHeadModel")  # of architectures that hold the head


def load_encoder(source: ModelSource) -> Network:
    """Load a transformer without its head, in float32, its attention as probabilities.

    Raises `LanguageError`: `no_layers` of a starter or what reads and writes apart, `no_offsets`; and `ModelError`.
    """
    from transformers import AutoModel

    _require_layers(source)
    # other implementations are faster and never hold the probabilities
    return _load(source, lambda name, **where: AutoModel.from_pretrained(name, attn_implementation="eager", **where))


def load_masked(source: ModelSource) -> Network:
    """Load a masked language model in float32.

    Raises `LanguageError` as `load_encoder` does, and `no_mlm_head` where its files do not hold the whole head that
    tells pieces: none is drawn at random.
    """
    from transformers import AutoModelForMaskedLM

    def load(name: str, **where: Any) -> Any:
        try:
            return AutoModelForMaskedLM.from_pretrained(name, **where)
        except ValueError as error:  # an architecture that has none
            raise _no_head(source) from error

    _require_layers(source)
    if not may_have_head(source):
        raise _no_head(source)
    network = _load(source, load, head=True)
    if network.tokenizer.mask_token_id is None:
        raise _no_head(source)
    return network


def prompts_of(source: ModelSource) -> tuple[str, str]:
    """Return what a model's folder says stands before a question and before a passage; of a hub model, nothing."""
    told = read_json(source.folder / "config_sentence_transformers.json") if source.folder else {}
    prompts = told.get("prompts")
    if not isinstance(prompts, dict):
        return "", ""

    def prompt(*names: str) -> str:
        name = next((name for name in names if name in prompts), told.get("default_prompt_name"))
        return str(prompts.get(name) or "")

    return prompt("query"), prompt("document", "passage", "corpus")


def may_have_head(source: ModelSource) -> bool:
    """Whether a model may have a head that tells masked pieces, by what it says of itself, before it is loaded."""
    if is_starter(source):
        return False
    config = read_json(source.folder / "config.json") if source.folder else {}
    kinds = config.get("architectures") or ()
    return not kinds or any(str(kind).endswith(_HEADS) for kind in kinds)


def _load(source: ModelSource, load: Callable[..., Any], *, head: bool = False) -> Network:
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
        raise _no_head(source) if error.code == "no_head" else error from error
    require_readable(source.reference, tokenizer, model)
    if not tokenizer.is_fast:
        message = f"the tokenizer of {source.reference!r} does not tell which letters a piece stands for"
        raise LanguageError("no_offsets", message, model=source.reference)
    if torch.cuda.is_available():
        model.to("cuda")
    longest = min(most_tokens(tokenizer, model.config), MOST_TOKENS)
    return Network(source.reference, model.eval(), tokenizer, longest)


def _require_layers(source: ModelSource) -> None:
    if is_starter(source):
        message = f"{source.reference!r} is a starter, which has no layers: take a transformer"
        raise LanguageError("no_layers", message, model=source.reference)


def _no_head(source: ModelSource) -> LanguageError:
    message = (
        f"{source.reference!r} has no head that tells masked pieces; take a masked language model such as "
        "klue/roberta-base, or one trained here"
    )
    return LanguageError("no_mlm_head", message, model=source.reference)
