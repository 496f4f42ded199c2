"""The key stands nowhere: not in the workspace, a log, an error, a list of processes, or anything taken away."""

import json
import logging
import traceback
from dataclasses import replace
from pathlib import Path

import pytest

from chat.endpoint import Endpoint
from data.workspace import workspace
from reading.by_retriever import generated_scores
from reading.generate import Batch, generate
from reading.rules import Rules, write_predictions
from tests.chat_server import AT_ONCE, EVENTS, KEY, Reply, chat_server, event
from tests.reading.generate.cities import GENERATOR, REQUESTS, SET, asked_of, right

TELLS = {
    "서울": Reply(400, {"error": {"message": f"{KEY} is too long"}}),
    "부산": Reply(500, {"error": {"message": KEY}}, AT_ONCE),
    "대구": Reply(200, event({"error": {"message": KEY}}), EVENTS),
    "인천": f"인천역 앞 [1] {KEY}",
    "광주": Reply(200, f"data: {KEY}\n\n", EVENTS),
}


def test_the_key_is_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("", *logging.Logger.manager.loggerDict):
        caplog.set_level(logging.DEBUG, logger=name)
    with chat_server(lambda text: TELLS.get(asked_of(text)) or right(text)) as server:
        endpoint = Endpoint(server.address, KEY)
        found = generate(GENERATOR, REQUESTS, endpoint)
        assert set(server.keys) == {f"Bearer {KEY}"}
        wrong = generate(replace(GENERATOR, temperature=1), REQUESTS, replace(endpoint, key=f"{KEY}-of-somebody"))
    assert found.failures.keys() == {"q0", "q1", "q2", "q4"}
    assert (found.answers["q3"].said, wrong.left) == ("인천역 앞 [1] …", 10)
    write_predictions({id_: one.prediction for id_, one in found.answers.items()}, tmp_path / "said.json")
    scores = generated_scores(SET, found.answers, Rules.KORQUAD)
    told = [repr((GENERATOR, endpoint, found, wrong, scores)), json.dumps(scores.means()), *errors(found, wrong)]
    told += [path.read_text(encoding="utf-8") for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.is_relative_to(tmp_path) for path in workspace().rglob("*.jsonl"))
    for secret in (KEY, server.address, server.address.split("/")[2]):
        assert secret not in "\n".join([*told, caplog.text])


def errors(*batches: Batch) -> list[str]:
    """All that anybody can tell of what went wrong."""
    every = [error for one in batches for error in (*one.failures.values(), one.ended) if error]
    assert len(every) == 5
    return [text for error in every for text in (*traceback.format_exception(error), str(error.as_dict()))]
