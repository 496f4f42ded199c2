"""The recipe of a masked language model: text, a tokenizer, and a network that is new or goes on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.text.corpora import Corpus, find_corpus
from mrc_workbench.data.workspace import limits, user
from mrc_workbench.models.language.masking import FOLLOWED, GUESSED, LOG_LIKELIHOOD, Guesses, configuration, guesses
from mrc_workbench.models.sources import STARTER, ModelSource
from mrc_workbench.retrieval.report.charts import PALETTE
from mrc_workbench.training.base import Examples, Family, HeldOut, OnProgress, Recipe, Task, finished, seconds_for
from mrc_workbench.training.engine.adaptation import adapt
from mrc_workbench.training.options import EmbeddingTable, OptionError
from mrc_workbench.training.recipes.language_material import (
    UNIGRAM,
    LanguageMaterial,
    LanguageMeasurement,
    MeasuredRows,
)
from mrc_workbench.training.text_options import LANGUAGE_MODEL, LanguageBestBy, LanguageOptions


class Languages(Family):
    """Trainings of language models."""

    measures = {GUESSED: "Hidden tokens guessed", FOLLOWED: "Next segments told"}
    curves = (GUESSED, FOLLOWED)
    tag = "fill-mask"

    def find(self, reference: str) -> Corpus:
        return find_corpus(reference)

    def check(self, data: Corpus, options: LanguageOptions) -> None:
        if options.tokenizer.strip() and user() and not limits().paths:
            raise OptionError("tokenizer", "server_path", "tokenizer must be empty: folders are not open to users")
        if options.tokenizer.strip() and not (Path(options.tokenizer) / "tokenizer.json").is_file():
            raise OptionError("tokenizer", "no_tokenizer", "tokenizer must name a folder with a tokenizer.json in it")

    def texts(self, data: Corpus, options: LanguageOptions) -> Sequence[str]:
        return list(islice(data.documents(), 1000))  # enough to detect their language; memory may not hold all

    def about(self, data: Corpus, shares: SplitOptions, options: LanguageOptions) -> dict[str, Any]:
        material = LanguageMaterial.of(data, shares, options)
        parts = {f"{part}_documents": count for part, count in material.documents.items()}
        total, tokenizer = sum(material.documents.values()), material.tokenizer
        sizes = {"rows": len(material.learned), "vocabulary": len(tokenizer)}
        return {"documents": total, "tokens": material.tokens, **parts, **sizes}

    def material(self, data: Corpus, plan: Any, tell: OnProgress | None = None) -> LanguageMaterial:
        return LanguageMaterial.of(data, plan.split, plan.options, tell)

    def rows(self, options: LanguageOptions, scores: Mapping[str, Any]) -> dict[str, str]:
        return {UNIGRAM: "Frequency alone", "before": "The base", "after": "**This model**"}


LANGUAGES: Family = Languages()


class LanguageRecipe(Recipe[LanguageOptions, LanguageMaterial]):
    """How a masked language model is trained."""

    kind = LANGUAGE_MODEL
    family = LANGUAGES
    options = LanguageOptions
    base = STARTER
    measure = GUESSED
    colour = PALETTE[5]

    def measured(self, source: ModelSource) -> LanguageMeasurement:
        return self._measured(self._loaded(source))

    def task(self, source: ModelSource) -> Task:
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
        rows, judging = material.learned, material.judging
        return Task(
            model=model,
            loss=None,
            columns=rows.columns(material.tokenizer),
            examples=Examples.apart(rows.blocks.lengths()),
            measure=self._measured,
            settled=settled,
            metadata={"new_heads": list(model.new_heads)} if options.base != STARTER and model.new_heads else {},
            held_out=HeldOut.of(
                {}, Examples.apart(judging.hidden.blocks.lengths()[judging.rows]), features=judging.features
            ),
            features=rows.features,
            kept_models=options.kept_models,
            best_by=best_by,
        )

    def concluded(self, model_folder: Path) -> tuple[dict[str, LanguageMeasurement], dict[str, Any]]:
        from mrc_workbench.models.reader_networks import load_masked

        source = finished(model_folder)
        return {"after": self._measured(load_masked(source, pairs=self._options.pairs))}, {}

    def seconds_to_measure(self, model: Any) -> float:
        both = (self._material.judging, self._material.sample)
        return float(sum(seconds_for(partial(self._guesses, model, rows), rows.batches()) for rows in both))

    def _loaded(self, source: ModelSource) -> Any:
        from mrc_workbench.models.reader_networks import load_masked, new_masked

        options, tokenizer = self._options, self._material.tokenizer
        if options.base != STARTER:
            loaded = load_masked(source, pairs=options.pairs)
            if options.max_length > loaded.max_seq_length:
                message = f"max_length must be {loaded.max_seq_length} or less: the base reads no more"
                raise OptionError("max_length", "longer_than_the_base", message)
            return loaded
        config = configuration(options.size, len(tokenizer), options.max_length, tokenizer.pad_token_id)
        return new_masked(config, tokenizer, pairs=options.pairs, seed=options.seed)

    def _measured(self, model: Any) -> LanguageMeasurement:
        both = (self._material.judging, self._material.sample)
        judged, learned = (self._guesses(model, rows, rows.batches()) for rows in both)
        return LanguageMeasurement(judged, learned, judge=self._material.judge)

    def _guesses(self, model: Any, rows: MeasuredRows, batches: list[list[int]]) -> Guesses:
        return guesses(model, map(rows.hidden.features, batches), self._options.precision)
