"""`strobe train` from end to end: every recipe, its files, going on after a kill, several processes, bad input."""

import csv
import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from made_stop import Stop, StopAfter
from safetensors.torch import load_file, save_file

from strobe.annexes.train.classifiers import train
from strobe.annexes.train.trainer import Trainer
from strobe.cli.train import command
from strobe.core.errors import CannotWrite, InvalidFile, ModelFailed, StrobeError
from strobe.core.labels import LabelSpace
from strobe.core.ports import Silent
from strobe.models.header import read_header
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.train.folder import TrainFolder
from strobe.train.recipe import Recipe, find
from strobe.train.sets import targets_of
from strobe.train.split import split_by_source
from strobe.workflows.options import TrainOptions
from strobe.workflows.train_job import Material

NET = "timm:test_resnet"
OPTIONS = TrainOptions(image_size=32, from_scratch=True, evaluations=2, held_share=0.3, device="cpu")


def quick(name: str, *changes: str) -> Recipe:
    return find(name, changes=["epochs=2", "batch=12", *changes], model=NET)


def trained(
    material: Material, out: Path, recipe: Recipe, model: str = NET, say: Silent | None = None, **settings: Any
) -> Any:
    return train(recipe, material, model, out, replace(OPTIONS, **settings), say or Silent())


