"""Changes of options for small memory: the least harmful first, and no more than necessary."""

from dataclasses import replace
from typing import Any

import pytest

from mrc_workbench.training.estimate import REASONS, MemoryNeed, options_that_fit
from mrc_workbench.training.ranker_options import BiEncoderOptions, CrossEncoderOptions

OPTIONS = BiEncoderOptions(base="some/model", batch_size=32)
# 1000 bytes plus 10 for each of 300 characters; 20 of 50 trained weights are the table
WEIGHTS = {"table_weights": 20, "trained_weights": 50, "adapter_weights": 10}
NEED = MemoryNeed(fixed=1000, slope=10, largest=300, characters_per_pass=100, max_length=512, **WEIGHTS)


@pytest.mark.parametrize(
    ("needed", "changes"),
    [
        (4000 - 240, {"embedding_table": "frozen"}),  # 12 bytes a weight
        (2000 - 240, {"embedding_table": "frozen", "gradient_checkpointing": True}),  # one pass instead of three
        (2000 - 480, {"gradient_checkpointing": True, "lora_rank": 16}),  # 40 weights fewer
        (1500 - 480, {"gradient_checkpointing": True, "lora_rank": 16, "max_length": 256}),
        (1125 - 480, {"gradient_checkpointing": True, "lora_rank": 16, "max_length": 64}),
        (1124 - 480, {}),
    ],
)
def test_changes_no_more_than_needed(needed: int, changes: dict[str, Any]) -> None:
    for options in (OPTIONS, CrossEncoderOptions(base="some/model")):
        suggested = options_that_fit(options, NEED, -(-needed * 10 // 9), has_attention_dropout=False)
        assert suggested == changes
        assert replace(options, **suggested)  # which can be
        assert suggested.keys() <= REASONS.keys()


def test_changes_only_attention_dropout_first() -> None:
    assert options_that_fit(OPTIONS, NEED, 10, has_attention_dropout=True) == {"attention_dropout": "none"}


def test_keeps_options_already_set() -> None:
    frozen = replace(NEED, table_weights=0, trained_weights=30)
    assert options_that_fit(OPTIONS, frozen, 3000, has_attention_dropout=False) == {"gradient_checkpointing": True}
    options = replace(OPTIONS, gradient_checkpointing=True)
    assert options_that_fit(options, frozen, 4200, has_attention_dropout=False) == {"lora_rank": 16}
    options = replace(OPTIONS, mini_batch_size=8)
    assert options_that_fit(options, frozen, 4200, has_attention_dropout=False)["lora_rank"] == 16
    options = replace(OPTIONS, gradient_checkpointing=True, frozen_layers=2)
    assert options_that_fit(options, frozen, 4000, has_attention_dropout=False) == {"max_length": 256}


def test_reduces_batch_size_of_starter() -> None:
    options = BiEncoderOptions.defaults_for()
    need = MemoryNeed(fixed=1000, slope=10, largest=2560, characters_per_pass=0)
    assert options_that_fit(options, need, 20_000, has_attention_dropout=False) == {"batch_size": 128}
    assert options_that_fit(options, need, 2100, has_attention_dropout=False) == {"batch_size": 8}
    assert options_that_fit(options, need, 1000, has_attention_dropout=False) == {}
