"""`python -m tests.labs.copied_program FOLDER SCRIPT ...`: run a script in a fork, with a copy of the program."""

import os
import runpy
import sys

if __name__ == "__main__":
    folder, script, *words = sys.argv[1:]
    for name in [name for name in sys.modules if name.partition(".")[0] == "mrc_workbench"]:
        del sys.modules[name]
    os.environ.pop("MRC_FORK_SERVER", None)  # it has not imported the copy
    os.chdir(folder)
    sys.path.insert(0, folder)
    sys.argv = [script, *words]
    runpy.run_path(script, run_name="__main__")
