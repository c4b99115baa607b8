"""Measure the models that generator_models.py trained, and write their weights in the shipped format."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from strobe.vary.pgd import Norm
from strobe.workflows.train_job import Material


def accuracies(model: Any, held: Material, *, eps: Mapping[Norm, float], most: int, device: str) -> dict[str, float]:
    """Return the accuracy on held-out images, unchanged and under PGD of 20 steps within each of `eps`."""
    import torch

    from strobe.train.sets import targets_of
    from strobe.vary.pgd import Ball, Pgd, best_of_steps

    label = targets_of(held.dataset).label
    rows = held.dataset.sets.frame[:most]
    pixels = np.stack([held.source.read(int(row)) for row in rows])
    images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float().to(device) / 255
    truth = torch.from_numpy(label[:most]).to(device)
    with torch.no_grad():
        right = model.input_scores(images).argmax(dim=1) == truth
    shares = {"n": len(rows), "clean": float(right.float().mean())}
    mask = torch.nn.functional.one_hot(truth, len(model.spec.label_space)).bool()
    for norm, size in eps.items():
        rng = torch.Generator(device=device).manual_seed(0)
        start = Ball(norm).noise(tuple(images.shape), rng, device)
        how = Pgd(norm=norm, steps=20, margin=0.0, rounded=False)
        radius = torch.full((len(images),), size, device=device)
        _, lead = best_of_steps(model.input_scores, images, mask, eps=radius, how=how, start=start)
        shares[f"pgd-20 {norm} {size:.3g}"] = float(((lead < 0) & right).float().mean())
    return {key: round(value, 4) for key, value in shares.items()}


def agreement(weights: Path, models: Mapping[str, Any], sheet: Path, *, samples: int, device: str) -> dict[str, Any]:
    """Return the share of samples to which each classifier assigns the requested class, and draw a sheet of samples."""
    import torch

    from strobe.annexes.generators.gan_training import sample_sheet
    from strobe.annexes.generators.weights import read_network
    from strobe.core.png import png_bytes

    loaded = read_network(weights)
    network, space = loaded.network.to(device), loaded.label_space
    rng = torch.Generator().manual_seed(7)
    count = samples * len(space)
    latents = torch.randn(count, network.about.latent, generator=rng).to(device)
    classes = (torch.arange(count) % len(space)).to(device)
    step = 250
    with torch.no_grad():
        parts = [slice(first, first + step) for first in range(0, count, step)]
        images = [network(latents[part], classes[part]) for part in parts]
        made = (torch.cat(images).clamp(0, 1).expand(-1, 3, -1, -1) * 255).round() / 255
        result: dict[str, Any] = {"n": count, "megabytes": round(weights.stat().st_size / 1e6, 3)}
        for name, model in models.items():
            scores = [model.input_scores(made[part]) for part in parts]
            right = torch.cat(scores).argmax(dim=1) == classes
            by_class = {
                label: round(float(right[classes == place].float().mean()), 3)
                for place, label in enumerate(space.names)
            }
            result[name] = {"all": round(float(right.float().mean()), 4), **by_class}
    shown = made[: min(16, samples) * len(space)].cpu().numpy()
    sheet.write_bytes(png_bytes(sample_sheet(shown, len(space))))
    return result


def half(path: Path, folder: Path, name: str) -> bool:
    """Write the weights of a finished training in half precision. Returns whether there are any."""
    from strobe.models.header import read_header, write_weights
    from strobe.models.weights import read_state

    if not path.is_file():
        return False
    header = read_header(path)
    if header is None:
        return False
    state = {key: value for key, value in read_state(path).items() if not key.endswith("num_batches_tracked")}
    about = json.loads((path.parent / "training.json").read_text(encoding="utf-8"))
    metadata = {"name": about["name"], "facts": about["facts"], "versions": about["versions"]}
    write_weights(
        folder / f"{name}.safetensors",
        state,
        label_space=header.label_space,
        plan=header.plan,
        training=metadata,
        half=True,
    )
    return True
