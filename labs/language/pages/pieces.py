"""The views of tokenizers: their figures on text that they were not trained on, as a picture and as a table; one
sentence cut by all of them, side by side; and a word built by a BPE, merge by merge.

What a person or a vocabulary wrote is escaped.
"""

import shlex
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from html import escape
from io import BytesIO
from math import sqrt
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from mrc_workbench.data.text.corpora import LanguageError
from mrc_workbench.labs.language.comparison import Request
from mrc_workbench.labs.language.pages.resources import CutPiece, cut_text, steps_of
from mrc_workbench.labs.language.study import StoredTokenizer, TokenizerComparison, TokenizerRequest
from mrc_workbench.models.language.tokenizer_training import BOUNDARY, UNKNOWN, TokenizerKind
from mrc_workbench.models.language.tokenizers import Step
from mrc_workbench.retrieval.report.charts import READABLE, colour, legend, shape
from mrc_workbench.workbench.views.ui import charts, tables
from mrc_workbench.workbench.views.ui.charts import draw_chart, present, tips
from mrc_workbench.workbench.views.ui.state import choose, choose_named, typed
from mrc_workbench.workbench.views.ui.words import failure_text, plain, word

SHARES = ("unknown_rate", "unknown_words", "whole_words", "longer_than_512")
MEASURES = ("tokens_per_word", "tokens_per_character", "f1", "whole_words", "unknown_words", "longer_than_512")
_HIGHER = ("whole_words", "f1")  # is better; of all others, lower
_OF_WHO_KNOWS = ("tokens_per_word", "tokens_per_character", "longer_than_512", "f1")  # unknown words would look cheap
_HEIGHT = 340
_DASHES = ([1, 0], [6, 4])  # of the first split and of the second
_COLUMNS = (*MEASURES, "unknown_rate", "seconds")
MOST_UNKNOWN = 0.05  # share of words with an unknown piece: above it, few pieces are no merit


@dataclass(frozen=True)
class TokenizersView:
    """A comparison on the page: its request, its result, and display names of models."""

    request: TokenizerRequest
    comparison: TokenizerComparison
    tokenizers: Sequence[StoredTokenizer]
    models: Mapping[str, str]

    def name(self, one: StoredTokenizer) -> str:
        """Return a tokenizer's display name: not Markdown, a user may have named it."""
        if not one.is_trained:
            return self.models.get(one.measured.name, one.measured.name)
        trained = one.measured.trained
        return called_by(trained["kind"], trained["split"], trained["vocabulary"], self.request.compared)


def called_by(kind: str, split: str, vocabulary: int, asked: Request) -> str:
    told = [word(f"tokenizers.split_{split}")] if len(asked.splits) > 1 else []
    return " · ".join([word(f"tokenizers.kind_{kind}"), *told, f"{vocabulary:,}"])


def pick_tokenizer(
    view: TokenizersView, of: Mapping[str, StoredTokenizer], name: str, label: str, **look: Any
) -> StoredTokenizer:
    names = {one: view.name(kept) for one, kept in of.items()}
    return of[choose_named(name, label, names, next(iter(of)), **look)]


def draw_failed(name: str, error: Exception) -> None:
    failed = word("tokenizers.model_failed", model=plain(name), reason=plain(failure_text(error)))
    st.error(failed, icon=":material/error:")


def known_enough(one: StoredTokenizer) -> bool:
    """Whether a tokenizer knows enough words for its token counts to be comparable."""
    return one.figures.unknown_words <= MOST_UNKNOWN


def draw_figures(view: TokenizersView) -> None:
    table = figure_table(view)
    told, label = [one for one in MEASURES if table[one].notna().any()], word("tokenizers.measure")
    look: dict[str, Any] = {"format_func": lambda one: word(f"tokenizers.{one}"), "width": 300}
    measure = choose(st.selectbox, "tokenizer_measure", label, told, MEASURES[0], **look)
    _draw_picture(view, table, measure)
    _draw_table(view, table)
    _draw_downloads(view)


def figure_table(view: TokenizersView) -> pd.DataFrame:
    rows = []
    for one in view.tokenizers:
        trained, figures = one.measured.trained, asdict(one.figures)
        told = {name: figures[name] for name in (*SHARES, *MEASURES, "pieces")}
        names = {"name": view.name(one), "kind": view.name(one), "split": ""}
        if trained:
            names |= {part: word(f"tokenizers.{part}_{trained[part]}") for part in ("kind", "split")}
        more = {"seconds": figures["seconds_to_train"], "trained": bool(trained), "able": known_enough(one)}
        rows.append({**names, **told, **more})
    return pd.DataFrame(rows).astype(dict.fromkeys((*MEASURES, "seconds"), float))


