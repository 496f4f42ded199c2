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
from mrc_workbench.data.text.analyzers import LANGUAGE_OF, Analyzer, choose
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.inference import TokenLayers
from mrc_workbench.models.packaged import PREFIX, base_at_hand
from mrc_workbench.models.sources import STARTER
from mrc_workbench.retrieval.comparison import first_stage, multistage
from mrc_workbench.retrieval.comparison.experiment import Experiment, added, needed
from mrc_workbench.retrieval.comparison.pace import Forecast, forecasts, in_total
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.comparison.store import kept_comparisons
from mrc_workbench.retrieval.measures import DEFAULT_KS
from mrc_workbench.retrieval.milvus import Search
from mrc_workbench.retrieval.outside.adapt import plugins
from mrc_workbench.training.recipes import recipe_of
from mrc_workbench.training.runs import Plan, Run, planned_runs, shared_runs
from mrc_workbench.workbench.views.names import analyzer_words, base_name, language_name, plan_of, retriever_name
from mrc_workbench.workbench.views.resources.sets import SAMPLE, cached, question_set, split_of
from mrc_workbench.workbench.views.ui.words import duration, free_name, plain, word, word_or

START_SECONDS = 60.0


@dataclass(frozen=True)
class Expected:
    """What the retrievers of a question set are expected to take, by name, each without what it wraps."""

    specs: Mapping[str, Spec]
    alone: Mapping[str, Forecast]
    always: str  # the retriever that starts whatever it takes

    def total(self, names: Iterable[str]) -> Forecast:
        return in_total([self.alone[spec.name] for spec in needed(self.specs, names)])

    def starting(self, names: Iterable[str]) -> list[str]:
        """Return those of the names that start by themselves: together they end within `START_SECONDS`."""
        selected: list[str] = []
        for name in names:
            if name == self.always or self._is_quick([*selected, name]):
                selected.append(name)
        return selected

    def label(self, name: str) -> str:
        """Return what the chip of a slow retriever says about its time; empty for a quick one."""
        if name == self.always or self._is_quick([name]):
            return ""
        forecast = self.total([name])
        if forecast.seconds is None:
            return word("compare.time_unknown")
        key = "compare.time_about" if forecast.is_measured else "compare.time_up_to"
        return word(key, time=rounded_duration(forecast.seconds))

    def _is_quick(self, names: Iterable[str]) -> bool:
        needed_names = [spec.name for spec in needed(self.specs, names) if spec.name != self.always]
        seconds = in_total([self.alone[name] for name in needed_names]).seconds
        return seconds is not None and seconds <= START_SECONDS


def expected_on(data: StoredSet, specs: Mapping[str, Spec], always: str) -> Expected | None:
    """Return what retrievers take on a user's own question set; None on the sample, where everything starts."""
    if is_sample(data) or not data.questions:
        return None
    described = "\n".join(spec.model_dump_json() for spec in specs.values())
    try:
        measured_at = (workspace() / "cache" / "pace.json").stat().st_mtime
    except OSError:
        measured_at = 0.0
    alone = dict(_forecasts(data.key, described, measured_at, specs))
    compared = [one for one in kept_comparisons() if one.data_fingerprint == data.fingerprint and not one.lab]
    for name in alone.keys() & {name for comparison in compared for name in comparison.figures}:
        alone[name] = Forecast(0.0, is_measured=True)
    return Expected(specs, alone, always)


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
    return forecasts(_specs, question_set(key))


_TRAINED = "trained"  # a mix with what was trained here
_PLAINEST = (
    multistage.WORDS_NAME,
    multistage.LSA_NAME,
)  # worth a look, but what the others are better than says little of them
_PICKED_OF_OTHERS = 2
_LARGE = 50_000  # passages: their vectors are hours of work for a transformer, and minutes for a starter


