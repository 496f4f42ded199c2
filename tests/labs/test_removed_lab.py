"""Deleting the folder of a lab removes it; the rest of the program works."""

import json
import shutil
from pathlib import Path

import pytest

from tests.labs.copies import ROOMS, copy_program, run_command, run_python

MODULES = """
import importlib, json, sys
from pathlib import Path
rooms = sys.argv[1].split(",")
names = [
    ".".join(["mrc_workbench", *path.with_suffix("").parts]).removesuffix(".__init__")
    for room in rooms if room != "mrc_workbench" for path in Path(room).rglob("*.py")
    if "scripts" not in path.parts
]
for name in names:
    importlib.import_module(name)
print(len(names))
"""
PAGES = """
import json
from streamlit.testing.v1 import AppTest
from mrc_workbench.workbench.views.navigation import PAGES

def page(name):
    from importlib import import_module
    from mrc_workbench.workbench.views.navigation import PAGES
    from mrc_workbench.workbench.views.resources.sets import require_set
    require_set()
    import_module(next(page for page in PAGES if page.name == name).module).draw()

drawn = {}
for opened in PAGES:
    app = AppTest.from_function(page, args=(opened.name,), default_timeout=60).run()
    assert not app.exception, (opened.name, app.exception)
    drawn[opened.name] = len(app.main)
print(json.dumps(drawn))
"""


@pytest.mark.slow
def test_program_works_without_the_language_lab(tmp_path: Path) -> None:
    program = copy_program(tmp_path / "program")
    workspace = tmp_path / "workspace"
    shutil.rmtree(program / "labs" / "language")
    for name, content in (("modules.py", MODULES), ("pages.py", PAGES)):
        (program / name).write_text(content, encoding="utf-8")
    done = run_python(program, "modules.py", ",".join(ROOMS), workspace=workspace)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) > 200
    done = run_python(program, "pages.py", workspace=workspace)
    assert done.returncode == 0, done.stderr
    element_counts = json.loads(done.stdout.splitlines()[-1])
    assert element_counts.keys() == {"compare", "data", "train", "search", "answers", "embeddings"}
    assert all(element_counts.values())
    assert "Compare tokenizers" not in run_command(program, "--help", workspace=workspace)
    assert "masked" in run_command(program, "train", "language-model", "--help", workspace=workspace)
