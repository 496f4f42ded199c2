"""What of an evaluation can be taken away: the figures, and every answer in the form of the published scripts."""

import io
import json
import re
import zipfile

import streamlit as st

from views.reading.evaluation_view import ReadingView
from views.reading.figures import long_table
from views.ui import tables
from views.ui.words import word


def draw(view: ReadingView) -> None:
    """Draw the buttons."""
    tables.draw_csv("answers.csv", lambda: long_table(view), "answers.csv", "answers_csv")
    _button("json", lambda: json.dumps(view.told, ensure_ascii=False, indent=2), "scores.json", "application/json")
    _button("predictions", lambda: predictions(view), "predictions.zip", "application/zip")


def predictions(view: ReadingView) -> bytes:
    """Return a zip of a file for each retriever and K: an answer by question id, as KorQuAD's script reads them."""
    ids, archive = [question.id for question in view.asked.questions], io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as files:
        for number, (name, answered) in enumerate(view.answered.items(), start=1):
            plain_name = re.sub(r"[^\w-]+", "-", name).strip("-").lower()[:40]
            for place, k in enumerate(view.ks):
                said = dict(zip(ids, answered.answers(place), strict=True))
                files.writestr(f"{number:02}-{plain_name}-{k}.json", json.dumps(said, ensure_ascii=False, indent=1))
    return archive.getvalue()


def _button(name: str, content: object, file_name: str, kind: str) -> None:
    st.download_button(
        word(f"answers.{name}"),
        content,  # type: ignore[arg-type]
        file_name,
        kind,
        key=f"answers_{name}",
        on_click="ignore",
        icon=":material/download:",
        help=word("answers.predictions_help") if name == "predictions" else None,
    )
