"""Which options of a language model's training fit together."""

from typing import Any

import pytest

from language.masking.masker import MaskingOptions
from models.sources import STARTER
from training.options.common import OptionError
from training.options.language_model import LanguageObjective, LanguageOptions


@pytest.mark.parametrize(
    ("options", "name", "code"),
    [
        ({"mask_share": 0.0}, "mask_share", "range"),
        ({"shown_as_mask": 0.8, "shown_as_random": 0.3}, "shown_as_random", "shares"),
        ({"base": "some/model", "tokenizer": "folder"}, "tokenizer", "of_the_base"),
        ({"lora_rank": 4}, "lora_rank", "new_model"),
        ({"frozen_layers": 1}, "frozen_layers", "new_model"),
        ({"embedding_table": "frozen"}, "embedding_table", "new_model"),
        ({"whole_words": "sentences"}, "whole_words", "range"),
        ({"vocabulary": 10}, "vocabulary", "range"),
        ({"base": " "}, "base", "empty"),
    ],
)
def test_what_does_not_fit_is_told(options: dict[str, Any], name: str, code: str) -> None:
    with pytest.raises(OptionError) as caught:
        LanguageOptions(**options)
    assert (caught.value.option, caught.value.code) == (name, code)


def test_a_new_model_may_be_asked_what_a_starter_of_words_may_not() -> None:
    options = LanguageOptions(base=STARTER, max_length=64, recompute=True, precision="bfloat16")
    assert options.masking == MaskingOptions(0.15, 0.8, 0.1)
    assert not options.pairs
    assert LanguageOptions(objective=LanguageObjective.MLM_NSP).pairs
    assert LanguageOptions(base="some/model", lora_rank=4, embedding_table="frozen").lora_rank == 4


def test_what_goes_on_from_a_base_moves_by_smaller_steps() -> None:
    assert LanguageOptions.suited_to("some/model").learning_rate < LanguageOptions.suited_to().learning_rate
