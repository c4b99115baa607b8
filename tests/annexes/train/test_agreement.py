"""`strobe train agreement`: its targets, its loss, that it reads no label, what it does to flicker, and bad input."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_stop import Stop, StopAfter
from safetensors.torch import load_file
from test_trainer import NORMAL, recipe_of, small_net, small_pixels, small_sets

from strobe.annexes.train.classifiers import train
from strobe.annexes.train.trainer import LabelledAnchors, Trainer
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.labels import LabelSpace
from strobe.core.ports import Silent
from strobe.core.tables import Hints, Labels
from strobe.synthetic.sets import SyntheticOptions, synthetic_dataset
from strobe.synthetic.world import WorldOptions
from strobe.train.pixels import Pixels
from strobe.train.recipe import Recipe, find
from strobe.train.sets import TrainingSets
from strobe.workflows.options import TrainOptions
from strobe.workflows.train_job import Material

NET = "timm:test_resnet"
OPTIONS = TrainOptions(image_size=32, evaluations=2, held_share=0.3, device="cpu", threads=1)


def quick(name: str = "agreement", *changes: str) -> Recipe:
    return find(name, changes=["epochs=2", "batch=12", *changes], model=NET)


def labelled_as(material: Material, label: np.ndarray[Any, Any], keep: np.ndarray[Any, Any] | None = None) -> Material:
    """The material with other labels, on some of the frames that have one."""
    old = material.dataset.labels
    kept = np.ones(len(old.frame), dtype=bool) if keep is None else keep
    labels = Labels(frame=old.frame[kept], label=label[kept].astype(old.label.dtype))
    return replace(material, dataset=replace(material.dataset, labels=labels))


def no_labels(dataset: Dataset) -> Labels:
    return Labels(frame=dataset.labels.frame[:0], label=dataset.labels.label[:0])


def bare(material: Material) -> Material:
    return replace(material, dataset=replace(material.dataset, labels=no_labels(material.dataset)))


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model with the world's classes, trained on other clips for a moment."""
    made = synthetic_dataset(SyntheticOptions(world=WorldOptions(size=32, frames=5, occluders=0), videos=36, seed=900))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STROBE_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        found = train(
            quick("stills", "epochs=6", "learning_rate=5e-3"),
            Material(dataset=made.dataset, source=made.source()),
            NET,
            tmp_path_factory.mktemp("start") / "run",
            replace(OPTIONS, from_scratch=True),
            Silent(),
        )
    return found.model


def tensors(path: Path) -> dict[str, Any]:
    return load_file(str(path / "model.safetensors"))


def same(a: Path, b: Path) -> bool:
    one, two = tensors(a), tensors(b)
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


# -- the step ----------------------------------------------------------------------------------------------------


def agreeing(**settings: Any) -> Trainer:
    recipe = recipe_of(loss="agreement", frames="any", worst_weight=0.5, ramp=0.0, crop=0.0, flip=False)
    sets = replace(small_sets(), label=np.full(len(small_sets().label), -1))
    return Trainer(small_net(), recipe, sets, small_pixels(len(sets.pixel)), NORMAL, seed=4, **settings)


def plain_answers(net: Any, trainer: Trainer, row: int) -> torch.Tensor:
    image = trainer.pixels.take(trainer.sets.pixel[[row]]).float()
    found: torch.Tensor = net((image / 255 - 0.5) / 0.25)[0]
    return found


def plain_targets(trainer: Trainer) -> list[torch.Tensor]:
    """The mean of softmax over each set, one frame at a time, by a start of its own."""
    net = small_net().eval()
    with torch.no_grad():
        return [
            torch.stack([plain_answers(net, trainer, row).softmax(0) for row in rows[rows >= 0]]).mean(0)
            for rows in trainer.sets.member
        ]


def test_targets_are_the_mean_answer_of_the_start_and_stay() -> None:
    trainer = agreeing()
    expected = torch.stack(plain_targets(trainer))
    assert trainer.target is not None
    assert torch.allclose(trainer.target, expected, atol=1e-6)
    assert torch.allclose(trainer.target.sum(1), torch.ones(len(expected)))
    before = trainer.target.clone()
    for number in range(trainer.steps):
        trainer.step(number)
    assert torch.equal(trainer.target, before)
    assert not torch.equal(trainer.module[0].weight, small_net()[0].weight)


