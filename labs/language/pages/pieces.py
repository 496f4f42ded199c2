"""Views of tokenizers: metrics on held-out text, a sentence split by all tokenizers, and the merges of a BPE."""

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
from mrc_workbench.labs.language.comparison import TokenizerGrid
from mrc_workbench.labs.language.pages.resources import CutPiece, cut_text, merge_steps
from mrc_workbench.labs.language.study import StoredTokenizer, TokenizerComparison, TokenizerRequest
from mrc_workbench.models.language.tokenizer_training import BOUNDARY, UNKNOWN, TokenizerKind
from mrc_workbench.models.language.tokenizers import MergeStep
from mrc_workbench.retrieval.report.charts import TEXT_COLOUR, colour, legend, shape
from mrc_workbench.workbench.views.ui import charts, tables
from mrc_workbench.workbench.views.ui.charts import draw_chart, names_in_column, tooltips
from mrc_workbench.workbench.views.ui.state import choose, choose_named, draw_text_field
from mrc_workbench.workbench.views.ui.words import failure_text, label_and_help, plain, word

FRACTIONS = ("unknown_rate", "unknown_words", "whole_words", "longer_than_512")
MEASURES = ("tokens_per_word", "tokens_per_character", "f1", "whole_words", "unknown_words", "longer_than_512")
_HIGHER_IS_BETTER = ("whole_words", "f1")
# comparable only without unknown words, which have few tokens
_NEEDS_KNOWN_WORDS = ("tokens_per_word", "tokens_per_character", "longer_than_512", "f1")
_HEIGHT = 340
_DASHES = ([1, 0], [6, 4])  # of the two splits
_COLUMNS = (*MEASURES, "unknown_rate", "seconds")
MAX_UNKNOWN_WORDS = 0.05  # fraction of words with an unknown token; above it, token counts are not comparable
SENTENCE = "세종대왕께서는 집현전 학자들과 함께 훈민정음을 만드셨다고 배웠습니다."
WORD = "도서관에서부터"
_PREFIXES = {"##": "##", "▁": "▁", BOUNDARY: "+"}  # prefixes of tokens, and how they are displayed
_MAX_SENTENCE_CHARACTERS = 300
_MAX_WORD_CHARACTERS = 40
_BPE_KINDS = (TokenizerKind.BPE, TokenizerKind.BYTE_BPE)
Cuts = Sequence[tuple[str, Sequence[CutPiece]]]


@dataclass(frozen=True)
class TokenizersView:
    """A comparison on the page: its request, its result, and display names of models."""

    request: TokenizerRequest
    comparison: TokenizerComparison
    tokenizers: Sequence[StoredTokenizer]
    models: Mapping[str, str]

    def name(self, tokenizer: StoredTokenizer) -> str:
        """Return a tokenizer's display name, which is not escaped for Markdown."""
        if not tokenizer.is_trained:
            return self.models.get(tokenizer.result.name, tokenizer.result.name)
        trained = tokenizer.result.training_options
        return tokenizer_name(trained["kind"], trained["split"], trained["vocabulary"], self.request.compared)


def tokenizer_name(kind: str, split: str, vocabulary: int, grid: TokenizerGrid) -> str:
    parts = [word(f"tokenizers.split_{split}")] if len(grid.splits) > 1 else []
    return " · ".join([word(f"tokenizers.kind_{kind}"), *parts, f"{vocabulary:,}"])


def pick_tokenizer(
    view: TokenizersView, tokenizers: Mapping[str, StoredTokenizer], name: str, **look: Any
) -> StoredTokenizer:
    names = {key: view.name(tokenizer) for key, tokenizer in tokenizers.items()}
    return tokenizers[choose_named(name, names=names, default=next(iter(tokenizers)), **look)]


def draw_failed(name: str, error: Exception) -> None:
    failed = word("tokenizers.model_failed", model=plain(name), reason=plain(failure_text(error)))
    st.error(failed, icon=":material/error:")


def knows_enough_words(tokenizer: StoredTokenizer) -> bool:
    return tokenizer.metrics.unknown_words <= MAX_UNKNOWN_WORDS


