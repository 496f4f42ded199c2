"""Retrieved passages as HTML, also side by side. Only this module escapes texts of users."""

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
from mrc_workbench.retrieval.rankings import QueryHits
from mrc_workbench.retrieval.report.charts import MARK_CHARACTERS, PALETTE, colour_of, shape_of
from mrc_workbench.retrieval.report.words import display_name, display_names
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.words import language, word

_STYLE = Path(__file__).with_name("results.css")
MOST = 4  # columns side by side: `results.css` has rules for so many


@dataclass(frozen=True)
class HitCard:
    """A displayed hit. `notes` are plain texts; `before` is its rank before reranking."""

    rank: int
    score: str
    passage_id: str
    title: MarkedText
    text: MarkedText
    relevant: bool
    notes: Sequence[str] = ()
    before: int | None = None
    confuser: bool = False  # from the article of the answer, but not an answer


def draw_style() -> None:
    st.html(_STYLE)


def _name_html(name: str, all_names: Sequence[str], tag: str) -> tuple[str, str]:
    """Return a retriever's mark and name in a tag, and its colour as a style; `all_names` as in `head_html`."""
    display_name = escape(display_names([*all_names, name], language())[name])
    mark = f'<span class="mark" aria-hidden="true">{MARK_CHARACTERS[shape_of(name, all_names)]}</span>'
    opening, closing = (f"<{tag}>", f"</{tag.split(maxsplit=1)[0]}>") if tag else ("", "")
    return f"{mark}{opening}{display_name}{closing}", f"--own:{colour_of(name, all_names)}"


def head_html(name: str, all_names: Sequence[str], truth: str, description: str = "") -> str:
    """Return the header of a column. The order of `all_names`, the stored names, decides the colours."""
    line = f'<div class="does">{escape(description)}</div>' if description else ""
    line += f'<div class="truth">{escape(truth)}</div>' if truth else ""
    display_name, style = _name_html(name, all_names, 'span class="name"')
    return f'<div class="results-head" style="{style}">{display_name}{line}</div>'


def legend_html(*, truth: bool) -> str:
    matched = f"<span><mark>{escape(word('search.legend_match'))}</mark></span>"
    known = f"<span><u>{escape(word('search.legend_answer'))}</u></span>" if truth else ""
    return f'<div class="results-legend">{matched}{known}</div>'


def reason_html(name: str, all_names: Sequence[str], sentence: str) -> str:
    display_name, style = _name_html(name, all_names, "b")
    return f'<p class="reason" style="{style}">{display_name} {escape(sentence)}</p>'


def shaded_html(title: Sequence[Piece], text: Sequence[Piece], *, gold: bool) -> str:
    """Return a passage with each piece shaded by its part of the score; negative parts have another colour."""
    most = max((abs(weight) for _, weight in (*title, *text)), default=0.0) or 1.0

    def shaded(text: str, weight: float) -> str:
        if not weight:
            return escape(text)
        kind = "plus" if weight > 0 else "minus"
        strength = f"{10 + 50 * abs(weight) / most:.0f}%"
        return f'<span class="{kind}" style="--strength:{strength}" title="{weight:+.3f}">{escape(text)}</span>'

    head, body = ("".join(shaded(*piece) for piece in pieces) for pieces in (title, text))
    return f'<div class="results weighed">{_passage_html(head, body, gold=gold)}</div>'


def _passage_html(title: str, text: str, *, gold: bool) -> str:
    kind = ' class="gold"' if gold else ""
    return f'<div{kind}><div class="title">{title}</div><p>{text}</p></div>'


def matches_html(explained: LateExplanation, *, gold: bool = False) -> str:
    """Return a question and a passage; matching pieces share a colour and a number. Stronger matches are darker."""
    most = max((match.above for match in explained.visible_matches), default=0.0) or 1.0
    parts = (explained.question_matches(), explained.title_matches(), explained.text_matches())
    question, title, text = ("".join(_matched(*piece, explained, most) for piece in part) for part in parts)
    return f'<div class="results pairs"><p class="question">{question}</p>{_passage_html(title, text, gold=gold)}</div>'