class Heard(Silent):
    """A progress that keeps what it is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def tensors(path: Path) -> dict[str, Any]:
    return load_file(str(path / "model.safetensors"))


def same(a: Path, b: Path) -> bool:
    one, two = tensors(a), tensors(b)
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("name", ["stills", "finetune", "noise", "linf", "l2", "pmk", "pmk-mixed", "consistency"])
def test_every_recipe_trains_and_resumes_to_the_same_bits(name: str, material: Material, tmp_path: Path) -> None:
    recipe = quick(name, "ema=0.9") if name == "pmk-mixed" else quick(name)
    whole = trained(material, tmp_path / "whole", recipe)
    assert not whole.was_there
    assert len(whole.history) == 3
    with pytest.raises(Stop):
        train(recipe, material, NET, tmp_path / "broken", replace(OPTIONS, checkpoint_s=0), StopAfter(3))
    assert (tmp_path / "broken/checkpoint.pt").is_file()
    gone_on = trained(material, tmp_path / "broken", recipe)
    assert same(tmp_path / "whole", tmp_path / "broken")
    points = [[replace(point, seconds=0.0) for point in one.history] for one in (whole, gone_on)]
    assert points[0] == points[1]
    assert not (tmp_path / "broken/checkpoint.pt").exists()
    again = trained(material, tmp_path / "whole", recipe)
    assert again.was_there
    assert again.history == whole.history


def test_the_result_answers_as_it_did_in_training(material: Material, tmp_path: Path) -> None:
    done = trained(material, tmp_path / "run", quick("finetune"))
    dataset = material.dataset
    with (tmp_path / "run/split.csv").open() as file:
        sides = {row["set"]: row["side"] for row in csv.DictReader(file)}
    held = [place for place, name in enumerate(dataset.sets.set_id) if sides[name] == "held-out"]
    # Nothing but the file is told: classes and preprocessing are in it.
    model: Any = load_model(done.model, LoadOptions(device="cpu"))
    assert model.spec.label_space.ids == dataset.info.label_space.ids
    assert model.spec.preprocessing["size_hw"] == [32, 32]
    predicted = np.array(
        [model.forward([model.prepare(material.source.read(row))]).argmax() for row in range(len(dataset.frames))]
    )
    right = dataset.right_rows(predicted)
    worst = [right[dataset.sets.set == place].all() for place in held]
    orig = [right[(dataset.sets.set == place) & dataset.sets.is_anchor].all() for place in held]
    last = done.history[-1]
    assert (last.acc_orig, last.acc_pmk) == pytest.approx((np.mean(orig), np.mean(worst)))
    bigger: Any = load_model(done.model, LoadOptions(device="cpu", image_size=64))
    assert bigger.spec.preprocessing["size_hw"] == [64, 64]


@pytest.mark.parametrize("model", ["torchvision:squeezenet1_1", "strobe-net-small", "efficientnet-lite0"])
def test_other_models_train_and_load(model: str, material: Material, tmp_path: Path) -> None:
    recipe, heard, is_new = quick("stills", "epochs=1"), Heard(), model != "efficientnet-lite0"
    done = trained(material, tmp_path / "run", recipe, model, heard, from_scratch=is_new, image_size=64)
    assert any("so its last layer is replaced by one with 12" in text for text in heard.notes) is not is_new
    loaded: Any = load_model(done.model, LoadOptions(device="cpu"))
    assert loaded.spec.label_space == material.dataset.info.label_space
    assert loaded.forward([loaded.prepare(material.source.read(0))]).shape == (1, 12)
    card = done.card.read_text()
    assert "| acc_orig | acc_pmk | drop |" in card
    assert "k = 2" in card
    assert recipe.about in card
    assert ("before training" in card) is False, "its head is new: what it said before means nothing"


def test_training_goes_on_from_a_trained_model_and_says_what_it_was(material: Material, tmp_path: Path) -> None:
    first = trained(material, tmp_path / "a", quick("stills"))
    second = trained(material, tmp_path / "b", quick("pmk"), first.model, from_scratch=False, image_size=None)
    assert second.history[0].acc_orig == first.history[-1].acc_orig
    assert "before training" in second.card.read_text()
    about = json.loads((tmp_path / "b/training.json").read_text())
    assert about["done"]
    assert about["facts"]["seed"] == 0
    assert about["facts"]["dataset"] == material.dataset.digest()
    assert (tmp_path / "b/curves.png").read_bytes()[:4] == b"\x89PNG"
    assert find(str(tmp_path / "b/recipe.toml")).digest == quick("pmk").digest


def test_the_seed_decides(material: Material, tmp_path: Path) -> None:
    recipe = quick("stills", "epochs=1")
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        trained(material, tmp_path / name, recipe, seed=seed)
    assert same(tmp_path / "a", tmp_path / "b")
    assert not same(tmp_path / "a", tmp_path / "c")
    assert (tmp_path / "a/split.csv").read_text() != (tmp_path / "c/split.csv").read_text()


def test_multi_label_trains(material: Material, tmp_path: Path) -> None:
    done = trained(material, tmp_path / "run", quick("finetune", "multi_label=true", "epochs=1"))
    assert done.history[-1].loss < 0.7  # a binary loss: twelve classes at even odds are 0.69


def test_a_held_out_dataset_of_its_own(material: Material, tmp_path: Path) -> None:
    dataset = material.dataset
    label = targets_of(dataset).label[dataset.sets.is_anchor]
    split = split_by_source(dataset, label, share=0.4, seed=0)
    halves = [dataset.keep_rows(np.isin(dataset.sets.set, side)) for side in (split.training, split.held_out)]
    first, second = (Material(dataset=half, source=material.source) for half in halves)
    done = train(quick("stills", "epochs=1"), first, NET, tmp_path / "run", OPTIONS, Silent(), held_out=second)
    assert "held-out" not in (tmp_path / "run/split.csv").read_text()
    assert f"{second.dataset.n_sets} sets" in done.card.read_text()
    with pytest.raises(StrobeError, match="on both the training and the held-out side"):
        train(quick("stills"), first, NET, tmp_path / "leak", OPTIONS, Silent(), held_out=first)
    other = replace(
        second.dataset, info=replace(second.dataset.info, label_space=LabelSpace.of_names("x", list("abcdefghijkl")))
    )
    with pytest.raises(StrobeError, match="does not have the classes"):
        train(
            quick("stills"), first, NET, tmp_path / "x", OPTIONS, Silent(), held_out=replace(second, dataset=other)
        )  # fmt: skip


@pytest.mark.parametrize("model", [NET, "torchvision:resnet18", "clip"])
def test_a_linear_probe_is_the_network_under_another_head(model: str, material: Material, tmp_path: Path) -> None:
    if model == "clip":
        model = _clip(tmp_path)
    settings = {"image_size": None if "clip" in model else 32, "from_scratch": "clip" not in model}
    done = trained(material, tmp_path / "run", quick("linear-probe", "epochs=30"), model, **settings)
    last = done.history[-1]
    assert last.loss < 2.4 < np.log(12)
    loaded: Any = load_model(done.model, LoadOptions(device="cpu"))
    assert loaded.spec.label_space == material.dataset.info.label_space
    part = material.dataset.only_videos((tmp_path / "run/held-out.txt").read_text().split())
    rows, whole = part.sets.frame[part.sets.is_anchor], np.full(len(part.frames), -1)
    whole[rows] = [loaded.forward([loaded.prepare(material.source.read(row))]).argmax() for row in rows]
    right = part.right_rows(whole)[part.sets.is_anchor].mean()
    assert right == pytest.approx(last.acc_orig, abs=1.5 / len(rows)), "as in training, to a rounding of features"
    made = []

    class Watching(Silent):
        def task(self, label: str, total: int | None) -> Any:
            made.append(label)
            return super().task(label, total)

    again = quick("linear-probe", "epochs=1")
    train(again, material, model, tmp_path / "again", replace(OPTIONS, **settings), Watching())
    assert "features" not in made, "they are made once"
    with pytest.raises(StrobeError, match="all if images are corrupted"):
        quick("linear-probe", "corruption=fog")


def _clip(folder: Path) -> str:
    import open_clip

    config = {
        "embed_dim": 32,
        "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "patch_size": 16, "head_width": 16},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
    }
    (folder / "strobe-probe-clip.json").write_text(json.dumps(config))
    open_clip.add_model_config(folder)
    torch.manual_seed(0)
    torch.save(open_clip.create_model("strobe-probe-clip").state_dict(), folder / "clip.pt")
    return f"openclip:strobe-probe-clip@{folder / 'clip.pt'}"


# -- killed ------------------------------------------------------------------------------------------------------


def _command(folder: Path, out: Path, *more: str) -> list[str]:
    return [
        "train", "stills", str(folder), "-m", NET, "-o", str(out), "--from-scratch", "--image-size", "32",
        "--set", "epochs=6", "--set", "batch=12", "--evaluations", "2", "--threads", "1", "--device", "cpu", "-q",
        *more,
    ]  # fmt: skip


def _run(words: list[str]) -> None:
    done = CliRunner().invoke(command, words[1:], catch_exceptions=False)
    assert done.exit_code == 0


@pytest.mark.slow
def test_killed_at_any_step_it_ends_the_same(world_folder: Path, tmp_path: Path) -> None:
    _run(_command(world_folder, tmp_path / "whole"))
    words, checkpoint = (
        _command(world_folder, tmp_path / "killed", "--checkpoint-s", "0"),
        tmp_path / "killed/checkpoint.pt",
    )
    steps = []
    for _ in range(2):
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        process = subprocess.Popen(
            [sys.executable, "-m", "strobe", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while process.poll() is None and not (checkpoint.exists() and checkpoint.stat().st_mtime_ns != before):
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        steps.append(torch.load(BytesIO(checkpoint.read_bytes().partition(b"\n")[2]), weights_only=True)["step"])
    assert 0 < steps[0] < steps[1] < 12
    _run(words)
    assert same(tmp_path / "whole", tmp_path / "killed")
    assert not [path for path in (tmp_path / "killed").iterdir() if path.name.endswith(".tmp")]


# -- several processes -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_processes_train_the_model_of_one(world_folder: Path, tmp_path: Path) -> None:
    # In bfloat16 two members often tie, and who is worst is then a matter of the order of sums.
    more = ["--set", "loss=worst", "--set", "optimiser=sgd", "--set", "learning_rate=0.05", "--precision", "float32"]
    _run(_command(world_folder, tmp_path / "one", *more))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "strobe"]
    done = subprocess.run(
        [*launcher, *_command(world_folder, tmp_path / "two", *more)], capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    a, b = tensors(tmp_path / "one"), tensors(tmp_path / "two")
    assert a.keys() == b.keys()
    floats = [name for name in a if a[name].is_floating_point()]
    worst = max(float((a[name] - b[name]).abs().max() / a[name].abs().max().clamp(min=1e-3)) for name in floats)
    assert worst < 1e-3, f"a tensor differs by {worst:.2e} of its greatest weight"
    assert json.loads((tmp_path / "two/training.json").read_text())["versions"]["processes"] == "2"


# -- bad input ---------------------------------------------------------------------------------------------------


def test_a_loss_that_is_no_number_names_its_step_and_keeps_the_checkpoint(material: Material, tmp_path: Path) -> None:
    recipe = quick("stills", "optimiser=sgd", "learning_rate=1e-9", "clip_norm=0", "epochs=4")
    with pytest.raises(Stop):
        train(recipe, material, NET, tmp_path / "run", replace(OPTIONS, checkpoint_s=0), StopAfter(3))
    path = tmp_path / "run/checkpoint.pt"
    state = torch.load(BytesIO(path.read_bytes().partition(b"\n")[2]), weights_only=True)  # without its digest
    state["module"]["fc.weight"][0, 0] = float("nan")
    torch.save(state, path)
    content = path.read_bytes()
    with pytest.raises(
        StrobeError, match=rf"the loss of step {state['step']} is not a number.*checkpoint is kept"
    ) as caught:
        trained(material, tmp_path / "run", recipe, checkpoint_s=0.0)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == content


def test_another_recipe_in_the_same_folder_is_refused(material: Material, tmp_path: Path) -> None:
    with pytest.raises(Stop):
        train(quick("stills"), material, NET, tmp_path / "run", replace(OPTIONS, checkpoint_s=0), StopAfter(1))
    before = (tmp_path / "run/checkpoint.pt").read_bytes()
    with pytest.raises(StrobeError, match=r"contains another training \(recipe.epochs: 2, not 3\)"):
        trained(material, tmp_path / "run", quick("stills", "epochs=3"))
    with pytest.raises(StrobeError, match=r"contains another training \(seed: 0, not 1\)"):
        trained(material, tmp_path / "run", quick("stills"), seed=1)
    assert (tmp_path / "run/checkpoint.pt").read_bytes() == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other/thesis.txt").write_text("x")
    with pytest.raises(StrobeError, match="contains other files"):
        trained(material, tmp_path / "other", quick("stills"))


def test_a_full_disk_keeps_the_last_checkpoint(
    material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Stop):
        train(quick("stills"), material, NET, tmp_path / "run", replace(OPTIONS, checkpoint_s=0), StopAfter(2))
    before = (tmp_path / "run/checkpoint.pt").read_bytes()
    plain = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        if len(content) > 100_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return plain(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        with pytest.raises(CannotWrite, match="the disk is full"):
            trained(material, tmp_path / "run", quick("stills"), checkpoint_s=0.0)
    assert (tmp_path / "run/checkpoint.pt").read_bytes() == before
    trained(material, tmp_path / "run", quick("stills"))
    trained(material, tmp_path / "whole", quick("stills"))
    assert same(tmp_path / "run", tmp_path / "whole")


def test_a_disk_that_fills_up_at_the_end_loses_nothing(
    material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last write is that of the weights: one line, the checkpoint is kept, and the same command finishes."""
    plain, steps = Path.write_bytes, []

    def full(path: Path, content: bytes) -> int:
        if "model.safetensors" in path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return plain(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        with pytest.raises(
            CannotWrite, match=r"run/model\.safetensors: the disk is full.* the checkpoint is kept"
        ) as caught:
            trained(material, tmp_path / "run", quick("stills"))
    assert "\n" not in str(caught.value)
    assert (tmp_path / "run/checkpoint.pt").is_file()
    assert not (tmp_path / "run/model.safetensors").exists()
    step = Trainer.step
    monkeypatch.setattr(Trainer, "step", lambda self, number: steps.append(number) or step(self, number))
    trained(material, tmp_path / "run", quick("stills"))
    assert not steps, "every step was in the checkpoint"
    assert not (tmp_path / "run/checkpoint.pt").exists()
    trained(material, tmp_path / "whole", quick("stills"))
    assert same(tmp_path / "run", tmp_path / "whole")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="ulimit")
