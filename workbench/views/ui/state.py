"""What a person has chosen or entered: in the address, so that a reload or a shared link shows the same, or the
session.

Streamlit's own binding of widgets to the address would write the words of a choice there, which are of one language."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from time import monotonic
from typing import Any, cast

import streamlit as st

from mrc_workbench.workbench.views.ui.words import language, plain, word

VISIT = "visit"  # of the session: how often a page was opened
PAGE_OF_LIST = "at"  # its name in the address: where a set's passages are read
_ON_ITS_WAY = 1.5  # seconds until a browser has surely heard of a choice
_DONE, _COUNT = "scrolled_to", "scrolled"
_SCRIPT = "<script>/* {count} */ document.querySelector('[data-testid=stMain]')?.scrollTo({{ top: 0 }})</script>"
_OFFERED, _SPOKEN = "train_offered", "train_spoken"
_ASSUMED, _LAST_WRITTEN = "assumed_choices", "written_{}"  # of the session


def choose(
    draw: Callable[..., Any],
    name: str,
    label: str,
    options: Sequence[str],
    usual: str,
    *,
    follows: bool = False,
    **look: Any,
) -> str:
    """Draw a choice of one that lies in the address, as `st.selectbox` and the like do; returns it.

    Where what is usual `follows` other choices, it stays out of the address until something else is chosen.
    """
    key = f"{name}_{language()}"  # other words make it another widget
    value = remembered(name, usual, options)
    if called := look.get("format_func"):
        labels = distinct_labels(options, called)
        look["format_func"] = lambda one: labels[one] if one in labels else called(one)  # a new one may be entered
    if st.session_state.get(key, value) != value:
        st.session_state[key] = value
    look |= _beginning_with(draw, options, value)
    draw(label, options, key=key, on_change=_put_into_address, args=(name, key, usual, {}), **look)
    _begin_waiting(name)
    chosen = name in st.query_params and not is_assumed(name)
    if not follows or value != usual or chosen:
        _write(name, value)
    return value


def distinct_labels(options: Iterable[str], called: Callable[[str], str | None]) -> dict[str, str]:
    """Return the label of each option, numbered where two are called the same: a widget tells its options by labels."""
    labels: dict[str, str] = {}
    taken: set[str] = set()
    for option in options:
        label = first = called(option) or option
        number = 1
        while label in taken:
            number += 1
            label = f"{first} ({number})"
        labels[option] = label
        taken.add(label)
    return labels


def choose_named(name: str, label: str, names: Mapping[str, str], usual: str, **look: Any) -> str:
    """Draw the choice among `names` by key, one that follows other choices, as `choose` does; returns the key."""
    called = {"format_func": lambda one: names.get(one, one)}
    return choose(st.selectbox, name, label, [*names], usual, follows=True, **called, **look)


def _beginning_with(draw: Callable[..., Any], options: Sequence[str], value: str) -> dict[str, Any]:
    """What has a widget begin with a value.

    One that the session's state alone gives it is sent in one run, which the next may replace on its way, and reaches
    the widget after it stands: a click elsewhere would send none, or the first option, as if a person had chosen it.
    """
    named = draw.__name__
    if named in ("selectbox", "radio"):
        return {"index": options.index(value)}
    return {"value" if named == "select_slider" else "default": value}


def _put_into_address(name: str, key: str, usual: str, names: Mapping[str, str]) -> None:
    """Remember what the widget of this key holds: a name, or a word that stands for one of `names`."""
    chosen = st.session_state[key] or usual
    remember(name, names.get(chosen, chosen))
    _chosen_here()[name] = inf


def choose_several(
    draw: Callable[..., Any],
    name: str,
    label: str,
    options: Sequence[str],
    usual: Sequence[str],
    *,
    key: str,
    **look: Any,
) -> list[str]:
    """Draw a choice of several that lies in the address, names between bars; returns them in the order of `options`.

    The address counts when the widget of this `key` is first drawn, and when the user goes back in the browser.
    """
    given = st.query_params.get(name, "").split("|")
    value = [one for one in options if one in given] or [one for one in options if one in usual]
    if _is_news(name) and key in st.session_state:
        st.session_state[key] = value
    begun = [one for one in options if one in st.session_state.get(key, value)]  # see `_beginning_with`
    picked = draw(label, options, selection_mode="multi", key=key, default=begun, **look)
    chosen = [one for one in options if one in picked]
    if chosen != [one for one in options if one in usual] or name in st.query_params:
        st.query_params[name] = "|".join(chosen)
        st.session_state[_LAST_WRITTEN.format(name)] = (st.query_params[name], monotonic())
    return chosen


def _is_news(name: str) -> bool:
    """Whether the address names something else than the app wrote last: the user went back to an earlier page."""
    written, since = st.session_state.get(_LAST_WRITTEN.format(name), ("", inf))
    return bool(written) and st.query_params.get(name, written) != written and monotonic() - since > _ON_ITS_WAY


def assume(name: str, value: str) -> None:
    """Note that the app puts a choice into the address that the user left at its default: it still follows others."""
    st.session_state.setdefault(_ASSUMED, {})[name] = value


def is_assumed(name: str) -> bool:
    """Whether the app put what the address says of this choice there, see `assume`."""
    return name in st.query_params and st.session_state.get(_ASSUMED, {}).get(name) == st.query_params[name]


def choose_tab(name: str, labels: Mapping[str, str]) -> tuple[str, Any]:
    """Draw tabs, by name their labels, of which the open one lies in the address; returns it, and where it is drawn."""
    tabs = list(labels)
    key, opened = f"{name}_{language()}", remembered(name, tabs[0], tabs)
    if opened != tabs[0] or name in st.query_params:
        _write(name, opened)
    if st.session_state.get(key) != labels[opened]:
        st.session_state[key] = labels[opened]
    called = {label: tab for tab, label in labels.items()}
    places = st.tabs([*labels.values()], key=key, on_change=_put_into_address, args=(name, key, opened, called))
    _begin_waiting(name)
    return opened, places[tabs.index(opened)]


def remembered(name: str, default: str, allowed: Sequence[str]) -> str:
    """Return a choice from the address or the session, `default` where there is none that is allowed.

    A browser sends the address with every click, also before it has heard what the clicks before put there: right
    after a choice, the address tells nothing of it. Later it is what a person sees, and may have gone back to: then
    what it does not name is the default. On a page just opened, what it does not name is as on the pages before.
    """
    kept = st.session_state.get(f"kept_{name}")
    given = None if is_assumed(name) else st.query_params.get(name)
    chosen_at = _chosen_here().get(name)
    just_chosen = chosen_at is not None and monotonic() - chosen_at < _ON_ITS_WAY
    value = kept if just_chosen else given or (kept if chosen_at is None else None)
    return str(value) if value in allowed else default


def _begin_waiting(name: str) -> None:
    """Wait for the browser from when a choice is drawn: a busy machine may take longer to come to that."""
    if _chosen_here().get(name) == inf:
        _chosen_here()[name] = monotonic()


def remember(name: str, value: str) -> None:
    """Keep a choice in the address and for the other pages."""
    keep(name, value)
    st.query_params[name] = value


def keep(name: str, value: str) -> None:
    """Keep a choice for the other pages, and for an address that is written with others at once."""
    _chosen_here()[name] = monotonic()
    st.session_state[f"kept_{name}"] = value
    st.session_state.get(_ASSUMED, {}).pop(name, None)


def _write(name: str, value: str) -> None:
    """Have the address say what is shown: nobody chose it now."""
    _chosen_here().setdefault(name, -inf)
    st.session_state[f"kept_{name}"] = value
    if st.query_params.get(name) != value:
        st.query_params[name] = value


def _chosen_here() -> dict[str, float]:
    """When each choice was made since the page was opened: on another page, the address is news."""
    visit = st.session_state.get(VISIT)
    since, chosen = st.session_state.get("chosen_here", (visit, {}))
    if since != visit:
        chosen = {}
    st.session_state["chosen_here"] = (visit, chosen)
    return cast(dict[str, float], chosen)


def choose_view(name: str, tabs: Mapping[str, Sequence[str]], called: Callable[[str], str]) -> tuple[str, Any]:
    """Draw tabs with their views, both `called` by words; returns the view that is open, and where it is drawn.

    The tab lies in the address by `name`, and the view of a tab that holds several by both names. An address may also
    tell a view alone, as long as no tab of several is called so.
    """
    given = st.query_params.get(name, "")
    for tab, views in tabs.items():
        if given in views and len(views) > 1:
            st.query_params[name], st.query_params[f"{name}_{tab}"] = tab, given
    tab, place = choose_tab(name, {one: called(one) for one in tabs})
    views = tabs[tab]
    if len(views) == 1:
        return views[0], place
    with place:
        look: dict[str, Any] = {"format_func": called, "label_visibility": "collapsed"}
        return choose(st.segmented_control, f"{name}_{tab}", called(tab), views, views[0], **look), place


def show_top(of: str) -> None:
    """Scroll the page to its top where what stands there, called `of`, is not what was shown last."""
    if st.session_state.get(_DONE) == of:
        return
    st.session_state[_DONE] = of
    # another number makes it another script, which the browser runs again
    st.session_state[_COUNT] = count = int(st.session_state.get(_COUNT, 0)) + 1
    st.html(_SCRIPT.format(count=count), unsafe_allow_javascript=True)


def leave_top() -> None:
    """Note that what was brought into sight is no longer shown: opened again, it is brought there again."""
    st.session_state.pop(_DONE, None)


def offer(key: str, value: Any) -> None:
    """Fill in a field that nobody has touched, before it is drawn; what was entered stays."""
    offered = st.session_state.setdefault(_OFFERED, {})
    if key not in st.session_state or (key in offered and st.session_state[key] == offered[key] != value):
        st.session_state[key] = value
    offered[key] = value


def relabel(key: str) -> None:
    """Send a choice anew, before it is drawn, when the language changed: its box would keep the words of the other."""
    spoken = st.session_state.setdefault(_SPOKEN, {})
    if key in st.session_state and spoken.get(key, language()) != language():
        st.session_state[key] = st.session_state[key]
    spoken[key] = language()


def is_changed(key: str) -> bool:
    """Whether a field holds something else than it was offered with. An empty number field means the offer."""
    entered = st.session_state.get(key)
    return entered is not None and entered != st.session_state.get(_OFFERED, {}).get(key)


def take_back(keys: Iterable[str]) -> None:
    """Fill in what was offered; only while no field is drawn, as in a callback."""
    for key in keys:
        st.session_state[key] = st.session_state[_OFFERED][key]


_LONGEST_ADDRESS = 1500  # characters of a text that an address takes along


def typed(draw: Callable[..., str], name: str, label: str, usual: str, **look: Any) -> str:
    """Draw a field, as `st.text_input` does, with the text of the address, `usual` where there is none; returns it."""
    key = f"typed_{name}"
    if key not in st.session_state:
        st.session_state[key] = st.query_params.get(name) or usual
    text = draw(label, key=key, **look)
    if text.strip() == usual or len(text) > _LONGEST_ADDRESS:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = text
    return text


def lines_of(text: str, most: int, letters: int) -> list[str]:
    """Return the different lines that hold something, `most` of them, each cut after so many letters."""
    lines = dict.fromkeys(line.strip()[:letters] for line in text.splitlines() if line.strip())
    return [*lines][:most]


_LONGEST_QUESTION = 2000


def draw_question(key: str, example: str, about: str, *, submit: str, icon: str, on_asked: Callable[[], None]) -> str:
    """Draw the box of a question, an example in it while it is empty; returns the one last asked, of whatever page."""
    question = str(st.query_params.get("q") or st.session_state.get("kept_q", ""))[:_LONGEST_QUESTION].strip()
    st.session_state.setdefault(key, question)
    with st.form(f"{key}_form", border=False):
        box, button = st.columns([5, 1], vertical_alignment="bottom")
        box.text_input(
            word("search.question"),
            key=key,
            placeholder=word("search.placeholder", question=example) if example else word("search.placeholder_alone"),
            max_chars=_LONGEST_QUESTION,
            help=about,
        )
        button.form_submit_button(submit, type="primary", icon=icon, width="stretch", on_click=on_asked)
    if question:
        remember("q", question)
    return question


def draw_examples(key: str, questions: Sequence[str], about: str | None) -> None:
    """Draw questions to try, `about` which ones they are; a click asks one in the box of this key."""
    label, *places = st.columns([1, *[3] * len(questions)], vertical_alignment="center")
    label.caption(word("search.examples"), help=about)
    for number, (place, question) in enumerate(zip(places, questions, strict=True)):
        look: dict[str, Any] = {"key": f"{key}_example_{number}", "width": "stretch"}
        place.button(plain(question), on_click=ask, args=(key, question), **look)


def ask(key: str, question: str) -> None:
    """Make a question the one that is asked, in the box of this key as well; an empty one is none."""
    st.session_state[key] = st.session_state["kept_q"] = question[:_LONGEST_QUESTION]
    if question:
        st.query_params["q"] = question
    else:
        st.query_params.pop("q", None)