def best_rows(table: pd.DataFrame, column: str) -> pd.Series:
    """Return which rows have the best value of a column; none if all are equal."""
    values = table[column].where(table["able"]) if column in _OF_WHO_KNOWS else table[column]
    best = values.max() if column in _HIGHER else values.min()
    found: pd.Series = (values == best) & (table[column].nunique() > 1)
    return found


def _draw_picture(view: TokenizersView, table: pd.DataFrame, measure: str) -> None:
    drawn = table.dropna(subset=[measure]).assign(value=lambda rows: rows[measure])
    if measure not in _OF_WHO_KNOWS:
        drawn["able"] = True
    kinds = [word(f"tokenizers.kind_{kind}") for kind in TokenizerKind]
    splits = [word(f"tokenizers.split_{split}") for split in view.request.compared.splits]
    columns, label = ["name", "kind", "split", "pieces", "value", "able"], word(f"tokenizers.{measure}")
    trained, models = (drawn.loc[drawn["trained"] == one, columns].reset_index(drop=True) for one in (True, False))
    draw_chart(by_size, trained, models, kinds, splits, y=label, share=measure in SHARES)
    if not drawn["able"].all():
        st.caption(word("tokenizers.hollow", share=f"{MOST_UNKNOWN:.0%}"))


def _draw_table(view: TokenizersView, table: pd.DataFrame) -> None:
    columns = {"kind": tables.text("tokenizers.tokenizer", pinned=True, width=145)}
    if len(view.request.compared.splits) > 1:
        columns["split"] = tables.text("tokenizers.split")
    columns["pieces"] = tables.number("tokenizers.pieces")
    columns |= {name: tables.number(f"tokenizers.{name}") for name in _COLUMNS}
    forms = {name: "{:.1%}" if name in SHARES else "{:.2f}" for name in _COLUMNS}
    styled = table.style.format({**forms, "pieces": "{:,}", "seconds": "{:.1f}"}, na_rep="–")
    for name in set(_COLUMNS) - {"unknown_rate"}:  # which kinds count differently
        best = [tables.BOLD if one else "" for one in best_rows(table, name)]
        styled = styled.apply(lambda _, best=best: best, subset=[name])
    tables.draw(styled, columns, placeholder="–")
    small = [one for one in view.tokenizers if one.figures.pieces < one.measured.trained.get("vocabulary", 0)]
    if small:
        st.caption(word("tokenizers.fewer_pieces", names=", ".join(plain(view.name(one)) for one in small)))


def _draw_downloads(view: TokenizersView) -> None:
    trained = {one.folder.name: one for one in view.tokenizers if one.is_trained}
    if trained:
        with st.container(horizontal=True, vertical_alignment="bottom"):
            label, explained = word("tokenizers.take"), word("tokenizers.take_help")
            folder = pick_tokenizer(view, trained, "tokenizer", label, help=explained, width=320).folder
            look: dict[str, Any] = {"key": "download_tokenizer", "on_click": "ignore", "icon": ":material/folder_zip:"}
            label, archive = word("tokenizers.download"), partial(zipped, folder)
            st.download_button(label, archive, f"{folder.name}.zip", "application/zip", **look)
    with st.expander(word("tokenizers.command")):
        st.code(command_of(view), language="bash", wrap_lines=True)


def zipped(folder: Path) -> bytes:
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, f"{folder.name}/{path.name}")
    return content.getvalue()


def command_of(view: TokenizersView) -> str:
    asked = view.request.compared
    words = ["python", "-m", "mrc_workbench", "language", "compare-tokenizers", "--data", view.request.data]
    words += ["--kind", *asked.kinds, "--split", *asked.splits, "--vocabulary", *map(str, asked.vocabularies)]
    for reference in asked.against:
        words += ["--against", reference]
    return shlex.join([*map(str, words), "--out", "tokenizers"])


