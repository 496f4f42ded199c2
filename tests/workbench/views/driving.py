"""Driving a page without a browser."""

import re
from collections.abc import Callable
from typing import Any

import pandas as pd
from streamlit.testing.v1 import AppTest


def data_page() -> None:
    from mrc_workbench.workbench.views import sidebar
    from mrc_workbench.workbench.views.data import page

    sidebar.draw()
    page.draw()


def opened(page: Callable[[], None], **address: str) -> AppTest:
    """Open a page in English with these parameters in its address."""
    app = AppTest.from_function(page, default_timeout=60)
    app.query_params.update({"lang": "en", **address})
    return run(app)


def run(app: AppTest) -> AppTest:
    """Run the page again without an exception."""
    app.run()
    assert not app.exception
    return app


def unfolded(app: AppTest, *kinds: str) -> AppTest:
    """Draw all fields of the forms of these kinds of training, including collapsed ones."""
    folds = [f"train_{kind}_{fold}_open" for kind in kinds for fold in ("more", "hard_negatives")]
    for key in (*folds, "train_several_open", "train_ablation_open"):
        app.session_state[key] = True
    return app


def press(app: AppTest, key: str) -> AppTest:
    app.button(key=key).click()
    return run(app)


def keys(app: AppTest) -> set[str]:
    return {button.key for button in app.button if button.key}


def texts(app: AppTest) -> str:
    """Return all texts of the page, without Markdown escapes."""
    kinds = (app.markdown, app.caption, app.header, app.subheader, app.error, app.warning, app.info, app.success)
    return re.sub(r"\\(.)", r"\1", "\n".join(element.value for kind in kinds for element in kind))


def page_html(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def table_with(app: AppTest, column: str) -> pd.DataFrame:
    return next(element.value for element in app.dataframe if column in element.value)


def layers(chart: Any) -> list[dict[str, Any]]:
    """Return the layers of an Altair chart, or the chart if it has none."""
    spec = chart.to_dict()
    return [*spec.get("layer", [spec])]
