"""Display names of datasets, splits, models and trainings, phases of trainings, and the leading metric."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st
from pydantic import ValidationError

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.pairs.store import PAIR_CATALOG, StoredPairs
from mrc_workbench.data.records import Question, QuestionGenerator, generator_model
from mrc_workbench.data.split import Part, Split
from mrc_workbench.data.store import CATALOG
from mrc_workbench.data.text.analyzers import LANGUAGE_OF, Analyzer
from mrc_workbench.models.files import ModelError, downloaded_commits
from mrc_workbench.models.packaged import PackagedBase, packaged_base
from mrc_workbench.models.sources import DEFAULT_BI_ENCODER, STARTER, find_model, is_starter
from mrc_workbench.retrieval.analysis.evidence import default_measure
from mrc_workbench.retrieval.analysis.questions import Slice, SliceProperty, slice_labels
from mrc_workbench.retrieval.measures import DEFAULT_CUTOFF, DEFAULT_KS, Measure
from mrc_workbench.retrieval.report.words import catalog, describe_split, few_questions_warning
from mrc_workbench.retrieval.report.words import display_name as called_retriever
from mrc_workbench.retrieval.report.words import display_names as called_retrievers
from mrc_workbench.training.ablation import AblationExperiment
from mrc_workbench.training.halving import ROUND_FRACTIONS
from mrc_workbench.training.jobs import UNTRAINED, Ablation, SettingsSearch
from mrc_workbench.training.runs import Phase, Run, TrainingPlan, find_model_run
from mrc_workbench.training.text_options import LANGUAGE_MODEL
from mrc_workbench.workbench.views.ui.state import remembered
from mrc_workbench.workbench.views.ui.words import language, moment, plain, word, word_or

_PAIRS = {entry.title: entry.id for entry in PAIR_CATALOG.values()}
OTHER = "other"
DEFAULT = "ndcg"
MEASURES = ("ndcg", "recall", "hit", "mrr", "ndcg_exp")  # the last only for graded judgements


def set_name(name: str) -> str:
    return word("data_page.sample") if name == CATALOG["sample"].title else name


def pairs_name(name: str) -> str:
    return word(f"pair_set.{_PAIRS[name]}") if name in _PAIRS else name


def retriever_name(name: str) -> str:
    return called_retriever(name, language())


def retriever_names(names: Iterable[str]) -> dict[str, str]:
    """Return the display name of each retriever; the stored names if two display names would be equal."""
    return called_retrievers(names, language())


def plain_names(names: Iterable[str]) -> str:
    """Return the display names of retrievers as Markdown, separated by commas."""
    return ", ".join(plain(retriever_name(name)) for name in names)


def with_display_names(
    table: pd.DataFrame, names: Mapping[str, str], columns: Sequence[str] = ("retriever",)
) -> pd.DataFrame:
    """Return a copy of a chart's table with retrievers in these columns replaced by `names`, see `retriever_names`."""
    return table.assign(**{column: table[column].map(names) for column in columns})


def pair_set_name(pairs: StoredPairs) -> str:
    return as_shared(pairs_name(pairs.name), shared=pairs.shared)


def as_shared(name: str, *, shared: bool) -> str:
    """Return a name, with a note if it is shared by all users. Not Markdown."""
    return word("sidebar.shared", name=name) if shared else name


def kind_words(kind: str) -> str:
    return word_or(f"question_kind.{kind}", kind)


def analyzer_words(analyzer: Analyzer) -> str:
    if stemmed := LANGUAGE_OF.get(analyzer):
        return word("analyzer.stems", language=language_name(stemmed))
    return word(f"analyzer.{analyzer.value.replace('+', '_')}")


def language_name(code: str) -> str:
    """Return the name of a language by its ISO 639-1 code; the code if it has no name."""
    return word_or(f"language_name.{code}", code)


def answers_line(question: Question) -> str:
    return word("why.answers", answers=plain(", ".join(question.answers))) if question.answers else ""


def slice_names(parts: Sequence[Slice], grouping: SliceProperty) -> list[str]:
    return [kind_words(label) if grouping is SliceProperty.KIND else label for label in slice_labels(parts, grouping)]


def generator_name(generator: str) -> str:
    """Return the name of a question generator (see `Question.made`). Not Markdown."""
    name = word(f"made.by_{generator}") if generator in list(QuestionGenerator) else generator
    return generator_model(generator) or name


def generated_text(counts: Mapping[str, int], questions: int) -> str:
    """Return, as Markdown, how many of the questions were generated, and by which generators."""
    names = ", ".join(plain(generator_name(generator)) for generator in counts)
    return word("made.of_this_set", generated=f"{sum(counts.values()):,}", questions=f"{questions:,}", by=names)


def kind_name(kind: str) -> str:
    return word_or(f"train.kind_{kind}", kind)


def is_a_starter(reference: str) -> bool:
    try:
        return is_starter(find_model(reference))
    except (ModelError, OSError, ValueError):
        return False


def model_label(choice: str, kind: str = "", plans: Mapping[str, TrainingPlan] | None = None) -> str:
    """Return the label of a model in a choice; a run with its dataset and time, because its name may not be unique."""
    if choice == DEFAULT_BI_ENCODER:
        return word("train.base_kr_sbert_here" if downloaded_commits(choice) else "train.base_kr_sbert")
    starter = "train.base_new" if kind == LANGUAGE_MODEL else "train.base_starter"
    words = {STARTER: starter, OTHER: "train.base_other"}
    if choice in words:
        return word(words[choice])
    if packaged := _packaged(choice):
        return word("train.base_packaged", model=packaged.name)
    if plan := plan_of(choice, plans):
        return word("train.base_run", name=plan.name, data=set_name(plan.data_name), created=moment(plan.created))
    return word("train.base_hub", model=choice)