def by_size(
    table: pd.DataFrame, models: pd.DataFrame, kinds: Sequence[str], splits: Sequence[str], *, y: str, share: bool
) -> alt.LayerChart:
    """One line a "kind" and "split" of "value" over "pieces", and a dashed rule for each of the `models`.

    Rows that are not "able" have a hollow mark. `kinds` are all kinds in their fixed order. A `share` is in percent.
    """
    axis = alt.Axis(format="%" if share else ".2~f", tickCount=5)
    up = alt.Y("value:Q", title=y, scale=alt.Scale(zero=False, padding=14), axis=axis)
    form, sizes = ".1%" if share else ".2f", ("pieces:Q", word("tokenizers.pieces"), ",")
    tooltip = tips(("name:N", word("tokenizers.tokenizer")), sizes, ("value:Q", y, form))
    layers: list[alt.Chart] = []
    if len(models):
        rules = alt.Chart(models).encode(y=up, tooltip=tooltip)
        names = rules.mark_text(align="left", baseline="bottom", dx=4, dy=-2, color=READABLE, fontSize=12)
        layers = [rules.mark_rule(strokeDash=[2, 3], strokeWidth=2, color=READABLE)]
        layers += [names.encode(x=alt.value(0), text="name:N")]
    if len(table):
        base = alt.Chart(table).encode(x=_sizes(table), y=up, tooltip=tooltip)
        drawn = present(kinds, table["kind"])
        told = legend(columns=1, symbolType="stroke", symbolSize=600) if len(splits) > 1 else None
        of_split = alt.Scale(domain=list(splits), range=list(_DASHES[: len(splits)]))
        dashes = alt.StrokeDash("split:N", scale=of_split, legend=told)
        tint = colour("kind", drawn, kinds, legend(columns=2, symbolOpacity=1))
        mark = shape("kind", drawn, kinds, legend(columns=2))
        filled = base.transform_filter("datum.able").mark_point(filled=True, size=80, opacity=1)
        hollow = base.transform_filter("!datum.able").mark_point(size=80, strokeWidth=2)
        layers += [
            base.mark_line(strokeWidth=2.5).encode(color=tint, detail="split:N", strokeDash=dashes),
            filled.encode(color=tint, shape=mark),
            hollow.encode(color=tint, shape=mark),
        ]
    every = pd.concat([table, models], ignore_index=True)
    rows = charts.values([*every["name"]], [*every["value"]], form)
    described = charts.describe(word("tokenizers.picture", measure=y), rows)
    return alt.layer(*layers).properties(height=_HEIGHT, description=described)


def _sizes(table: pd.DataFrame) -> alt.X:
    """Vocabulary sizes on a logarithmic scale over a factor of four at least, with ticks that do not overlap."""
    ticks: list[int] = []
    sizes = sorted(set(table["pieces"]))
    for size in sizes:
        if not ticks or size > 1.3 * ticks[-1]:
            ticks.append(size)
    axis = alt.Axis(values=ticks, format=",", labelAngle=0, grid=False)
    middle = sqrt(sizes[0] * sizes[-1])
    scale = {"domain": [min(sizes[0], middle / 2), max(sizes[-1], middle * 2)], "nice": False, "padding": 24}
    return alt.X("pieces:Q", title=word("tokenizers.pieces"), scale=alt.Scale(type="log", **scale), axis=axis)


SENTENCE = "세종대왕께서는 집현전 학자들과 함께 훈민정음을 만드셨다고 배웠습니다."
WORD = "도서관에서부터"
_STYLE = Path(__file__).with_name("pieces.css")
_LEADS = {"##": "##", "▁": "▁", BOUNDARY: "+"}  # what a piece begins with, and as what it is seen
_LETTERS, _LETTERS_OF_WORD = 300, 40
_OF_MERGES = (TokenizerKind.BPE, TokenizerKind.BYTE_BPE)
Cuts = Sequence[tuple[str, Sequence[CutPiece]]]


def draw_pieces(view: TokenizersView) -> None:
    answer = st.container()
    look: dict[str, Any] = {"max_chars": _LETTERS, "help": word("tokenizers.sentence_help")}
    text = typed(st.text_input, "cut", word("tokenizers.sentence"), SENTENCE, **look).strip()
    if not text:
        answer.info(word("tokenizers.type_sentence"), icon=":material/info:")
        return
    found: list[tuple[str, Sequence[CutPiece]]] = []
    for one in view.tokenizers:
        try:
            if pieces := cut_text(one, text):
                found.append((view.name(one), pieces))
        except LanguageError as error:
            draw_failed(view.name(one), error)
    if not found:
        return
    answer.markdown(_answer(found))
    st.html(_STYLE)
    frames = [cut_html(name, word("tokenizers.pieces_count", count=len(cut)), cut) for name, cut in found]
    st.html("".join(frames))
    st.caption(word("tokenizers.marks", documents=f"{view.comparison.counted:,}"))
    _draw_cuts(found)


def _answer(found: Cuts) -> str:
    """Return which tokenizers cut the text into the fewest and the most pieces, among those that know all of it."""
    able = [one for one in found if all(piece.known for piece in one[1])]
    ranked = able or found
    (least, few), (most, many) = (pick(ranked, key=lambda one: len(one[1])) for pick in (min, max))
    told = {"least": plain(least), "fewest": len(few), "most": plain(most), "count": len(many)}
    told["tokenizers"] = len(ranked)
    alike = "_alike" if len(few) == len(many) else ""
    key = f"sentence_answer{alike}" if len(ranked) > 1 else "sentence_answer_one"
    left_out = [word("tokenizers.sentence_unknown", count=len(found) - len(able))] if 0 < len(able) < len(found) else []
    return " ".join([word(f"tokenizers.{key}", **told), *left_out])


