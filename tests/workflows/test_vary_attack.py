"""`strobe vary attack` from folder to report, on a small net whose nearest wrong images are known."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

from strobe.cli.main import main
from strobe.core.errors import StrobeError
from strobe.core.projections import projection_between
from strobe.formats.import_photos import PhotoFiles
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.store import dataset_folder as folder
from strobe.vary.search_work import SearchWork
from strobe.workflows.import_dataset import ImportOptions, import_dataset
from strobe.workflows.search_bench import TargetFacts
from strobe.workflows.vary_attack import VaryAttackOptions, vary_attack

CPU = LoadOptions(device="cpu", batch_size=3)
SIDE = 12
NET = '''
import torch
from strobe.core.labels import LabelSpace
from strobe.models.options import ModelName, torch_setup
from strobe.models.plan import ImagePlan
from strobe.models.torch_classifier import TorchClassifier, classifier_of

PLAIN = dict(mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))


class Net(torch.nn.Module):
    """The mean of each channel, bent a little."""

    def __init__(self, bend):
        super().__init__()
        self.register_buffer("std", torch.tensor(PLAIN["std"]).view(1, 3, 1, 1))
        self.register_buffer("mean", torch.tensor(PLAIN["mean"]).view(1, 3, 1, 1))
        self.register_buffer("bend", torch.tensor(bend))

    def forward(self, pixels):
        colour = (pixels * self.std + self.mean).mean((2, 3))
        return 60 * colour + self.bend * torch.sin(9 * colour)


def made(options, bend, side, names=("red", "green", "blue")):
    return classifier_of(
        Net(bend), ModelName("py", f"net{bend}"), plan=ImagePlan(size_hw=(side, side), resize=side, **PLAIN),
        label_space=LabelSpace.of_names("colours", list(names)), options=options,
    )


def make(options):
    return made(options, 1.0, 12)


def other(options):
    return made(options, 4.0, 8)


def strangers(options):
    return made(options, 1.0, 12, names=("a", "b", "c"))


class Sly(TorchClassifier):
    """Looks at coarse pixels when it answers, and at fine ones where its gradients are asked for."""

    def forward(self, prepared):
        return super().forward([(one // 64 * 64).astype("uint8") for one in prepared])


def sly(options):
    plain = make(options)
    return Sly(plain._module, spec=plain.spec, plan=plain.plan, setup=torch_setup(options))


def numpy_only():
    return (lambda images: [image.reshape(-1, 3).mean(0) for image in images]), ["red", "green", "blue"]
'''


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos of three colours, some plain and some hard, one of them labelled wrongly; a net that knows colours."""
    root = tmp_path_factory.mktemp("attack")
    rng = np.random.default_rng(0)
    for number in range(8):
        label = number % 3
        pixels = rng.integers(60, 120, (18, 14 + number % 3 * 8, 3))
        pixels[..., label] += 3 + 8 * number
        name = ("red", "green", "blue")[label if number != 7 else 2]
        (root / "photos" / name).mkdir(parents=True, exist_ok=True)
        Pillow.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(root / "photos" / name / f"{number}.png")
    (root / "net.py").write_text(NET)
    import_dataset("photos", root / "photos", root / "data", files=PhotoFiles())
    return root


def model(place: Path, name: str = "make") -> str:
    return f"net=py:{place / 'net.py'}:{name}"


WANTED = VaryAttackOptions(norm=("linf", "l2"), eps=((1 / 255, 4 / 255, 10 / 255), (0.1, 0.4)), steps=6, restarts=1)


@pytest.fixture(scope="module")
def attacked(place: Path) -> Path:
    vary_attack(place / "data", place / "out", [model(place)], WANTED, load=CPU)
    return place / "out"


