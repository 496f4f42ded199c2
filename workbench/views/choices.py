"""The retrievers that a user can select for a dataset, their descriptions and expected times.

On the sample every retriever starts without a click. On a user's dataset BM25 starts, and then, in their order, the
retrievers with which the whole comparison should end within a minute. A retriever with stored results takes no time.
`retrieval.comparison.pace` forecasts the seconds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import streamlit as st

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.records import RELEVANT_GRADE
from mrc_workbench.data.split import Part, SplitMethod, SplitOptions
from mrc_workbench.data.store import CATALOG, StoredSet, passages_of
from mrc_workbench.data.text.analysis import Analysis
from mrc_workbench.data.text.analyzers import LANGUAGE_OF, Analyzer, resolve_analyzer
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.inference import TokenLayers
from mrc_workbench.models.packaged import PREFIX, base_at_hand
from mrc_workbench.models.sources import STARTER
from mrc_workbench.retrieval.comparison import first_stage, multistage
from mrc_workbench.retrieval.comparison.experiment import Experiment, added_retrievers, with_dependencies
from mrc_workbench.retrieval.comparison.pace import Forecast, forecast_retrievers, total_forecast
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.comparison.store import StoredComparison, kept_comparisons
from mrc_workbench.retrieval.measures import DEFAULT_KS
from mrc_workbench.retrieval.milvus import MilvusSearchMode
from mrc_workbench.retrieval.outside.adapt import plugins
from mrc_workbench.training.recipes import get_recipe
from mrc_workbench.training.runs import Run, TrainingPlan, planned_runs, shared_runs
from mrc_workbench.workbench.views.names import analyzer_words, base_name, language_name, plan_of, retriever_name
from mrc_workbench.workbench.views.resources.sets import SAMPLE, cached, question_set, split_of
from mrc_workbench.workbench.views.ui.words import free_name, plain, rounded_duration, word, word_or

START_SECONDS = 60.0
_TRAINED = "trained"  # in the name of a mix with a retriever trained here
_WEAK_BASELINES = (multistage.WORDS_NAME, multistage.LSA_NAME)
_MAX_OTHERS_SELECTED = 2
_LARGE = 50_000  # passages: a transformer takes hours to encode them, a static model minutes


@dataclass(frozen=True)
class ExpectedTimes:
    """The expected times of the retrievers of a dataset, by name, each without its components."""

    specs: Mapping[str, Spec]
    forecast_by_name: Mapping[str, Forecast]
    always_started: str  # this retriever starts even if it is slow

    def total(self, names: Iterable[str]) -> Forecast:
        return total_forecast([self.forecast_by_name[spec.name] for spec in with_dependencies(self.specs, names)])

    def starting(self, names: Iterable[str]) -> list[str]:
        """Return the retrievers that start without a click: together they end within `START_SECONDS`."""
        selected: list[str] = []
        for name in names:
            if name == self.always_started or self._is_quick([*selected, name]):
                selected.append(name)
        return selected

    def label(self, name: str) -> str:
        """Return the time in the chip of a slow retriever, "" for a quick one."""
        if name == self.always_started or self._is_quick([name]):
            return ""
        forecast = self.total([name])
        if forecast.seconds is None:
            return word("compare.time_unknown")
        key = "compare.time_about" if forecast.is_measured else "compare.time_up_to"
        return word(key, time=rounded_duration(forecast.seconds))

    def _is_quick(self, names: Iterable[str]) -> bool:
        needed_names = [spec.name for spec in with_dependencies(self.specs, names) if spec.name != self.always_started]
        seconds = total_forecast([self.forecast_by_name[name] for name in needed_names]).seconds
        return seconds is not None and seconds <= START_SECONDS


def expected_times(data: StoredSet, specs: Mapping[str, Spec], always: str) -> ExpectedTimes | None:
    """Return the expected times on a user's dataset; None for the sample, where every retriever starts."""
    if data.source == SAMPLE or data.name == CATALOG[SAMPLE].title or not data.questions:
        return None
    described = "\n".join(spec.model_dump_json() for spec in specs.values())
    try:
        measured_at = (workspace() / "cache" / "pace.json").stat().st_mtime
    except OSError:
        measured_at = 0.0
    forecast_by_name = dict(_forecasts(data.key, described, measured_at, specs))
    for name in forecast_by_name.keys() & {name for stored in comparisons_of(data) for name in stored.figures}:
        forecast_by_name[name] = Forecast(0.0, is_measured=True)
    return ExpectedTimes(specs, forecast_by_name, always)


