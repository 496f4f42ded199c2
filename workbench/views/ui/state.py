"""What a user has selected or entered: in the address, so that a reload or a link shows the same, or in the session.

Streamlit's own binding of widgets (`bind="query-params"`) would write the labels of a choice there, in one language.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from time import monotonic
from typing import Any

import streamlit as st

from mrc_workbench.workbench.views.ui.words import free_name, language, plain, word

Draw = Callable[..., Any]  # of Streamlit, such as `st.selectbox`
VISIT = "visit"  # of the session: how often a page was opened
PAGE_OF_LIST = "at"  # its name in the address: where a set's passages are read
_SECONDS_ON_THE_WAY = 1.5  # until a browser has surely received a choice
_DONE = "scrolled_to"
_COUNT = "scrolled"
_SCRIPT = "<script>/* {count} */ document.querySelector('[data-testid=stMain]')?.scrollTo({{ top: 0 }})</script>"
_OFFERED = "train_offered"
_SPOKEN = "train_spoken"
# of the session
_ASSUMED = "assumed_choices"
_LAST_WRITTEN = "written_{}"


class Choice:
    """A choice in the address. For a moment, browser and server may know different values of it.

    A browser sends its address with every click, also before it has received what the clicks before put there. A state
    says which value counts; it is stored as a time, and opening a page forgets the states of the page before.

        UNKNOWN --rendered--> SHOWN --selected--> SELECTED --rendered--> ON THE WAY --1.5 seconds--> SHOWN

        UNKNOWN      the address, else what the pages before selected, else the default
        SHOWN        the address, which the user sees and may have gone back to, else the default
        SELECTED     what was selected, until the page has rendered it: a busy machine may take long
        ON THE WAY   what was selected, until the browser has surely received it
    """

    def __init__(self, name: str) -> None:
        self._name = name
        visit = st.session_state.get(VISIT)
        since, times = st.session_state.get("chosen_here", (visit, {}))
        self._times: dict[str, float] = times if since == visit else {}
        st.session_state["chosen_here"] = (visit, self._times)

    @property
    def is_assumed(self) -> bool:
        """Whether the app, not the user, put what the address says there: the choice still follows others."""
        address_value = st.query_params.get(self._name)
        return address_value is not None and st.session_state.get(_ASSUMED, {}).get(self._name) == address_value

    def value(self, default: str, allowed: Sequence[str]) -> str:
        """Return the value that counts, `default` if it is not allowed."""
        stored = st.session_state.get(f"kept_{self._name}")
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
        """Store a value that the user selected; `is_rendered` if the page already shows it."""
        self._times[self._name] = monotonic() if is_rendered else inf
        st.session_state[f"kept_{self._name}"] = value
        st.session_state.get(_ASSUMED, {}).pop(self._name, None)

    def show(self, value: str | None) -> None:
        """Note that the page has rendered the choice and, unless None, have the address name what it shows."""
        if self._times.get(self._name) == inf:
            self._times[self._name] = monotonic()
        if value is None:
            return
        self._times.setdefault(self._name, -inf)
        st.session_state[f"kept_{self._name}"] = value
        if st.query_params.get(self._name) != value:
            st.query_params[self._name] = value


def choose(
    draw: Draw, name: str, label: str, options: Sequence[str], default: str, *, follows: bool = False, **kwargs: Any
) -> str:
    """Draw a choice of one that lies in the address, as `st.selectbox` and the like do; returns it.

    If the default `usual` `follows` other choices, it stays out of the address until something else is selected.
    """
    key = f"{name}_{language()}"  # other words make it another widget
    choice = Choice(name)
    value = choice.value(default, options)
    if label_of := kwargs.get("format_func"):
        labels = distinct_labels(options, label_of)
        kwargs["format_func"] = lambda option: (
            labels[option] if option in labels else label_of(option)
        )  # a new one may be entered
    if st.session_state.get(key, value) != value:
        st.session_state[key] = value
    # The widget is told its value: one that the session's state alone gives it is sent in one run, which the next may
    # replace on its way; a click elsewhere would then send none, or the first option, as if a user had selected it
    if draw.__name__ in ("selectbox", "radio"):
        kwargs["index"] = options.index(value)
    else:
        kwargs["value" if draw.__name__ == "select_slider" else "default"] = value
    draw(label, options, key=key, on_change=_put_into_address, args=(name, key, default, {}), **kwargs)
    is_selected = name in st.query_params and not choice.is_assumed
    choice.show(value if not follows or value != default or is_selected else None)
    return value


def distinct_labels(options: Iterable[str], label_of: Callable[[str], str | None]) -> dict[str, str]:
    """Return the label of each option, numbered where two are called the same: a widget tells its options by labels."""
    labels: dict[str, str] = {}
    for option in options:
        labels[option] = free_name(label_of(option) or option, labels.values())
    return labels


def choose_named(name: str, label: str, names: Mapping[str, str], default: str, **kwargs: Any) -> str:
    """Draw the choice among `names` by key, one that follows other choices, as `choose` does; returns the key."""
    label_options = {"format_func": lambda option: names.get(option, option)}
    return choose(st.selectbox, name, label, [*names], default, follows=True, **label_options, **kwargs)


def _put_into_address(name: str, key: str, default: str, names: Mapping[str, str]) -> None:
    """Store what the widget of this key holds: a name, or a label that stands for one of `names`."""
    selected = st.session_state[key] or default
    value = names.get(selected, selected)
    Choice(name).select(value, is_rendered=False)
    st.query_params[name] = value


def choose_several(
    draw: Draw, name: str, label: str, options: Sequence[str], default: Sequence[str], *, key: str, **kwargs: Any
) -> list[str]:
    """Draw a choice of several that lies in the address, names between bars; returns them in the order of `options`.

    The address counts when the widget of this `key` is first drawn, and when the user goes back in the browser.
    """
    address_value = st.query_params.get(name, "")
    value = [option for option in options if option in address_value.split("|")] or [
        option for option in options if option in default
    ]
    written, since = st.session_state.get(_LAST_WRITTEN.format(name), ("", inf))
    went_back = written and st.query_params.get(name, written) != written and monotonic() - since > _SECONDS_ON_THE_WAY
    if went_back and key in st.session_state:
        st.session_state[key] = value
    initial = [option for option in options if option in st.session_state.get(key, value)]  # see `choose`
    selected = draw(label, options, selection_mode="multi", key=key, default=initial, **kwargs)
    ordered = [option for option in options if option in selected]
    if ordered != [option for option in options if option in default] or name in st.query_params:
        st.query_params[name] = "|".join(ordered)
        st.session_state[_LAST_WRITTEN.format(name)] = (st.query_params[name], monotonic())
    return ordered


def assume(name: str, value: str) -> None:
    """Note that the app puts a choice into the address that the user left at its default: it still follows others."""
    st.session_state.setdefault(_ASSUMED, {})[name] = value


def is_assumed(name: str) -> bool:
    return Choice(name).is_assumed


def choose_tab(name: str, labels: Mapping[str, str]) -> tuple[str, Any]:
    """Draw tabs, by name their labels, of which the open one lies in the address; returns it, and its container."""
    tabs = [*labels]
    choice = Choice(name)
    key = f"{name}_{language()}"
    opened = choice.value(tabs[0], tabs)
    if st.session_state.get(key) != labels[opened]:
        st.session_state[key] = labels[opened]
    tab_by_label = {label: tab for tab, label in labels.items()}
    containers = st.tabs(
        [*labels.values()], key=key, on_change=_put_into_address, args=(name, key, opened, tab_by_label)
    )
    choice.show(opened if opened != tabs[0] or name in st.query_params else None)
    return opened, containers[tabs.index(opened)]


def remembered(name: str, default: str, allowed: Sequence[str]) -> str:
    return Choice(name).value(default, allowed)


def remember(name: str, value: str) -> None:
    """Keep a choice in the address and for the other pages."""
    store_choice(name, value)
    st.query_params[name] = value


def store_choice(name: str, value: str) -> None:
    """Keep a choice for the other pages, and for an address that is written with others at once."""
    Choice(name).select(value)


def choose_view(name: str, tabs: Mapping[str, Sequence[str]], label_of: Callable[[str], str]) -> tuple[str, Any]:
    """Draw tabs with their views, both `called` by words; returns the open view, and its container.

    The tab lies in the address by `name`, and the view of a tab that holds several by both names. An address may also
    name a view alone, as long as no tab of several is called so.
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
    """Scroll the page to its top if what stands there, called `of`, is not what was shown last."""
    if st.session_state.get(_DONE) == name:
        return
    st.session_state[_DONE] = name
    # another number makes it another script, which the browser runs again
    st.session_state[_COUNT] = count = int(st.session_state.get(_COUNT, 0)) + 1
    st.html(_SCRIPT.format(count=count), unsafe_allow_javascript=True)