def _matched(text: str, indices: Sequence[int], explained: LateExplanation, most: float) -> str:
    if not indices:
        return escape(text)
    width = 100 / len(indices)
    stops = []
    lines = []
    for number, index in enumerate(indices):
        match = explained.visible_matches[index]
        strength = 12 + 43 * max(0.0, match.above) / most  # percent, for dark and light alike
        colour = f"color-mix(in srgb, {PALETTE[index % len(PALETTE)]} {strength:.0f}%, transparent)"
        stops.append(f"{colour} {number * width:.0f}% {(number + 1) * width:.0f}%")
        question_piece = explained.question[slice(*match.question_span)]
        answered = explained.passage.text[slice(*match.passage_span)]
        lines.append(f"{index + 1}: {question_piece} → {answered} ({match.cosine:.3f})")
    numbers = ",".join(str(index + 1) for index in indices)
    style = f"background: linear-gradient(90deg, {', '.join(stops)})"
    title = escape("\n".join(lines))
    return f'<span style="{style}" title="{title}">{escape(text)}<sup>{numbers}</sup></span>'


def draw_matches(sides: Mapping[str, LateExplanation]) -> None:
    """Draw a row for each piece of the question with its match in each passage; `why.match_SIDE` titles a side."""
    first = next(iter(sides.values()))
    table = pd.DataFrame({"question": [first.question[slice(*match.question_span)] for match in first.visible_matches]})
    columns = {
        "number": tables.number("why.match_number", width=45, pinned=True),
        "question": tables.text("why.match_question", width=115, pinned=True),
    }
    for side, explained in sides.items():
        table[side] = [explained.passage.text[slice(*match.passage_span)] for match in explained.visible_matches]
        table[f"{side}_cosine"] = [match.cosine for match in explained.visible_matches]
        columns |= {side: tables.text(f"why.match_{side}"), f"{side}_cosine": tables.number("why.match_cosine", "%.3f")}
    table["number"] = range(1, len(table) + 1)
    tables.draw(table, columns)


def hits_html(hits: Sequence[HitCard]) -> str:
    items = []
    for hit in hits:
        title = marked_html(hit.title, 0, len(hit.title.text))
        named = f'<span class="title">{title} <small>{escape(hit.passage_id)}</small></span>'
        rank = f'<span class="rank">{hit.rank}</span>'
        score = f'<span class="score">{escape(hit.score)}</span>'
        gold = ' class="gold"' if hit.relevant else ""
        top = f'<div class="top">{rank}{named}{score}</div>'
        items.append(f'<div role="listitem"{gold}>{top}{_notes(hit)}{_text(hit.text)}</div>')
    return f'<div class="results" role="list">{"".join(items)}</div>'


def marked_html(text: MarkedText, start: int, end: int) -> str:
    parts = []
    for piece, matches, answers in text.pieces(start, end):
        html = f"<u>{escape(piece)}</u>" if answers else escape(piece)
        parts.append(f"<mark>{html}</mark>" if matches else html)
    return "".join(parts)


def _notes(hit: HitCard) -> str:
    notes = [f'<span class="truth">✔ {escape(word("search.gold"))}</span>'] if hit.relevant else []
    if hit.confuser:
        notes.append(f'<span class="confuser">≈ {escape(word("why.confuser"))}</span>')
    if hit.before == hit.rank:
        notes.append(f'<span class="moved">＝ {escape(word("search.not_moved"))}</span>')
    elif hit.before is not None:
        steps = hit.before - hit.rank
        label = escape(word("search.moved", before=hit.before, after=hit.rank))
        sign = f"{'▲' if steps > 0 else '▼'}{abs(steps)} <small>{hit.before}→{hit.rank}</small>"
        notes.append(f'<span class="moved" role="img" title="{label}" aria-label="{label}">{sign}</span>')
    notes += [f'<span class="parts">{escape(note)}</span>' for note in hit.notes]
    return f'<div class="notes">{"".join(notes)}</div>' if notes else ""


