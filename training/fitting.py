"""What to change of a training that does not fit into memory: the most harmless change first."""

from dataclasses import dataclass
from typing import Any

from training.options.common import AttentionDropout, EmbeddingTable, TrainingOptions

SHARE_TO_USE = 0.9  # of the memory that is free: the rest is for what nobody foresees
_BYTES = 12  # of a trained weight in float32, besides itself: its gradient and two averages of AdamW
LORA_RANK = 16
_SHORTEST = 64  # tokens, below which hardly a passage says what it is about

# in the order of harmlessness: what each change saves, told where one is made
REASONS = {
    "attention_dropout": "the probabilities of attention are not written out",
    "embedding_table": "the token vectors need no gradient and no state of the optimizer",
    "recompute": "one pass is held at a time, and computed a second time for its gradient",
    "lora_rank": "only adapters need a gradient and a state of the optimizer",
    "max_length": "fewer tokens of a text are held",
    "batch_size": "fewer texts are held at a time",
}


@dataclass(frozen=True)
class Need:
    """Memory as a straight line: bytes held whatever a batch is, and bytes for each character of the largest batch."""

    fixed: float
    slope: float
    largest: float  # characters of the largest batch
    a_pass: float  # characters of a full pass
    table: int  # weights of the token table that are trained
    trained: int  # weights that are trained, these among them
    adapters: int  # weights that adapters would have instead
    length: int  # tokens read of a text; 0 for a starter, whose batch alone can be smaller

    def memory(self, characters: float | None = None, *, saved: float = 0.0) -> int:
        """Bytes held with so many characters, all of the largest batch where not said, less what is saved."""
        return int(self.fixed - saved + self.slope * (self.largest if characters is None else characters))


def instead(options: TrainingOptions, need: Need, available: int, *, forgets: bool) -> dict[str, Any]:
    """Return the options to change so that the memory suffices, by the line; empty where no change does.

    `forgets` says that attention does so at random, on a CPU: what is held is then no straight line, so that alone is
    changed, and what the rest needs is to be found out anew.
    """
    limit = SHARE_TO_USE * available
    if forgets:
        return {"attention_dropout": AttentionDropout.NONE.value}
    if not need.length:
        return _smaller_batch(options, need, limit)
    changes: dict[str, Any] = {}
    saved, read = 0.0, need.largest
    in_parts = options.recompute or bool(getattr(options, "mini_batch_size", 0))
    if need.table and not options.lora_rank:
        changes["embedding_table"] = EmbeddingTable.FROZEN.value
        saved = _BYTES * float(need.table)
    if need.memory(read, saved=saved) > limit and not in_parts:
        changes["recompute"] = True
        read = min(read, need.a_pass)
    if need.memory(read, saved=saved) > limit and not options.lora_rank and not options.frozen_layers:
        changes["lora_rank"] = LORA_RANK
        changes.pop("embedding_table", None)  # adapters leave it as it is
        saved = _BYTES * float(max(0, need.trained - need.adapters))
    length = need.length
    while need.memory(read, saved=saved) > limit and length >= 2 * _SHORTEST:
        length //= 2
        read /= 2
        changes["max_length"] = length
    return changes if need.memory(read, saved=saved) <= limit else {}


def _smaller_batch(options: TrainingOptions, need: Need, limit: float) -> dict[str, Any]:
    size = 2 ** (options.batch_size - 1).bit_length() // 2
    while size > 2 and need.memory(need.largest * size / options.batch_size) > limit:
        size //= 2
    if size < 2 or need.memory(need.largest * size / options.batch_size) > limit:
        return {}
    return {"batch_size": size}
