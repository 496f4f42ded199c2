"""Retrieved passages as HTML and side by side: whatever a user wrote is escaped here, and only here."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.text.marking import MarkedText, Piece
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.explain.encoders import LateExplanation
from mrc_workbench.retrieval.rankings import Findings
from mrc_workbench.retrieval.report.charts import LETTERS, PALETTE, colour_of, shape_of
from mrc_workbench.retrieval.report.words import retriever_name, retriever_names
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.words import language, word

_STYLE = Path(__file__).with_name("found.css")
MOST = 4  # that fit side by side, and that `found.css` knows


@dataclass(frozen=True)
class Hit:
    """One passage found, as it is shown. `notes` are plain texts; `before` is its rank before it was reranked."""

    rank: int
    score: str
    passage_id: str
    title: MarkedText
    text: MarkedText
    relevant: bool
    notes: Sequence[str] = ()
    before: int | None = None
    confuser: bool = False  # of the article the question is about, and yet no answer


def draw_style() -> None:
    st.html(_STYLE)


def head_html(name: str, every: Sequence[str], truth: str, does: str = "") -> str:
    """Return a column's head. `every` are the stored names of all retrievers: their order decides the colours."""
    line = f'<div class="does">{escape(does)}</div>' if does else ""
    line += f'<div class="truth">{escape(truth)}</div>' if truth else ""
    called = f'{_mark(shape_of(name, every))}<span class="name">{escape(_display_name(name, every))}</span>'
    return f'<div class="found-head" style="--own:{colour_of(name, every)}">{called}{line}</div>'


def _display_name(name: str, every: Sequence[str]) -> str:
    return retriever_names([*every, name], language())[name]


def _mark(shape: str) -> str:
    return f'<span class="mark" aria-hidden="true">{LETTERS[shape]}</span>'


def legend_html(*, truth: bool) -> str:
    matched = f"<span><mark>{escape(word('search.legend_match'))}</mark></span>"
    known = f"<span><u>{escape(word('search.legend_answer'))}</u></span>" if truth else ""
    return f'<div class="found-legend">{matched}{known}</div>'


def reason_html(name: str, every: Sequence[str], sentence: str) -> str:
    called = f"{_mark(shape_of(name, every))}<b>{escape(_display_name(name, every))}</b>"
    return f'<p class="reason" style="--own:{colour_of(name, every)}">{called} {escape(sentence)}</p>'


def weighed_html(title: Sequence[Piece], text: Sequence[Piece], *, gold: bool) -> str:
    """Return a passage whose letters are shaded by what they add to its score, those below 0 otherwise."""
    most = max((abs(weight) for _, weight in (*title, *text)), default=0.0) or 1.0

    def weighed(text: str, weight: float) -> str:
        if not weight:
            return escape(text)
        kind, strength = "plus" if weight > 0 else "minus", f"{10 + 50 * abs(weight) / most:.0f}%"
        return f'<span class="{kind}" style="--strength:{strength}" title="{weight:+.3f}">{escape(text)}</span>'

    head, body = ("".join(weighed(*piece) for piece in pieces) for pieces in (title, text))
    return f'<div class="found weighed">{_passage_html(head, body, gold=gold)}</div>'


def _passage_html(title: str, text: str, *, gold: bool) -> str:
    kind = ' class="gold"' if gold else ""
    return f'<div{kind}><div class="title">{title}</div><p>{text}</p></div>'


def matches_html(explained: LateExplanation, *, gold: bool = False) -> str:
    """Return a question and a passage, what answered each other in one colour and with one number, its index in `told`.

    The fuller a colour, the more its match stands out.
    """
    most = max((match.above for match in explained.told), default=0.0) or 1.0
    parts = (explained.asked_matches(), explained.title_matches(), explained.text_matches())
    asked, title, text = ("".join(_matched(*piece, explained, most) for piece in part) for part in parts)
    return f'<div class="found pairs"><p class="asked">{asked}</p>{_passage_html(title, text, gold=gold)}</div>'


