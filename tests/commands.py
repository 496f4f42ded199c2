"""`python -m tests.commands JSON`: commands one after the other in one process, which reads the libraries once."""

import json
import runpy
import sys

if __name__ == "__main__":
    for module, *words in json.loads(sys.argv[1]):
        sys.argv = [module, *words]
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            if ended.code:
                raise
