"""`python -m tests.retrieval.export.scripts JSON`: runs scripts of folders, which need no workbench."""

import json
import os
import runpy
import sys
from collections.abc import Iterable

END = "\x1e\n"  # of what a script writes


def run_each(calls: Iterable[list[str]]) -> None:
    """Run scripts, each with the engine's address and its words. Raises `SystemExit` for the first that fails."""
    for folder, url, *words in calls:
        os.environ["ENGINE_URL"] = url
        sys.argv = ["engine.py", *words]
        try:
            runpy.run_path(folder + "/engine.py", run_name="__main__")
        except SystemExit as ended:
            if ended.code:
                raise
        sys.stdout.write(END)
        sys.stdout.flush()


if __name__ == "__main__":
    run_each(json.loads(sys.argv[1]))