def _matched(text: str, places: Sequence[int], explained: LateExplanation, most: float) -> str:
    if not places:
        return escape(text)
    matches = [explained.told[place] for place in places]
    strengths = [12 + 43 * max(0.0, match.above) / most for match in matches]  # percent, for dark and light alike
    colours = [
        f"color-mix(in srgb, {PALETTE[place % len(PALETTE)]} {strength:.0f}%, transparent)"
        for place, strength in zip(places, strengths, strict=True)
    ]
    width = 100 / len(colours)
    stops = ", ".join(f"{colour} {n * width:.0f}% {(n + 1) * width:.0f}%" for n, colour in enumerate(colours))
    said = "\n".join(
        f"{place + 1}: {explained.question[slice(*match.asked)]} → {explained.passage.text[slice(*match.answered)]} "
        f"({match.cosine:.3f})"
        for place, match in zip(places, matches, strict=True)
    )
    numbers = ",".join(str(place + 1) for place in places)
    style = f"background: linear-gradient(90deg, {stops})"
    return f'<span style="{style}" title="{escape(said)}">{escape(text)}<sup>{numbers}</sup></span>'


def draw_matches(sides: Mapping[str, LateExplanation]) -> None:
    """Draw a row a piece of the question, and what answered it in each passage; sides are called `why.match_SIDE`."""
    first = next(iter(sides.values()))
    table = pd.DataFrame({"asked": [first.question[slice(*match.asked)] for match in first.told]})
    columns = {
        "number": tables.number("why.match_number", width=45, pinned=True),
        "asked": tables.text("why.match_asked", width=115, pinned=True),
    }
    for side, explained in sides.items():
        table[side] = [explained.passage.text[slice(*match.answered)] for match in explained.told]
        table[f"{side}_cosine"] = [match.cosine for match in explained.told]
        columns |= {side: tables.text(f"why.match_{side}"), f"{side}_cosine": tables.number("why.match_cosine", "%.3f")}
    table["number"] = range(1, len(table) + 1)
    tables.draw(table, columns)


def hits_html(hits: Sequence[Hit]) -> str:
    items = []
    for hit in hits:
        title = marked_html(hit.title, 0, len(hit.title.text))
        top = (
            f'<div class="top"><span class="rank">{hit.rank}</span>'
            f'<span class="title">{title} <small>{escape(hit.passage_id)}</small></span>'
            f'<span class="score">{escape(hit.score)}</span></div>'
        )
        gold = ' class="gold"' if hit.relevant else ""
        items.append(f'<div role="listitem"{gold}>{top}{_notes(hit)}{_text(hit.text)}</div>')
    return f'<div class="found" role="list">{"".join(items)}</div>'


def marked_html(text: MarkedText, start: int, end: int) -> str:
    found = []
    for piece, matches, answers in text.pieces(start, end):
        html = f"<u>{escape(piece)}</u>" if answers else escape(piece)
        found.append(f"<mark>{html}</mark>" if matches else html)
    return "".join(found)


def _notes(hit: Hit) -> str:
    notes = [f'<span class="truth">✔ {escape(word("search.gold"))}</span>'] if hit.relevant else []
    if hit.confuser:
        notes.append(f'<span class="confuser">≈ {escape(word("why.confuser"))}</span>')
    if hit.before is not None:
        notes.append(_moved(hit.before, hit.rank))
    notes += [f'<span class="parts">{escape(note)}</span>' for note in hit.notes]
    return f'<div class="notes">{"".join(notes)}</div>' if notes else ""


def _moved(before: int, after: int) -> str:
    if before == after:
        return f'<span class="moved">＝ {escape(word("search.not_moved"))}</span>'
    sign = f"▲{before - after}" if after < before else f"▼{after - before}"
    label = escape(word("search.moved", before=before, after=after))
    ranks = f"<small>{before}→{after}</small>"
    return f'<span class="moved" role="img" title="{label}" aria-label="{label}">{sign} {ranks}</span>'