def test_a_limit_on_files_ends_a_training_with_exit_2_and_the_same_command_finishes(
    world_folder: Path, tmp_path: Path
) -> None:
    """A real limit of the system: no file may have more than 1 MB, and the weights have 2 MB."""
    words = ["train", "stills", str(world_folder), "-m", "strobe-net-small", "-o", str(tmp_path / "run"), "-q"]
    words += ["--set", "epochs=1", "--from-scratch", "--device", "cpu", "--image-size", "32"]
    line = f"ulimit -f 1000; exec {sys.executable} -m strobe " + " ".join(words)
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "larger than the system allows" in done.stderr
    assert "bug in strobe" not in done.stderr
    assert not (tmp_path / "run/model.safetensors").exists()
    again = subprocess.run([sys.executable, "-m", "strobe", *words], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "run/model.safetensors").is_file()


def test_one_flipped_bit_of_a_checkpoint_is_noticed_and_an_old_checkpoint_loads(
    material: Material, tmp_path: Path
) -> None:
    with pytest.raises(Stop):
        train(quick("stills"), material, NET, tmp_path / "run", replace(OPTIONS, checkpoint_s=0), StopAfter(2))
    path = tmp_path / "run/checkpoint.pt"
    whole = path.read_bytes()
    written = TrainFolder(tmp_path / "run", json.loads((tmp_path / "run/training.json").read_text())["facts"])
    assert written.load(device="cpu") is not None
    for place in [0, 30, 60, *np.random.default_rng(0).integers(0, len(whole), 40).tolist()]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        with pytest.raises(InvalidFile, match="remove it to start again"):
            written.load(device="cpu")
    with pytest.raises(InvalidFile, match="remove it to start again"):
        trained(material, tmp_path / "run", quick("stills"))
    _, line, content = whole.partition(b"\n")
    assert line
    path.write_bytes(content)  # as it was written before there were digests
    trained(material, tmp_path / "run", quick("stills"))
    trained(material, tmp_path / "whole", quick("stills"))
    assert same(tmp_path / "run", tmp_path / "whole")