def test_the_folder_says_everything(attacked: Path, place: Path) -> None:
    data, source = folder.read(attacked), folder.read(place / "data")
    assert data.variants is not None
    assert data.variants.variant.tolist() == ["linf/net", "l2/net"]
    assert data.n_sets == 2 * source.n_sets, "what was not found is kept"
    assert (data.info.axis, data.info.k, data.info.label_source) == ("epsilon", 3, "anchor")
    assert data.frames.as_input.all()
    assert set(zip(data.frames.width.tolist(), data.frames.height.tolist(), strict=True)) == {(SIDE, SIDE)}
    assert not (attacked / ".attack").exists()
    for one in data.variants:
        assert one.target is not None
        assert len(one.target.weights) == 64
        assert one.target.preprocessing["size_hw"] == [SIDE, SIDE]
        assert {"norm", "steps", "step", "restarts", "loss", "margin", "search"} <= set(one.fields)
    statuses = data.sets.status.tolist()
    assert set(statuses) == {"found", "censored", "anchor_wrong"}
    assert statuses.count("anchor_wrong") == 2, "the photo with a wrong label, under both norms"


def test_norm_and_margin_hold_for_the_stored_pixels(attacked: Path) -> None:
    from strobe.store.media import MediaSource

    data = folder.read(attacked)
    assert data.variants is not None
    source, n_found = MediaSource(data), 0
    for one in data:
        if one.status != "found":
            assert not one.members
            assert (one.reach is None) == (one.status == "anchor_wrong")
            continue
        n_found += 1
        ids = data.frame_ids()
        (member,) = one.members
        a, b = (source.read(ids.index(frame.id)).astype(float) for frame in (one.anchor, member.frame))
        norm = one.variant.split("/")[0]
        size = np.abs(a - b).max() if norm == "linf" else np.sqrt(np.square(a - b).sum())
        assert member.distance == one.reach == pytest.approx(size / 255)
        levels = data.variants.levels[list(data.variants.variant).index(one.variant)]
        assert one.reach <= levels[-1] * (1 + 1e-9)
        assert one.margin is not None
        assert one.margin >= 0.01
    assert n_found >= 4


def test_a_finding_that_does_not_survive_being_read_back_is_none(place: Path) -> None:
    done = vary_attack(place / "data", place / "sly", [model(place, "sly")], WANTED, load=CPU)
    tally = done.tally()
    assert sum(many["failed"] for many in tally.values()) > 0
    data = folder.read(place / "sly")
    lost = data.sets.status == "failed"
    assert np.isnan(data.sets.reach[lost]).all()
    stored = {str(path.relative_to(place / "sly")) for path in (place / "sly/media").rglob("*.png")}
    assert stored == set(data.frames.media.tolist()), "no image without a row"


def results(place: Path, attacked: Path) -> dict:
    with pytest.raises(SystemExit) as ended:
        main(["eval", str(attacked), "-m", model(place), "-m", model(place, "other").replace("net=", "other="),
              "-o", str(place / "run"), "-q", "--bootstrap", "100", "--device", "cpu"])  # fmt: skip
    assert not ended.value.code
    return json.loads((place / "run/results.json").read_text())


def test_eval_gives_robust_accuracy_survival_and_who_else_is_fooled(attacked: Path, place: Path) -> None:
    found, data = results(place, attacked), folder.read(attacked)
    assert data.variants is not None
    scores = {(name, one["variant"]): one for name, model in found["models"].items() for one in model["variants"]}
    for row, name in enumerate(data.variants.variant.tolist()):
        mine = data.sets.variant == row
        status, reach = data.sets.status[mine], data.sets.reach[mine]
        target, other = scores["net", name], scores["other", name]
        assert target["is_target"]
        assert not other["is_target"]
        assert target["reproduced"]["value"] == 1.0
        assert target["reproduced"]["n"] == (status == "found").sum()
        assert other["fooled"] is not None
        assert other["fooled"]["n"] <= (status == "found").sum()
        assert target["acc_orig"]["value"] == pytest.approx((status != "anchor_wrong").mean())
        held = []
        for level in target["levels"]:
            lost = (status == "anchor_wrong") | ((status == "found") & (reach <= level["level"] * 1.000001))
            assert level["upto"]["value"] == pytest.approx(1 - lost.mean()), "robust accuracy"
            held.append(level["upto"]["value"])
        assert held == sorted(held, reverse=True)
        search = next(one for one in found["searches"] if one["variant"] == name)
        assert (search["found"], search["censored"], search["anchor_wrong"], search["failed"]) == tuple(
            int((status == one).sum()) for one in ("found", "censored", "anchor_wrong", "failed")
        )
        alive = [level["alive"]["value"] for level in search["levels"]]
        assert alive == sorted(alive, reverse=True)
    assert (place / "run/report.html").is_file()


