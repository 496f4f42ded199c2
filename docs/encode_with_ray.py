"""Encode passages in Parquet files by Ray Data, on workers that may come and go, in folders or object storage.

pip install "ray[data]"; in the project: PYTHONPATH=. python docs/encode_with_ray.py SOURCE MODEL TARGET WORKERS
SOURCE has the columns `id` and `text`; TARGET gets `id` and `vector`, as `mrc encode` computes it.
"""

import sys
from typing import Any

import ray

from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.sources import find_model


class Encoder:
    """A worker's own model, loaded once."""

    def __init__(self, model: str) -> None:
        self._encoder = BiEncoder(find_model(model), [])

    def __call__(self, passages: dict[str, Any]) -> dict[str, Any]:
        """Encode one block: `vector` is `(rows, dimensions)` float32, of length 1."""
        return {"id": passages["id"], "vector": self._encoder.encode("passage", list(passages["text"]))}


def main(source: str, model: str, target: str, workers: str) -> None:
    """Encode 256 passages at a time."""
    passages = ray.data.read_parquet(source, columns=["id", "text"])
    # half a core each by name only: workers that take every core leave none to read and write, and nothing moves
    encoded = passages.map_batches(
        Encoder, fn_constructor_args=[model], batch_size=256, concurrency=int(workers), num_cpus=0.5
    )
    encoded.write_parquet(target)


if __name__ == "__main__":
    main(*sys.argv[1:])