def draw_metrics(view: TokenizersView) -> None:
    table = metric_table(view)
    measures = [name for name in MEASURES if table[name].notna().any()]
    label = word("tokenizers.measure")
    look: dict[str, Any] = {"format_func": lambda name: word(f"tokenizers.{name}"), "width": 300}
    measure = choose(st.selectbox, "tokenizer_measure", label, measures, MEASURES[0], **look)
    _draw_chart(view, table, measure)
    _draw_table(view, table)
    _draw_downloads(view)


def metric_table(view: TokenizersView) -> pd.DataFrame:
    rows = []
    for tokenizer in view.tokenizers:
        options = tokenizer.result.training_options
        metrics = asdict(tokenizer.metrics)
        values = {name: metrics[name] for name in (*FRACTIONS, *MEASURES, "vocabulary_size")}
        values |= {"seconds": metrics["seconds_to_train"], "trained": bool(options)}
        values["is_comparable"] = knows_enough_words(tokenizer)
        names = {"name": view.name(tokenizer), "kind": view.name(tokenizer), "split": ""}
        if options:
            names |= {part: word(f"tokenizers.{part}_{options[part]}") for part in ("kind", "split")}
        rows.append({**names, **values})
    return pd.DataFrame(rows).astype(dict.fromkeys((*MEASURES, "seconds"), float))


def best_rows(table: pd.DataFrame, column: str) -> pd.Series:
    """Return which rows have the best value of a column; none if all are equal."""
    values = table[column].where(table["is_comparable"]) if column in _NEEDS_KNOWN_WORDS else table[column]
    best = values.max() if column in _HIGHER_IS_BETTER else values.min()
    is_best: pd.Series = (values == best) & (table[column].nunique() > 1)
    return is_best


def _draw_chart(view: TokenizersView, table: pd.DataFrame, measure: str) -> None:
    chart_data = table.dropna(subset=[measure]).assign(value=lambda rows: rows[measure])
    if measure not in _NEEDS_KNOWN_WORDS:
        chart_data["is_comparable"] = True
    kinds = [word(f"tokenizers.kind_{kind}") for kind in TokenizerKind]
    splits = [word(f"tokenizers.split_{split}") for split in view.request.compared.splits]
    columns = ["name", "kind", "split", "vocabulary_size", "value", "is_comparable"]
    label = word(f"tokenizers.{measure}")
    trained, models = (
        chart_data.loc[chart_data["trained"] == is_trained, columns].reset_index(drop=True)
        for is_trained in (True, False)
    )
    draw_chart(size_chart, trained, models, kinds, splits, y=label, is_fraction=measure in FRACTIONS)
    if not chart_data["is_comparable"].all():
        st.caption(word("tokenizers.hollow", fraction=f"{MAX_UNKNOWN_WORDS:.0%}"))


def _draw_table(view: TokenizersView, table: pd.DataFrame) -> None:
    columns = {"kind": tables.text("tokenizers.tokenizer", pinned=True, width=145)}
    if len(view.request.compared.splits) > 1:
        columns["split"] = tables.text("tokenizers.split")
    columns["vocabulary_size"] = tables.number("tokenizers.vocabulary_size")
    columns |= {name: tables.number(f"tokenizers.{name}") for name in _COLUMNS}
    forms = {name: "{:.1%}" if name in FRACTIONS else "{:.2f}" for name in _COLUMNS}
    styled = table.style.format({**forms, "vocabulary_size": "{:,}", "seconds": "{:.1f}"}, na_rep="–")
    for name in set(_COLUMNS) - {"unknown_rate"}:  # not comparable across kinds
        best = [tables.BOLD if item else "" for item in best_rows(table, name)]
        styled = styled.apply(lambda _, best=best: best, subset=[name])
    tables.draw(styled, columns, placeholder="–")
    trained = [item for item in view.tokenizers if item.is_trained]
    small = [item for item in trained if item.metrics.vocabulary_size < item.result.training_options["vocabulary"]]
    if small:
        st.caption(word("tokenizers.fewer_pieces", names=", ".join(plain(view.name(item)) for item in small)))