def test_one_class_is_refused_and_one_class_held_out_is_noted(material: Material, tmp_path: Path) -> None:
    dataset = material.dataset
    label = targets_of(dataset).label[dataset.sets.is_anchor]
    alone = replace(material, dataset=dataset.keep_rows(label[dataset.sets.set] == 3))
    name = dataset.info.label_space.names[3]
    with pytest.raises(StrobeError, match=rf"have one class \({name}\).*add clips of another class") as caught:
        trained(alone, tmp_path / "one", quick("finetune"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "one").exists()
    split = split_by_source(dataset, label, share=0.4, seed=0)
    held = np.intersect1d(split.held_out, np.flatnonzero(label == 3))
    sides = [dataset.keep_rows(np.isin(dataset.sets.set, side)) for side in (split.training, held)]
    many, few = (Material(dataset=side, source=material.source) for side in sides)
    heard = Heard()
    train(quick("stills", "epochs=1"), many, NET, tmp_path / "run", OPTIONS, heard, held_out=few)
    assert any(f"all held-out clips have one class ({name})" in text for text in heard.notes)


def test_the_largest_loss_of_each_set_is_printed_beside_what_is_minimised(material: Material, tmp_path: Path) -> None:
    heard = Heard()
    done = trained(material, tmp_path / "run", quick("pmk"), say=heard)
    last = done.history[-1]
    assert last.largest_loss is not None
    assert last.largest_loss != pytest.approx(last.loss), "one in train mode, one as the network is used"
    assert any(
        f"(mean of the largest loss of each set, in eval mode: {last.largest_loss:.4f})" in text for text in heard.notes
    )
    header = (tmp_path / "run/curves.csv").read_text().splitlines()[0]
    assert header == "step,epoch,seconds,learning_rate,loss,acc_orig,acc_pmk,largest_loss"
    plain = trained(material, tmp_path / "plain", quick("stills"))
    assert plain.history[-1].largest_loss is None
    assert (tmp_path / "plain/curves.csv").read_text().splitlines()[0].endswith("loss,acc_orig,acc_pmk")


def test_a_damaged_checkpoint_is_one_line(material: Material, tmp_path: Path) -> None:
    with pytest.raises(Stop):
        train(quick("stills"), material, NET, tmp_path / "run", replace(OPTIONS, checkpoint_s=0), StopAfter(2))
    path = tmp_path / "run/checkpoint.pt"
    whole = path.read_bytes()
    path.write_bytes(whole[:1000])
    with pytest.raises(
        StrobeError,
        match=r"not a readable checkpoint; remove it to start again",
    ):
        trained(material, tmp_path / "run", quick("stills"))


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"facts": 3}', '{"facts": {}}', '{"facts": {"model": []}, "done": 7}']
)
def test_a_damaged_folder_is_one_line(content: str, material: Material, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/training.json").write_text(content)
    with pytest.raises(StrobeError) as caught:
        trained(material, tmp_path / "run", quick("stills"))
    assert "\n" not in str(caught.value)
    assert (tmp_path / "run/training.json").read_text() == content


@pytest.mark.parametrize(
    "told", ["", "{", "[]", '{"label_space": 3}', '{"label_space": {"name": "x", "ids": [], "names": []}}']
)
def test_a_damaged_header_is_one_line(told: str, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_file({"fc.weight": torch.zeros(2, 2)}, str(path), metadata={"strobe": told})
    with pytest.raises(StrobeError, match="its header is damaged") as caught:
        read_header(path)
    assert "\n" not in str(caught.value)


def test_memory_that_runs_out_is_one_line(material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def step(trainer: Trainer, number: int) -> Any:
        raise RuntimeError("CUDA out of memory. Tried to allocate 9 GiB")

    monkeypatch.setattr(Trainer, "backward", step)
    with pytest.raises(StrobeError, match=r"out of memory; split each step with --set accumulate=4"):
        trained(material, tmp_path / "run", quick("stills"))


def test_sets_of_one_frame_have_no_worst(material: Material, tmp_path: Path) -> None:
    dataset = material.dataset.keep_rows(material.dataset.sets.is_anchor)
    with pytest.raises(StrobeError, match=r"every set has only one frame.*stills"):
        trained(replace(material, dataset=dataset), tmp_path / "run", quick("pmk"))
    with pytest.raises(StrobeError, match="did you mean fog"):
        trained(material, tmp_path / "run", quick("noise", "corruption=fogg"))
    assert not (tmp_path / "run").exists(), "a folder nothing was written to goes again"
    trained(replace(material, dataset=dataset), tmp_path / "stills", quick("stills", "epochs=1"))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("strobe-tiny", "not a classifier"),
        ("onnx:model.onnx", "have no gradients"),
        ("timm:test_resnt", "did you mean test_resnet"),
        ("timm:test_resnet@{other}", "do not fit"),
        ("strobe-net@{other}", "do not fit"),
    ],
)
def test_models_that_cannot_be_trained_are_one_line(model: str, said: str, material: Material, tmp_path: Path) -> None:
    import timm

    save_file(timm.create_model("test_vit", num_classes=4).state_dict(), str(tmp_path / "other.safetensors"))
    with pytest.raises(StrobeError, match=said) as caught:
        trained(material, tmp_path / "run", quick("stills"), model.format(other=tmp_path / "other.safetensors"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_strobe_net_without_weights_answers_nothing() -> None:
    with pytest.raises(ModelFailed, match="has no weights yet; train it"):
        load_model("strobe-net", LoadOptions(device="cpu"))


def test_the_command_says_what_it_did(world_folder: Path, tmp_path: Path) -> None:
    words = _command(world_folder, tmp_path / "run")[1:]
    done = CliRunner().invoke(command, words, catch_exceptions=False)
    assert "held out acc_orig" in done.output
    assert f"use it as {NET}@{tmp_path / 'run'}/model.safetensors" in done.output
    told = json.loads(CliRunner().invoke(command, [*words, "--json"], catch_exceptions=False).output)
    assert told["was_there"]
    listed = CliRunner().invoke(command, ["--list"], catch_exceptions=False).output
    assert listed.count("\n") >= 5
    assert "pmk-mixed" in listed
