"""Published figures keep their sources, their measure and their place."""

from embeddings.results import PUBLISHED, published_for


def test_every_figure_is_a_share_with_a_source_and_is_not_ours() -> None:
    assert all(0 < one.value < 1 and one.source and not one.ours for one in PUBLISHED)


def test_figures_of_a_set_are_found_by_its_name_and_part() -> None:
    found = {(one.model, one.learned_from): one.value for one in published_for("korsts", "test")}
    assert found["KR-BERT SimCSE", "KorNLI"] == 0.8072
    assert found["SRoBERTa base", "KorNLI, then KorSTS"] == 0.8029
    assert {one.data for one in published_for("KorSTS, all parts", "validation")} == {"KorSTS"}
    assert [one.measure for one in published_for("klue_sts_dev.json", "validation")] == ["pearson", "pearson"]
    assert published_for("KorSTS", "train") == published_for("mine", "test") == ()
