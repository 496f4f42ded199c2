"""The fields of a training's form: each option with its label, unit, range and help."""

from dataclasses import Field, fields
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from data.split import SplitOptions
from retrieval.models import STARTER
from training.options import BiEncoderOptions, CrossEncoderOptions, Kind
from views.words import word

Options = BiEncoderOptions | CrossEncoderOptions
FIRST = ("epochs", "batch_size", "learning_rate")
_GROUPS = {
    "learning": ("weight_decay", "warmup", "seed", "title"),
    "loss": ("positive_margin", "negative_margin", "mini_batch_size"),
    "negatives": ("negatives", "depth"),
    "measuring": ("evaluation_steps", "evaluation_limit", "evaluation_batch_size", "logging_steps"),
    "saving": ("save_steps", "save_limit"),
}
_COLUMNS = 4
_LARGEST_SEED = 2**31 - 1
_LARGEST_SHARE = 0.95


class OptionFields:
    """Draws the options of one kind and base; knows what was entered, and where a field's problem is told."""

    def __init__(self, kind: Kind, start: Options) -> None:
        self._start, self._key = start, f"train_{kind.value}_{start.base}"
        self._fields = {field.name: field for field in fields(start)}
        self._places: dict[str, DeltaGenerator] = {}
        self._entered: dict[str, Any] = {}

    def draw_first(self, columns: list[DeltaGenerator]) -> None:
        """Draw the options that matter most, one a column."""
        self._row(FIRST, columns)

    def draw_more(self) -> None:
        """Draw all others, by what they are about, and the split."""
        for group, names in _GROUPS.items():
            if own := [name for name in names if name in self._fields]:
                st.markdown(f"**{word(f'train.group_{group}')}**")
                # a box without a label above it stands in line with the others' fields
                self._row(own, st.columns(_COLUMNS, vertical_alignment="bottom" if "title" in own else "top"))
        st.markdown(f"**{word('train.group_split')}**")
        shares = SplitOptions()
        validation, test, seed, _ = st.columns(_COLUMNS)
        self._put("validation", validation, _LARGEST_SHARE, shares.validation)
        self._put("test", test, _LARGEST_SHARE, shares.test)
        self._put("split_seed", seed, _LARGEST_SEED, shares.seed)

    def options(self) -> dict[str, Any]:
        """Return what was entered for the options; a field left empty has its default."""
        return {name: value for name, value in self._entered.items() if name in self._fields and value is not None}

    def split(self) -> tuple[float, float, int]:
        """Return what was entered for the split: validation share, test share, seed."""
        default = SplitOptions()
        values = [self._entered.get(name) for name in ("validation", "test", "split_seed")]
        validation, test, seed = (
            value if value is not None else instead
            for value, instead in zip(values, (default.validation, default.test, default.seed), strict=True)
        )
        return float(validation), float(test), int(seed)

    def tell(self, name: str, problem: str) -> None:
        """Tell a problem beside its field."""
        if name in self._places:
            self._places[name].error(problem)

    def _row(self, names: list[str] | tuple[str, ...], columns: list[DeltaGenerator]) -> None:
        for column, name in zip(columns, names, strict=False):
            with column:
                self._entered[name] = self._field(self._fields[name])
                self._places[name] = st.empty()

    def _put(self, name: str, column: DeltaGenerator, high: float, value: float) -> None:
        whole = isinstance(value, int)
        with column:
            self._entered[name] = st.number_input(
                **self._words(name, type(value)(0), high),
                value=value,
                min_value=type(value)(0),
                max_value=high,
                step=1 if whole else 0.05,
                format=None if whole else "%.2f",
            )
            self._places[name] = st.empty()

    def _field(self, field: "Field[Any]") -> Any:
        low, high, made = field.metadata.get("low"), field.metadata.get("high"), _made(field)
        value = made(getattr(self._start, field.name))
        if made is bool:
            return st.checkbox(**self._words(field.name), value=value)
        return st.number_input(
            **self._words(field.name, low, high),
            value=value,
            min_value=None if low is None else made(low),
            max_value=None if high is None else made(high),
            step=1 if made is int else _step(field.name, value),
            format=None if made is int else "%g",
            # the starter takes a batch only as a whole
            disabled=field.name == "mini_batch_size" and self._start.base == STARTER,
        )

    def _words(self, name: str, low: float | None = None, high: float | None = None) -> dict[str, Any]:
        help_text = word(f"option_help.{name}")
        if low is not None:
            key = "train.range" if high is not None else "train.range_open"
            help_text += " " + word(key, low=_number(low), high=_number(high or 0))
        # kept for the session: a look at another page loses nothing that was entered
        key = f"{self._key}_{name}"
        return {"label": word(f"option.{name}"), "help": help_text, "key": key, "persist_state": "session"}


def _made(field: "Field[Any]") -> Any:
    return type(field.default)


def _step(name: str, value: float) -> float:
    if name == "learning_rate":
        return float(f"{value / 2:.0e}")
    return 1.0 if name == "epochs" else 0.05


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
