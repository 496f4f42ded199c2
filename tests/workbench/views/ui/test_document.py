"""The document around the app, as it is served."""

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from mrc_workbench.workbench.views import navigation


@pytest.mark.parametrize(("base", "page"), [("", "/"), ("", "/data"), ("mrc", "/mrc"), ("mrc", "/mrc/data")])
def test_the_script_that_keeps_the_history_runs_before_the_app(
    base: str, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(navigation.st, "get_option", {"server.baseUrlPath": base}.__getitem__)
    browser = TestClient(Starlette(routes=navigation.document_routes(["data"])))
    answer = browser.get(page)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert 0 < answer.text.index("window.mrcDocument = true") < answer.text.index('<script type="module"')
    assert browser.get(f"{page}x").status_code == 404  # of no page: left to Streamlit
