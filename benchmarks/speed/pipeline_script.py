"""Answer questions with the question-answering pipeline of transformers 4: `MODEL PAIRS ANSWERS`.

Version 5 does not have this pipeline. A line on stdin starts a round over all pairs; its seconds are a line on stdout.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any


def main(model: str, pairs_file: str, answers_file: str) -> None:
    """Load the model, then process all pairs for each input line."""
    from transformers import PreTrainedTokenizerFast, pipeline  # type: ignore[import-untyped, unused-ignore]

    pairs = json.loads(Path(pairs_file).read_text(encoding="utf-8"))
    tokenizer = PreTrainedTokenizerFast.from_pretrained(model)  # version 5 saves a class that 4 does not know
    read: Any = pipeline("question-answering", model=model, tokenizer=tokenizer, device="cpu")
    settings: dict[str, Any] = {"align_to_words": False, "max_answer_len": 30}
    read(question=pairs[0][0], context=pairs[0][1], **settings)
    print("ready", flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        answers = [read(question=question, context=passage, **settings) for question, passage in pairs]
        seconds = time.perf_counter() - began
        spans = [[answer["start"], answer["end"]] for answer in answers]
        Path(answers_file).write_text(json.dumps(spans), encoding="utf-8")
        print(seconds, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