def plan_of(model: str, plans: Mapping[str, TrainingPlan] | None = None) -> TrainingPlan | None:
    """Return the plan of the training of this model, from `plans` if they have it."""
    if plans and model in plans:
        return plans[model]
    run = find_model_run(model)
    return run.plan() if run else None


def base_name(reference: str, kind: str = "", plans: Mapping[str, TrainingPlan] | None = None) -> str:
    """Return the name of the base model of a kind of training: the name of a run (see `plan_of`), or the reference."""
    if reference == STARTER:
        return word("train.new_model" if kind == LANGUAGE_MODEL else "train.starter")
    if packaged := _packaged(reference):
        return packaged.name
    plan = plan_of(reference, plans)
    return plan.name if plan else reference


def name_with_download_note(reference: str, name: str) -> str:
    """Return the name of a model, with a note if it needs a download. Not Markdown."""
    try:
        hub_id = find_model(reference).hub_id
    except ModelError:
        return name
    is_here = hub_id is None or downloaded_commits(hub_id)
    return name if is_here else word("model_words.to_download", model=name)


def _packaged(reference: str) -> PackagedBase | None:
    try:
        return packaged_base(reference)
    except ModelError:
        return None


def run_name(plan: TrainingPlan) -> str:
    if plan.trial and not plan.trial.whole:
        return word("settings.trial", number=plan.trial.number, count=plan.trial.count)
    if plan.ablation:
        return word("ablation.name" if is_varied(plan) else "ablation.name_helps", name=plan.name)
    return word("settings.name", name=plan.name) if plan.minutes else plan.name


def experiment_of(plan: TrainingPlan) -> AblationExperiment | None:
    try:
        return AblationExperiment.model_validate(plan.ablation)
    except ValidationError:
        return None


def is_varied(plan: TrainingPlan) -> bool:
    """Whether an ablation varies settings; otherwise it measures the gain of pre-training."""
    experiment = experiment_of(plan)
    return experiment is None or bool(experiment.vary)


def phase_words(run: Run, status: Status) -> str:
    if isinstance(run, SettingsSearch | Ablation):
        return _composite_words(run, status)
    if status.state is State.STOPPING:
        return word("train.stopping_step" if status.phase == Phase.TRAINING else "train.stopping")
    return word(f"phase.{status.phase or Phase.LOADING}")


def _composite_words(run: SettingsSearch | Ablation, status: Status) -> str:
    is_search = isinstance(run, SettingsSearch)
    if status.state is State.STOPPING:
        return word("settings.stopping" if is_search else "ablation.stopping")
    stage, _, number = status.phase.partition("_")
    if not number:
        stage = stage or "loading"
        return word(f"settings.stage_{stage}" if is_search else f"ablation.stage_{stage}")
    if is_search:
        values = {"round": number, "rounds": len(ROUND_FRACTIONS), "number": status.step, "count": status.total_steps}
        return word("settings.stage_trying", **values)
    plan = run.plan()
    doing = word(f"ablation.stage_{stage}")
    if number == str(UNTRAINED):
        return word("ablation.at_untrained", doing=doing)
    if not is_varied(plan):
        return word("ablation.at_trained", doing=doing)
    experiment = experiment_of(plan)
    count = max(experiment.changes) if experiment else number
    return word("ablation.at_variant", number=number, count=count, doing=doing)


def draw_split(parts: Split) -> None:
    st.caption(f":material/call_split: {split_text(parts)}")


def split_text(parts: Split) -> str:
    return describe_split(parts, _translate)


def few_questions_text(count: int, part: str, name: str = "") -> str:
    """Return the warning that a part, or the training queries of the mix `name`, are too few; "" if enough."""
    return few_questions_warning(count, part, _translate, name)


def warn_if_few(count: int, part: str, name: str = "") -> None:
    if text := few_questions_text(count, part, name):
        st.warning(text, icon=":material/warning:")


def warn_if_parts_are_small(parts: Split, selected_parts: Iterable[Part]) -> None:
    for part in selected_parts:
        warn_if_few(len(parts.rows[part]), part.value)


def _translate(key: str, /, **values: Any) -> str:
    return catalog(language())[key].format(**values)


def leading_name(known: Sequence[str] = MEASURES) -> str:
    return remembered("measure", DEFAULT if DEFAULT in known else known[0], known)


def leading_measure(ks: Sequence[int] = DEFAULT_KS) -> Measure:
    """Return the leading metric at the selected K if it is one of `ks`, else at the default K."""
    default = default_measure(leading_name(), ks)
    return Measure(default.name, int(remembered("k", str(default.cutoff), [str(k) for k in ks])))


def best_retriever(measure: Measure, scores: Mapping[str, Mapping[str, float]]) -> tuple[str, Measure, float] | None:
    """Return the best retriever by a metric, the metric and its mean; by nDCG@10 if no retriever has the metric."""
    for column in (measure, Measure(DEFAULT, DEFAULT_CUTOFF)):
        means = {name: values[str(column)] for name, values in scores.items() if str(column) in values}
        if means:
            best = max(means, key=means.__getitem__)
            return best, column, means[best]
    return None
