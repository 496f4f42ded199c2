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
from mrc_workbench.models.language import masking
from mrc_workbench.models.sources import STARTER, ModelSource
from mrc_workbench.retrieval.report.charts import PALETTE
from mrc_workbench.training.base import (
    Examples,
    Family,
    OnProgress,
    Recipe,
    Task,
    ValidationExamples,
    estimate_seconds,
    finished_model_source,
)
from mrc_workbench.training.engine.adaptation import adapt
from mrc_workbench.training.options import EmbeddingTable, OptionError
from mrc_workbench.training.recipes.language_data import (
    UNIGRAM,
    LanguageMeasurement,
    LanguageTrainingData,
    MeasuredRows,
)
from mrc_workbench.training.text_options import LANGUAGE_MODEL, LanguageBestBy, LanguageOptions


class LanguageFamily(Family):
    """Trainings of language models."""

    measures = {masking.GUESSED: "Masked tokens predicted", masking.FOLLOWED: "Next segments predicted"}
    curves = (masking.GUESSED, masking.FOLLOWED)
    tag = "fill-mask"

    def find(self, reference: str) -> Corpus:
        return find_corpus(reference)

    def check(self, data: Corpus, options: LanguageOptions) -> None:
        if options.tokenizer.strip() and user() and not limits().paths:
            raise OptionError("tokenizer", "server_path", "tokenizer must be empty: users cannot read folders")
        if options.tokenizer.strip() and not (Path(options.tokenizer) / "tokenizer.json").is_file():
            raise OptionError("tokenizer", "no_tokenizer", "tokenizer must name a folder with a tokenizer.json in it")

    def texts(self, data: Corpus, options: LanguageOptions) -> Sequence[str]:
        return list(islice(data.documents(), 1000))  # enough to detect the language

    def describe(self, data: Corpus, split_options: SplitOptions, options: LanguageOptions) -> dict[str, Any]:
        training_data = LanguageTrainingData.from_corpus(data, split_options, options)
        parts = {f"{part}_documents": count for part, count in training_data.documents.items()}
        total = sum(training_data.documents.values())
        sizes = {"rows": len(training_data.training_rows), "vocabulary": len(training_data.tokenizer)}
        return {"documents": total, "tokens": training_data.tokens, **parts, **sizes}

    def prepare_training_data(self, data: Corpus, plan: Any, on_progress: OnProgress | None) -> LanguageTrainingData:
        return LanguageTrainingData.from_corpus(data, plan.split, plan.options, on_progress)

    def card_rows(self, options: LanguageOptions, scores: Mapping[str, Any]) -> dict[str, str]:
        return {UNIGRAM: "Token frequency", "before": "The base", "after": "**This model**"}


LANGUAGE_FAMILY: Family = LanguageFamily()


class LanguageRecipe(Recipe[LanguageOptions, LanguageTrainingData]):
    """How a masked language model is trained."""

    kind = LANGUAGE_MODEL
    family = LANGUAGE_FAMILY
    options = LanguageOptions
    base = STARTER
    measure = masking.GUESSED
    colour = PALETTE[5]

    def evaluate(self, source: ModelSource) -> LanguageMeasurement:
        return self._evaluate_model(self._load_model(source))

    def build_task(self, source: ModelSource) -> Task:
        options = self._options
        data = self._data
        model = self._load_model(source)
        if model.new_heads and options.lora_rank:
            message = "lora_rank must be 0 for a base without a head: random weights must be trained"
            raise OptionError("lora_rank", "new_model", message)
        if options.base == STARTER and options.embedding_table is EmbeddingTable.AUTO:
            options = replace(options, embedding_table=EmbeddingTable.TRAINED)
        model.pairs_weight = options.pairs_weight
        resolved_options = adapt(model, options)
        best_by = masking.LOG_LIKELIHOOD if options.best_by is LanguageBestBy.PERPLEXITY else options.best_by.value
        rows = data.training_rows
        validation_rows = data.validation_rows
        return Task(
            model=model,
            loss=None,
            columns=rows.columns(data.tokenizer),
            examples=Examples.independent(rows.blocks.lengths()),
            evaluate=self._evaluate_model,
            resolved_options=resolved_options,
            metadata={"new_heads": list(model.new_heads)} if options.base != STARTER and model.new_heads else {},
            held_out=ValidationExamples.create_if_usable(
                {},
                Examples.independent(validation_rows.hidden.blocks.lengths()[validation_rows.rows]),
                features=validation_rows.features,
            ),
            features=rows.features,
            max_snapshots=options.max_snapshots,
            best_by=best_by,
        )

    def evaluate_finished(self, model_folder: Path) -> tuple[dict[str, LanguageMeasurement], dict[str, Any]]:
        from mrc_workbench.models.reader_networks import load_masked

        source = finished_model_source(model_folder)
        return {"after": self._evaluate_model(load_masked(source, pairs=self._options.pairs))}, {}

    def estimate_evaluation_seconds(self, model: Any) -> float:
        row_sets = (self._data.validation_rows, self._data.training_sample)
        return sum(estimate_seconds(partial(self._guess_tokens, model, rows), rows.batches()) for rows in row_sets)

    def _load_model(self, source: ModelSource) -> Any:
        from mrc_workbench.models.reader_networks import load_masked, new_masked

        options = self._options
        tokenizer = self._data.tokenizer
        if options.base != STARTER:
            loaded = load_masked(source, pairs=options.pairs)
            if options.max_length > loaded.max_seq_length:
                message = f"max_length must be {loaded.max_seq_length} or less, the maximum of the base"
                raise OptionError("max_length", "longer_than_the_base", message)
            return loaded
        config = masking.configuration(options.size, len(tokenizer), options.max_length, tokenizer.pad_token_id)
        return new_masked(config, tokenizer, pairs=options.pairs, seed=options.seed)

    def _evaluate_model(self, model: Any) -> LanguageMeasurement:
        row_sets = (self._data.validation_rows, self._data.training_sample)
        validation, training = (self._guess_tokens(model, rows, rows.batches()) for rows in row_sets)
        return LanguageMeasurement(validation, training, evaluation_key=self._data.evaluation_key)

    def _guess_tokens(self, model: Any, rows: MeasuredRows, batches: list[list[int]]) -> masking.MaskedPredictions:
        return masking.predict_masked_tokens(model, map(rows.hidden.features, batches), self._options.precision)
