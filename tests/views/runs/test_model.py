"""A finished model on its way out: the download says how to load it, and a push keeps no token."""

import json
import re

import pytest
from streamlit.testing.v1 import AppTest

from data.workspace import PROJECT
from tests.views.driving import run
from tests.views.train.worlds import EN, click, done_run, texts
from training.options.rankers import BI_ENCODER, CROSS_ENCODER
from training.runs.push import PushError
from training.runs.runs import Run
from views.runs import list as run_list
from views.ui.words import catalog

TOKEN = "hf_very_secret"  # noqa: S105 - nobody's
LOADERS = {BI_ENCODER: "load_bi_encoder", CROSS_ENCODER: "load_cross_encoder"}  # of starters
PUSH = PROJECT / "training" / "runs" / "push.py"


def made_of(module: str, kind: str = BI_ENCODER) -> Run:
    """A finished training whose model begins with a module of this type."""
    made = done_run(kind)
    (made.model_folder / "modules.json").write_text(json.dumps([{"type": module}]), encoding="utf-8")
    return made


@pytest.fixture
def pretrained() -> Run:
    return made_of("sentence_transformers.models.Transformer")


def pushed(app: AppTest, made: Run, repository: str = "me/model") -> AppTest:
    if not app.get("dialog"):
        click(run(app), f"push_{made.id}")
    app.text_input(key=f"push_repository_{made.id}").set_value(repository)
    next(field for field in app.text_input if field.label == EN["train.push_token"]).set_value(TOKEN)
    next(button for button in app.button if button.label == EN["train.push_now"]).click()
    return run(app)


def test_the_download_of_a_plain_model_comes_with_the_lines_that_load_it(app: AppTest, pretrained: Run) -> None:
    (snippet,) = (code.value for code in run(app).code)
    assert snippet.splitlines() == [
        "from sentence_transformers import SentenceTransformer",
        'model = SentenceTransformer("path/of/the/folder")',
    ]
    assert EN["train.load"] in texts(app)


@pytest.mark.parametrize(("kind", "loader"), LOADERS.items())
def test_a_starter_says_that_it_needs_this_program_and_goes_to_no_hub(app: AppTest, kind: str, loader: str) -> None:
    made = made_of("models.starter.StarterEmbedding", kind)
    (snippet,) = (code.value for code in run(app).code)
    assert f"model = {loader}(find_model(" in snippet
    assert EN["train.load_starter"] in texts(app)
    button = app.button(key=f"push_{made.id}")
    assert (button.disabled, button.help) == (True, EN["train.push_starter"])


def test_what_is_entered_is_what_is_pushed_and_the_token_is_forgotten(
    app: AppTest, pretrained: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[tuple[Run, str, str, bool]] = []

    def push(made: Run, repository: str, token: str, *, private: bool) -> str:
        calls.append((made, repository, token, private))
        return "https://hub.example/me/model"

    monkeypatch.setattr(run_list, "push", push)
    with caplog.at_level("DEBUG"):
        pushed(app, pretrained)
    assert calls == [(pretrained, "me/model", TOKEN, True)]
    assert EN["train.pushed"] in [box.value for box in app.success]
    assert "https://hub.example/me/model" in [code.value for code in app.code]
    assert TOKEN not in repr(app.session_state)
    assert [field.value for field in app.text_input if field.label == EN["train.push_token"]] == [""]
    assert TOKEN not in caplog.text
    assert not [path for path in pretrained.folder.rglob("*") if path.is_file() and TOKEN in path.read_text()]


def test_a_push_that_failed_says_why_and_what_to_do(
    app: AppTest, pretrained: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def push(made: Run, repository: str, token: str, *, private: bool) -> str:
        raise PushError("no_permission", "no")

    monkeypatch.setattr(run_list, "push", push)
    pushed(app, pretrained, "*them*/model")
    assert EN["push.no_permission"].format(repository="\\*them\\*/model") in [box.value for box in app.error]
    assert TOKEN not in repr(app.session_state)


def test_a_hub_that_cannot_be_reached_is_told(app: AppTest, pretrained: Run) -> None:
    pushed(app, pretrained)
    assert EN["push.unreachable"] in [box.value for box in app.error]


@pytest.mark.parametrize("language", ["ko", "en"])
def test_every_reason_has_words(language: str) -> None:
    codes = set(re.findall(r'PushError\(\s*"([a-z_]+)"', PUSH.read_text(encoding="utf-8")))
    assert "unreachable" in codes
    assert {f"push.{code}" for code in codes} <= set(catalog(language))
