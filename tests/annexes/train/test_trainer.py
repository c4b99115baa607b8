"""The step: what it takes, the worst it finds, the losses, and that nothing but its number decides what is drawn."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from strobe.annexes.train.classifiers import hooks_of
from strobe.annexes.train.losses import per_image, symmetric_kl, worst_of, worst_weight
from strobe.annexes.train.trainer import Hooks, Normal, Trainer
from strobe.core.errors import StrobeError
from strobe.core.ports import Silent
from strobe.train.draws import Schedule
from strobe.train.pixels import Pixels, _gathered, _lines_of, _windows, prepared
from strobe.train.recipe import Recipe, find
from strobe.train.sets import TrainingSets
from strobe.vary.pgd import perturbed
from strobe.workflows.train_job import Material

NORMAL = Normal(255.0, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))


def small_sets(n: int = 6, members: int = 4) -> TrainingSets:
    """Sets of different lengths over a few frames, anchors second."""
    lengths = [members - place % 3 for place in range(n)]
    first = np.cumsum([0, *lengths])[:-1]
    member = np.full((n, members), -1)
    for place, length in enumerate(lengths):
        member[place, :length] = first[place] + np.arange(length)
    label = np.repeat(np.arange(n) % 3, lengths)
    return TrainingSets(
        frame=np.arange(len(label)),
        pixel=np.random.default_rng(0).permutation(sum(lengths)),
        label=label,
        every=np.eye(3, dtype=bool)[label],
        anchor=first + 1,
        member=member,
    )


def small_pixels(count: int) -> Pixels:
    return Pixels(np.random.default_rng(1).integers(0, 256, (count, 8, 8, 3), dtype=np.uint8), device="cpu")


def small_net() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))


def trainer_of(recipe: Recipe, net: Any = None, **settings: Any) -> Trainer:
    sets = small_sets()
    return Trainer(net or small_net(), recipe, sets, small_pixels(len(sets.pixel)), NORMAL, **settings)


def recipe_of(**settings: Any) -> Recipe:
    return Recipe(**{"name": "test", "batch": 4, "epochs": 2, "learning_rate": 0.01, "clip_norm": 0.0} | settings)


# -- pixels ------------------------------------------------------------------------------------------------------


def test_crops_are_the_plain_thing() -> None:
    pixels, rows = small_pixels(5), np.array([4, 0, 2])
    crops = np.array([[0, 0, 0], [2, -1, 0], [-3, 2, 1]])
    found = pixels.take(rows, crops).permute(0, 2, 3, 1).numpy()
    whole = pixels.take(rows).permute(0, 2, 3, 1).numpy()
    for place, (down, right, mirrored) in enumerate(crops):
        padded = np.pad(whole[place], ((4, 4), (4, 4), (0, 0)), mode="reflect")
        expected = padded[4 + down : 12 + down, 4 + right : 12 + right]
        assert (found[place] == (expected[:, ::-1] if mirrored else expected)).all()


def test_crops_on_a_device_are_those_of_the_host() -> None:
    rng, table = np.random.default_rng(2), np.random.default_rng(1).integers(0, 256, (9, 8, 12, 3), dtype=np.uint8)
    rows = rng.integers(0, 9, 200)
    crops = np.column_stack([rng.integers(-3, 4, 200), rng.integers(-5, 6, 200), rng.integers(0, 2, 200)])
    host = Pixels(table, device="cpu").take(rows, crops).permute(0, 2, 3, 1)
    windows = [_windows(side, 6) for side in (8, 12)]
    told = torch.from_numpy(_lines_of(rows, crops, 6))
    assert torch.equal(_gathered(torch.from_numpy(table), windows, told), host)


def test_frames_are_prepared_once_and_the_oldest_go(material: Material, tmp_path: Path) -> None:
    rows, read = np.arange(4), []

    def fill(table: Any) -> None:
        for place, row in enumerate(rows.tolist()):
            read.append(row)
            table[place] = material.source.read(row)

    def ready(facts: dict[str, int], most: int) -> Any:
        return prepared(
            material.dataset, rows, fill, size_hw=(32, 32), facts=facts, folder=tmp_path / "c", most_bytes=most,
        )  # fmt: skip

    size = 4 * 32 * 32 * 3
    first = ready({"a": 1}, 3 * size)
    assert (first[2] == material.source.read(2)).all()
    assert len(read) == 4
    ready({"a": 1}, 3 * size)
    assert len(read) == 4
    for number in (2, 3, 4):
        ready({"a": number}, 3 * size)
    assert len(list((tmp_path / "c").glob("*.npy"))) <= 3
    ready({"a": 1}, 3 * size)
    assert len(read) == 20, "the one used longest ago had gone"
    with pytest.raises(StrobeError, match="--cache-gb"):
        ready({"a": 1}, size - 1)
    read.clear()
    with ThreadPoolExecutor(4) as pool:
        at_once = [pool.submit(ready, {"a": 5}, 3 * size) for _ in range(4)]
    assert all((one.result() == first).all() for one in at_once)
    assert len(read) == 4, "trainings that start at once wait for one of them"


# -- what a step takes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["stills", "finetune", "pmk", "pmk-mixed", "consistency"])
def test_a_draw_follows_from_its_number_alone(name: str) -> None:
    sets, recipe = small_sets(), replace(find(name), batch=4, epochs=3)
    forward = Schedule(sets, recipe, seed=5, side_hw=(8, 8))
    backward = Schedule(sets, recipe, seed=5, side_hw=(8, 8))
    drawn = [forward.draw(step) for step in range(forward.steps)]
    for step in reversed(range(forward.steps)):
        again = backward.draw(step)
        for column in ("rows", "crops", "member", "partner"):
            assert np.array_equal(getattr(again, column), getattr(drawn[step], column)), column
    assert not np.array_equal(drawn[0].crops, Schedule(sets, recipe, seed=6, side_hw=(8, 8)).draw(0).crops)
    assert all(np.abs(draw.crops[:, :2]).max() <= 1 for draw in drawn)


def test_an_epoch_takes_every_frame_or_set_once() -> None:
    sets = small_sets()
    frames = Schedule(sets, recipe_of(frames="all", batch=1), seed=0, side_hw=(8, 8))
    assert sorted(int(frames.draw(step).rows[0]) for step in range(frames.steps_per_epoch)) == list(
        range(len(sets.label))
    )
    anchors = Schedule(sets, recipe_of(frames="anchor", batch=1), seed=0, side_hw=(8, 8))
    assert sorted(int(anchors.draw(step).rows[0]) for step in range(6)) == sets.anchor.tolist()
    some = Schedule(sets, recipe_of(frames="any", batch=6), seed=0, side_hw=(8, 8))
    rows = some.draw(0).rows
    of_set = [int(np.flatnonzero((sets.member == row).any(axis=1))[0]) for row in rows]
    assert sorted(of_set) == list(range(6))


# -- losses ------------------------------------------------------------------------------------------------------


def test_the_worst_member_is_the_one_a_plain_loop_finds() -> None:
    trainer = trainer_of(recipe_of(loss="worst"))
    member, crops = trainer.sets.member, np.zeros((6, 3), dtype=np.int64)
    found, largest = trainer._worst(member, crops)
    trainer.module.eval()
    for place, rows in enumerate(member):
        losses = {}
        for row in rows[rows >= 0]:
            image = trainer.pixels.take(trainer.sets.pixel[[row]]).float()
            scores = trainer.module((image / 255 - 0.5) / 0.25).detach()
            losses[int(row)] = float(functional.cross_entropy(scores, torch.tensor([trainer.sets.label[row]])))
        assert found[place] == max(losses, key=losses.__getitem__)
        assert float(largest[place]) == pytest.approx(max(losses.values()), rel=1e-5)


def test_losses_equal_torchs() -> None:
    scores, other = torch.randn(5, 3), torch.randn(5, 3)
    p, q = scores.log_softmax(1), other.log_softmax(1)
    both = 0.5 * (functional.kl_div(p, q, log_target=True, reduction="none").sum(1))
    both += 0.5 * (functional.kl_div(q, p, log_target=True, reduction="none").sum(1))
    torch.testing.assert_close(symmetric_kl(scores, other), both)
    every = torch.tensor([[True, False, True]] * 5)
    expected = functional.binary_cross_entropy_with_logits(scores, every.float(), reduction="none").mean(1)
    torch.testing.assert_close(per_image(scores, torch.zeros(5, dtype=torch.int64), every), expected)


# -- the step ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["average", "worst", "consistency"])
def test_accumulating_changes_nothing_but_sums(loss: str) -> None:
    whole, parts = (trainer_of(recipe_of(loss=loss, accumulate=count, optimiser="sgd")) for count in (1, 3))
    for step in range(3):
        torch.testing.assert_close(whole.step(step), parts.step(step))
    for a, b in zip(whole.module.parameters(), parts.module.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_one_step_is_plain_torch() -> None:
    trainer = trainer_of(
        recipe_of(frames="anchor", crop=0.0, flip=False, schedule="constant", warm_up=0.0, weight_decay=0.0)
    )
    net = small_net()
    optimiser = torch.optim.AdamW(net.parameters(), lr=0.01, weight_decay=0.0)
    rows = trainer.schedule.draw(0).rows
    images = (trainer.pixels.take(trainer.sets.pixel[rows]).float() / 255 - 0.5) / 0.25
    loss = functional.cross_entropy(net(images), torch.from_numpy(trainer.sets.label[rows]))
    loss.backward()
    optimiser.step()
    torch.testing.assert_close(trainer.step(0), loss.detach())
    for a, b in zip(trainer.module.parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(a, b)


# -- what other rooms lend ---------------------------------------------------------------------------------------


def test_a_share_is_corrupted_at_every_severity_whoever_draws() -> None:
    seen: list[tuple[int, bytes]] = []

    def corrupt(image: Any, severity: int, rng: np.random.Generator) -> Any:
        seen.append((severity, rng.bytes(4)))
        return np.zeros_like(image)

    recipe = recipe_of(frames="any", corruption="x", corrupted=0.5, severities=[2, 4], epochs=40)
    trainer = trainer_of(recipe, hooks=Hooks(corrupt=corrupt))
    images = trainer.pixels.take(np.arange(6))
    whole = [trainer._corrupted(images, np.arange(6), step) for step in range(40)]
    black = torch.stack([(one == 0).flatten(1).all(1) for one in whole]).float().mean()
    assert 0.35 < float(black) < 0.65
    assert {severity for severity, _ in seen} == {2, 4}
    # A part of the batch, as another process has it, is corrupted as in the whole.
    parts = torch.cat([trainer._corrupted(images[half], np.arange(6)[half], 7) for half in (slice(0, 2), slice(2, 6))])
    assert torch.equal(parts, whole[7])


def test_an_attack_is_handed_pixels_scores_and_labels_and_trained_on() -> None:
    def attack(scores: Any, pixels: Any, labels: Any, eps: float, steps: int, rng: torch.Generator) -> Any:
        assert pixels.min() >= 0
        assert pixels.max() <= 1
        assert (eps, steps) == (0.5, 2)
        worse = perturbed(scores, pixels, labels, eps=eps, steps=steps, generator=rng)
        with torch.no_grad():
            before, after = (functional.cross_entropy(scores(one), labels) for one in (pixels, worse))
        assert after > before
        return worse

    settings = {"frames": "anchor", "crop": 0.0, "flip": False, "learning_rate": 1e-6}
    attacked = trainer_of(recipe_of(eps=0.5, attack_steps=2, **settings), hooks=Hooks(attack=attack))
    assert attacked.step(0) > trainer_of(recipe_of(**settings)).step(0)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_recipe_trains_against_the_ball_it_names(norm: str) -> None:
    hooks = hooks_of(find(norm), Silent())
    pixels, labels = torch.full((4, 3, 6, 6), 0.5), torch.arange(4) % 3
    weight = torch.randn(108, 3, generator=torch.Generator().manual_seed(0))
    rng = torch.Generator().manual_seed(1)
    assert hooks.attack is not None
    moved = hooks.attack(lambda x: x.flatten(1) @ weight, pixels, labels, 0.25, 3, rng) - pixels
    length, largest = moved.flatten(1).norm(dim=1), moved.flatten(1).abs().amax(dim=1)
    if norm == "l2":
        assert torch.allclose(length, torch.full((4,), 0.25), atol=1e-3)
        assert largest.max() < 0.2
    else:
        assert torch.allclose(largest, torch.full((4,), 0.25), atol=1e-3)
        assert length.min() > 1


def test_a_loss_that_is_no_number_is_the_worst() -> None:
    there = torch.tensor([[True, True, True]])
    assert worst_of(torch.tensor([1.0, float("nan"), 3.0]), there)[0].tolist() == [1]


def test_the_weight_of_the_worst_grows() -> None:
    recipe = recipe_of(loss="mixed", worst_weight=0.8, ramp=0.5)
    assert [round(worst_weight(recipe, done=done), 3) for done in (0, 0.25, 0.5, 1)] == [0, 0.4, 0.8, 0.8]
    assert worst_weight(replace(recipe, ramp=0.0), done=0) == 0.8


def test_the_average_follows() -> None:
    trainer = trainer_of(recipe_of(ema=0.5))
    start = [one.detach().clone() for one in trainer.module.parameters()]
    trainer.step(0)
    for average, now, old in zip(trainer.result.parameters(), trainer.module.parameters(), start, strict=True):
        torch.testing.assert_close(average, 0.1 * old + 0.9 * now)  # the first steps count more


def test_rates() -> None:
    trainer = trainer_of(recipe_of(schedule="cosine", warm_up=0.5, batch=1, epochs=10))
    steps = trainer.schedule.steps
    rates = [trainer.rate(step) for step in range(steps)]
    assert rates[0] < rates[steps // 4] < 0.01
    assert rates[-1] < 0.001
    trainer.rate_factor = 0.1
    assert trainer.rate(steps // 4) == pytest.approx(0.1 * rates[steps // 4])