def test_the_loss_is_that_of_a_plain_loop() -> None:
    trainer, net = agreeing(), small_net().eval()
    draw, targets = trainer.schedule.draw(0), plain_targets(trainer)
    assert draw.member is not None
    assert draw.partner is not None
    total = worst_total = 0.0
    for rows, partner in zip(draw.member, draw.partner, strict=True):
        rows = rows[rows >= 0]
        target = targets[int(trainer.sets.owner[rows[0]])]

        def away(row: int, target: torch.Tensor = target) -> float:
            answer = plain_answers(net, trainer, row).log_softmax(0)
            return float((target * (target.log() - answer)).sum().detach())

        worst = max(away(row) for row in rows)
        total += 0.5 * worst + 0.5 * away(partner)
        worst_total += worst
    loss = trainer.step(0)
    assert float(loss) == pytest.approx(total / len(draw.rows), rel=1e-4)
    assert trainer.mean_largest() == pytest.approx(worst_total / len(draw.rows), rel=1e-4)


def test_labelled_anchors_join_with_their_cross_entropy() -> None:
    labels = small_sets(5, 3)
    anchors = LabelledAnchors(labels, small_pixels(len(labels.pixel)))
    plain, joined = agreeing(), agreeing(anchors=anchors)
    drawn = [joined._anchor_images(joined.schedule.draw(number), number) for number in range(3)]
    assert not torch.equal(drawn[0][1], drawn[1][1]) or not torch.equal(drawn[0][1], drawn[2][1])
    images, label = drawn[0]
    net = small_net().eval()
    with torch.no_grad():
        extra = torch.nn.functional.cross_entropy(net((images.float() / 255 - 0.5) / 0.25), label)
    assert float(joined.step(0)) == pytest.approx(float(plain.step(0)) + float(extra), rel=1e-4)


# -- the command -------------------------------------------------------------------------------------------------


def test_it_reads_no_label_and_resumes_to_the_same_bits(
    material: Material, start: str, tmp_path: Path, heard: Any
) -> None:
    label, out = material.dataset.labels.label, tmp_path
    wrong = (label + 1 + np.arange(len(label)) % 5) % len(material.dataset.info.label_space)
    some = np.isin(material.dataset.labels.frame, material.dataset.sets.frame[material.dataset.sets.set % 2 == 0])
    given = {
        "right": material,
        "wrong": labelled_as(material, wrong),
        "some": labelled_as(material, label, some),
        "none": bare(material),
    }
    found = {name: train(quick(), one, start, out / name, OPTIONS, Silent()) for name, one in given.items()}
    assert all(same(out / "none", out / name) for name in given)
    assert not same(out / "none", Path(start.partition("@")[2]).parent), "it was trained"
    assert len({(out / name / "split.csv").read_text() for name in given}) == 1
    assert len({tuple(point.flicker for point in one.history) for one in found.values()}) == 1
    last = {name: one.history[-1] for name, one in found.items()}
    assert last["none"].acc_orig is None
    assert last["right"].acc_orig is not None
    assert last["some"].acc_pmk is not None
    with pytest.raises(Stop):
        train(quick(), given["none"], start, out / "broken", replace(OPTIONS, checkpoint_s=0), StopAfter(3))
    assert (out / "broken/checkpoint.pt").is_file()
    again = train(quick(), given["none"], start, out / "broken", OPTIONS, heard)
    assert any("resuming after step 3" in line for line in heard.lines)
    assert same(out / "none", out / "broken")
    points = [[replace(point, seconds=0.0) for point in one.history] for one in (found["none"], again)]
    assert points[0] == points[1]
    _files(out, found["none"], some_sets=out / "some")