def forget_scroll() -> None:
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


def reset_fields(keys: Iterable[str]) -> None:
    """Fill in what was offered; only while no field is drawn, as in a callback."""
    for key in keys:
        st.session_state[key] = st.session_state[_OFFERED][key]


_LONGEST_ADDRESS = 1500  # characters of a text that an address takes along


def draw_text_field(draw: Callable[..., str], name: str, label: str, default: str, **kwargs: Any) -> str:
    """Draw a field, as `st.text_input` does, with the text of the address, `usual` where there is none; returns it."""
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


_LONGEST_QUESTION = 2000


def draw_question(key: str, example: str, about: str, *, submit: str, icon: str, on_submit: Callable[[], None]) -> str:
    """Draw the box of a question, an example in it while it is empty; returns the one last asked, of whatever page."""
    question = str(st.query_params.get("q") or st.session_state.get("kept_q", ""))[:_LONGEST_QUESTION].strip()
    st.session_state.setdefault(key, question)
    with st.form(f"{key}_form", border=False):
        box, button = st.columns([5, 1], vertical_alignment="bottom")
        hint = word("search.placeholder", question=example) if example else word("search.placeholder_alone")
        kwargs: dict[str, Any] = {"placeholder": hint, "max_chars": _LONGEST_QUESTION, "help": about}
        box.text_input(word("search.question"), key=key, **kwargs)
        button.form_submit_button(submit, type="primary", icon=icon, width="stretch", on_click=on_submit)
    if question:
        remember("q", question)
    return question


def draw_examples(key: str, questions: Sequence[str], about: str | None) -> None:
    """Draw questions to try, `about` which ones they are; a click asks one in the box of this key."""
    label, *columns = st.columns([1, *[3] * len(questions)], vertical_alignment="center")
    label.caption(word("search.examples"), help=about)
    for number, (column, question) in enumerate(zip(columns, questions, strict=True)):
        example = f"{key}_example_{number}"
        column.button(plain(question), on_click=ask, args=(key, question), key=example, width="stretch")


def ask(key: str, question: str) -> None:
    """Make a question the one that is asked, in the box of this key as well; an empty one is none."""
    st.session_state[key] = st.session_state["kept_q"] = question[:_LONGEST_QUESTION]
    if question:
        st.query_params["q"] = question
    else:
        st.query_params.pop("q", None)
