"""The retrievers a person can pick for a question set, what each does, and what it is expected to take.

On the sample every retriever starts by itself. On a user's own question set BM25 starts, and then, in their order, the
retrievers with which the whole comparison is expected to end within a minute. A retriever that was compared on the set
before takes no time. See `retrieval.comparison.forecast` for where the seconds come from.
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
from mrc_workbench.retrieval.comparison.store import list_comparisons
from mrc_workbench.retrieval.measures import DEFAULT_KS
from mrc_workbench.retrieval.milvus import MilvusSearchMode
from mrc_workbench.retrieval.outside.adapt import plugins
from mrc_workbench.training.recipes import get_recipe
from mrc_workbench.training.runs import Run, TrainingPlan, planned_runs, shared_runs
from mrc_workbench.workbench.views.names import analyzer_words, base_name, language_name, plan_of, retriever_name
from mrc_workbench.workbench.views.resources.sets import SAMPLE, cached, question_set, split_of
from mrc_workbench.workbench.views.ui.words import duration, free_name, plain, word, word_or

START_SECONDS = 60.0


@dataclass(frozen=True)
class ExpectedTimes:
    """What the retrievers of a question set are expected to take, by name, each without what it wraps."""

    specs: Mapping[str, Spec]
    forecast_by_name: Mapping[str, Forecast]
    always_started: str  # the retriever that starts whatever it takes

    def total(self, names: Iterable[str]) -> Forecast:
        return total_forecast([self.forecast_by_name[spec.name] for spec in with_dependencies(self.specs, names)])

    def starting(self, names: Iterable[str]) -> list[str]:
        """Return those of the names that start by themselves: together they end within `START_SECONDS`."""
        selected: list[str] = []
        for name in names:
            if name == self.always_started or self._is_quick([*selected, name]):
                selected.append(name)
        return selected

    def label(self, name: str) -> str:
        """Return what the chip of a slow retriever says about its time; empty for a quick one."""
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
    """Return what retrievers take on a user's own question set; None on the sample, where everything starts."""
    if is_sample(data) or not data.questions:
        return None
    described = "\n".join(spec.model_dump_json() for spec in specs.values())
    try:
        measured_at = (workspace() / "cache" / "pace.json").stat().st_mtime
    except OSError:
        measured_at = 0.0
    forecast_by_name = dict(_forecasts(data.key, described, measured_at, specs))
    compared = [
        stored for stored in list_comparisons() if stored.data_fingerprint == data.fingerprint and not stored.lab
    ]
    for name in forecast_by_name.keys() & {name for comparison in compared for name in comparison.metrics}:
        forecast_by_name[name] = Forecast(0.0, is_measured=True)
    return ExpectedTimes(specs, forecast_by_name, always)


def is_sample(data: StoredSet) -> bool:
    return data.source == SAMPLE or data.name == CATALOG[SAMPLE].title


