"""The address of a displayed comparison: its key, the part of the questions it asked and its retrievers.

The key is in the address as `comparison`, so that a link opens the same results after other comparisons were made. The
page of a dataset writes it there and goes on as before; a link to a comparison that this page would not display opens
the stored comparison.
"""

from collections.abc import Sequence

import streamlit as st

from mrc_workbench.data.records import RELEVANT_GRADE
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.store import ComparisonJob, StoredComparison, kept_comparison
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.ui.state import assume, is_assumed

KEY = "comparison"
CHOICES = ("retrievers", "part")  # of the address, beside the key
_WRITTEN = "comparison_in_address"  # of the session: key of the dataset and of the comparison that its page wrote


def write_displayed(key: str, data: StoredSet, part: Part, retrievers: Sequence[str]) -> None:
    """Put the comparison displayed by the page of the dataset into the address in one step; an empty key means none."""
    if not key:
        clear()
        return
    st.session_state[_WRITTEN] = (data.key, key)
    if "part" not in st.query_params or is_assumed("part"):
        assume("part", part.value)
    address = {KEY: key, "part": part.value, "retrievers": "|".join(retrievers)}
    if any(st.query_params.get(name) != value for name, value in address.items()):
        st.query_params.update(address)


def clear(*, choices: bool = False) -> None:
    """Take the comparison out of the address, and on request what was chosen for it."""
    st.session_state.pop(_WRITTEN, None)
    for name in (KEY, *(CHOICES if choices else ())):
        if name in st.query_params:
            del st.query_params[name]


def forget_written() -> None:
    """Have the key in the address open the stored comparison, also if the page of the dataset wrote it."""
    st.session_state.pop(_WRITTEN, None)


def leave_other_dataset(data: StoredSet) -> None:
    """Clear the address if the page of another dataset wrote it: the user has switched to `data` since."""
    of_data, key = st.session_state.get(_WRITTEN, ("", ""))
    if of_data and of_data != data.key and st.query_params.get(KEY) == key:
        clear(choices=True)


def is_of_page(key: str, data: StoredSet) -> bool:
    """Whether the page of the dataset displays this comparison: it wrote the key, or the address selects the same."""
    if st.session_state.get(_WRITTEN) == (data.key, key):
        return True
    experiment = _selected(data)
    if experiment is None:
        return False
    job = ComparisonJob.of(experiment, data.fingerprint)
    if job.is_unfinished:  # the page offers to resume it, and displays the comparison of the key meanwhile
        return True
    return job.id == key or not (job.done or job.running or holding(experiment, data) is None)


def in_address(data: StoredSet) -> StoredComparison | None:
    """Return the comparison in the address, None if it is missing or of another dataset."""
    stored = kept_comparison(st.query_params.get(KEY, ""))
    return stored if stored and stored.data_fingerprint == data.fingerprint else None


def holding(experiment: Experiment, data: StoredSet) -> StoredComparison | None:
    """Return the comparison in the address if it asked the experiment's questions of all its retrievers, and more."""
    stored = in_address(data)
    if stored is None:
        return None
    same_questions = (stored.part, stored.relevant_from) == (experiment.split, experiment.relevant_from)
    return stored if same_questions and set(experiment.specs) < set(stored.retrievers) else None


def _selected(data: StoredSet) -> Experiment | None:
    """Return the experiment that the address selects by its retrievers and its part; None without one."""
    names = [name for name in st.query_params.get("retrievers", "").split("|") if name]
    part, grade = st.query_params.get("part", ""), st.query_params.get("grade", str(RELEVANT_GRADE))
    if not names or part not in [known.value for known in Part] or not grade.isdecimal():
        return None
    choices = choices_for(data)
    if not choices.specs.keys() >= {*names}:
        return None
    selected = [name for name in choices.specs if name in names]
    return choices.experiment(data, selected, Part(part), int(grade))