def _files(out: Path, done: Any, *, some_sets: Path) -> None:
    """What is written says what it is: flicker without labels, accuracy beside it where there are some."""
    with (out / "none/curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [*rows[0]] == ["step", "epoch", "seconds", "learning_rate", "loss", "largest_loss", "flicker"]
    with (out / "right/curves.csv").open() as file:
        assert {"acc_orig", "acc_pmk", "flicker"} <= set(next(csv.DictReader(file)))
    card = done.card.read_text()
    assert "| | flicker |" in card
    assert "before training" in card
    assert "acc_" not in card
    assert f"| trained | {100 * done.history[-1].flicker:.1f}" in card
    assert "| | acc_orig | acc_pmk | drop | flicker |" in (out / "right/card.md").read_text()
    assert "held-out sets that have labels" in (some_sets / "card.md").read_text()
    assert (out / "none/curves.png").read_bytes()[:4] == b"\x89PNG"
    about = json.loads((out / "none/training.json").read_text())
    assert about["done"]
    assert about["facts"]["recipe"]["loss"] == "agreement"


def faint_clips(n: int, *, seed: int) -> tuple[TrainingSets, Pixels]:
    """Clips of seven frames of three classes: a faint pattern of the class, of changing strength, under noise."""
    patterns, rng = np.random.default_rng(99).normal(size=(3, 8, 8, 3)), np.random.default_rng(seed)
    label = np.repeat(np.arange(n) % 3, 7)
    strength = rng.uniform(5, 20, (7 * n, 1, 1, 1))
    images = 128 + strength * patterns[label] + rng.normal(0, 45, (7 * n, 8, 8, 3))
    rows = np.arange(7 * n)
    sets = TrainingSets(
        frame=rows,
        pixel=rows,
        label=label,
        every=np.eye(3, dtype=bool)[label],
        anchor=rows.reshape(n, 7)[:, 3],
        member=rows.reshape(n, 7),
    )
    return sets, Pixels(images.clip(0, 255).astype(np.uint8), device="cpu")


def test_flicker_on_held_out_clips_falls_against_the_start() -> None:
    (few, few_pixels), (other, other_pixels), (held, held_pixels) = (
        faint_clips(n, seed=seed) for n, seed in ((60, 1), (300, 2), (300, 3))
    )
    plain = {"batch": 20, "crop": 0.0, "flip": False, "learning_rate": 3e-3}
    net = small_net()

    def figures(trainer: Trainer) -> tuple[float, float]:
        answers = trainer.answers(held_pixels, held.pixel).reshape(-1, 7)
        flicker = float((answers != answers[:, 3:4]).any(axis=1).mean())
        return flicker, float((answers == held.label.reshape(-1, 7)).mean())

    start = Trainer(net, recipe_of(frames="anchor", epochs=15, **plain), few, few_pixels, NORMAL)
    for number in range(start.steps):
        start.step(number)
    before = figures(start)
    unlabelled = replace(other, label=np.full(len(other.label), -1))
    recipe = recipe_of(loss="agreement", frames="any", worst_weight=0.5, ramp=0.0, epochs=10, **plain)
    agreement = Trainer(net, recipe, unlabelled, other_pixels, NORMAL)
    for number in range(agreement.steps):
        agreement.step(number)
    after = figures(agreement)
    assert before[0] > 0.4, "there is something to learn"
    assert after[0] < before[0] - 0.1
    assert after[1] >= before[1], "it did not collapse to one answer"


def test_anchors_join_from_the_training_side_alone(material: Material, start: str, tmp_path: Path, heard: Any) -> None:
    plain = train(quick(), bare(material), start, tmp_path / "plain", OPTIONS, Silent())
    joined = train(quick(), bare(material), start, tmp_path / "joined", OPTIONS, heard, anchors=material)
    assert not same(tmp_path / "plain", tmp_path / "joined")
    n = (tmp_path / "plain/split.csv").read_text().count(",training\n")
    assert f"{n} labelled anchors of {material.dataset.name} join" in heard.lines
    assert plain.history[0].flicker == joined.history[0].flicker
    with pytest.raises(StrobeError, match="no frame has a label"):
        train(quick(), bare(material), start, tmp_path / "a", OPTIONS, Silent(), anchors=bare(material))
    with pytest.raises(StrobeError, match="--anchors is for trainings without labels"):
        train(quick("pmk"), material, start, tmp_path / "b", OPTIONS, Silent(), anchors=material)
    with pytest.raises(StrobeError, match="cannot be the dataset of --anchors"):
        train(quick(), bare(material), start, tmp_path / "c", OPTIONS, Silent(), anchors=other_classes(material))


def other_classes(material: Material) -> Material:
    names = [f"thing {place}" for place in range(len(material.dataset.info.label_space))]
    info = replace(material.dataset.info, label_space=LabelSpace.of_names("others", names))
    return replace(material, dataset=replace(material.dataset, info=info))


def test_bad_input_is_one_line(material: Material, start: str, tmp_path: Path) -> None:
    given = bare(material)
    alone = replace(given, dataset=given.dataset.keep_rows(given.dataset.sets.is_anchor))
    cases = [
        (given, NET, {"from_scratch": True}, "needs a trained model.*remove --from-scratch"),
        (given, "strobe-net-small", {}, "needs a trained model"),
        (other_classes(given), start, {}, "its classes are not those of"),
        (alone, start, {}, "every set has only one frame.*--k"),
        (cut(given, np.arange(given.dataset.n_sets)), start, {}, "a scene cut divides every set"),
    ]
    for place, (one, model, settings, said) in enumerate(cases):
        with pytest.raises(StrobeError, match=said) as caught:
            train(quick(), one, model, tmp_path / str(place), replace(OPTIONS, **settings), Silent())
        assert "\n" not in str(caught.value)
    for change in ("multi_label=true", "label_smoothing=0.1", "trains=head", "worst_weight=2"):
        with pytest.raises(StrobeError, match=change.partition("=")[0]):
            quick("agreement", change)


def cut(material: Material, sets: Any) -> Material:
    """The material with a scene cut in these sets."""
    rows = len(material.dataset.sets.set)
    none: dict[str, Any] = {name: np.zeros(rows) for name in Hints.__slots__}
    none["duplicate"] = np.zeros(rows, dtype=bool)
    none["cut"] = np.where(np.isin(material.dataset.sets.set, sets), 1.0, 0.0)
    return replace(material, dataset=replace(material.dataset, hints=Hints(**none)))