@dataclass(frozen=True)
class Choices:
    """Everything that can be picked, by name, and what is picked before anybody chooses: of a `large` set little."""

    specs: dict[str, Spec]
    first_picked: tuple[str, ...]
    trained: dict[str, Plan]  # by name of the retriever that uses the trained model
    added: tuple[str, ...]  # names of those that a person added
    analyzer: Analyzer  # what suits the passages
    plans: dict[str, Plan]  # of finished trainings on any set, by what an experiment file calls their models
    large: bool = False
    expected: Expected | None = None  # what they take on a user's own set; None where all start by themselves

    @property
    def searchable(self) -> list[str]:
        """Names of those that answer any question: an imported run knows only its own."""
        return [name for name in self.specs if all(spec.searchable for spec in needed(self.specs, [name]))]

    def needed(self, picked: list[str]) -> list[Spec]:
        """Return the specs picked and those they wrap, each after what it wraps."""
        return needed(self.specs, [name for name in self.specs if name in picked])

    def experiment(
        self, data: StoredSet, picked: list[str], part: Part, relevant_from: int = RELEVANT_GRADE
    ) -> Experiment:
        plans = [self.trained[name] for name in picked if name in self.trained]
        shares = plans[-1].split if plans else SplitOptions()
        split = {"validation_share": shares.validation, "test_share": shares.test, "strict_split": shares.strict}
        options: dict[str, Any] = {"seed": shares.seed, "relevant_from": relevant_from, "ks": DEFAULT_KS, **split}
        return Experiment(data=data.key, split=part, retriever=tuple(self.needed(picked)), **options)


def choices_for(data: StoredSet) -> Choices:
    """Return the built-in retrievers, one or two for every finished training on this data, and what was added."""
    analyzer = _suited_analyzer(data.key, data.fingerprint)
    defaults = multistage.DefaultRetrievers.of(data.passages, data.questions - data.made)
    usual = [*defaults.first_stage, *([defaults.mix] if defaults.offers_mix else [])]
    late = [defaults.late] if defaults.late else []
    offered = [*usual, *defaults.combined, *(late if not defaults.offers_late else [])]
    specs: dict[str, Spec] = {spec.name: spec for spec in offered}
    large = data.passages > _LARGE
    n_usual = 1 if large else len(usual) if defaults.offers_mix else len(specs)
    picked = [*specs][:n_usual]
    words, lsa = defaults.plain
    if analyzer is not Analyzer.WORD:
        specs[multistage.WORDS_NAME] = words
    if defaults.is_pretrained:
        specs[multistage.LSA_NAME] = lsa
    registered = {free_name(entry, specs): entry for entry in plugins()}  # by installed packages or the operator
    specs |= {name: first_stage.PluginSpec(name=name, entry=entry) for name, entry in registered.items()}
    own = {spec.name: spec for spec in added(data.fingerprint)}
    trained: dict[str, Plan] = {}
    plans = {model_place(run): plan for run, plan in reversed(finished_runs().items())}
    for reference, plan in plans.items():
        if plan.fingerprint != data.fingerprint:
            continue
        lenient = replace(plan.split, strict=False)
        if plan.split.strict and split_of(data.key, lenient).method is SplitMethod.GROUPED:  # strict is the same
            plan = replace(plan, split=lenient)  # noqa: PLW2901
        of_plan = _specs_of(reference, plan, {**specs, **own})
        specs |= {spec.name: spec for spec in of_plan}
        trained |= dict.fromkeys((spec.name for spec in of_plan), plan)
        picked += [spec.name for spec in of_plan[:1]]
    if defaults.offers_mix and (mix := _mix_with_trained(specs, trained)):
        specs[mix.name], trained[mix.name] = mix, [*trained.values()][-1]
        picked.append(mix.name)
    for spec in own.values():
        if set(spec.parts) <= specs.keys():  # a training it needs may be gone
            specs[spec.name] = spec
            picked.append(spec.name)
    shown = tuple(name for name in specs if name in own)
    first_picked = tuple(picked[:n_usual] + picked[n_usual:][-_PICKED_OF_OTHERS:])
    expected = expected_on(data, specs, multistage.BM25_NAME)
    if expected:
        first_picked = tuple(expected.starting(first_picked))
    return Choices(specs, first_picked, trained, shown, analyzer, plans, large, expected)


def _mix_with_trained(specs: Mapping[str, Spec], trained: dict[str, Plan]) -> multistage.LearnedSpec | None:
    """Return the best mix with the newest retriever of each kind trained here; None without one.

    Only trainings of the newest one's split count: another's test questions may be among its training questions. A
    reranker is left out: it costs more than all the others together.
    """
    split = next((plan.split for plan in reversed(trained.values())), None)
    alike = [name for name, plan in trained.items() if plan.split == split and not specs[name].parts]
    newest = {type(specs[name]): name for name in alike}
    name = free_name(f"{multistage.MIX_NAME} · {_TRAINED}", specs)
    return (
        multistage.LearnedSpec(name=name, of=(*specs[multistage.MIX_NAME].parts, *newest.values())) if newest else None
    )


def without_plainest(names: Sequence[str]) -> list[str]:
    """Return the names without those of the plainest retrievers if two others are left."""
    others = [name for name in names if name not in _PLAINEST]
    return others if len(others) > 1 else [*names]