def _draw_downloads(view: TokenizersView) -> None:
    trained = {tokenizer.folder.name: tokenizer for tokenizer in view.tokenizers if tokenizer.is_trained}
    if trained:
        with st.container(horizontal=True, vertical_alignment="bottom"):
            folder = pick_tokenizer(view, trained, "tokenizer", width=320, **label_and_help("tokenizers.take")).folder
            look: dict[str, Any] = {"key": "download_tokenizer", "on_click": "ignore", "icon": ":material/folder_zip:"}
            archive = partial(zip_folder, folder)
            st.download_button(word("tokenizers.download"), archive, f"{folder.name}.zip", "application/zip", **look)
    with st.expander(word("tokenizers.command")):
        st.code(command_of(view), language="bash", wrap_lines=True)


def zip_folder(folder: Path) -> bytes:
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, f"{folder.name}/{path.name}")
    return content.getvalue()


def command_of(view: TokenizersView) -> str:
    grid = view.request.compared
    words = ["python", "-m", "mrc_workbench", "language", "compare-tokenizers", "--data", view.request.data]
    words += ["--kind", *grid.kinds, "--split", *grid.splits, "--vocabulary", *map(str, grid.vocabularies)]
    for reference in grid.against:
        words += ["--against", reference]
    return shlex.join([*map(str, words), "--out", "tokenizers"])


def size_chart(
    table: pd.DataFrame, models: pd.DataFrame, kinds: Sequence[str], splits: Sequence[str], *, y: str, is_fraction: bool
) -> alt.LayerChart:
    """One line for each "kind" and "split" of "value" over "vocabulary_size", and a dashed rule for each model.

    Rows that are not "is_comparable" have a hollow mark. `kinds` are all kinds in their fixed order.
    """
    axis = alt.Axis(format="%" if is_fraction else ".2~f", tickCount=5)
    up = alt.Y("value:Q", title=y, scale=alt.Scale(zero=False, padding=14), axis=axis)
    form = ".1%" if is_fraction else ".2f"
    sizes = ("vocabulary_size:Q", word("tokenizers.vocabulary_size"), ",")
    tooltip = tooltips(("name:N", word("tokenizers.tokenizer")), sizes, ("value:Q", y, form))
    layers: list[alt.Chart] = []
    if len(models):
        rules = alt.Chart(models).encode(y=up, tooltip=tooltip)
        names = rules.mark_text(align="left", baseline="bottom", dx=4, dy=-2, color=TEXT_COLOUR, fontSize=12)
        layers = [rules.mark_rule(strokeDash=[2, 3], strokeWidth=2, color=TEXT_COLOUR)]
        layers += [names.encode(x=alt.value(0), text="name:N")]
    if len(table):
        base = alt.Chart(table).encode(x=_size_axis(table), y=up, tooltip=tooltip)
        present_kinds = names_in_column(kinds, table["kind"])
        dash_legend = legend(columns=1, symbolType="stroke", symbolSize=600) if len(splits) > 1 else None
        of_split = alt.Scale(domain=list(splits), range=list(_DASHES[: len(splits)]))
        dashes = alt.StrokeDash("split:N", scale=of_split, legend=dash_legend)
        tint = colour("kind", present_kinds, kinds, legend(columns=2, symbolOpacity=1))
        mark = shape("kind", present_kinds, kinds, legend(columns=2))
        filled = base.transform_filter("datum.is_comparable").mark_point(filled=True, size=80, opacity=1)
        hollow = base.transform_filter("!datum.is_comparable").mark_point(size=80, strokeWidth=2)
        layers += [
            base.mark_line(strokeWidth=2.5).encode(color=tint, detail="split:N", strokeDash=dashes),
            filled.encode(color=tint, shape=mark),
            hollow.encode(color=tint, shape=mark),
        ]
    every = pd.concat([table, models], ignore_index=True)
    rows = charts.values([*every["name"]], [*every["value"]], form)
    described = charts.describe(word("tokenizers.picture", measure=y), rows)
    return alt.layer(*layers).properties(height=_HEIGHT, description=described)