def _draw_cuts(found: Cuts) -> None:
    rows = [(name, seen(one.name), one.letters, one.number, one.occurrences) for name, cut in found for one in cut]
    columns = {
        "tokenizer": tables.text("tokenizers.tokenizer", "", width="medium"),
        "piece": tables.text("tokenizers.piece", ""),
        "letters": tables.text("tokenizers.letters", ""),
        "number": tables.number("tokenizers.number", "%d"),
        "occurrences": tables.number("tokenizers.occurrences", "localized"),
    }
    with st.expander(word("tokenizers.as_table")):
        tables.draw(pd.DataFrame(rows, columns=[*columns]), columns)


def draw_merges(view: TokenizersView) -> None:
    answer = st.container()
    able = {one.folder.name: one for one in view.tokenizers if one.measured.trained.get("kind") in _OF_MERGES}
    if not able:
        answer.info(word("tokenizers.no_bpe"), icon=":material/info:")
        return
    left, right = st.columns(2, vertical_alignment="bottom")
    with left:
        text = typed(st.text_input, "built", word("tokenizers.word"), WORD, max_chars=_LETTERS_OF_WORD).strip()
    with right:
        label, explained = word("tokenizers.of_bpe"), word("tokenizers.of_bpe_help")
        chosen = pick_tokenizer(view, able, "merges_of", label, help=explained)
    if not text:
        answer.info(word("tokenizers.type_word"), icon=":material/info:")
        return
    try:
        found = steps_of(chosen, text)
    except LanguageError as error:
        st.error(plain(failure_text(error)), icon=":material/error:")
        return
    last = found[-1]
    told = {"word": plain(text), "merges": len(found) - 1, "letters": len(found[0].pieces), "pieces": len(last.pieces)}
    answer.markdown(word("tokenizers.built", **told))
    _draw_steps(found)


def _draw_steps(found: Sequence[Step]) -> None:
    at = _pick_step(found) if len(found) > 1 else 0
    st.html(_STYLE)
    step, count = found[at], len(found[at].pieces)
    head = word("tokenizers.after_merges", merges=f"{step.merges:,}")
    st.html(names_html(head, word("tokenizers.pieces_count", count=count), step.pieces, step.joined))
    st.caption(word("tokenizers.merges_help"))
    if len(found) < 2:
        return
    rows = [(one.merges, *map(seen, one.pair), " · ".join(map(seen, one.pieces))) for one in found[1:]]
    columns = {
        "number": tables.number("tokenizers.merge", "localized"),
        "first": tables.text("tokenizers.first", ""),
        "second": tables.text("tokenizers.second", ""),
        "pieces": tables.text("tokenizers.word_then", "", width="large"),
    }
    made = [tables.BOLD if row < at else "" for row in range(len(rows))]
    tables.draw(pd.DataFrame(rows, columns=[*columns]).style.apply(lambda _: made), columns)


def _pick_step(found: Sequence[Step]) -> int:
    """Draw the slider over the merges that change the word."""

    def called(place: str) -> str:
        return f"{found[int(place)].merges:,}" if int(place) < len(found) else place

    places, label = [str(place) for place in range(len(found))], word("tokenizers.merges")
    return int(choose(st.select_slider, "merges", label, places, places[-1], follows=True, format_func=called))


def cut_html(name: str, note: str, pieces: Sequence[CutPiece]) -> str:
    """Return a text cut by a tokenizer, each piece in a frame with its details as a tooltip."""
    items = []
    for one in pieces:
        told = word("tokenizers.piece_told", name=seen(one.name), number=one.number, count=f"{one.occurrences:,}")
        lead, kind = (_parted(one.name), "") if one.known else ((f"{UNKNOWN} ", one.letters), "unknown")
        items.append(_item(*lead, kind, told))
    return _framed(name, note, items)


def names_html(name: str, note: str, names: Sequence[str], new: str = "") -> str:
    """Return pieces by their names; those named `new` are highlighted."""
    return _framed(name, note, [_item(*_parted(one), "new" if one == new else "", "") for one in names])


def seen(name: str) -> str:
    return "".join(_parted(name))


def _framed(name: str, note: str, items: Sequence[str]) -> str:
    head = f'<div class="of"><b>{escape(name)}</b><span>{escape(note)}</span></div>'
    return f'<div class="pieces">{head}<ol>{"".join(items)}</ol></div>'


def _item(lead: str, text: str, kind: str, told: str) -> str:
    small = f"<small>{escape(lead)}</small>" if lead else ""
    more = "".join(f' {name}="{escape(value)}"' for name, value in (("class", kind), ("title", told)) if value)
    return f"<li{more}>{small}{escape(text)}</li>"


def _parted(name: str) -> tuple[str, str]:
    lead = next((one for one in _LEADS if (name.startswith(one) and name != one) or name == one != "##"), "")
    return _LEADS.get(lead, ""), name.removeprefix(lead)