def comparisons_of(data: StoredSet) -> list[StoredComparison]:
    """Return the stored comparisons of a dataset, newest first, without those of labs."""
    return [stored for stored in kept_comparisons() if stored.data_fingerprint == data.fingerprint and not stored.lab]


@cached(max_entries=32)
def _forecasts(key: str, described: str, measured_at: float, _specs: Mapping[str, Spec]) -> dict[str, Forecast]:
    del described, measured_at  # parts of the cache key
    return forecast_retrievers(_specs, question_set(key))


@dataclass(frozen=True)
class RetrieverChoices:
    """All retrievers that a user can select, by name, and the default selection."""

    specs: dict[str, Spec]
    default_names: tuple[str, ...]
    trained: dict[str, TrainingPlan]  # by name of the retriever with the trained model
    added: tuple[str, ...]  # names of the retrievers that a user added
    analyzer: Analyzer  # suits the passages
    plans: dict[str, TrainingPlan]  # of finished trainings on any dataset, by the name of the model in experiment files
    large: bool = False
    expected: ExpectedTimes | None = None  # None if every retriever starts without a click

    @property
    def searchable(self) -> list[str]:
        """Names of the retrievers for any question; an imported run has only its own questions."""
        return [name for name in self.specs if all(spec.searchable for spec in with_dependencies(self.specs, [name]))]

    def needed(self, selected: list[str]) -> list[Spec]:
        """Return the selected specs and their components, each after its components."""
        return with_dependencies(self.specs, [name for name in self.specs if name in selected])

    def experiment(
        self, data: StoredSet, selected: list[str], part: Part, relevant_from: int = RELEVANT_GRADE
    ) -> Experiment:
        plans = [self.trained[name] for name in selected if name in self.trained]
        split = plans[-1].split if plans else SplitOptions()
        options: dict[str, Any] = {"seed": split.seed, "relevant_from": relevant_from, "ks": DEFAULT_KS}
        options |= {"validation_share": split.validation, "test_share": split.test, "strict_split": split.strict}
        return Experiment(data=data.key, split=part, retriever=tuple(self.needed(selected)), **options)