def _size_axis(table: pd.DataFrame) -> alt.X:
    ticks: list[int] = []
    sizes = sorted(set(table["vocabulary_size"]))
    for size in sizes:
        if not ticks or size > 1.3 * ticks[-1]:
            ticks.append(size)
    axis = alt.Axis(values=ticks, format=",", labelAngle=0, grid=False)
    middle = sqrt(sizes[0] * sizes[-1])
    domain = [min(sizes[0], middle / 2), max(sizes[-1], middle * 2)]
    scale = alt.Scale(type="log", domain=domain, nice=False, padding=24)
    return alt.X("vocabulary_size:Q", title=word("tokenizers.vocabulary_size"), scale=scale, axis=axis)


_STYLE = Path(__file__).with_name("pieces.css")


def draw_pieces(view: TokenizersView) -> None:
    answer = st.container()
    look = label_and_help("tokenizers.sentence") | {"max_chars": _MAX_SENTENCE_CHARACTERS}
    text = draw_text_field(st.text_input, "cut", default=SENTENCE, **look).strip()
    if not text:
        answer.info(word("tokenizers.type_sentence"), icon=":material/info:")
        return
    cuts: list[tuple[str, Sequence[CutPiece]]] = []
    for tokenizer in view.tokenizers:
        try:
            if pieces := cut_text(tokenizer, text):
                cuts.append((view.name(tokenizer), pieces))
        except LanguageError as error:
            draw_failed(view.name(tokenizer), error)
    if not cuts:
        return
    answer.markdown(_cuts_answer(cuts))
    st.html(_STYLE)
    frames = [cut_html(name, word("tokenizers.pieces_count", count=len(cut)), cut) for name, cut in cuts]
    st.html("".join(frames))
    st.caption(word("tokenizers.marks", documents=f"{view.comparison.n_counted_documents:,}"))
    _draw_cuts(cuts)


def _cuts_answer(cuts: Cuts) -> str:
    complete = [cut for cut in cuts if all(piece.is_known for piece in cut[1])]
    ranked = complete or cuts
    (least, few), (most, many) = (pick(ranked, key=lambda cut: len(cut[1])) for pick in (min, max))
    values = {"least": plain(least), "fewest": len(few), "most": plain(most), "count": len(many)}
    values["tokenizers"] = len(ranked)
    alike = "_alike" if len(few) == len(many) else ""
    key = f"sentence_answer{alike}" if len(ranked) > 1 else "sentence_answer_one"
    sentences = [word(f"tokenizers.{key}", **values)]
    if 0 < len(complete) < len(cuts):
        sentences.append(word("tokenizers.sentence_unknown", count=len(cuts) - len(complete)))
    return " ".join(sentences)


def _draw_cuts(cuts: Cuts) -> None:
    rows = []
    for name, cut in cuts:
        rows += [(name, display_token(piece.name), piece.text, piece.number, piece.occurrences) for piece in cut]
    columns = {
        "tokenizer": tables.text("tokenizers.tokenizer", "", width="medium"),
        "piece": tables.text("tokenizers.piece", ""),
        "characters": tables.text("tokenizers.characters", ""),
        "number": tables.number("tokenizers.number", "%d"),
        "occurrences": tables.number("tokenizers.occurrences", "localized"),
    }
    with st.expander(word("tokenizers.as_table")):
        tables.draw(pd.DataFrame(rows, columns=[*columns]), columns)


