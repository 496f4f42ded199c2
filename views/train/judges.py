"""What judges variants of a language model's training: a question set, scored pairs, and the start of it all."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from data.failure import Failure
from data.pairs.records import PairKind
from models.sources import find_model
from retrieval.comparison.experiment import ExperimentError
from training.ablate import planned_ablation
from training.ablations.experiment import AblationExperiment
from training.options.bi_encoder import BiEncoderOptions
from training.options.common import OptionError
from training.runs.runs import Plan
from views.names import pair_set_name, set_name
from views.resources.pairs import stored_pairs
from views.resources.sets import stored_sets
from views.train.start import begin
from views.ui.problems import failure_text
from views.ui.state import offer, relabel
from views.ui.words import plain, word, word_or

_NONE = ""
_EPOCHS = BiEncoderOptions(base="any").epochs
_MOST_EPOCHS = 100.0


@dataclass(frozen=True)
class Judges:
    """The keys of a question set and of scored pairs, empty: none; and for how long is fine-tuned on the questions."""

    questions: str
    sentences: str
    epochs: float


def pick_judges(name: str, preferred: Sequence[str]) -> Judges:
    """Draw the choices; the first of the question sets `preferred` that has questions is chosen before anybody does."""
    questions = {kept.key: set_name(kept.name) for kept in stored_sets() if kept.questions}
    pairs = {kept.key: pair_set_name(kept) for kept in stored_pairs() if kept.kind is PairKind.SCORED}
    usual = next((key for key in (*preferred, *questions) if key in questions), _NONE)
    columns = st.columns(3, vertical_alignment="bottom")
    with columns[0]:
        label, help_text = word("ablation.questions_from"), word("ablation.questions_from_help")
        asked = _choice(f"{name}_questions", label, help_text, questions, usual)
    with columns[1]:
        epochs = _epochs(f"{name}_epochs", disabled=not asked)
    with columns[2]:
        label, help_text = word("ablation.pairs_from"), word("ablation.pairs_from_help")
        scored = _choice(f"{name}_pairs", label, help_text, pairs, _NONE)
    return Judges(asked, scored, epochs)


def experiment_around(
    plan: Plan, judges: Judges, vary: Mapping[str, Sequence[Any]] | None = None, *, untrained: bool = True
) -> AblationExperiment:
    """Return the experiment whose reference is exactly the training of a plan."""
    return AblationExperiment(
        text=plan.data,
        questions=judges.questions,
        sentences=judges.sentences,
        validation_share=plan.split.validation,
        test_share=plan.split.test,
        seed=plan.split.seed,
        untrained=untrained,
        language_model={name: _written(value) for name, value in asdict(plan.options).items()},
        fine_tuning={"epochs": judges.epochs} if judges.questions else {},
        vary={name: tuple(map(_written, values)) for name, values in (vary or {}).items()},
    )


def start_ablation(experiment: AblationExperiment, name: str, told: DeltaGenerator) -> None:
    """Check an experiment and have it begin; what is wrong with it is told in `told`."""
    try:
        _check(experiment)
        begin(lambda: planned_ablation(experiment, name), told)
    except ExperimentError as error:
        told.error(word("ablation.wrong", reason=plain(str(error))), icon=":material/error:")
    except OptionError as error:
        problem = word_or(f"option_problem.{error.code}", plain(str(error)))
        told.error(f"**{word_or(f'option.{error.option}', error.option)}**: {problem}", icon=":material/error:")
    except Failure as error:
        told.error(plain(failure_text(error)), icon=":material/error:")


def _check(experiment: AblationExperiment) -> None:
    """The bases must be there, too, which a command is told only when it comes to them."""
    experiment.check()
    for base in {experiment.learning(number).base for number in experiment.changes}:
        find_model(base)


def _choice(key: str, label: str, help_text: str, names: Mapping[str, str], usual: str) -> str:
    offer(key, usual)
    if st.session_state[key] not in {*names, _NONE}:  # such as a set that was removed
        st.session_state[key] = usual
    relabel(key)
    shown = {**names, _NONE: word("ablation.none")}
    format_func = shown.__getitem__
    return st.selectbox(label, list(shown), format_func=format_func, key=key, help=help_text, persist_state="session")


def _epochs(key: str, *, disabled: bool) -> float:
    offer(key, _EPOCHS)
    entered = st.number_input(
        word("ablation.epochs"),
        min_value=0.01,
        max_value=_MOST_EPOCHS,
        step=1.0,
        format="%g",
        value=None,
        placeholder=f"{_EPOCHS:g}",
        key=key,
        help=word("ablation.epochs_help"),
        disabled=disabled,
        persist_state="session",
    )
    return float(entered or _EPOCHS)


def _written(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value
