"""Deleting the folder of a lab removes it; the rest of the program works."""

import json
import shutil
from pathlib import Path

import pytest

from tests.labs.copies import ROOMS, copy_program, run_commands, run_python

PROGRAM = """
import importlib, json, sys
from pathlib import Path
from streamlit.testing.v1 import AppTest
from mrc_workbench.workbench.views.navigation import PAGES

def page(name):
    from importlib import import_module
    from mrc_workbench.workbench.views.navigation import PAGES
    from mrc_workbench.workbench.views.resources.sets import require_set
    require_set()
    import_module(next(page for page in PAGES if page.name == name).module).draw()

rooms = sys.argv[1].split(",")
names = [
    ".".join(["mrc_workbench", *path.with_suffix("").parts]).removesuffix(".__init__")
    for room in rooms if room != "mrc_workbench" for path in Path(room).rglob("*.py")
    if "scripts" not in path.parts
]
for name in names:
    importlib.import_module(name)
drawn = {}
for opened in PAGES:
    app = AppTest.from_function(page, args=(opened.name,), default_timeout=60).run()
    assert not app.exception, (opened.name, app.exception)
    drawn[opened.name] = len(app.main)
print(json.dumps({"modules": len(names), "pages": drawn}))
"""


@pytest.mark.slow
def test_program_works_without_the_language_lab(tmp_path: Path) -> None:
    program = copy_program(tmp_path / "program")
    shutil.rmtree(program / "labs" / "language")
    (program / "program.py").write_text(PROGRAM, encoding="utf-8")
    done = run_python(program, "program.py", ",".join(ROOMS), workspace=tmp_path)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout.splitlines()[-1])
    assert counts["modules"] > 200
    assert counts["pages"].keys() == {"compare", "data", "train", "search", "answers", "embeddings"}
    assert all(counts["pages"].values())
    commands = (("--help",), ("train", "language-model", "--help"))
    helped, described = run_commands(program, *commands, workspace=tmp_path)
    assert "Compare tokenizers" not in helped
    assert "masked" in described