def test_apgd_makes_a_folder_of_its_own_and_what_is_printed_is_an_upper_bound(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["vary", "attack", place / "data", place / "auto", "-m", model(place), "--eps", "1/255,8/255"]
    words += ["--steps", "6", "--device", "cpu", "-q"]

    def strobe(*line: object) -> int:
        with pytest.raises(SystemExit) as caught:
            main([str(word) for word in line])
        return int(str(caught.value.code))

    assert strobe(*words, "--method", "apgd") == 0
    assert "upper bound on robust accuracy. A stronger search (--restarts" in capsys.readouterr().out
    made = folder.read(place / "auto")
    assert made.variants is not None
    assert made.variants.fields[0]["method"] == "apgd"
    assert strobe(*words) == 2
    assert "already contains a dataset made with other settings" in capsys.readouterr().err
    words[3] = place / "plain"
    assert strobe(*words) == 0
    assert "(--method apgd) may find more" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("py:{}/net.py:numpy_only", "this model has no gradients"),
        ("preds:{}/x.json", "has no gradients to search with"),
        ("py:{}/net.py:strangers", "no class"),
    ],
)
def test_a_model_that_cannot_be_attacked_is_one_line_and_nothing_is_written(place: Path, name: str, said: str) -> None:
    with pytest.raises(StrobeError, match=said) as caught:
        vary_attack(place / "data", place / "never", [name.format(place)], WANTED, load=CPU)
    assert "\n" not in str(caught.value)
    assert not (place / "never").exists()


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (VaryAttackOptions(eps=((2 / 255, 1 / 255),)), "ascending"),
        (VaryAttackOptions(eps=((2 / 255, 2 / 255),)), "without repeats"),
        (VaryAttackOptions(eps=((0.001,),)), "8-bit pixels cannot hold a change below 1/255"),
        (VaryAttackOptions(eps=((4.0,),)), "did you mean /255"),
        (VaryAttackOptions(minimal=True, eps=((0.1,),)), "--most instead of --eps"),
        (VaryAttackOptions(most=(0.1,)), "add --minimal"),
        (VaryAttackOptions(minimal=True, most=(0.001,)), "8-bit pixels cannot hold"),
        (VaryAttackOptions(norm=("linf", "linf")), "each norm once"),
        (VaryAttackOptions(norm=("linf", "l2"), eps=((0.1,),)), r"one value for each --norm \(2\)"),
        (VaryAttackOptions(steps=0), "steps"),
        (VaryAttackOptions(method="apgd", step=0.1), "--step: apgd chooses its own steps"),
        (
            VaryAttackOptions(method="apgd", loss="margin"),
            "--loss: apgd always uses the cross-entropy and targeted DLR",
        ),
        (VaryAttackOptions(targets=3), "--targets: only apgd"),
        (VaryAttackOptions(method="apgd", targets=-1), "targets"),
    ],
)
def test_a_search_nobody_can_mean_is_one_line(place: Path, wanted: VaryAttackOptions, said: str) -> None:
    with pytest.raises(StrobeError, match=said) as caught:
        vary_attack(place / "data", place / "never", [model(place)], wanted, load=CPU)
    assert "\n" not in str(caught.value)
    assert not (place / "never").exists()


