"""The fields of the training form: widgets, ranges and texts of the options, entered values and error messages."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from enum import Enum, StrEnum
from importlib.util import find_spec
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.elements.lib.mutable_expander_container import ExpanderContainer

from mrc_workbench.data.pairs import PairKind
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.models.packaged import installed_base
from mrc_workbench.models.sources import STARTER
from mrc_workbench.retrieval.measures import Measure
from mrc_workbench.training.jobs import SettingsSearchResult
from mrc_workbench.training.options import BestBy, Report, TrainingOptions
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER, BiEncoderOptions
from mrc_workbench.training.recipes import equivalent_kinds, get_recipe
from mrc_workbench.training.runs import Run, TrainingPlan, options_of_next_round
from mrc_workbench.training.text_options import SENTENCES
from mrc_workbench.workbench.views.choices import finished_runs
from mrc_workbench.workbench.views.names import OTHER, is_a_starter, model_label, pair_set_name
from mrc_workbench.workbench.views.resources.sets import stored_pairs
from mrc_workbench.workbench.views.train import base as bases
from mrc_workbench.workbench.views.train.base import MORE, NEEDED, NEGATIVES_SAMPLED, NEGATIVES_SOURCE, Base
from mrc_workbench.workbench.views.ui.state import distinct_labels, is_changed, offer, relabel, remember, reset_fields
from mrc_workbench.workbench.views.ui.words import label_and_help, word, word_or

_MODELS = {"guide": BI_ENCODER, "teacher": CROSS_ENCODER, "negatives_model": BI_ENCODER}  # kinds, by option
_ITSELF = ""  # the base is the default guide
_SMALL = {"learning_rate", "question_regularizer", "passage_regularizer"}
_STEPS = {"epochs": 1.0, "save_minutes": 1.0, "temperature": 0.01, "teacher_temperature": 0.5}
_COLUMNS = 4
_SPLIT = {"validation": 0.95, "test": 0.95, "split_seed": 2**31 - 1}  # largest values


@dataclass(frozen=True)
class OptionField:
    """A field for an option of a kind: its initial value, and the smallest and largest value of a number."""

    kind: str
    name: str
    key: str
    start: Any
    low: float | None = None
    high: float | None = None
    help: str = ""  # the help if the locale files have none
    model: str = ""  # the kind of model, if it differs from that in `_MODELS`


def draw_field(field: OptionField) -> Any:
    """Draw the widget of an option; returns the entered value, None for an empty number."""
    offer_field(field)
    start = field.start
    help_text = word_or(f"option_help.{field.name}_{field.kind}", word_or(f"option_help.{field.name}", field.help))
    if field.low is not None:
        key = "train.range" if field.high is not None else "train.range_open"
        help_text += " " + word(key, low=_number_text(field.low), high=_number_text(field.high or 0))
    words: dict[str, Any] = {"label": word_or(f"option.{field.name}", field.name), "help": help_text, "key": field.key}
    words["persist_state"] = "session"  # entries survive a visit to another page
    if field.name in _MODELS:
        return _draw_model(field, words)
    if field.name == "evaluation_set":
        sets = _judging_sets()
        return str(st.selectbox(**words, options=list(sets), format_func=sets.__getitem__))
    if isinstance(start, StrEnum):
        relabel(field.key)
        labels = {choice: word_or(f"choice.{field.name}_{choice}", choice) for choice in _choices(field)}
        if isinstance(start, BestBy):
            labels = {choice: Measure.parse(choice).long_name for choice in labels}
        return str(st.selectbox(**words, options=[*labels], format_func=labels.__getitem__))
    if isinstance(start, bool):
        return st.checkbox(**words)
    if isinstance(start, str):
        return st.text_input(**words, max_chars=200)
    number = type(start)
    step = float(f"{start / 2:.0e}") if field.name in _SMALL else _STEPS.get(field.name, 0.05)
    kwargs: dict[str, Any] = {"step": 1, "format": None} if number is int else {"step": step, "format": "%g"}
    kwargs |= {"min_value": None if field.low is None else number(field.low)}
    kwargs |= {"max_value": None if field.high is None else number(field.high)}
    # the session holds the initial value, which an empty field has again
    return st.number_input(**words, value=None, placeholder=_number_text(start), **kwargs)


def offer_field(field: OptionField) -> Any:
    """Set the initial value of a field, which may not be drawn, and return the entered value."""
    if field.name in _MODELS:
        return _offer_model(field)
    start = entered_value(field.start)
    if field.name == "evaluation_set" and start not in _judging_sets():
        start = ""
    offer(field.key, start)
    if isinstance(field.start, StrEnum) and st.session_state[field.key] not in _choices(field):  # a removed package
        st.session_state[field.key] = _choices(field)[0]
    return st.session_state[field.key]


def _number_text(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _draw_model(field: OptionField, words: dict[str, Any]) -> str:
    """Draw the choice of a model; returns its reference, empty if none is selected: a teacher is optional."""
    relabel(field.key)
    models = _models(field)
    labels = distinct_labels(models, lambda model: model_label(model) if model else word("train.guide_itself"))
    kwargs: dict[str, Any] = {"format_func": labels.__getitem__, "placeholder": word("train.pick_model")}
    selected = st.selectbox(**words, options=models, index=None if field.name == "teacher" else 0, **kwargs)
    if selected != OTHER:  # a hub id or a folder
        return str(selected or "")
    kwargs = {"placeholder": word("train.other_example"), "key": f"{field.key}_other", "persist_state": "session"}
    return str(st.text_input(**label_and_help("train.other"), max_chars=1000, **kwargs)).strip()


def _offer_model(field: OptionField) -> str:
    name = field.name
    key = field.key
    start = field.start
    choices = _models(field)
    known = start in choices or (name == "teacher" and not start)
    offer(key, (start or (_ITSELF if name == "guide" else None)) if known else OTHER)
    if st.session_state[key] not in choices:  # such as a run that was deleted
        st.session_state[key] = choices[0] if name != "teacher" else None
    offer(f"{key}_other", "" if known else start)
    selected = st.session_state[key]
    return str((st.session_state[f"{key}_other"] if selected == OTHER else selected) or "").strip()


def _models(field: OptionField) -> list[str]:
    kind = field.model or _MODELS[field.name]
    kinds = equivalent_kinds(kind)
    runs = [run.id for run, plan in finished_runs().items() if plan.kind in kinds]
    packaged = [base.reference] if (base := installed_base()) else []
    if field.name == "guide":  # it needs a tokenizer, which starters lack
        return [_ITSELF, *packaged, get_recipe(kind).base, *(run for run in runs if not is_a_starter(run)), OTHER]
    if kind == CROSS_ENCODER:  # the default base of the hub is not trained to score
        return [STARTER, *runs, OTHER]
    return [*packaged, STARTER, get_recipe(kind).base, *runs, OTHER]


def _judging_sets() -> dict[str, str]:
    judging = (pairs for pairs in stored_pairs() if pairs.kind in (PairKind.SCORED, PairKind.LABELLED))
    names = {"": word("train.judged_by_itself"), **{pairs.key: pair_set_name(pairs) for pairs in judging}}
    return distinct_labels(names, names.__getitem__)


def _choices(field: OptionField) -> list[str]:
    return [choice.value for choice in type(field.start) if not isinstance(choice, Report) or _installed(choice)]


def _installed(report: Report) -> bool:
    return report is Report.NONE or find_spec(report.value) is not None


class OptionFields:
    """Draws the options that have an effect, stores the entered values, and draws errors beside their fields."""

    def __init__(self, kind: str, base: Base, objective: str) -> None:
        self._kind = kind
        self._base = base
        plan = base.run.plan() if base.run else None  # a finished run continues with its own settings
        options = plan.options if plan else bases.options_for_base(kind, base)
        split_options = plan.split if plan else SplitOptions()
        self._start = bases.starting_values(kind, options, objective, as_trained=base.run is not None)
        self._start |= {"base": base.reference, "test": split_options.test, "validation": split_options.validation}
        self._start["split_seed"] = split_options.seed
        self._about: dict[str, dict[str, Any]] = {
            **{field.name: dict(field.metadata) for field in fields(get_recipe(kind).options)},
            **{name: {"low": type(high)(0), "high": high} for name, high in _SPLIT.items()},
        }
        if kind == SENTENCES:
            self._about["teacher"]["model"] = BI_ENCODER  # the teacher provides vectors, not scores
        for name, (low, high) in bases.objective_limits(kind, objective).items():
            self._about[name] |= {"low": low, "high": high}
        self._entered: dict[str, Any] = {}
        self._containers: dict[str, DeltaGenerator] = {}

    @property
    def changed(self) -> list[str]:
        """The options with values other than their initial ones, also in collapsed groups."""
        return [name for name in self._entered if is_changed(self.key(name))]

    def draw_first(self, columns: Sequence[DeltaGenerator]) -> None:
        self._row(bases.FIRST, columns)

    def draw_needed(self) -> None:
        if names := self._relevant_names(NEEDED):
            self._row(names, st.columns(2))

    def draw_negatives(self) -> DeltaGenerator | None:
        """Draw the options of hard negatives; returns a container for a preview, None if collapsed or unused."""
        if not self._relevant_names(NEGATIVES_SOURCE):
            return None
        with self._fold("hard_negatives", ":material/rule:") as fold:
            self._rows(self._relevant_names(NEGATIVES_SOURCE), is_open=bool(fold.open))
            self._rows(self._relevant_names(NEGATIVES_SAMPLED), is_open=bool(fold.open))
            return st.container() if fold.open and self._relevant_names(NEGATIVES_SAMPLED) else None

    def draw_more(self) -> None:
        with self._fold("more", ":material/tune:") as fold:
            others = [name for name in self._start if name not in bases.LISTED and name not in _SPLIT]
            for group, names in (MORE | {"loss": (*MORE["loss"], *others), "split": tuple(_SPLIT)}).items():
                own = self._relevant_names(names)
                if own and fold.open:
                    st.markdown(f"**{word(f'train.group_{group}')}**")
                self._rows(own, is_open=bool(fold.open))
                missing = [report.value for report in Report if group == "measuring" and not _installed(report)]
                if missing and fold.open:
                    st.caption(word("train.report_to_more", packages=" ".join(missing)))

    def options(self) -> dict[str, Any]:
        """Return every option; an empty or hidden one has its initial value."""
        filled = {name: value for name, value in self._entered.items() if value is not None}
        return {name: value for name, value in (self._start | filled).items() if name not in _SPLIT}

    def split(self) -> tuple[float, float, int]:
        """Return the entered split: validation fraction, test fraction, seed."""
        values = {name: self._start[name] if self._entered[name] is None else self._entered[name] for name in _SPLIT}
        return float(values["validation"]), float(values["test"]), int(values["split_seed"])

    def is_strict_on(self, fingerprint: str) -> bool:
        """Whether the base was trained on a strict split of these data, whose test questions must stay unseen."""
        plan = self._base.run.plan() if self._base.run else None
        return plan is not None and plan.fingerprint == fingerprint and plan.split.strict

    def models(self) -> dict[str, str]:
        return {name: self._entered[name] for name in _MODELS if self._entered.get(name)}

    def report(self, name: str, problem: str) -> None:
        """Draw a problem beside its field, and near the button if the field may be collapsed."""
        if name in self._containers:
            self._containers[name].error(problem)
        if name not in NEEDED:
            st.error(f"**{word_or(f'option.{name}', name)}**: {problem}", icon=":material/error:")

    def key(self, name: str) -> str:
        return field_key(self._kind, name)

    def enter(self, options: Mapping[str, Any]) -> None:
        """Fill in other values. Only for callbacks, which run before the fields are drawn."""
        for name, value in options.items():
            st.session_state[self.key(name)] = value

    def reset(self) -> None:
        """Fill in the initial values. Only for callbacks."""
        reset_fields(self.key(name) for name in self.changed)

    def _relevant_names(self, names: Iterable[str]) -> list[str]:
        entered = {name: st.session_state.get(self.key(name)) for name in bases.DECIDING}
        values = self._start | {name: value for name, value in entered.items() if value is not None}
        starter = self._base.is_starter
        return [name for name in names if name in values and bases.affects_training(name, values, starter=starter)]

    def _fold(self, name: str, icon: str) -> ExpanderContainer:
        return st.expander(word(f"train.{name}"), icon=icon, key=f"train_{self._kind}_{name}_open", on_change="rerun")

    def _rows(self, names: Sequence[str], *, is_open: bool) -> None:
        if not is_open:
            self._entered |= {name: offer_field(self._field(name)) for name in names}
            return
        boxes = [name for name in names if isinstance(self._start[name], bool)]
        others = [name for name in names if name not in boxes]
        # check boxes have separate rows: their labels are long and stand beside them
        for group, columns in ((others, _COLUMNS), (boxes, _COLUMNS // 2)):
            for first in range(0, len(group), columns):
                self._row(group[first : first + columns], st.columns(columns))

    def _row(self, names: Sequence[str], columns: Sequence[DeltaGenerator]) -> None:
        for column, name in zip(columns, names, strict=False):
            with column:
                self._entered[name] = draw_field(self._field(name))
                self._containers[name] = st.empty()

    def _field(self, name: str) -> OptionField:
        return OptionField(self._kind, name, self.key(name), self._start[name], **self._about[name])


def fill_in_settings(plan: TrainingPlan, findings: SettingsSearchResult) -> None:
    """Fill the findings of a search, with kind, base and objective, into the form. Only for callbacks."""
    names = {name for trial in findings.trials for name in trial.changed_options}
    _fill_in(plan.kind, plan.options.base, replace(plan.options, **findings.changes), names)


def fill_in_another_round(run: Run) -> None:
    """Fill in a training with hard negatives that a finished bi-encoder mines. Only for callbacks."""
    plan = run.plan()
    if isinstance(plan.options, BiEncoderOptions):
        options = replace(options_of_next_round(run.id, plan.options), rounds=1)
        _fill_in(plan.kind, run.id, options, {"negatives_from", "negatives", "negatives_model", "rounds"})


def _fill_in(kind: str, base: str, options: TrainingOptions, names: Set[str]) -> None:
    for name, value in {"train": kind, "base": base, "objective": options.objective.value}.items():
        remember(name, value)
    for name in {"objective", *names}:
        st.session_state[field_key(kind, name)] = entered_value(getattr(options, name))


def entered_value(value: Any) -> Any:
    """Return the value of an option as in its field and in an experiment file."""
    return value.value if isinstance(value, Enum) else value


def field_key(kind: str, name: str) -> str:
    return f"train_{kind}_{name}"  # the same for every base and objective: entries stay