def choices_for(data: StoredSet) -> RetrieverChoices:
    """Return the built-in retrievers, one or two for each finished training on this dataset, and the added ones."""
    analyzer = _suited_analyzer(data.key, data.fingerprint)
    defaults = multistage.DefaultRetrievers.of(data.passages, data.questions - data.made)
    default_specs = [*defaults.first_stage, *([defaults.mix] if defaults.offers_mix else [])]
    late = [defaults.late] if defaults.late else []
    offered = [*default_specs, *defaults.combined, *(late if not defaults.offers_late else [])]
    specs: dict[str, Spec] = {spec.name: spec for spec in offered}
    large = data.passages > _LARGE
    n_default = 1 if large else len(default_specs) if defaults.offers_mix else len(specs)
    selected = [*specs][:n_default]
    words, lsa = defaults.plain
    if analyzer is not Analyzer.WORD:
        specs[multistage.WORDS_NAME] = words
    if defaults.is_pretrained:
        specs[multistage.LSA_NAME] = lsa
    registered = {free_name(entry, specs): entry for entry in plugins()}
    specs |= {name: first_stage.PluginSpec(name=name, entry=entry) for name, entry in registered.items()}
    added_specs = {spec.name: spec for spec in added_retrievers(data.fingerprint)}
    trained: dict[str, TrainingPlan] = {}
    plans = {model_reference(run): plan for run, plan in reversed(finished_runs().items())}
    for reference, plan in plans.items():
        if plan.fingerprint != data.fingerprint:
            continue
        lenient = replace(plan.split, strict=False)
        if plan.split.strict and split_of(data.key, lenient).method is SplitMethod.GROUPED:  # both splits are equal
            plan = replace(plan, split=lenient)  # noqa: PLW2901
        plan_specs = _specs_of(reference, plan, {**specs, **added_specs})
        specs |= {spec.name: spec for spec in plan_specs}
        trained |= dict.fromkeys((spec.name for spec in plan_specs), plan)
        selected += [spec.name for spec in plan_specs[:1]]
    if defaults.offers_mix and (mix := _mix_with_trained(specs, trained)):
        specs[mix.name] = mix
        trained[mix.name] = [*trained.values()][-1]
        selected.append(mix.name)
    for spec in added_specs.values():
        if set(spec.components) <= specs.keys():  # its trained model may have been removed
            specs[spec.name] = spec
            selected.append(spec.name)
    added_names = tuple(name for name in specs if name in added_specs)
    default_names = tuple(selected[:n_default] + selected[n_default:][-_MAX_OTHERS_SELECTED:])
    expected = expected_times(data, specs, multistage.BM25_NAME)
    if expected:
        default_names = tuple(expected.starting(default_names))
    return RetrieverChoices(specs, default_names, trained, added_names, analyzer, plans, large, expected)


def _mix_with_trained(specs: Mapping[str, Spec], trained: dict[str, TrainingPlan]) -> multistage.LearnedSpec | None:
    """Return the best mix with the newest trained retriever of each kind; None without one.

    Only trainings with the newest split count, because all must have the same test questions. Rerankers are too slow.
    """
    split = next((plan.split for plan in reversed(trained.values())), None)
    same_split = [name for name, plan in trained.items() if plan.split == split and not specs[name].components]
    newest = {type(specs[name]): name for name in same_split}
    if not newest:
        return None
    name = free_name(f"{multistage.MIX_NAME} · {_TRAINED}", specs)
    return multistage.LearnedSpec(name=name, of=(*specs[multistage.MIX_NAME].components, *newest.values()))


def without_weak_baselines(names: Sequence[str]) -> list[str]:
    """Return the names without weak baselines, which are easy to beat, if two others remain."""
    others = [name for name in names if name not in _WEAK_BASELINES]
    return others if len(others) > 1 else [*names]


@lru_cache(maxsize=64)
def _suited_analyzer(key: str, fingerprint: str) -> Analyzer:
    """Return the analyzer for the language of a dataset: morphemes for Korean, characters for Chinese."""
    del fingerprint  # a part of the cache key
    return resolve_analyzer(Analyzer.AUTO, passages_of(key).indexed_texts(title=True))


def finished_runs() -> dict[Run, TrainingPlan]:
    """Return the completed runs, newest first, then the shared ones, without short trials of a settings search."""
    own = {run: plan for run, plan in planned_runs() if plan.is_training and run.status().state is State.DONE}
    return {run: plan for run, plan in (own | shared_runs()).items() if not plan.trial or plan.trial.whole}


def local_models(kind: str, choices: RetrieverChoices) -> list[str]:
    """Return the models that retrievers of a kind ("dense", "sparse", "rerank") can use without a download."""

    def fits(reference: str, plan: TrainingPlan) -> bool:
        specs = get_recipe(plan.kind).retrievers(reference, multistage.BM25_NAME, title=True, name_for=str)
        return any(spec.kind == kind for spec in specs)

    trained = [reference for reference, plan in reversed(choices.plans.items()) if fits(reference, plan)]
    if kind != "dense":  # other kinds need a trained model
        return trained
    packaged = base_at_hand()
    return [*([packaged.reference] if packaged else []), *trained, STARTER]


def model_reference(run: Run) -> str:
    return run.id if run.folder.parent.name == "runs" else str(Path(run.model_folder))


