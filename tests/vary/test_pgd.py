"""PGD against a plain reference: a linear model, whose nearest wrong image can be worked out."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.core.errors import InvalidValue
from strobe.vary.attack import AttackOptions, attack, checked_levels, fine_grid
from strobe.vary.pgd import LEAST, Ball, Pgd, perturbed

SIDE = 8
GREY = (90, 150)


def mean_colour(pixels: torch.Tensor) -> torch.Tensor:
    """The mean of each channel, a hundredfold: linear, so that the nearest wrong image is known."""
    return 100 * pixels.mean((2, 3))


def pictures(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Grey noise with one channel a little brighter, and which it is."""
    rng = np.random.default_rng(seed)
    images = rng.integers(*GREY, (n, SIDE, SIDE, 3))
    labels = rng.integers(0, 3, n)
    images[np.arange(n), :, :, labels] += rng.integers(4, 40, n)[:, None, None]
    truth = np.zeros((n, 3), dtype=bool)
    truth[np.arange(n), labels] = True
    return images.astype(np.uint8), truth


def gap(image: np.ndarray, truth: np.ndarray) -> float:
    """How far the right channel's mean leads the next, in [0, 1]."""
    means = image.reshape(-1, 3).mean(0) / 255
    return float(means[truth].max() - means[~truth].max())


@pytest.fixture(scope="module")
def shown() -> tuple[np.ndarray, np.ndarray]:
    images, truth = pictures(12)
    right = np.array([gap(image, row) > 0 for image, row in zip(images, truth, strict=True)])
    assert right.sum() >= 8
    return images[right], truth[right]


def run(shown, norm, levels, **options):
    images, truth = shown
    pgd = {name: options.pop(name) for name in ("steps", "rounded", "margin", "loss", "step") if name in options}
    how = AttackOptions(pgd=Pgd(norm=norm, **pgd), **options)
    return attack(mean_colour, images, truth, [str(n) for n in range(len(images))], levels=levels, options=how)


@pytest.mark.parametrize("loss", ["margin", "cross-entropy"])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_unrounded_it_finds_exactly_what_can_be_found(shown, norm, loss) -> None:
    # One channel down and the next one up by ε each closes a gap of 2 ε; in l2 the change is spread over all pixels.
    slope = 2 if norm == "linf" else math.sqrt(2) / SIDE
    levels = [0.01, 0.02, 0.04, 0.08] if norm == "linf" else [0.1, 0.2, 0.4, 0.8]
    found = run(shown, norm, levels, rounded=False, margin=0.0, loss=loss, steps=15, restarts=0)
    for image, truth, one in zip(*shown, found, strict=True):
        least = gap(image, truth) / slope
        expected = next((level for level in levels if level > least * 1.001), None)
        if any(abs(level / least - 1) < 0.02 for level in levels):
            continue  # too near a level to call
        assert one.status == ("censored" if expected is None else "found")
        if expected is not None:
            assert one.reach is not None
            assert least * 0.999 <= one.reach <= expected * 1.00001
        else:
            assert one.reach == levels[-1]


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_rounded_findings_are_8_bit_pictures_within_epsilon_that_are_wrong(shown, norm) -> None:
    levels = [1 / 255, 2 / 255, 5.5 / 255, 12 / 255] if norm == "linf" else [0.05, 0.1, 0.3, 0.8]
    found = run(shown, norm, levels, margin=0.01, steps=8, restarts=0)
    statuses = {one.status for one in found}
    assert "found" in statuses
    for image, truth, one in zip(*shown, found, strict=True):
        if one.image is None:
            assert one.status == "censored"
            continue
        change = one.image.astype(float) - image
        size = np.abs(change).max() / 255 if norm == "linf" else np.sqrt(np.square(change).sum()) / 255
        assert one.reach == pytest.approx(size, abs=1e-12)
        assert 0 < size <= levels[-1] * (1 + 1e-9)
        lead = -100 * gap(one.image, truth)
        assert lead >= 0.01 - 1e-4, "still wrong as 8 bits, by the margin asked for"
        assert one.margin == pytest.approx(lead, abs=1e-3)