def test_folders_that_will_not_do_are_refused(place: Path, attacked: Path, tmp_path: Path) -> None:
    import_dataset("photos", place / "photos", tmp_path / "bare", files=PhotoFiles(), how=ImportOptions(media="none"))
    with pytest.raises(StrobeError, match="has no images"):
        vary_attack(tmp_path / "bare", tmp_path / "out", [model(place)], WANTED, load=CPU)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine.txt").write_text("x")
    with pytest.raises(StrobeError, match="is not empty"):
        vary_attack(place / "data", tmp_path / "full", [model(place)], WANTED, load=CPU)
    with pytest.raises(StrobeError, match="made with other settings"):
        vary_attack(place / "data", attacked, [model(place)], replace(WANTED, seed=3), load=CPU)
    with pytest.raises(StrobeError, match="is the dataset itself"):
        vary_attack(place / "data", place / "data", [model(place)], WANTED, load=CPU)
    with pytest.raises(StrobeError, match="an input of another model, with another size"):
        vary_attack(attacked, tmp_path / "again", [model(place, "other")], WANTED, load=CPU)


def test_the_command_parses_fractions_and_says_what_came(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["vary", "attack", str(place / "data"), str(place / "said"), "-m", model(place), "--eps", "2/255,8/255",
             "--steps", "4", "--restarts", "0", "-q", "--device", "cpu"]  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert not ended.value.code
    said = capsys.readouterr().out
    assert "linf/net: " in said
    assert "held up to the largest ε" in said
    for wrong in ("2/x", "", "1/0", "1/255,,2/255"):
        with pytest.raises(SystemExit) as ended:
            main([*words[:6], "--eps", wrong])
        assert ended.value.code == 2
        error = capsys.readouterr().err.strip()
        assert "--eps: expected numbers such as 4/255" in error
        assert "\n" not in error


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_killed_between_batches_it_ends_in_the_same_folder(
    attacked: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, many = place / "killed" / "out", 0
    keep = SearchWork.keep

    def dying(self, *said):
        nonlocal many
        many += 1
        if many == 3:
            raise KeyboardInterrupt
        return keep(self, *said)

    with monkeypatch.context() as patched:
        patched.setattr(SearchWork, "keep", dying)
        with pytest.raises(KeyboardInterrupt):
            vary_attack(place / "data", out, [model(place)], WANTED, load=CPU)
    assert (out / ".attack").is_dir()
    assert not folder.is_dataset(out)
    with pytest.raises(StrobeError, match="unfinished attack with other settings"):
        vary_attack(place / "data", out, [model(place)], replace(WANTED, steps=5), load=CPU)
    records = sorted(path for path in (out / ".attack").iterdir() if path.name != "settings.json")
    assert len(records) == 2
    records[0].write_text('[{"status": "found"}]')  # damaged: searched again
    searched = []
    with monkeypatch.context() as patched:
        patched.setattr(SearchWork, "keep", lambda self, *said: searched.append(said) or keep(self, *said))
        vary_attack(place / "data", out, [model(place)], WANTED, load=CPU)
    whole = -(-7 // 3) * 2  # seven images the net gets right, three at a time, two norms
    assert len(searched) == whole - 1, "the batch that was done and is sound is not searched again"
    assert tree(out) == tree(attacked)


def test_a_bundled_target_is_recognised_in_every_runtime() -> None:
    """A search runs it in PyTorch, and strobe eval in ONNX Runtime, with other digests."""
    specs = [load_model("strobe-mnist", LoadOptions(backend=backend)).spec for backend in ("torch", "onnxruntime")]
    same = projection_between(specs[0].label_space, specs[0].label_space)
    target = TargetFacts(name="strobe-mnist", spec=specs[0], projection=same, input_hw=(28, 28)).target
    assert specs[0].weights != specs[1].weights
    assert target.is_model("strobe-mnist", specs[1].weights)
    assert not target.is_model("strobe-mnist-l2", specs[1].weights)
