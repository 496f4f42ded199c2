"""Driving a page without a browser."""

from collections.abc import Callable

from streamlit.testing.v1 import AppTest


def opened(page: Callable[[], None], **address: str) -> AppTest:
    """Open a page in English with these parameters in its address."""
    app = AppTest.from_function(page, default_timeout=60)
    app.query_params.update({"lang": "en", **address})
    return run(app)


def run(app: AppTest) -> AppTest:
    """Draw the page anew; it must not fail."""
    app.run()
    assert not app.exception
    return app
