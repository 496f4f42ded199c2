"""A finished model put to use: compared with its base, as a file, or sent to a model hub."""

import streamlit as st

from data.store import StoredSet
from models.sources import ModelSource, is_starter
from retrieval.comparison.experiment import add
from retrieval.comparison.first_stage import DenseSpec
from retrieval.comparison.spec import Spec
from training.options.language_model import LANGUAGE_MODEL
from training.options.questions import READER
from training.recipe import recipe_of
from training.runs.push import PushError, push, zipped_model
from training.runs.runs import Plan, Run
from views.choices import BM25_NAME, Choices, choices_for, free_name
from views.names import base_name
from views.navigation import open_page
from views.resources.sets import use_set
from views.runs.head import open_dialog
from views.ui.words import known, language, plain, word

_LOADED_OTHERWISE = {READER: "train.load_reader", LANGUAGE_MODEL: "train.load_language"}


def compare_with_untrained(plan: Plan, data: StoredSet) -> None:
    """Open the comparison that tells what the training was worth, on the test questions of the set it learned from."""
    use_set(data.key)
    choices = choices_for(data)
    trained = next((name for name, known in choices.trained.items() if known == plan), None)
    before = _untrained(choices.specs[trained], plan, choices, data) if trained else None
    names = [name for name in (BM25_NAME, before, trained) if name]
    parameters = {"retrievers": "|".join(names), "baseline": before or BM25_NAME, "part": "test", "run": "now"}
    open_page("compare", data=data.key, **parameters, lang=language())


def _untrained(trained: Spec, plan: Plan, choices: Choices, data: StoredSet) -> str | None:
    """Return the name of what searches as the trained model does, with its base; a missing dense one is added.

    None for a base that cannot search before it was trained, such as a transformer without a reranker's head.
    """
    base, title = plan.options.base, getattr(trained, "title", True)
    for name, spec in choices.specs.items():
        if (spec.kind, getattr(spec, "model", None), getattr(spec, "title", True)) == (trained.kind, base, title):
            return name
    if not isinstance(trained, DenseSpec):
        return None
    short = base_name(base, plan.kind).replace("|", "/").rstrip("/").rsplit("/", maxsplit=1)[-1]
    added = DenseSpec(name=free_name(f"Dense · {short}", choices.specs), model=base, title=title, windows=True)
    add(data.fingerprint, added)
    return added.name


def draw_download(run: Run, plan: Plan) -> None:
    """Draw the button that opens the download, with the lines that load what is downloaded."""
    recipe, starter = recipe_of(plan.kind), _of_a_starter(run)
    with st.popover(word("train.download"), icon=":material/download:"):
        st.markdown(word("train.load_starter" if starter else _LOADED_OTHERWISE.get(plan.kind, "train.load")))
        imports, model = (starter and recipe.loading_a_starter) or recipe.loading
        lines = f"{imports}\nmodel = {model.format(folder='path/of/the/folder')}"
        st.code(lines, language="python", wrap_lines=True)
        st.download_button(
            word("train.download_zip"),
            lambda: zipped_model(run),
            f"{run.id}.zip",
            "application/zip",
            key=f"download_{run.id}",
            icon=":material/folder_zip:",
            help=word("train.download_help"),
            on_click="ignore",
        )


def draw_push_button(run: Run) -> None:
    """Draw the button that opens the way to the hub; a starter has none, and it says why."""
    starter = _of_a_starter(run)
    help_text = word("train.push_starter" if starter else "train.push_help")
    icon = ":material/cloud_upload:"
    if st.button(word("train.push"), key=f"push_{run.id}", icon=icon, disabled=starter, help=help_text):
        open_dialog("push", run)


def draw_push(run: Run) -> None:
    """Draw the form that sends the model to the hub, and what came of it."""
    attempt = st.session_state.setdefault("push_attempt", 0)
    token_key = f"push_token_{attempt}"  # another one for every attempt: the field is empty again
    with st.form(f"push_form_{run.id}", border=False):
        repository = st.text_input(
            word("train.push_repository"),
            key=f"push_repository_{run.id}",
            placeholder="name/my-model",
            max_chars=200,
            help=word("train.push_repository_help"),
        )
        token = st.text_input(
            word("train.push_token"),
            key=token_key,
            type="password",
            max_chars=500,
            autocomplete="off",
            help=word("train.push_token_help"),
        )
        private = st.toggle(
            word("train.push_private"), value=True, key=f"push_private_{run.id}", help=word("train.push_private_help")
        )
        pressed = st.form_submit_button(word("train.push_now"), type="primary", icon=":material/cloud_upload:")
    if pressed:
        del st.session_state[token_key]
        st.session_state["push_attempt"] = attempt + 1
        with st.spinner(word("train.pushing")):
            st.session_state[f"pushed_{run.id}"] = _outcome(run, repository, token, private=private)
        st.rerun()
    _tell(st.session_state.get(f"pushed_{run.id}"), repository)


def _outcome(run: Run, repository: str, token: str, *, private: bool) -> tuple[str, str]:
    """The code of the problem, empty where there was none, and its message or the model's address."""
    try:
        return "", push(run, repository, token, private=private)
    except PushError as error:
        return error.code, str(error)


def _tell(outcome: tuple[str, str] | None, repository: str) -> None:
    if outcome is None:
        return
    code, text = outcome
    if not code:
        st.success(word("train.pushed"), icon=":material/check_circle:")
        st.code(text, language=None, wrap_lines=True)
        return
    key = f"push.{code}" if known(f"push.{code}") else "push.refused"
    st.error(word(key, repository=plain(repository.strip()), reason=plain(text)), icon=":material/error:")


def _of_a_starter(run: Run) -> bool:
    try:
        return is_starter(ModelSource(run.id, folder=run.model_folder))
    except (OSError, ValueError, LookupError):  # somebody has been at the folder: what loads it will say so
        return False
