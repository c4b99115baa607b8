import numpy as np
import pytest

from strobe.analyses.published import rows_of, tables


def test_the_two_fits_of_the_fifty_model_table() -> None:
    table = tables()[0]
    assert (table.n, len(table.points), sum(p.standard for p in table.points)) == (1145, 50, 35)
    linear, _ = table.fit(standard_only=False)
    assert linear is not None
    assert (round(linear.slope, 3), round(linear.intercept, 2), round(linear.r or 0, 3)) == (1.040, -19.02, 0.980)
    assert np.median([p.drop for p in table.points]) == pytest.approx(16.05)
    linear, logit = table.fit()
    assert linear is not None
    assert logit is not None
    assert (linear.n, round(linear.slope, 3), round(linear.intercept, 2)) == (35, 1.079, -22.29)
    assert (round(logit.slope, 3), round(logit.intercept, 3)) == (0.996, -0.722)


def test_types_of_the_testbed() -> None:
    kinds = [p.model_type for p in tables()[0].points]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "Trained on ILSVRC": 35,
        "Noise augmentation": 7,
        "Fine-tuned on ImageNet-Vid": 6,
        "Fine-tuned on ImageNet-Vid-Det": 1,
        "l_inf robustness": 1,
    }


def test_tables_are_never_pooled_and_misprints_are_marked() -> None:
    assert {(t.dataset, t.n) for t in tables()} == {
        ("imagenet-vid-robust", 1145),
        ("imagenet-vid-robust", 1109),
        ("ytbb-robust", 2030),
    }
    noted = [(t.dataset, p.model_type) for t in tables() for p in t.points if p.note]
    assert len(noted) == 4
    for table in tables():  # a drop is what its accuracies say, to rounding, unless it is marked as misprinted
        for point in table.points:
            if not point.note:
                assert abs(point.acc_orig - point.acc_pmk - point.drop) < 0.16, point


def test_other_printed_tables_ship_too() -> None:
    assert {"task", "model"} <= next(rows_of("detection_2021.csv")).keys()
    assert any("without review" in " ".join(row.values()) for row in rows_of("review_and_frame_types_2021.csv"))
