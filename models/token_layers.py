"""Which layers of a transformer represent the tokens of a text in late interaction.

For models that were not trained for late interaction. One that was has its own last layer, projection and masks.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any


class TokenLayers(StrEnum):
    """The layers that represent a token, and whether the question's tokens are weighted by IDF.

    `last` is the last layer. A model that was trained to be pooled has drawn its tokens together there, so that a
    token's vector also represents the whole text: it matches other words of like meaning. `upper` adds the layer two
    thirds of the way up with a third of the weight (Zhang et al. 2020, BERTScore, take a layer below the last of most
    models): it favours passages worded like the question. `balanced` adds a tenth of the layer five sixths of the way
    up. Layers count by their directions: the mean lengths of their vectors, which differ, are divided out.

    With `balanced` and `-idf`, a token of the question counts by the square root of its inverse document frequency in
    the corpus; special tokens and the prompt do not count. Otherwise all count alike.
    """

    BALANCED = "balanced"
    LAST_IDF = "last-idf"
    UPPER_IDF = "upper-idf"
    LAST = "last"
    UPPER = "upper"

    @property
    def are_weighted(self) -> bool:
        """Whether tokens of questions are weighted by IDF."""
        return self in (TokenLayers.BALANCED, TokenLayers.LAST_IDF, TokenLayers.UPPER_IDF)

    @property
    def of_passages(self) -> "TokenLayers":
        """The first of those that represent passages alike, whatever the weights of a question's tokens."""
        return TokenLayers(self.removesuffix("-idf"))


# the layer below the last, as a fraction of all, and its share
LOWER = {TokenLayers.UPPER: (2 / 3, 1 / 3), TokenLayers.BALANCED: (5 / 6, 0.1)}
_ANY_TEXT = "어느 층의 벡터가 얼마나 긴지 이 문장으로 잰다. How long the vectors of a layer are is measured on this."


def layer_modules(transformer: Any, layers: Sequence[TokenLayers]) -> list[Any]:
    """Return the modules that follow a transformer to represent tokens by these layers, side by side if several.

    The layers are those of passages.
    """
    import torch
    from torch.nn.functional import normalize

    read = [_two_layers(transformer, *LOWER[one]) if one in LOWER else None for one in layers]
    if len(read) == 1:
        return [module for module in read if module is not None]

    class SideBySide(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.of_layers = torch.nn.ModuleList(module or torch.nn.Identity() for module in read)

        def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
            found = [module(dict(features))["token_embeddings"] for module in self.of_layers]
            return features | {"token_embeddings": torch.cat([normalize(one, dim=-1) for one in found], dim=-1)}

    return [SideBySide()]


def _two_layers(transformer: Any, height: float, share: float) -> Any:
    """Return the module that represents tokens by the last layer and a lower one, after one that returns all layers.

    A layer's weight is its share over the mean length of its vectors of a text, always the same text.
    """
    import torch
    from sentence_transformers.sentence_transformer.modules import WeightedLayerPooling
    from sentence_transformers.util import batch_to_device

    config = transformer.auto_model.config
    config.output_hidden_states = True
    last = config.num_hidden_layers
    lower = max(1, int(last * height + 1e-9))
    with torch.inference_mode():
        text = batch_to_device(transformer.preprocess([_ANY_TEXT]), transformer.auto_model.device)
        states = transformer(text)["all_layer_embeddings"]
    weights = torch.zeros(last + 1 - lower)
    weights[0] += share / states[lower].norm(dim=-1).mean()
    weights[-1] += (1 - share) / states[last].norm(dim=-1).mean()
    return WeightedLayerPooling(config.hidden_size, last, lower, torch.nn.Parameter(weights, requires_grad=False))