def _specs_of(model: str, plan: TrainingPlan, taken: dict[str, Spec]) -> list[Spec]:
    def unique_name(name: str) -> str:
        return free_name(f"{name} · {plan.name}", taken)

    title = getattr(plan.options, "title", True)
    return get_recipe(plan.kind).retrievers(model, multistage.BM25_NAME, title=title, name_for=unique_name)


def draw_methods(names: Sequence[str], choices: RetrieverChoices) -> None:
    if lines := [plain(method_line(choices.specs[name], choices)) for name in names if name in choices.specs]:
        st.caption("  \n".join(lines))


def method_line(spec: Spec, choices: RetrieverChoices) -> str:
    return f"{retriever_name(spec.name)}: {_description(spec, choices)}"


def _description(spec: Spec, choices: RetrieverChoices) -> str:
    match spec:
        case multistage.HybridSpec():
            weights = ["" if weight is None else f" × {weight:g}" for weight in spec.weights or [None] * len(spec.of)]
            parts = [retriever_name(name) + weight for name, weight in zip(spec.of, weights, strict=True)]
            return word("method.hybrid", parts=" + ".join(parts))
        case multistage.RerankSpec():
            values = {"first": retriever_name(spec.first), "model": _model(spec.model, choices)}
            return word("method.rerank", depth=spec.depth, **values)
        case first_stage.DenseSpec():
            starter = spec.model == STARTER
            return word("method.lsa") if starter else word("method.dense", model=_model(spec.model, choices))
        case first_stage.MilvusSpec():
            both = f"BM25 + {_model(spec.model, choices)}"
            mixed = word("method.hybrid", parts=both) if spec.search is MilvusSearchMode.HYBRID else ""
            return word("method.milvus", does=mixed or _description(spec.local_spec, choices))
        case first_stage.TermSpec():
            return _term_description(spec, choices.analyzer)
    details = {"parts": ", ".join(map(retriever_name, spec.components))}
    if isinstance(spec, first_stage.HttpSpec):
        details = {"host": urlsplit(spec.url).netloc}
    elif isinstance(spec, first_stage.PluginSpec):
        details = {"entry": spec.entry}
    elif model := dict(spec).get("model"):
        details = {"model": _model(model, choices)}
    kind = spec.kind
    if isinstance(spec, first_stage.LateSpec) and spec.model.startswith(PREFIX):  # other models may lack layers
        kind += "_upper" if spec.layers.of_passages is TokenLayers.UPPER else ""
        kind += "_idf" if spec.layers.are_weighted else ""
    return word_or(f"method.{kind}", spec.kind, **details)


def _term_description(spec: first_stage.TermSpec, analyzer: Analyzer) -> str:
    selected = analyzer if spec.analyzer is Analyzer.AUTO else spec.analyzer
    if spec.pairs:
        selected = Analysis(selected).unpaired.analyzer
    if stemmed := LANGUAGE_OF.get(selected):
        phrases = [word("method.stems", language=language_name(stemmed))]
    else:
        cut = analyzer_words(selected)
        phrases = [word("method.bm25", cut=cut[:1].lower() + cut[1:])]
    if isinstance(spec, first_stage.WindowedBM25Spec):
        phrases.append(word("method.sentences", sentences=spec.sentences))
    if spec.pairs:
        phrases.append(word("method.pairs"))
    if spec.dictionary:
        phrases.append(word("method.dictionary"))
    if isinstance(spec, first_stage.BM25Spec) and spec.feedback_passages:
        phrases.append(word("method.feedback", passages=spec.feedback_passages))
    return ", ".join(phrases)


def _model(reference: str, choices: RetrieverChoices) -> str:
    if reference == STARTER:
        return word("method.starter")
    if reference.startswith(PREFIX):
        return word("method.untrained", model=base_name(reference))
    if plan := plan_of(reference, choices.plans):
        return word("method.trained", base=base_name(plan.options.base, plan.kind, choices.plans), name=plan.name)
    return reference
