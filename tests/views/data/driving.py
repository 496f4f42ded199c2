"""What every test of the Data page does."""

import re

from streamlit.testing.v1 import AppTest

from tests.views.driving import run


def press(app: AppTest, key: str) -> AppTest:
    app.button(key=key).click()
    return run(app)


def keys(app: AppTest) -> set[str]:
    return {button.key for button in app.button if button.key}


def texts(app: AppTest) -> str:
    """Everything the page says, as Markdown shows it."""
    kinds = (app.markdown, app.caption, app.header, app.subheader, app.error, app.warning, app.info, app.success)
    return re.sub(r"\\(.)", r"\1", "\n".join(element.value for kind in kinds for element in kind))
