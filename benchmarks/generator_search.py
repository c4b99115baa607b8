"""Compare the speed of the batched search in a generator's activations with a plain loop over single images.

    PYTHONPATH=src python benchmarks/generator_search.py --loop 24 --out FILE                # CPU and GPU in one run
    PYTHONPATH=src python benchmarks/generator_search.py --device cpu --granularity pixel    # a quick test

Both take normalised gradient steps in a growing ball and then bisect, with 8-bit rounding, until the model no longer
gives the answer of the unchanged image. The plain loop handles one image at a time, without batches, and stores
nothing. If the shipped weights are missing, the script uses networks of the same shape with random weights and prints
`random`. No other program should run on the machine.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from strobe.annexes.generators.changing import ChangeableGenerator, drawn_latents, places_of, scale_latents, scales
from strobe.annexes.generators.layered import TorchGenerator
from strobe.annexes.generators.networks import NETWORKS, LayeredNet
from strobe.annexes.generators.providers import load_generator
from strobe.annexes.generators.search import OCTAVES, GeneratorSearchOptions, levels_of, search_changes
from strobe.annexes.generators.spec import GeneratorSpec, GeneratorStep, LayeredGenerator
from strobe.core.errors import StrobeError
from strobe.core.labels import LabelSpace
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.vary.pgd import wrong_by

HOW = GeneratorSearchOptions(search="minimal")


def random_generator(name: str, device: str) -> LayeredGenerator:
    torch.manual_seed(0)
    net = LayeredNet(NETWORKS[name])
    with torch.no_grad():
        for _ in range(3):  # the batch norms need statistics
            net.train()(torch.randn(64, net.about.latent), torch.arange(64) % net.about.classes)
    about = net.eval().about
    spec = GeneratorSpec(
        name=f"{name} (random)", provider="strobe-gan", weights="random", latent_size=about.latent,
        label_space=LabelSpace.of_names("some", [str(place) for place in range(about.classes)]),
        image_hw=(about.side, about.side),
        steps=tuple(GeneratorStep(name=one.name, granularity=one.granularity) for one in about.steps),
    )  # fmt: skip
    return TorchGenerator(net, list(net.steps), spec=spec, device=device, condition=lambda _, y: net.condition(y))


def loaded(args: argparse.Namespace, device: str) -> tuple[LayeredGenerator, Any, bool]:
    load, random = LoadOptions(device=device), False
    generator: LayeredGenerator
    try:
        generator = load_generator(args.generator, load)
        model: Any = load_model(args.model, load)
    except StrobeError as error:
        print(f"using random weights: {error}")
        generator, random = random_generator(args.generator, device), True
        fresh = LoadOptions(device=device, pretrained=False, label_space=generator.spec.label_space)
        model = load_model("strobe-net", fresh)
    return generator, model, random


def plain(scores: Any, changing: ChangeableGenerator, latent: Any, label: int, cap: float) -> float:
    """Return the smallest magnitude for one image by a plain loop, inf if there is none up to the cap."""
    base = changing.begin(latent[None], [label])
    row = torch.zeros(1, dtype=torch.long, device=changing.device)

    def look(change: Any) -> tuple[float, Any]:
        change = change.detach().requires_grad_()
        image = changing.pixels(base, row, change)
        seen = ((image * 255).round() / 255).detach() + image - image.detach()
        lead = wrong_by(scores(seen), right)
        (slope,) = torch.autograd.grad(lead.sum(), change)
        return float(lead.detach()), slope / slope.norm().clamp_min(1e-30)

    with torch.no_grad():
        answer = scores(
            (changing.pixels(base, row, torch.zeros(1, changing.width, device=row.device)) * 255).round() / 255
        )
    right = torch.zeros_like(answer, dtype=torch.bool)
    right[0, answer.argmax()] = True
    change, found = torch.zeros(1, changing.width, device=row.device), None
    for step in range(HOW.n_steps + 1):
        lead, uphill = look(change)
        if lead >= HOW.margin:
            found = change
            break
        radius = cap * 2 ** (-OCTAVES * (1 - (step + 1) / HOW.n_steps))
        change = change + 0.25 * radius * uphill
        change = change * min(1.0, radius / float(change.norm().clamp_min(1e-30)))
    if found is None:
        return math.inf
    low, high = 0.0, float(found.norm())
    for _ in range(8):
        middle = (low + high) / 2
        change, hit = found * (middle / high), False
        for step in range(9):
            lead, uphill = look(change)
            if lead >= HOW.margin:
                found, high, hit = change, float(change.norm()), True
                break
            change = change + 0.5 * 0.7**step * middle * uphill
            change = change * min(1.0, middle / float(change.norm().clamp_min(1e-30)))
        low = low if hit else middle
    return high


def measured(args: argparse.Namespace, device: str) -> Iterator[dict[str, Any]]:
    generator, model, random = loaded(args, device)
    spec = generator.spec
    scale = scales(generator, scale_latents(spec, images=64, seed=0), batch=32)
    names = [str(number) for number in range(args.images)]
    latents, classes = drawn_latents(spec, 0, names), [number % len(spec.label_space) for number in range(args.images)]
    batch = min(args.images, args.batch if device != "cpu" else args.cpu_batch)
    images = args.images if device != "cpu" else args.cpu_images
    for word in args.granularity.split(","):
        changing = ChangeableGenerator(generator, scale, places_of(spec, word))
        levels = levels_of(2 * math.sqrt(changing.neurons))

        def batched(some: slice, changing: ChangeableGenerator = changing, levels: Any = levels) -> list[float]:
            base = changing.begin(latents[some], classes[some])
            every = torch.arange(len(base), device=changing.device)
            with torch.no_grad():
                still = torch.zeros(len(base), changing.width, device=changing.device)
                answer = model.input_scores((changing.pixels(base, every, still) * 255).round() / 255).cpu().numpy()
            right = np.zeros(answer.shape, dtype=bool)
            right[np.arange(len(right)), answer.argmax(1)] = True
            found = search_changes(
                model.input_scores, changing, base, right, names[some], levels=levels, options=HOW, keep=False
            )
            return [one.reach or math.inf if one.status == "found" else math.inf for one in found]

        def looped(some: slice, changing: ChangeableGenerator = changing, levels: Any = levels) -> list[float]:
            return [
                plain(model.input_scores, changing, latents[place], classes[place], levels[-1])
                for place in range(some.start, some.stop)
            ]

        batched(slice(0, 2)), looped(slice(0, 1))  # warm-up
        begin = time.perf_counter()
        alone = looped(slice(0, args.loop))
        loop_s = (time.perf_counter() - begin) / args.loop
        begin, together = time.perf_counter(), []
        for start in range(0, images, batch):
            together += batched(slice(start, min(images, start + batch)))
        batch_s = (time.perf_counter() - begin) / images
        pairs = [(a, b) for a, b in zip(alone, together, strict=False) if math.isfinite(a) and math.isfinite(b)]
        row = {
            "device": device if device == "cpu" else torch.cuda.get_device_name(), "random": random,
            "granularity": word, "neurons": changing.neurons, "batch": batch, "images": images, "looped": args.loop,
            "loop_per_s": 1 / loop_s, "batched_per_s": 1 / batch_s, "times": loop_s / batch_s,
            "found": sum(map(math.isfinite, together)) / len(together),
            "batched_over_loop": statistics.median(b / a for a, b in pairs) if pairs else None,
        }  # fmt: skip
        print(
            f"{row['device']:22s} {word:7s} plain loop {row['loop_per_s']:8.2f}/s   batches of {batch:4d} "
            f"{row['batched_per_s']:9.2f}/s   {row['times']:6.1f} times   found {row['found']:.0%}   "
            f"M {row['batched_over_loop'] or math.nan:.3f} of the loop's",
            flush=True,
        )
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", action="append", help="default: cpu, and cuda if available")
    parser.add_argument("--generator", default="strobe-gan")
    parser.add_argument("--model", default="strobe-world")
    parser.add_argument("--granularity", default="latent,coarse,middle,fine,pixel")
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--cpu-images", type=int, default=32)
    parser.add_argument("--cpu-batch", type=int, default=32)
    parser.add_argument("--loop", type=int, default=6, help="number of images for the plain loop")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = []
    for device in args.device or ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
        for row in measured(args, device):
            rows.append(row)
            if args.out:  # written after each row, so that an interrupted run keeps its rows
                args.out.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
