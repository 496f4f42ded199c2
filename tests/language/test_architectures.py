"""The sizes have as many weights as those who published them say."""

import pytest
import torch
from transformers import BertConfig, BertModel

from language.perplexity import SHAPES, Size, configuration

pytestmark = pytest.mark.slow

# millions, of BERT's vocabulary of 30,522 pieces; Turc et al. 2019, and Devlin et al. 2019 for large
PUBLISHED = {"tiny": 4.4, "mini": 11.2, "small": 28.8, "medium": 41.4, "base": 109.5, "large": 335.1}


@pytest.mark.parametrize("size", Size)
def test_weights_are_as_many_as_published(size: Size) -> None:
    with torch.device("meta"):
        network = BertModel(BertConfig(**configuration(size, 30_522, 128, 0)))
    weights = sum(one.numel() for one in network.parameters())
    assert weights / 1e6 == pytest.approx(PUBLISHED[size], abs=0.1)
    assert network.config.hidden_size % network.config.num_attention_heads == 0
    assert network.config.hidden_size // network.config.num_attention_heads == 64


def test_every_size_has_its_shape_and_room_for_longer_texts() -> None:
    assert SHAPES.keys() == set(Size)
    assert configuration(Size.TINY, 1000, 128, 0)["max_position_embeddings"] == 512
    assert configuration(Size.TINY, 1000, 1024, 0)["max_position_embeddings"] == 1024
