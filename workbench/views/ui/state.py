"""Selections and inputs of a user, stored in the address, so that a reload or a link restores them, or in the session.

Streamlit's binding of widgets (`bind="query-params"`) would write labels in one language into the address.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from time import monotonic
from typing import Any

import streamlit as st

from mrc_workbench.workbench.views.ui.words import free_name, language, plain, word

Draw = Callable[..., Any]  # a function of Streamlit such as `st.selectbox`
PAGE_OF_LIST = "at"  # address parameter: page of a list of passages
_SECONDS_ON_THE_WAY = 1.5  # until a browser has received a selection
_LONGEST_ADDRESS = 1500  # characters of a text that the address takes
_LONGEST_QUESTION = 2000
_SCRIPT = "<script>/* {count} */ document.querySelector('[data-testid=stMain]')?.scrollTo({{ top: 0 }})</script>"
# Session keys
VISIT = "visit"  # how often a page was opened
_DONE = "scrolled_to"
_COUNT = "scrolled"
_OFFERED = "train_offered"
_SPOKEN = "train_spoken"
_ASSUMED = "assumed_choices"
_LAST_WRITTEN = "written_{}"


class Choice:
    """A choice in the address. For a moment, browser and server may have different values.

    A browser sends its address with every click, even before it receives the change of the last click. The state
    decides which value counts. It is stored as a time, and opening another page resets it.

        UNKNOWN --rendered--> SHOWN --selected--> SELECTED --rendered--> ON THE WAY --1.5 seconds--> SHOWN

        UNKNOWN      the address, else the selection on earlier pages, else the default
        SHOWN        the address, to which the user may have gone back, else the default
        SELECTED     the selection, until the page has rendered it
        ON THE WAY   the selection, until the browser has received it
    """

    def __init__(self, name: str) -> None:
        self._name = name
        visit = st.session_state.get(VISIT)
        since, times = st.session_state.get("selection_times", (visit, {}))
        self._times: dict[str, float] = times if since == visit else {}
        st.session_state["selection_times"] = (visit, self._times)

    @property
    def is_assumed(self) -> bool:
        """Whether the app, not the user, put the value into the address: the choice still follows others."""
        address_value = st.query_params.get(self._name)
        return address_value is not None and st.session_state.get(_ASSUMED, {}).get(self._name) == address_value

    def value(self, default: str, allowed: Sequence[str]) -> str:
        """Return the current value, `default` if it is not allowed."""
        stored = st.session_state.get(f"stored_{self._name}")
        address_value = None if self.is_assumed else st.query_params.get(self._name)
        time = self._times.get(self._name)
        if time is None:
            value = address_value or stored
        elif monotonic() - time < _SECONDS_ON_THE_WAY:
            value = stored
        else:
            value = address_value
        return str(value) if value in allowed else default

    def select(self, value: str, *, is_rendered: bool = True) -> None:
        """Store a selected value; `is_rendered` if the page already displays it."""
        self._times[self._name] = monotonic() if is_rendered else inf
        st.session_state[f"stored_{self._name}"] = value
        st.session_state.get(_ASSUMED, {}).pop(self._name, None)

    def show(self, value: str | None) -> None:
        """Record that the page has rendered the choice and put the value, unless None, into the address."""
        if self._times.get(self._name) == inf:
            self._times[self._name] = monotonic()
        if value is None:
            return
        self._times.setdefault(self._name, -inf)
        st.session_state[f"stored_{self._name}"] = value
        if st.query_params.get(self._name) != value:
            st.query_params[self._name] = value


def choose(
    draw: Draw, name: str, label: str, options: Sequence[str], default: str, *, follows: bool = False, **kwargs: Any
) -> str:
    """Draw a choice that is stored in the address, with a function such as `st.selectbox`; return the value.

    If the default `follows` other choices, the address does not name it until the user selects another value.
    """
    key = f"{name}_{language()}"  # the widget has labels in one language
    choice = Choice(name)
    value = choice.value(default, options)
    label_of = kwargs.get("format_func")
    if label_of:
        labels = distinct_labels(options, label_of)
        kwargs["format_func"] = lambda option: labels.get(option) or label_of(option)  # users may enter new options
    if st.session_state.get(key, value) != value:
        st.session_state[key] = value
    # Pass the value to the widget as well: a value in the session state is sent in one run only, which the next run may
    # replace on its way; a click elsewhere would then send no option, or the first one
    if draw.__name__ in ("selectbox", "radio"):
        kwargs["index"] = options.index(value)
    else:
        kwargs["value" if draw.__name__ == "select_slider" else "default"] = value
    draw(label, options, key=key, on_change=_put_into_address, args=(name, key, default, {}), **kwargs)
    is_selected = name in st.query_params and not choice.is_assumed
    choice.show(value if not follows or value != default or is_selected else None)
    return value


def distinct_labels(options: Iterable[str], label_of: Callable[[str], str | None]) -> dict[str, str]:
    """Return a unique label for each option, with a number if needed: a widget identifies options by labels."""
    labels: dict[str, str] = {}
    for option in options:
        labels[option] = free_name(label_of(option) or option, labels.values())
    return labels


def choose_named(name: str, label: str, names: Mapping[str, str], default: str, **kwargs: Any) -> str:
    """Draw a choice among `names` by key that follows other choices, as `choose` does; return the key."""
    kwargs |= {"format_func": lambda option: names.get(option, option), "follows": True}
    return choose(st.selectbox, name, label, [*names], default, **kwargs)


def _put_into_address(name: str, key: str, default: str, names: Mapping[str, str]) -> None:
    """Store the value of the widget with this key: a name, or a label in `names`."""
    selected = st.session_state[key] or default
    value = names.get(selected, selected)
    Choice(name).select(value, is_rendered=False)
    st.query_params[name] = value


def choose_several(
    draw: Draw, name: str, label: str, options: Sequence[str], default: Sequence[str], *, key: str, **kwargs: Any
) -> list[str]:
    """Draw a choice of several that is stored in the address, separated by bars; return them in order of `options`.

    The address counts when the widget with this `key` is first drawn, and when the user goes back in the browser.
    """
    address_values = st.query_params.get(name, "").split("|")
    default_values = [option for option in options if option in default]
    value = [option for option in options if option in address_values] or default_values
    written, since = st.session_state.get(_LAST_WRITTEN.format(name), ("", inf))
    went_back = written and st.query_params.get(name, written) != written and monotonic() - since > _SECONDS_ON_THE_WAY
    if went_back and key in st.session_state:
        st.session_state[key] = value
    initial = [option for option in options if option in st.session_state.get(key, value)]  # see `choose`
    selected = draw(label, options, selection_mode="multi", key=key, default=initial, **kwargs)
    ordered = [option for option in options if option in selected]
    if ordered != default_values or name in st.query_params:
        st.query_params[name] = "|".join(ordered)
        st.session_state[_LAST_WRITTEN.format(name)] = (st.query_params[name], monotonic())
    return ordered


def assume(name: str, value: str) -> None:
    """Record that the app puts a default into the address, so that the choice still follows others."""
    st.session_state.setdefault(_ASSUMED, {})[name] = value


def is_assumed(name: str) -> bool:
    return Choice(name).is_assumed


def choose_tab(name: str, labels: Mapping[str, str]) -> tuple[str, Any]:
    """Draw tabs with these labels by name; the address stores the open tab. Return its name and container."""
    tabs = [*labels]
    choice = Choice(name)
    key = f"{name}_{language()}"
    opened = choice.value(tabs[0], tabs)
    if st.session_state.get(key) != labels[opened]:
        st.session_state[key] = labels[opened]
    tab_by_label = {label: tab for tab, label in labels.items()}
    kwargs: dict[str, Any] = {"on_change": _put_into_address, "args": (name, key, opened, tab_by_label)}
    containers = st.tabs([*labels.values()], key=key, **kwargs)
    choice.show(opened if opened != tabs[0] or name in st.query_params else None)
    return opened, containers[tabs.index(opened)]


def remembered(name: str, default: str, allowed: Sequence[str]) -> str:
    return Choice(name).value(default, allowed)


def remember(name: str, value: str) -> None:
    """Store a choice in the address and for the other pages."""
    store_choice(name, value)
    st.query_params[name] = value


def store_choice(name: str, value: str) -> None:
    """Store a choice for the other pages; the caller puts it into the address with others."""
    Choice(name).select(value)


def choose_view(name: str, tabs: Mapping[str, Sequence[str]], label_of: Callable[[str], str]) -> tuple[str, Any]:
    """Draw tabs and the views of each, labelled by `label_of`; return the open view and its container.

    The address stores the tab as `name` and its view as `name_tab`. An address may also name a view as `name`, unless
    a tab with several views has this name.
    """
    address_value = st.query_params.get(name, "")
    for tab, views in tabs.items():
        if address_value in views and len(views) > 1:
            st.query_params[name] = tab
            st.query_params[f"{name}_{tab}"] = address_value
    tab, container = choose_tab(name, {tab_name: label_of(tab_name) for tab_name in tabs})
    views = tabs[tab]
    if len(views) == 1:
        return views[0], container
    with container:
        kwargs: dict[str, Any] = {"format_func": label_of, "label_visibility": "collapsed"}
        return choose(st.segmented_control, f"{name}_{tab}", label_of(tab), views, views[0], **kwargs), container


def scroll_to_top(name: str) -> None:
    """Scroll the page to its top if `name`, the content there, has changed."""
    if st.session_state.get(_DONE) == name:
        return
    st.session_state[_DONE] = name
    # The browser runs a script again only if it differs
    st.session_state[_COUNT] = count = int(st.session_state.get(_COUNT, 0)) + 1
    st.html(_SCRIPT.format(count=count), unsafe_allow_javascript=True)


def forget_scroll() -> None:
    """Let the same content scroll to the top when it opens again."""
    st.session_state.pop(_DONE, None)


def offer(key: str, value: Any) -> None:
    """Fill in a field before it is drawn, unless a user has changed it."""
    offered = st.session_state.setdefault(_OFFERED, {})
    if key not in st.session_state or (key in offered and st.session_state[key] == offered[key] != value):
        st.session_state[key] = value
    offered[key] = value


def relabel(key: str) -> None:
    """Send a choice again, before it is drawn, if the language has changed: its box would keep the old words."""
    spoken = st.session_state.setdefault(_SPOKEN, {})
    if key in st.session_state and spoken.get(key, language()) != language():
        st.session_state[key] = st.session_state[key]
    spoken[key] = language()


def is_changed(key: str) -> bool:
    """Whether a field differs from its offered value; an empty number field does not."""
    entered = st.session_state.get(key)
    return entered is not None and entered != st.session_state.get(_OFFERED, {}).get(key)


def reset_fields(keys: Iterable[str]) -> None:
    """Restore the offered values. Call it before the fields are drawn, as in a callback."""
    for key in keys:
        st.session_state[key] = st.session_state[_OFFERED][key]


def draw_text_field(draw: Callable[..., str], name: str, label: str, default: str, **kwargs: Any) -> str:
    """Draw a text field that is stored in the address, with a function such as `st.text_input`; return its text."""
    key = f"typed_{name}"
    if key not in st.session_state:
        st.session_state[key] = st.query_params.get(name) or default
    text = draw(label, key=key, **kwargs)
    if text.strip() == default or len(text) > _LONGEST_ADDRESS:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = text
    return text


def lines_of(text: str, max_lines: int, max_characters: int) -> list[str]:
    lines = dict.fromkeys(line.strip()[:max_characters] for line in text.splitlines() if line.strip())
    return [*lines][:max_lines]


def draw_question(key: str, example: str, about: str, *, submit: str, icon: str, on_submit: Callable[[], None]) -> str:
    """Draw the text box of a question, with an example as placeholder; return the question last sent on any page."""
    question = str(st.query_params.get("q") or st.session_state.get("stored_q", ""))[:_LONGEST_QUESTION].strip()
    st.session_state.setdefault(key, question)
    with st.form(f"{key}_form", border=False):
        box, button = st.columns([5, 1], vertical_alignment="bottom")
        hint = word("search.placeholder", question=example) if example else word("search.placeholder_plain")
        kwargs: dict[str, Any] = {"placeholder": hint, "max_chars": _LONGEST_QUESTION, "help": about}
        box.text_input(word("search.question"), key=key, **kwargs)
        button.form_submit_button(submit, type="primary", icon=icon, width="stretch", on_click=on_submit)
    if question:
        remember("q", question)
    return question


def draw_examples(key: str, questions: Sequence[str], about: str | None) -> None:
    """Draw example questions with the help text `about`; a click sends one through the box with this key."""
    label, *columns = st.columns([1, *[3] * len(questions)], vertical_alignment="center")
    label.caption(word("search.examples"), help=about)
    for number, (column, question) in enumerate(zip(columns, questions, strict=True)):
        example = f"{key}_example_{number}"
        column.button(plain(question), on_click=ask, args=(key, question), key=example, width="stretch")


def ask(key: str, question: str) -> None:
    """Make a question the current one and put it into the box with this key; an empty one clears both."""
    st.session_state[key] = st.session_state["stored_q"] = question[:_LONGEST_QUESTION]
    if question:
        st.query_params["q"] = question
    else:
        st.query_params.pop("q", None)