def _text(text: MarkedText) -> str:
    start, end = text.excerpt
    whole = marked_html(text, 0, len(text.text))
    if (start, end) == (0, len(text.text)):
        return f"<p>{whole}</p>"
    before, after = "… " if start else "", " …" if end < len(text.text) else ""
    more, less = escape(word("search.show_all")), escape(word("search.show_less"))
    return (
        f'<p class="excerpt">{before}{marked_html(text, start, end)}{after}</p>'
        f'<details><summary><span class="more">{more}</span><span class="less">{less}</span></summary>'
        f"<p>{whole}</p></details>"
    )


def switch_html(names: Sequence[str], every: Sequence[str], ranks: Sequence[int | None], key: str) -> str:
    """Return the names by which a narrow screen switches between columns, of which it shows one (`found.css`).

    `ranks` are those of the first answer passage of each, None if not found.
    """
    picks = []
    for place, (name, rank) in enumerate(zip(names, ranks, strict=True)):
        first = f" <small>✔{rank}</small>" if rank else ""
        checked = "" if place else " checked"
        picks.append(
            f'<label style="--own:{colour_of(name, every)}">'
            f'<input type="radio" name="{escape(key)}" value="{place}"{checked}>'
            f"{_mark(shape_of(name, every))}{escape(_display_name(name, every))}{first}</label>"
        )
    said = escape(word("search.switch"))
    return f'<div class="found-switch" role="radiogroup" aria-label="{said}">{"".join(picks)}</div>'


def side_by_side(
    names: Sequence[str], every: Sequence[str], ranks: Sequence[int | None], key: str, *, wide: int = 0
) -> list[DeltaGenerator]:
    """Return a column for each of a few retrievers, each as narrow as one of `wide` if that is more.

    A narrow screen shows the names above them, and only the selected column, without drawing anew.
    """
    with st.container(key=f"beside_{key}"):
        st.html(switch_html(names, every, ranks, key))
        return st.columns(max(wide, len(names)))[: len(names)]


def card(key: str) -> DeltaGenerator:
    return st.container(key=f"card_{key}", gap=None)


def hit(
    spec: Spec,
    found: Mapping[str, Findings],
    row: int,
    passage_id: str,
    texts: tuple[MarkedText, MarkedText],
    *,
    relevant: bool,
    confuser: bool = False,
) -> Hit:
    """Return the passage at `row` as a retriever found it; `found` also holds, by name, what those it wraps found."""
    place = found[spec.name].rows.index(row)
    ranks = {part: found[part].rank_of(row) if part in found else None for part in spec.parts}
    said = []
    for part, rank in ranks.items():
        name = retriever_name(part, language())
        said.append(word("search.part_rank", name=name, rank=rank) if rank else word("search.part_missing", name=name))
    return Hit(
        rank=place + 1,
        score=f"{found[spec.name].scores[place]:.{spec.local.digits}f}",
        passage_id=passage_id,
        title=texts[0],
        text=texts[1],
        relevant=relevant,
        notes=[" · ".join(said)] if len(ranks) > 1 else [],
        before=next(iter(ranks.values())) if len(ranks) == 1 else None,
        confuser=confuser,
    )


def right_ranks(found: Findings, relevant: Collection[int]) -> list[int]:
    return sorted(rank for row in relevant if (rank := found.rank_of(row)))


def truth_line(found: Findings, relevant: Collection[int], depth: int) -> str:
    ranks = right_ranks(found, relevant)
    if not ranks:
        return word("search.gold_missing", depth=depth)
    if len(relevant) == 1:
        return word("search.gold_at", rank=ranks[0])
    return word("search.gold_several", found=len(ranks), wanted=len(relevant), ranks=", ".join(map(str, ranks)))
