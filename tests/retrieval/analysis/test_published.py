"""What others published: which sets it is known of, and that it says where it comes from."""

import pytest

from retrieval.analysis.evidence import _file, published


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("KorQuAD_v1.0_dev", "SQuADKorV1Retrieval (KorQuAD 1.0 dev)"),
        ("KorQuAD 1.0 dev", "SQuADKorV1Retrieval (KorQuAD 1.0 dev)"),
        ("mteb-Ko-StrategyQA", "Ko-StrategyQA"),
        ("MIRACLRetrieval ko", "MIRACL, Korean"),
    ],
)
def test_a_set_is_known_by_what_people_call_it(name: str, title: str) -> None:
    (found,) = published(name)
    assert found.title == title
    assert found.kinds["nlpai-lab/KURE-v2"] == "late"


@pytest.mark.parametrize("name", ["", "Korean sample", "KorQuAD_v1.0_train", "질문"])
def test_of_most_sets_nothing_is_known(name: str) -> None:
    assert published(name) == []


def test_every_figure_is_a_share_of_a_known_model_and_source() -> None:
    file = _file()
    assert {one.source for one in file.set} == {source.id for source in file.source}
    for one in file.set:
        assert all(0 < figure < 1 for figure in one.figures.values())
        assert {*one.figures} <= {*file.models}
        assert one.names == tuple(name.casefold() for name in one.names)
        assert sum(len(published(name)) for name in one.names) == len(one.names)  # no other set answers to its names