def test_the_size_that_is_said_holds_at_every_level(shown) -> None:
    """Nothing found at a level is larger than it; survival along the grid never rises."""
    levels = fine_grid("linf", most=16 / 255)
    found = run(shown, "linf", levels, steps=4, restarts=0)
    alive = [sum(one.status == "censored" or one.reach > level * 1.000001 for one in found) for level in levels]
    assert all(a >= b for a, b in itertools.pairwise(alive))
    assert alive[0] > alive[-1]


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_minimal_finds_what_trying_every_level_finds(shown, norm) -> None:
    grid = fine_grid(norm, most=12 / 255 if norm == "linf" else 1.0)[-12:]
    every = run(shown, norm, grid, steps=6, restarts=0)
    minimal = run(shown, norm, grid, steps=6, restarts=0, minimal=True)
    for a, b in zip(every, minimal, strict=True):
        assert a.status == b.status
        if a.status == "found":
            assert b.reach <= grid[min(len(grid) - 1, int(np.searchsorted(grid, a.reach * 0.999999)))] * 1.000001


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_network_alone_and_in_a_batch_finds_at_the_same_level(norm) -> None:
    """Convolutions round otherwise in another batch: the bound is the same status and, where found, the same level."""
    torch.manual_seed(3)
    layers = (torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3), torch.nn.ReLU())
    net = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.LazyLinear(4)).eval()
    images = np.random.default_rng(4).integers(0, 256, (9, 12, 12, 3), dtype=np.uint8)
    with torch.no_grad():
        said = net(torch.from_numpy(images).permute(0, 3, 1, 2) / 255).argmax(1).numpy()
    net.requires_grad_(False)
    truth, names = np.eye(4, dtype=bool)[said], [str(n) for n in range(9)]
    levels = [2 / 255, 6 / 255, 18 / 255] if norm == "linf" else [0.1, 0.4, 1.6]
    options = AttackOptions(pgd=Pgd(norm=norm, steps=8))
    together = attack(net, images, truth, names, levels=levels, options=options)
    assert "found" in {one.status for one in together}
    for place, one in enumerate(together):
        part = slice(place, place + 1)
        (alone,) = attack(net, images[part], truth[part], names[part], levels=levels, options=options)
        assert alone.status == one.status
        if one.status == "found":
            assert np.searchsorted(levels, alone.reach * 0.999999) == np.searchsorted(levels, one.reach * 0.999999)


def test_the_same_seed_gives_the_same_pictures_and_another_one_others(shown) -> None:
    first, again, other = (run(shown, "linf", [8 / 255], steps=3, restarts=3, seed=seed) for seed in (1, 1, 2))
    same = [None if a.image is None else bool((a.image == b.image).all()) for a, b in zip(first, again, strict=True)]
    assert set(same) <= {True, None}
    starts = [Ball("linf").noise((1, 3, 4, 4), torch.Generator().manual_seed(n), "cpu") for n in (1, 2)]
    assert not torch.equal(*starts)
    assert [one.status for one in other] == [one.status for one in first]


def test_scores_that_are_no_numbers_fail_that_item_alone(shown) -> None:
    images, truth = shown

    def broken(pixels: torch.Tensor) -> torch.Tensor:
        bad = pixels[:, :1, :1, :1].isclose(torch.tensor(images[0, 0, 0, 0] / 255).float(), atol=0.05).flatten(1)
        return mean_colour(pixels).masked_fill(bad, float("nan"))

    names = [str(n) for n in range(len(images))]
    found = attack(broken, images, truth, names, levels=[2 / 255], options=AttackOptions(pgd=Pgd(steps=5)))
    assert found[0].status == "failed"
    assert {one.status for one in found} > {"failed"}


