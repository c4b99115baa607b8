"""Check on two images, before a search starts, that a generator works as declared."""

from typing import Any

from strobe.annexes.generators.spec import Autoencoder, GeneratorSpec, LayeredGenerator
from strobe.core.errors import ModelFailed, out_of_memory, printable
from strobe.core.late import require

_LARGEST = 1e9
"""The largest accepted activation. Trained generators stay far below it. BigGAN with random weights exceeds it."""


def checked_generator(generator: Any) -> LayeredGenerator:
    """Return the generator if its steps turn two latents into two images of the declared size, with gradients.

    Otherwise raise ModelFailed with the step that fails.
    """
    if not isinstance(generator, LayeredGenerator) or not isinstance(generator.spec, GeneratorSpec):
        raise ModelFailed(
            f"a generator needs spec (GeneratorSpec), device, condition and run, got {type(generator).__name__}; "
            "see docs/annexes/generators.md"
        )
    torch, spec = require("torch", what="a generator", extra="models"), generator.spec
    name, where = printable(spec.name), "condition"
    latents = torch.linspace(-1, 1, 2 * spec.latent_size, device=generator.device).view(2, -1) * spec.spread
    start = latents.requires_grad_()
    try:
        with torch.enable_grad():
            condition = generator.condition(start, torch.arange(2, device=generator.device) % len(spec.label_space))
            activation: Any = start
            for index, step in enumerate(spec.steps):
                where = f"step {index + 1} ({printable(step.name)})"
                activation = generator.run(index, activation, condition)
                shape = tuple(getattr(activation, "shape", ()))
                if not shape or shape[0] != 2:
                    raise ModelFailed(f"{name}: {where} returned shape {shape or None} for a batch of 2")
                if activation.dtype != torch.float32:
                    raise ModelFailed(f"{name}: {where} returned {activation.dtype}, expected torch.float32")
                if not bool(torch.isfinite(activation).all()):
                    raise ModelFailed(f"{name}: {where} returned values that are not finite; are its weights damaged?")
                if (most := float(activation.detach().abs().max())) > _LARGEST:
                    raise ModelFailed(
                        f"{name}: {where} returned values of up to {most:.0e}; its weights seem to be random or "
                        "damaged; load trained weights"
                    )
            if shape[1:] not in ((3, *spec.image_hw), (1, *spec.image_hw)):
                expected = f"(2, 3, {spec.image_hw[0]}, {spec.image_hw[1]})"
                raise ModelFailed(
                    f"{name}: {where} returned shape {shape}, expected {expected}, or one channel if grey"
                )
            if isinstance(generator, Autoencoder):
                where = "encode"
                _check_encode(generator, name)
            where = "the backward pass"
            (slope,) = torch.autograd.grad(activation.sum(), start)
    except ModelFailed:
        raise
    except Exception as error:
        if out_of_memory(error):
            raise ModelFailed(f"{name}: out of memory with two images; use <<device=cpu>>") from error
        problem = f"{type(error).__name__}: {printable(str(error).splitlines()[0] if str(error) else '', limit=160)}"
        raise ModelFailed(f"{name}: its steps do not compose: {where} raised {problem}") from error
    if not bool(torch.isfinite(slope).all()):
        raise ModelFailed(f"{name}: its gradients are not finite")
    return generator


def _check_encode(generator: Autoencoder, name: str) -> None:
    """Raise ModelFailed unless two grey photos become two finite latents."""
    torch, spec = require("torch", what="a generator", extra="models"), generator.spec
    with torch.no_grad():
        latents = generator.encode(torch.full((2, 3, *spec.image_hw), 0.5, device=generator.device))
    if tuple(latents.shape) != (2, spec.latent_size):
        raise ModelFailed(f"{name}: encode returned shape {tuple(latents.shape)}, expected (2, {spec.latent_size})")
    if not bool(torch.isfinite(latents).all()):
        raise ModelFailed(f"{name}: encode returned values that are not finite; are its weights damaged?")
