"""The MRC retrieval workbench: every import of its code starts with this name.

The rooms are `data`, `models`, `retrieval`, `training`, `labs` and `workbench`. In a checkout they lie beside this
folder; where the project is installed they lie inside it.
"""

from pathlib import Path

_FOLDER = Path(__file__).resolve().parent
if not (_FOLDER / "data").is_dir():  # a checkout
    __path__.append(str(_FOLDER.parent))