@lru_cache(maxsize=64)
def _suited_analyzer(key: str, fingerprint: str) -> Analyzer:
    """Return the analyzer that suits a set: it cuts finer than words in Korean (morphemes) and Chinese (letters)."""
    del fingerprint  # a key may come to mean another set
    return choose(Analyzer.AUTO, passages_of(key).indexed_texts(title=True))


def finished_runs() -> dict[Run, Plan]:
    """Return the completed runs, newest first, then the shared ones; without the short trials of a settings search."""
    own = {run: plan for run, plan in planned_runs() if plan.is_training and run.status().state is State.DONE}
    return {run: plan for run, plan in (own | shared_runs()).items() if not plan.trial or plan.trial.whole}


def models_at_hand(kind: str, choices: Choices) -> list[str]:
    """Return the models that retrievers of a kind ("dense", "sparse", "rerank") can use without a download."""

    def fits(reference: str, plan: Plan) -> bool:
        specs = recipe_of(plan.kind).retrievers(reference, multistage.BM25_NAME, title=True, named=str)
        return any(spec.kind == kind for spec in specs)

    trained = [reference for reference, plan in reversed(choices.plans.items()) if fits(reference, plan)]
    if kind != "dense":  # the others need a model that was trained for its task
        return trained
    packaged = base_at_hand()
    return [*([packaged.reference] if packaged else []), *trained, STARTER]


def model_place(run: Run) -> str:
    return run.id if run.folder.parent.name == "runs" else str(Path(run.model_folder))


def _specs_of(model: str, plan: Plan, taken: dict[str, Spec]) -> list[Spec]:
    title, named = getattr(plan.options, "title", True), lambda name: free_name(f"{name} · {plan.name}", taken)
    return recipe_of(plan.kind).retrievers(model, multistage.BM25_NAME, title=title, named=named)


def draw_methods(names: Sequence[str], choices: Choices) -> None:
    if lines := [plain(method_line(choices.specs[name], choices)) for name in names if name in choices.specs]:
        st.caption("  \n".join(lines))


def method_line(spec: Spec, choices: Choices) -> str:
    return f"{retriever_name(spec.name)}: {_does(spec, choices)}"


def _does(spec: Spec, choices: Choices) -> str:
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
            mixed = word("method.hybrid", parts=both) if spec.search is Search.HYBRID else ""
            return word("method.milvus", does=mixed or _does(spec.local, choices))
        case first_stage.TermSpec():
            return _terms(spec, choices.analyzer)
    told = {"parts": ", ".join(map(retriever_name, spec.parts))}
    if isinstance(spec, first_stage.HttpSpec):
        told = {"host": urlsplit(spec.url).netloc}
    elif isinstance(spec, first_stage.PluginSpec):
        told = {"entry": spec.entry}
    elif model := dict(spec).get("model"):
        told = {"model": _model(model, choices)}
    kind = spec.kind
    if isinstance(spec, first_stage.LateSpec) and spec.model.startswith(PREFIX):  # other models may have no layers
        kind += "_upper" if spec.layers.of_passages is TokenLayers.UPPER else ""
        kind += "_idf" if spec.layers.are_weighted else ""
    return word_or(f"method.{kind}", spec.kind, **told)


def _terms(spec: first_stage.TermSpec, analyzer: Analyzer) -> str:
    chosen = analyzer if spec.analyzer is Analyzer.AUTO else spec.analyzer
    if spec.pairs:
        chosen = Analysis(chosen).of_one.analyzer
    if stemmed := LANGUAGE_OF.get(chosen):
        said = [word("method.stems", language=language_name(stemmed))]
    else:
        cut = analyzer_words(chosen)
        said = [word("method.bm25", cut=cut[:1].lower() + cut[1:])]
    if isinstance(spec, first_stage.WindowedBM25Spec):
        said.append(word("method.sentences", sentences=spec.sentences))
    if spec.pairs:
        said.append(word("method.pairs"))
    if spec.dictionary:
        said.append(word("method.dictionary"))
    if isinstance(spec, first_stage.BM25Spec) and spec.feedback_passages:
        said.append(word("method.feedback", passages=spec.feedback_passages))
    return ", ".join(said)


def _model(reference: str, choices: Choices) -> str:
    if reference == STARTER:
        return word("method.starter")
    if reference.startswith(PREFIX):  # of a model of the hub, or of a folder, nothing is known
        return word("method.untrained", model=base_name(reference))
    if plan := plan_of(reference, choices.plans):
        return word("method.trained", base=base_name(plan.options.base, plan.kind, choices.plans), name=plan.name)
    return reference