def rounded_duration(seconds: float) -> str:
    """Return a duration as a forecast is told: minutes without seconds."""
    if seconds < 60:
        return duration(seconds)
    minutes = round(seconds / 60)
    if minutes < 60:
        return word("time.only_minutes", minutes=minutes)
    return word("time.hours", hours=minutes // 60, minutes=minutes % 60)


@cached(max_entries=32)
def _forecasts(key: str, described: str, measured_at: float, _specs: Mapping[str, Spec]) -> dict[str, Forecast]:
    del described, measured_at  # parts of the cache key
    return forecast_retrievers(_specs, question_set(key))


_TRAINED = "trained"  # a mix with what was trained here
_WEAK_BASELINES = (
    multistage.WORDS_NAME,
    multistage.LSA_NAME,
)  # worth a look, but what the others are better than says little of them
_MAX_OTHERS_SELECTED = 2
_LARGE = 50_000  # passages: their vectors are hours of work for a transformer, and minutes for a starter


@dataclass(frozen=True)
class RetrieverChoices:
    """Everything that can be picked, by name, and what is picked before anybody chooses: of a `large` set little."""

    specs: dict[str, Spec]
    default_names: tuple[str, ...]
    trained: dict[str, TrainingPlan]  # by name of the retriever that uses the trained model
    added: tuple[str, ...]  # names of those that a person added
    analyzer: Analyzer  # what suits the passages
    plans: dict[str, TrainingPlan]  # of finished trainings on any set, by what an experiment file calls their models
    large: bool = False
    expected: ExpectedTimes | None = None  # what they take on a user's own set; None where all start by themselves

    @property
    def searchable(self) -> list[str]:
        """Names of those that answer any question: an imported run knows only its own."""
        return [name for name in self.specs if all(spec.searchable for spec in with_dependencies(self.specs, [name]))]

    def needed(self, selected: list[str]) -> list[Spec]:
        """Return the specs picked and those they wrap, each after what it wraps."""
        return with_dependencies(self.specs, [name for name in self.specs if name in selected])

    def experiment(
        self, data: StoredSet, selected: list[str], part: Part, relevant_from: int = RELEVANT_GRADE
    ) -> Experiment:
        plans = [self.trained[name] for name in selected if name in self.trained]
        split_options = plans[-1].split if plans else SplitOptions()
        split = {
            "validation_fraction": split_options.validation,
            "test_fraction": split_options.test,
            "strict_split": split_options.strict,
        }
        options: dict[str, Any] = {
            "seed": split_options.seed,
            "relevance_level": relevant_from,
            "ks": DEFAULT_KS,
            **split,
        }
        return Experiment(data=data.key, split=part, retriever=tuple(self.needed(selected)), **options)


def choices_for(data: StoredSet) -> RetrieverChoices:
    """Return the built-in retrievers, one or two for every finished training on this data, and what was added."""
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
    registered = {free_name(entry, specs): entry for entry in plugins()}  # by installed packages or the operator
    specs |= {name: first_stage.PluginSpec(name=name, entry=entry) for name, entry in registered.items()}
    added_specs = {spec.name: spec for spec in added_retrievers(data.fingerprint)}
    trained: dict[str, TrainingPlan] = {}
    plans = {model_reference(run): plan for run, plan in reversed(finished_runs().items())}
    for reference, plan in plans.items():
        if plan.fingerprint != data.fingerprint:
            continue
        lenient = replace(plan.split, strict=False)
        if plan.split.strict and split_of(data.key, lenient).method is SplitMethod.GROUPED:  # strict is the same
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
        if set(spec.components) <= specs.keys():  # a training it needs may be gone
            specs[spec.name] = spec
            selected.append(spec.name)
    added_names = tuple(name for name in specs if name in added_specs)
    default_names = tuple(selected[:n_default] + selected[n_default:][-_MAX_OTHERS_SELECTED:])
    expected = expected_times(data, specs, multistage.BM25_NAME)
    if expected:
        default_names = tuple(expected.starting(default_names))
    return RetrieverChoices(specs, default_names, trained, added_names, analyzer, plans, large, expected)


def _mix_with_trained(specs: Mapping[str, Spec], trained: dict[str, TrainingPlan]) -> multistage.LearnedSpec | None:
    """Return the best mix with the newest retriever of each kind trained here; None without one.

    Only trainings of the newest one's split count: another's test questions may be among its training questions. A
    reranker is left out: it costs more than all the others together.
    """
    split = next((plan.split for plan in reversed(trained.values())), None)
    alike = [name for name, plan in trained.items() if plan.split == split and not specs[name].components]
    newest = {type(specs[name]): name for name in alike}
    name = free_name(f"{multistage.MIX_NAME} · {_TRAINED}", specs)
    return (
        multistage.LearnedSpec(name=name, retrievers=(*specs[multistage.MIX_NAME].components, *newest.values()))
        if newest
        else None
    )


def without_weak_baselines(names: Sequence[str]) -> list[str]:
    """Return the names without those of the plainest retrievers if two others are left."""
    others = [name for name in names if name not in _WEAK_BASELINES]
    return others if len(others) > 1 else [*names]


@lru_cache(maxsize=64)
def _suited_analyzer(key: str, fingerprint: str) -> Analyzer:
    """Return the analyzer that suits a set: it cuts finer than words in Korean (morphemes) and Chinese (letters)."""
    del fingerprint  # a key may come to mean another set
    return resolve_analyzer(Analyzer.AUTO, passages_of(key).indexed_texts(title=True))


def finished_runs() -> dict[Run, TrainingPlan]:
    """Return the completed runs, newest first, then the shared ones; without the short trials of a settings search."""
    own = {run: plan for run, plan in planned_runs() if plan.is_training and run.status().state is State.DONE}
    return {run: plan for run, plan in (own | shared_runs()).items() if not plan.trial or plan.trial.whole}


def local_models(kind: str, choices: RetrieverChoices) -> list[str]:
    """Return the models that retrievers of a kind ("dense", "sparse", "rerank") can use without a download."""

    def fits(reference: str, plan: TrainingPlan) -> bool:
        specs = get_recipe(plan.kind).retrievers(reference, multistage.BM25_NAME, title=True, name_for=str)
        return any(spec.kind == kind for spec in specs)

    trained = [reference for reference, plan in reversed(choices.plans.items()) if fits(reference, plan)]
    if kind != "dense":  # the others need a model that was trained for its task
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
            weights = [
                "" if weight is None else f" × {weight:g}" for weight in spec.weights or [None] * len(spec.retrievers)
            ]
            parts = [retriever_name(name) + weight for name, weight in zip(spec.retrievers, weights, strict=True)]
            return word("method.hybrid", parts=" + ".join(parts))
        case multistage.RerankSpec():
            values = {"first": retriever_name(spec.first_stage), "model": _model(spec.model, choices)}
            return word("method.rerank", depth=spec.rerank_top_k, **values)
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
    if isinstance(spec, first_stage.LateSpec) and spec.model.startswith(PREFIX):  # other models may have no layers
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
    if isinstance(spec, first_stage.BM25Spec) and spec.fb_docs:
        phrases.append(word("method.feedback", passages=spec.fb_docs))
    return ", ".join(phrases)


def _model(reference: str, choices: RetrieverChoices) -> str:
    if reference == STARTER:
        return word("method.starter")
    if reference.startswith(PREFIX):  # of a model of the hub, or of a folder, nothing is known
        return word("method.untrained", model=base_name(reference))
    if plan := plan_of(reference, choices.plans):
        return word("method.trained", base=base_name(plan.options.base, plan.kind, choices.plans), name=plan.name)
    return reference
