"""The form of a training: what is entered is checked before anything starts, and nothing of it is lost."""

from dataclasses import replace

import streamlit as st

from data.split import Part, SplitOptions
from data.store import StoredSet
from training.launch import launch
from training.options import Kind, default_options
from training.runs import Plan, Run, all_runs, create_run, new_plan, run_at_work
from views.resources import split_of
from views.train_base import Base, base_name
from views.train_fields import OptionFields, Options
from views.words import known, plain, word

_LONGEST_NAME = 80


def draw_form(kind: Kind, base: Base, data: StoredSet, at_work: Run | None) -> None:
    """Draw the form; its button starts a training, and is off, with the reason, while one is at work."""
    start = _defaults(kind, base)
    form = OptionFields(kind, start)
    reason = _why_not(base, at_work)
    with st.form(f"train_{kind.value}_{start.base}"):
        name_column, *columns = st.columns([2, 1, 1, 1])
        with name_column:
            name = _name_field(kind, base)
        form.draw_first(columns)
        with st.expander(word("train.more"), icon=":material/tune:"):
            form.draw_more()
        problems = st.container()
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="right"):
            if reason:
                st.caption(reason, width="content")
            pressed = st.form_submit_button(
                word("train.start"),
                type="primary",
                icon=":material/play_arrow:",
                disabled=bool(reason),
                key="train_start",
            )
    if pressed and run_at_work() is None:
        with problems:
            plan = _planned(form, start, data, kind, name.strip() or base_name(base.reference))
            if plan is not None and _started(plan):
                st.rerun()


def _why_not(base: Base, at_work: Run | None) -> str:
    if at_work:
        return word("train.busy", name=plain(at_work.plan().name))
    return "" if base.usable else word("train.base_first")


def _planned(form: OptionFields, start: Options, data: StoredSet, kind: Kind, name: str) -> Plan | None:
    """Return the plan of what was entered, or tell beside its field what does not fit."""
    shares = form.split()
    try:
        split, options = SplitOptions(*shares), replace(start, **form.options())
    except ValueError as error:
        _tell(form, str(error).split(" ", maxsplit=1)[0])  # the name of the field
        return None
    rows = split_of(data.key, *shares).rows
    if len(rows[Part.TRAIN]) < 2 or not len(rows[Part.VALIDATION]):
        _tell(form, "validation", "validation_empty")
        return None
    return new_plan(kind, name, (data.key, data.name, data.fingerprint), split, options)


def _started(plan: Plan) -> bool:
    try:
        launch(create_run(plan))
    except OSError as error:
        st.error(word("train.not_started", reason=plain(str(error))), icon=":material/error:")
        return False
    st.session_state["trainings_started"] = st.session_state.get("trainings_started", 0) + 1
    return True


def _tell(form: OptionFields, name: str, problem: str = "") -> None:
    """Tell a problem beside its field, and by the button, since the field may be folded away."""
    key = f"option_problem.{problem or name}"
    text = word(key) if known(key) else word("option_problem.range")
    label = word(f"option.{name}") if known(f"option.{name}") else name
    form.tell(name, text)
    st.error(f"**{label}**: {text}", icon=":material/error:")


def _defaults(kind: Kind, base: Base) -> Options:
    """Options that suit the base; a finished run is trained on as it was trained."""
    if base.run is not None:
        return replace(base.run.plan().options, base=base.reference)
    return default_options(kind, base.reference or None)


def _name_field(kind: Kind, base: Base) -> str:
    # a new name is offered after every start; until then what was typed stays
    key = f"train_{kind.value}_{base.reference}_name_{st.session_state.get('trainings_started', 0)}"
    st.session_state.setdefault(key, _free_name(base_name(base.reference)) if base.reference else "")
    return st.text_input(
        word("train.name"), key=key, max_chars=_LONGEST_NAME, help=word("train.name_help"), persist_state="session"
    )


def _free_name(base: str) -> str:
    taken = {run.plan().name for run in all_runs()}
    short = base.rstrip("/").rsplit("/", maxsplit=1)[-1][: _LONGEST_NAME // 2]
    return next(name for number in range(1, len(taken) + 2) if (name := f"{short} {number}") not in taken)