def draw_merges(view: TokenizersView) -> None:
    answer = st.container()
    trained = [item for item in view.tokenizers if item.result.training_options.get("kind") in _BPE_KINDS]
    bpe_tokenizers = {tokenizer.folder.name: tokenizer for tokenizer in trained}
    if not bpe_tokenizers:
        answer.info(word("tokenizers.no_bpe"), icon=":material/info:")
        return
    left, right = st.columns(2, vertical_alignment="bottom")
    with left:
        label = word("tokenizers.word")
        text = draw_text_field(st.text_input, "built", label, WORD, max_chars=_MAX_WORD_CHARACTERS).strip()
    with right:
        selected = pick_tokenizer(view, bpe_tokenizers, "merges_of", **label_and_help("tokenizers.of_bpe"))
    if not text:
        answer.info(word("tokenizers.type_word"), icon=":material/info:")
        return
    try:
        steps = merge_steps(selected, text)
    except LanguageError as error:
        st.error(plain(failure_text(error)), icon=":material/error:")
        return
    counts = {"merges": len(steps) - 1, "characters": len(steps[0].pieces), "pieces": len(steps[-1].pieces)}
    answer.markdown(word("tokenizers.built", word=plain(text), **counts))
    _draw_steps(steps)


def _draw_steps(steps: Sequence[MergeStep]) -> None:
    index = _pick_step(steps) if len(steps) > 1 else 0
    st.html(_STYLE)
    step = steps[index]
    head = word("tokenizers.after_merges", merges=f"{step.merges:,}")
    st.html(names_html(head, word("tokenizers.pieces_count", count=len(step.pieces)), step.pieces, step.joined))
    st.caption(word("tokenizers.merges_help"))
    if len(steps) < 2:
        return
    rows = []
    for merge in steps[1:]:
        rows.append((merge.merges, *map(display_token, merge.pair), " · ".join(map(display_token, merge.pieces))))
    columns = {
        "number": tables.number("tokenizers.merge", "localized"),
        "first": tables.text("tokenizers.first", ""),
        "second": tables.text("tokenizers.second", ""),
        "pieces": tables.text("tokenizers.word_then", "", width="large"),
    }
    styles = [tables.BOLD if row < index else "" for row in range(len(rows))]
    tables.draw(pd.DataFrame(rows, columns=[*columns]).style.apply(lambda _: styles), columns)


def _pick_step(steps: Sequence[MergeStep]) -> int:
    def format_step(option: str) -> str:
        return f"{steps[int(option)].merges:,}" if int(option) < len(steps) else option

    options = [str(index) for index in range(len(steps))]
    label = word("tokenizers.merges")
    return int(choose(st.select_slider, "merges", label, options, options[-1], follows=True, format_func=format_step))


def cut_html(name: str, note: str, pieces: Sequence[CutPiece]) -> str:
    """Return a text split by a tokenizer, each token in a frame with its details as a tooltip."""
    items = []
    for piece in pieces:
        details = {"number": piece.number, "count": f"{piece.occurrences:,}"}
        tooltip = word("tokenizers.piece_details", name=display_token(piece.name), **details)
        prefix, text = _split_prefix(piece.name) if piece.is_known else (f"{UNKNOWN} ", piece.text)
        items.append(_item_html(prefix, text, "" if piece.is_known else "unknown", tooltip))
    return _frame_html(name, note, items)


def names_html(name: str, note: str, names: Sequence[str], new: str = "") -> str:
    """Return tokens by their names; those named `new` are highlighted."""
    items = [_item_html(*_split_prefix(token), "new" if token == new else "", "") for token in names]
    return _frame_html(name, note, items)


def display_token(name: str) -> str:
    return "".join(_split_prefix(name))


def _frame_html(name: str, note: str, items: Sequence[str]) -> str:
    head = f'<div class="of"><b>{escape(name)}</b><span>{escape(note)}</span></div>'
    return f'<div class="pieces">{head}<ol>{"".join(items)}</ol></div>'


def _item_html(prefix: str, text: str, kind: str, tooltip: str) -> str:
    small = f"<small>{escape(prefix)}</small>" if prefix else ""
    more = "".join(f' {name}="{escape(value)}"' for name, value in (("class", kind), ("title", tooltip)) if value)
    return f"<li{more}>{small}{escape(text)}</li>"


def _split_prefix(name: str) -> tuple[str, str]:
    matched = next((prefix for prefix in _PREFIXES if name.startswith(prefix) and name != "##"), "")
    return _PREFIXES.get(matched, ""), name.removeprefix(matched)
