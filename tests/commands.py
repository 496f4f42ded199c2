"""`python -m tests.commands JSON [HUB CACHE]`: commands one after the other in one process, which reads libraries once.

HUB is the URL of a stand-in for the Hugging Face hub: a forked process has imported the libraries for another one.
"""

import gc
import json
import os
import runpy
import sys

if __name__ == "__main__":
    commands, *hub = sys.argv[1:]
    if hub:
        from huggingface_hub import constants

        url, constants.HF_HUB_CACHE = hub
        constants.HUGGINGFACE_CO_URL_TEMPLATE = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, url)
        constants.ENDPOINT = url
    os.fsync = lambda _: None  # as in the tests' own process
    for module, *words in json.loads(commands):
        gc.freeze()  # each training collects garbage: it must not search the imported modules
        sys.argv = [module, *words]
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            if ended.code:
                raise
