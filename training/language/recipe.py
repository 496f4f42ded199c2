"""The recipe of a masked language model: text, a tokenizer, and a network that is new or goes on."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from language.masking.architectures import configuration
from language.masking.perplexity import GUESSED, LOG_LIKELIHOOD, Guesses, guesses
from models.sources import STARTER, ModelSource
from retrieval.comparison.spec import Spec
from retrieval.report.colours import PALETTE
from training.engine.adaptation import adapt
from training.engine.task import HeldOut, Task, processes, seconds_for
from training.family import Family
from training.language.family import LANGUAGES
from training.language.material import LanguageMaterial, MeasuredRows, examples_of
from training.language.measured import Guessed
from training.options.common import EmbeddingTable, OptionError, TrainingOptions
from training.options.language_model import LanguageBestBy, LanguageOptions


class LanguageRecipe:
    """How a masked language model is trained; see `training.recipe.Recipe`."""

    family: Family = LANGUAGES
    options: type[TrainingOptions] = LanguageOptions
    base = STARTER
    measure = GUESSED
    colour = PALETTE[5]
    does = "A masked language model: it is given a text with gaps, and says which tokens may stand in them."
    hub_task = "fill-mask"
    loading = (
        "from transformers import AutoModelForMaskedLM, AutoTokenizer, pipeline",
        'AutoModelForMaskedLM.from_pretrained("{folder}")',
    )
    loading_a_starter = loading  # there is none
    usage = """tokenizer = AutoTokenizer.from_pretrained(model.name_or_path)
fill = pipeline("fill-mask", model=model, tokenizer=tokenizer)
print(fill(f"a text with a {tokenizer.mask_token} in it"))  # the likeliest tokens, and how likely each is"""

    def __init__(self, options: LanguageOptions, material: LanguageMaterial) -> None:
        self._options, self._material = options, material

    def measured(self, source: ModelSource) -> Guessed:
        """Let a model guess what is hidden in the rows that judge it."""
        return self._measured(self._loaded(source))

    def task(self, source: ModelSource) -> Task:
        """Load the base or make a new model, and gather what its training needs. Raises `OptionError`."""
        options, material = self._options, self._material
        model = self._loaded(source)
        if model.new_heads and options.lora_rank:
            message = "lora_rank must be 0 for a base without a head of its own: what is drawn by chance must learn"
            raise OptionError("lora_rank", "new_model", message)
        if options.base == STARTER and options.embedding_table is EmbeddingTable.AUTO:
            options = replace(options, embedding_table=EmbeddingTable.TRAINED)
        model.pairs_weight = options.pairs_weight
        settled = adapt(model, options)
        best_by = LOG_LIKELIHOOD if options.best_by is LanguageBestBy.PERPLEXITY else options.best_by.value
        rows, columns = material.learned, material.learned.columns(material.tokenizer)
        return Task(
            *(model, None, columns, examples_of(rows.blocks.lengths()), self._measured),
            settled=settled,
            told={"new_heads": list(model.new_heads)} if options.base != STARTER and model.new_heads else {},
            held_out=_held_out(material.judging),
            features=rows.features,
            kept_models=options.kept_models,
            best_by=best_by,
        )

    def concluded(self, model_folder: Path) -> tuple[dict[str, Guessed], dict[str, Any]]:
        """Measure the finished model; nothing else is to be found out."""
        from models.readers.masked_network import load_masked

        source = ModelSource(str(model_folder), folder=model_folder)
        return {"after": self._measured(load_masked(source, pairs=self._options.pairs))}, {}

    def seconds_to_measure(self, model: Any) -> float:
        """Seconds that measuring this model once would take, by the time a few rows take."""
        asked = (self._material.judging, self._material.sample)
        return float(sum(seconds_for(partial(self._guesses, model, rows), rows.batches()) for rows in asked))

    @staticmethod
    def retrievers(model: str, first: str, *, title: bool, named: Callable[[str], str]) -> list[Spec]:
        """None: it knows tokens, not passages."""
        del model, first, title, named
        return []

    def _loaded(self, source: ModelSource) -> Any:
        from models.readers.masked_network import load_masked, new_masked

        options, tokenizer = self._options, self._material.tokenizer
        if options.base != STARTER:
            loaded = load_masked(source, pairs=options.pairs)
            if options.max_length > loaded.max_seq_length:
                message = f"max_length must be {loaded.max_seq_length} or less: the base reads no more"
                raise OptionError("max_length", "longer_than_the_base", message)
            return loaded
        told = configuration(options.size, len(tokenizer), options.max_length, tokenizer.pad_token_id)
        return new_masked(told, tokenizer, pairs=options.pairs, seed=options.seed)

    def _measured(self, model: Any) -> Guessed:
        asked = (self._material.judging, self._material.sample)
        judged, learned = (self._guesses(model, rows, rows.batches()) for rows in asked)
        return Guessed(judged, learned, self._material.judge)

    def _guesses(self, model: Any, rows: MeasuredRows, batches: list[list[int]]) -> Guesses:
        return guesses(model, map(rows.hidden.features, batches), self._options.precision)


def _held_out(rows: MeasuredRows) -> HeldOut | None:
    """What is measured, so that its loss is seen beside that of what is learned; several processes would cut it."""
    if processes() > 1 or len(rows.rows) < 2:
        return None
    return HeldOut({}, examples_of(rows.hidden.blocks.lengths()[rows.rows]), features=rows.features)
