"""What searching with every layer of a model finds, and how sure it is that one is better than the usual."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from data.split import Part, SplitOptions
from data.store import StoredSet
from language.inside.layer_search import LayerSearch, drawn, layer_search
from language.inside.loading import prompts_of
from language.inside.pooled import Pooling
from models.sources import find_model
from retrieval.evaluation.significance import Pair, PairTest, paired_tests, question_groups, share_intervals
from views.resources.language import Tell, content_of, encoder, made_once, place_of
from views.resources.sets import question_set, split_of

_LEAST_OF_TEST = 50  # questions: where the test part has fewer, all are asked
_MEASURE = "ndcg@10"
Way = tuple[int, Pooling]  # to make vectors: a layer, and how it is pooled


@dataclass(frozen=True)
class LayerFindings:
    """nDCG@10 of a search by every layer and pooling, the 95% intervals of the means, and the tests.

    `tests` hold every other way against the `usual`, the mean of the last layer, tested together, so that they may be
    read of the best; ways without a figure are in neither.
    """

    found: LayerSearch
    intervals: Mapping[Way, tuple[float, float]]
    tests: Mapping[Way, PairTest]

    @classmethod
    def of(cls, found: LayerSearch) -> "LayerFindings":
        """Test what was found; questions about the same passages stand or fall together."""
        groups = question_groups(found.searched)
        every = {
            (layer, pooling): values
            for layer, of_layer in enumerate(found.ndcg)
            for pooling, values in zip(Pooling, of_layer, strict=True)
            if np.isfinite(values).all()
        }
        usual = (len(found.ndcg) - 1, Pooling.MEAN)
        others = {way: values for way, values in every.items() if way != usual}
        pairs = [Pair(str(way), str(usual), _MEASURE, values, every[usual]) for way, values in others.items()]
        intervals = share_intervals(np.stack([*every.values()], axis=1), groups).tolist()
        return cls(
            found,
            {way: (low, high) for way, (low, high) in zip(every, intervals, strict=True)},
            dict(zip(others, paired_tests(pairs, groups), strict=True)),
        )


def search_by_layer(reference: str, data: StoredSet, part: Part, on_progress: Tell) -> LayerFindings:
    """Search with every layer for some questions of a part. Raises `ModelError`, `LanguageError` and `DataError`."""
    content = content_of(reference)

    def searched() -> LayerFindings:
        on_progress(0.0)
        asked = drawn(question_set(data.key), _rows(data)[part])
        network = encoder(reference, content)
        prompts = prompts_of(find_model(reference))  # of a packaged base, what is written when it is loaded
        return LayerFindings.of(layer_search(network, asked, prompts, on_progress))

    return made_once(place_of(("search", reference, content, data.key, data.fingerprint, part)), searched)


def part_to_search(data: StoredSet) -> Part:
    """Return the test part, of which a model trained on the set knows nothing; all questions where it is small."""
    return Part.TEST if len(_rows(data)[Part.TEST]) >= _LEAST_OF_TEST else Part.ALL


def _rows(data: StoredSet) -> dict[Part, np.ndarray]:
    shares = SplitOptions()
    return split_of(data.key, shares.validation, shares.test, shares.seed).rows
