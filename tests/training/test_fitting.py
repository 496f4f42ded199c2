"""What is changed where memory is small: in the order of harmlessness, and no more than it takes."""

from dataclasses import replace
from typing import Any

import pytest

from mrc_workbench.training.estimate import REASONS, Need, instead
from mrc_workbench.training.ranker_options import BiEncoderOptions, CrossEncoderOptions

OPTIONS = BiEncoderOptions(base="some/model", batch_size=32)
# 1000 bytes whatever the batch, 10 for each of 300 characters; a table of 20 trained weights of 50
NEED = Need(fixed=1000, slope=10, largest=300, a_pass=100, table=20, trained=50, adapters=10, length=512)


@pytest.mark.parametrize(
    ("needed", "changes"),
    [
        (4000 - 240, {"embedding_table": "frozen"}),  # 12 bytes a weight
        (2000 - 240, {"embedding_table": "frozen", "recompute": True}),  # one pass instead of three
        (2000 - 480, {"recompute": True, "lora_rank": 16}),  # 40 weights fewer
        (1500 - 480, {"recompute": True, "lora_rank": 16, "max_length": 256}),
        (1125 - 480, {"recompute": True, "lora_rank": 16, "max_length": 64}),
        (1124 - 480, {}),
    ],
)
def test_no_more_is_changed_than_it_takes(needed: int, changes: dict[str, Any]) -> None:
    for options in (OPTIONS, CrossEncoderOptions(base="some/model")):
        found = instead(options, NEED, -(-needed * 10 // 9), forgets=False)
        assert found == changes
        assert replace(options, **found)  # which can be
        assert found.keys() <= REASONS.keys()


def test_attention_first_and_alone() -> None:
    assert instead(OPTIONS, NEED, 10, forgets=True) == {"attention_dropout": "none"}


def test_what_is_so_already_is_not_changed() -> None:
    frozen = replace(NEED, table=0, trained=30)
    assert instead(OPTIONS, frozen, 3000, forgets=False) == {"recompute": True}
    assert instead(replace(OPTIONS, recompute=True), frozen, 4200, forgets=False) == {"lora_rank": 16}
    assert instead(replace(OPTIONS, mini_batch_size=8), frozen, 4200, forgets=False)["lora_rank"] == 16
    kept = replace(OPTIONS, recompute=True, frozen_layers=2)
    assert instead(kept, frozen, 4000, forgets=False) == {"max_length": 256}


def test_a_starter_takes_smaller_batches() -> None:
    options = BiEncoderOptions.suited_to()
    need = Need(fixed=1000, slope=10, largest=2560, a_pass=0, table=0, trained=0, adapters=0, length=0)
    assert instead(options, need, 20_000, forgets=False) == {"batch_size": 128}
    assert instead(options, need, 2100, forgets=False) == {"batch_size": 8}
    assert instead(options, need, 1000, forgets=False) == {}
