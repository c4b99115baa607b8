"""Auto-PGD: its losses by hand, what it finds against a linear model, and where PGD is lured away."""

import json
import math

import numpy as np
import pytest
import torch

from strobe.core.variants import Target
from strobe.vary.apgd import best_of_apgd, likeliest_wrong, targeted_dlr
from strobe.vary.attack import AttackOptions, AttackPlan, attack
from strobe.vary.pgd import Ball, Norm, Pgd, best_of_steps, cross_entropy

SIDE = 8


def mean_colour(pixels: torch.Tensor) -> torch.Tensor:
    """The mean of each channel, a hundredfold: linear, so that the nearest wrong image is known."""
    return 100 * pixels.mean((2, 3))


def grey(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Grey noise with one channel brighter, which it is, and by how much."""
    rng = np.random.default_rng(seed)
    images, labels = rng.integers(90, 150, (9, SIDE, SIDE, 3)), rng.integers(0, 3, 9)
    images[np.arange(9), :, :, labels] += rng.integers(12, 40, 9)[:, None, None]
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    truth = torch.nn.functional.one_hot(torch.from_numpy(labels), 3).bool()
    means = pixels.mean((2, 3))
    return pixels, truth, means[truth] - means.masked_fill(truth, -1).amax(1)


def test_the_losses_are_those_of_the_paper() -> None:
    scores = torch.tensor([[1.0, 5.0, 3.0, 2.0, -1.0], [4.0, 0.0, 1.0, 2.0, 3.0]])
    truth, target = torch.tensor([[False, True, False, False, False], [False, False, True, False, False]]), [0, 4]
    # Lead of the target over the right class, by the highest less the mean of the third and the fourth.
    expected = [(1 - 5) / (5 - (2 + 1) / 2), (3 - 1) / (4 - (2 + 1) / 2)]
    assert targeted_dlr(scores, truth, torch.tensor(target)).tolist() == pytest.approx(expected)
    assert targeted_dlr(10 * scores, truth, torch.tensor(target)).tolist() == pytest.approx(expected)
    usual = torch.nn.functional.cross_entropy(scores, torch.tensor([1, 2]), reduction="none")
    torch.testing.assert_close(cross_entropy(scores, truth), usual)
    three = targeted_dlr(scores[:, :3], truth[:, :3], torch.tensor([0, 0]))
    assert three.tolist() == pytest.approx([-4, 3]), "no scale with three classes"
    masked = scores.clone()
    masked[:, 3:] = float("-inf")
    assert targeted_dlr(masked, truth, torch.tensor([0, 0])).tolist() == pytest.approx([-4, 3])


def test_targets_are_the_likeliest_wrong_classes_and_none_that_cannot_be_answered() -> None:
    scores = torch.tensor([[1.0, 5.0, 3.0, float("-inf")], [4.0, 0.0, 1.0, 2.0]])
    truth = torch.tensor([[False, True, False, False], [True, False, False, False]])
    assert likeliest_wrong(lambda _: scores, None, truth, 3).tolist() == [[2, 0, -1], [3, 2, 1]]
    assert likeliest_wrong(lambda _: scores, None, truth, 9).shape == (2, 4)


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("targeted", [False, True])
def test_it_finds_all_there_is_against_a_linear_model(norm: Norm, targeted: bool) -> None:
    pixels, truth, gap = grey()
    slope = 2 if norm == "linf" else math.sqrt(2) / SIDE
    target = likeliest_wrong(mean_colour, pixels, truth, 1)[:, 0] if targeted else None
    how = Pgd(norm=norm, steps=20, margin=0.0, rounded=False)
    start = Ball(norm).noise(tuple(pixels.shape), torch.Generator().manual_seed(0), "cpu")
    for factor, is_wrong in ((1.02, True), (0.98, False)):
        eps = gap / slope * factor
        change, lead = best_of_apgd(mean_colour, pixels, truth, eps=eps, how=how, start=start, target=target)
        assert ((lead >= 0) == is_wrong).all(), (factor, lead)
        assert (Ball(norm).size(change) <= eps * (1 + 1e-5)).all()


def lured(pixels: torch.Tensor) -> torch.Tensor:
    """The first class is right. The second is nearest and never wins; the third wins where the image is bluer.

    The scores are far apart, so that the cross-entropy has no gradient towards the third.
    """
    red, _, blue = (pixels.mean((2, 3)) - 0.5).unbind(1)
    flat = torch.zeros_like(red)
    return 200 * torch.stack([flat + 10, 9.5 + 0.4 * torch.tanh(50 * red), 8 + 100 * blue, flat, flat - 1], dim=1)


@pytest.mark.parametrize(("norm", "eps"), [("linf", 8 / 255), ("l2", 0.4)])
def test_it_finds_what_pgd_is_lured_away_from(norm: Norm, eps: float) -> None:
    images = np.full((3, SIDE, SIDE, 3), 127, dtype=np.uint8)
    truth = np.arange(5)[None].repeat(3, axis=0) == 0
    found = {}
    for method, targets in (("pgd", 0), ("apgd", 0), ("apgd", 9)):
        options = AttackOptions(pgd=Pgd(norm=norm, steps=20), restarts=1, method=method, targets=targets)
        found[method, targets] = attack(lured, images, truth, ["a", "b", "c"], levels=[eps], options=options)
    assert [one.status for one in found["pgd", 0]] == ["censored"] * 3
    assert [one.status for one in found["apgd", 0]] == ["censored"] * 3, "the cross-entropy is flat"
    for one in found["apgd", 9]:
        assert one.status == "found"
        assert one.image is not None
        shown = torch.from_numpy(one.image[None]).permute(0, 3, 1, 2).float() / 255
        assert int(lured(shown).argmax()) == 2, "wrong when it is read back"
        assert one.reach is not None
        assert one.reach <= eps * (1 + 1e-6)


@pytest.mark.parametrize("targeted", [False, True])
def test_alone_and_in_a_batch_it_climbs_to_the_same_place(targeted: bool) -> None:
    pixels, truth, gap = grey(1)
    target = likeliest_wrong(mean_colour, pixels, truth, 1)[:, 0] if targeted else None
    how, eps = Pgd(steps=12, margin=1e9, rounded=True), gap / 2
    start = Ball("linf").noise(tuple(pixels.shape), torch.Generator().manual_seed(2), "cpu")
    together, _ = best_of_apgd(mean_colour, pixels, truth, eps=eps, how=how, start=start, target=target)
    for place in (0, 4):
        one = slice(place, place + 1)
        alone, _ = best_of_apgd(
            mean_colour, pixels[one], truth[one], eps=eps[one], how=how, start=start[one],
            target=None if target is None else target[one],
        )  # fmt: skip
        torch.testing.assert_close(alone[0], together[place], rtol=0, atol=0)


def test_a_score_that_is_no_number_ends_that_item_alone() -> None:
    pixels, truth, gap = grey(2)

    def broken(shown: torch.Tensor) -> torch.Tensor:
        bad = (shown - pixels[3]).abs().flatten(1).amax(1) < 0.1
        return mean_colour(shown).masked_fill(bad[:, None], float("nan"))

    how, start = Pgd(steps=6, margin=0.0, rounded=False), torch.zeros_like(pixels)
    lead = best_of_apgd(broken, pixels, truth, eps=gap, how=how, start=start)[1]
    plain = best_of_steps(mean_colour, pixels, truth, eps=gap, how=how, start=start)[1]
    assert lead[3].isnan()
    others = torch.arange(9) != 3
    assert ((lead[others] >= 0) == (plain[others] >= 0)).all()


def test_a_search_by_pgd_keeps_the_name_it_had() -> None:
    """Folders made before there was another method are found again by the same command."""
    target = Target(name="m", weights="w")
    one = AttackPlan(target=target, levels=(1 / 255,), how=AttackOptions())
    assert set(one.to_json()["how"]) == {"pgd", "restarts", "seed", "minimal"}
    assert "method" not in one.variant().fields
    other = AttackPlan(target=target, levels=(1 / 255,), how=AttackOptions(method="apgd", targets=3))
    assert json.dumps(other.to_json()) != json.dumps(one.to_json())
    assert (other.variant().fields["method"], other.variant().fields["targets"]) == ("apgd", 3)
    assert other.how.tries == 5
