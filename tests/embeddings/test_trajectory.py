"""The path of a training, from lines as its progress has them."""

from embeddings.geometry import entry_of, trajectory


def test_a_path_is_read_from_the_lines_that_tell_it() -> None:
    lines = [
        {"step": 20, **entry_of(0.2, -1.5)},
        {"step": 0, **entry_of(0.1, -1)},
        {"step": 10, "loss": 0.5},
        {"step": 20, **entry_of(0.3, -2.0)},  # resumed, and measured again
        {"step": 30, "validation_alignment": 0.1, "validation_uniformity": None},
        {"validation_alignment": 0.1, "validation_uniformity": -1.0},
        {"step": 40, "validation_alignment": True, "validation_uniformity": -1.0},
    ]
    found = trajectory(lines)
    assert found.steps.tolist() == [0, 20]
    assert found.alignment.tolist() == [0.1, 0.3]
    assert found.uniformity.tolist() == [-1.0, -2.0]


def test_no_lines_are_no_path() -> None:
    found = trajectory([])
    assert (len(found.steps), len(found.alignment), len(found.uniformity)) == (0, 0, 0)
