"""Train a bi-encoder and compare it with its base: `python examples/train_and_compare.py [DATA] [BASE]`.

DATA is a file or a dataset by its name, by default the sample; BASE is a model, by default the starter, which is built
from the passages. `packaged:multilingual-e5-small` is a pretrained one (Linux, x86-64).
"""

import sys

import mrc_workbench as mrc


def main() -> None:
    reference, base = [*sys.argv[1:], *["sample", "starter"][len(sys.argv) - 1 :]][:2]
    data = mrc.load(reference)
    model = mrc.train("bi-encoder", data, base=base, epochs=1)
    print(model.table().round(4).to_string())
    before = {"kind": "dense", "name": "Before", "model": base, "windows": base != "starter"}
    result = mrc.compare(data, ["bm25", before, model])  # on test questions, which the training did not see
    print(result.table(["nDCG@10", "R@1"]).round(4).to_string())
    print(result.differences("Before").round(4).to_string(index=False))


if __name__ == "__main__":
    main()
