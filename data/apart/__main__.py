"""`python -m data.apart FOLDER` reads what the folder asks for; `--serve` waits for folders."""

import gc
import sys
from importlib import import_module
from pathlib import Path

from data.apart.exchange import WORKS, carry_out, limits_of
from data.apart.processes import serve

if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        for name in (*WORKS.values(), "data.formats.workbooks"):  # which commands read only for what they need
            import_module(name)
        gc.freeze()  # so that a collection in a copy touches, and copies, nothing of it
        serve()
    else:
        limits_of(Path(sys.argv[1])).hold()
        carry_out(Path(sys.argv[1]))