def test_a_class_that_is_the_only_answer_is_censored_and_a_wrong_anchor_said(shown) -> None:
    images, _ = shown
    every = np.ones((len(images), 3), dtype=bool)
    found = attack(mean_colour, images, every, ["x"] * len(images), levels=[4 / 255], options=AttackOptions())
    assert {one.status for one in found} == {"censored"}
    none = np.zeros((len(images), 3), dtype=bool)
    found = attack(mean_colour, images, none, ["x"] * len(images), levels=[4 / 255], options=AttackOptions())
    assert {one.status for one in found} == {"anchor_wrong"}


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(["linf", "l2"]), st.floats(LEAST, 2.0), st.integers(0, 2**31), st.floats(0.001, 3.0))
def test_rounding_never_oversteps_and_stays_a_picture(norm, eps, seed, scale) -> None:
    rng = np.random.default_rng(seed)
    base = torch.from_numpy(rng.integers(0, 256, (3, 3, 5, 5))).float() / 255
    change = torch.from_numpy(rng.normal(0, scale, (3, 3, 5, 5))).float()
    ball, radius = Ball(norm), torch.full((3, 1, 1, 1), min(eps, 1.0) if norm == "linf" else eps)
    inside = ball.within(change, base, radius)
    assert (ball.size(inside) <= radius.flatten() * 1.0001).all()
    found = ball.rounded(inside, base, radius)
    levels = (base + found) * 255
    assert torch.allclose(levels, levels.round(), atol=1e-3)
    assert levels.min() >= -1e-3
    assert levels.max() <= 255.001
    assert (ball.size(found) <= radius.flatten() * (1 + 1e-5)).all()


def test_l2_rounding_keeps_a_change_that_is_thin_everywhere() -> None:
    """A third of a level in every channel: to the nearest it would be gone."""
    rng = np.random.default_rng(0)
    base = torch.full((1, 3, 32, 32), 128 / 255)
    change = torch.from_numpy(rng.normal(0, 1, (1, 3, 32, 32))).float()
    change = change / change.norm() * 0.07
    assert (change * 255).abs().mean() < 0.4
    found = Ball("l2").rounded(change, base, torch.full((1, 1, 1, 1), 0.07))
    assert 0.06 < found.norm() <= 0.07
    along = (found * change).sum() / (found.norm() * change.norm())
    assert along > 0.5, "mostly the same direction"


def test_training_pictures_stay_in_the_ball_and_cost_more(shown) -> None:
    images, truth = shown
    pixels, labels = torch.from_numpy(images).permute(0, 3, 1, 2) / 255, torch.from_numpy(truth.argmax(1))
    for norm, eps in (("linf", 4 / 255), ("l2", 0.2)):
        made = perturbed(mean_colour, pixels, labels, eps=eps, norm=norm, generator=torch.Generator().manual_seed(0))
        assert not made.requires_grad
        assert (Ball(norm).size(made - pixels) <= eps * 1.0001).all()
        assert made.min() >= 0
        assert made.max() <= 1
        cost = torch.nn.functional.cross_entropy
        before, after = (cost(mean_colour(x), labels, reduction="none") for x in (pixels, made))
        assert (after > before).all()


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ([], "numbers above 0"),
        ([0.0, 0.1], "numbers above 0"),
        ([float("nan")], "numbers above 0"),
        ([0.1, 0.1], "ascending values without repeats"),
        ([0.2, 0.1], "ascending values without repeats"),
        ([0.5 / 255, 0.1], r"8-bit pixels cannot hold a change below 1/255 = 0\.00392157"),
        ([0.1, 2.0], r"did you mean /255\?"),
    ],
)
def test_a_grid_that_cannot_be_searched_is_one_line(levels, said) -> None:
    with pytest.raises(InvalidValue, match=said) as caught:
        checked_levels(levels)
    assert "\n" not in str(caught.value)