def _text(text: MarkedText) -> str:
    start, end = text.excerpt
    whole = marked_html(text, 0, len(text.text))
    if (start, end) == (0, len(text.text)):
        return f"<p>{whole}</p>"
    before = "… " if start else ""
    after = " …" if end < len(text.text) else ""
    more = escape(word("search.show_all"))
    less = escape(word("search.show_less"))
    return (
        f'<p class="excerpt">{before}{marked_html(text, start, end)}{after}</p>'
        f'<details><summary><span class="more">{more}</span><span class="less">{less}</span></summary>'
        f"<p>{whole}</p></details>"
    )


def switch_html(names: Sequence[str], all_names: Sequence[str], ranks: Sequence[int | None], key: str) -> str:
    """Return buttons to switch between columns on a narrow screen, with the ranks of the first answer passages."""
    picks = []
    for index, (name, rank) in enumerate(zip(names, ranks, strict=True)):
        first = f" <small>✔{rank}</small>" if rank else ""
        checked = "" if index else " checked"
        display_name, style = _name_html(name, all_names, "")
        box = f'<input type="radio" name="{escape(key)}" value="{index}"{checked}>'
        picks.append(f'<label style="{style}">{box}{display_name}{first}</label>')
    label = escape(word("search.switch"))
    return f'<div class="results-switch" role="radiogroup" aria-label="{label}">{"".join(picks)}</div>'


def side_by_side(
    names: Sequence[str], all_names: Sequence[str], ranks: Sequence[int | None], key: str, *, wide: int = 0
) -> list[DeltaGenerator]:
    """Return a column for each retriever, of at least `wide` columns. A narrow screen shows only the selected one."""
    with st.container(key=f"beside_{key}"):
        st.html(switch_html(names, all_names, ranks, key))
        return st.columns(max(wide, len(names)))[: len(names)]


def hit_card(
    spec: Spec,
    findings: Mapping[str, QueryHits],
    row: int,
    passage_id: str,
    texts: tuple[MarkedText, MarkedText],
    *,
    relevant: bool,
    confuser: bool = False,
) -> HitCard:
    """Return the hit of a retriever at a corpus row; `findings` has the hits of its components as well."""
    index = findings[spec.name].rows.index(row)
    ranks = {part: findings[part].rank_of(row) if part in findings else None for part in spec.components}
    notes = []
    if len(ranks) > 1:
        part_texts = []
        for part, rank in ranks.items():
            key = "search.part_rank" if rank else "search.part_missing"
            part_texts.append(word(key, name=display_name(part, language()), rank=rank))
        notes = [" · ".join(part_texts)]
    before = next(iter(ranks.values())) if len(ranks) == 1 else None
    score = f"{findings[spec.name].scores[index]:.{spec.local_spec.digits}f}"
    return HitCard(index + 1, score, passage_id, *texts, relevant, notes, before, confuser)


def answer_ranks(findings: QueryHits, relevant: Collection[int]) -> list[int]:
    return sorted(rank for row in relevant if (rank := findings.rank_of(row)))


def first_answer_rank(findings: QueryHits, relevant: Collection[int]) -> int | None:
    return next(iter(answer_ranks(findings, relevant)), None)


def answer_rank_text(findings: QueryHits, relevant: Collection[int], depth: int) -> str:
    ranks = answer_ranks(findings, relevant)
    if not ranks:
        return word("search.gold_missing", depth=depth)
    if len(relevant) == 1:
        return word("search.gold_at", rank=ranks[0])
    return word("search.gold_several", hits=len(ranks), total=len(relevant), ranks=", ".join(map(str, ranks)))
