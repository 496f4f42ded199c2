"""What a person chooses on the Tokenizers tab: kinds, what they split at, vocabularies, and models to compare with."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from language.comparison import Request
from language.job import TokenizerRequest
from language.morphemes import Split, TokenizerKind
from models.hub import ModelError
from models.sources import STARTER, default_model, find_model
from views.choices import finished_runs, model_place
from views.names import base_name, is_a_starter
from views.texts import Learned, characters_in, reference_of
from views.ui.problems import failure_text
from views.ui.state import choose_several
from views.ui.words import plain, word

SIZES = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000)
_USUAL = (2_000, 8_000, 32_000)
_CHARACTERS_A_PIECE = 20  # of text, in Korean articles, for a vocabulary to be found in it
_REFERENCE = re.compile(r"[\w./:-]{1,200}")


def usual_sizes(characters: int) -> list[int]:
    """Return the vocabularies picked before anybody chooses: those that so much text allows, and smaller ones."""
    allowed = [size for size in _USUAL if characters >= _CHARACTERS_A_PIECE * size]
    return allowed if len(allowed) > 1 else [SIZES[0], *allowed]


def pick(learned: Learned) -> tuple[TokenizerRequest | None, Mapping[str, str]]:
    """Draw the controls; returns what they ask of a text, None if nothing, and what the models are called."""
    place = st.expander(word("tokenizers.settings"), icon=":material/tune:")
    with place, st.container(horizontal=True, vertical_alignment="bottom"):
        kinds = _pick("kinds", [*TokenizerKind], [*TokenizerKind], "kind")
        splits = _pick("splits", [*Split], [Split.WORDS], "split")
        usual = [str(size) for size in usual_sizes(characters_in(learned))]
        sizes = choose_several(
            st.pills,
            "vocabularies",
            word("tokenizers.vocabularies"),
            [*map(str, SIZES)],
            usual,
            key=f"vocabularies_{learned.key}",
            wrap=True,
            format_func=lambda size: f"{int(size):,}",
            help=word("tokenizers.vocabularies_help"),
        )
        names, against = _pick_models()
    if not (kinds and splits and sizes):
        return None, names
    compared = Request(
        kinds=tuple(map(TokenizerKind, kinds)),
        splits=tuple(map(Split, splits)),
        vocabularies=tuple(map(int, sizes)),
        against=tuple(against),
    )
    return TokenizerRequest(reference_of(learned), compared), names


def _pick(name: str, options: Sequence[str], usual: Sequence[str], called: str) -> list[str]:
    return choose_several(
        st.pills,
        name,
        word(f"tokenizers.{called}"),
        [*map(str, options)],
        [*map(str, usual)],
        key=f"picked_{name}",
        wrap=True,
        format_func=lambda one: word(f"tokenizers.{called}_{one}"),
        help=word(f"tokenizers.{called}_help"),
    )


def _pick_models() -> tuple[dict[str, str], list[str]]:
    """Draw the choice of models to compare with; returns all names by reference, and those picked that there are."""
    key, first = "tokenizers_against", [] if default_model() == STARTER else [default_model()]
    runs = {model_place(run): run.plan().name for run in finished_runs() if not is_a_starter(model_place(run))}
    names = {one: base_name(one) for one in first} | runs
    typed = [*st.session_state.get(key, ()), *st.query_params.get("beside", "").split("|")]
    names |= {one: one for one in typed if one not in names and _REFERENCE.fullmatch(one)}
    picked = choose_several(
        _multiselect,
        "beside",
        word("tokenizers.against"),
        [*names],
        first,
        key=key,
        format_func=lambda one: names.get(one, one),
        help=word("tokenizers.against_help"),
        placeholder=word("tokenizers.against_none"),
        width=320,
    )
    return names, [one for one in picked if _is_there(one, names)]


def _multiselect(label: str, options: Sequence[str], *, selection_mode: str, **look: Any) -> list[str]:
    del selection_mode  # there is but one
    picked: list[str] = st.multiselect(label, options, accept_new_options=True, **look)
    return picked


def _is_there(reference: str, names: Mapping[str, str]) -> bool:
    try:
        find_model(reference)
    except ModelError as error:
        told = {"model": plain(names[reference]), "reason": plain(failure_text(error))}
        st.error(word("tokenizers.model_failed", **told), icon=":material/error:")
        return False
    return True
