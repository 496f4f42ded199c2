"""Whether a language model's training on a text is worth anything: it and its base, fine-tuned alike and compared."""

import streamlit as st

from data.failure import Failure
from training.recipe import recipe_of
from training.runs.runs import Plan, Run
from views.resources.sets import chosen_set
from views.runs.dialogs import close_dialog
from views.train.judges import experiment_around, pick_judges, start_ablation
from views.train.start import trainings_started
from views.ui.problems import failure_text
from views.ui.words import plain, word


def draw_does_it_help(run: Run) -> None:
    """Draw the content of the dialog about a finished language model."""
    plan = run.plan()
    st.markdown(word("ablation.helps_about", name=plain(plan.name)))
    judges = pick_judges(f"helps_{run.id}", (chosen_set().key, plan.data))
    nothing = not (judges.questions or judges.sentences)
    pressed = st.button(
        word("ablation.helps_start"),
        type="primary",
        icon=":material/play_arrow:",
        disabled=nothing,
        key=f"helps_start_{trainings_started()}",  # the second press of a double click starts nothing
    )
    told = st.container()
    if nothing:
        told.caption(word("ablation.no_judges"))
    if pressed and _is_as_it_was(plan):
        close_dialog()  # starting draws the page anew
        start_ablation(experiment_around(plan, judges), plan.name, told)


def _is_as_it_was(plan: Plan) -> bool:
    """Whether the text is what was learned from: else the model would be trained again."""
    try:
        text = recipe_of(plan.kind).family.find(plan.data)
    except Failure as error:
        st.error(plain(failure_text(error)), icon=":material/error:")
        return False
    if text.fingerprint != plan.fingerprint:
        st.error(word("ablation.text_changed"), icon=":material/error:")
        return False
    return True
