"""Wrap a torch module as a LayeredGenerator, for strobe's own adapters and for your own `py:` file.

from strobe.annexes.generators.layered import layered

def make(options):
    decoder = ...   # a torch module
    steps = [("shape", "coarse", lambda z, classes: decoder.first(z)), ("image", "pixel", lambda a, _: decoder.last(a))]
    return layered(decoder, steps, classes=["0", "1"], latent_size=8, image_hw=(28, 28), device=options.device)
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from strobe.annexes.generators.spec import GeneratorSpec, GeneratorStep
from strobe.core.arrays import digest_of_tensors
from strobe.core.labels import LabelSpace, space

Step = tuple[str, str, Callable[[Any, Any], Any]]
"""Name, granularity, and the callable, which takes the activation and the condition."""

Condition = Callable[[Any, Any], Any]
"""Maps latents and classes to the condition that every step gets in addition to the activation."""


class TorchGenerator:
    """A module that holds the weights, and its steps as callables."""

    def __init__(
        self,
        module: Any,
        calls: Sequence[Callable[[Any, Any], Any]],
        *,
        spec: GeneratorSpec,
        device: str,
        condition: Condition | None = None,
    ) -> None:
        self.spec, self.device = spec, device
        self._module = module.eval().requires_grad_(False).to(device)
        self._calls, self._condition = tuple(calls), condition

    def condition(self, latents: Any, classes: Any) -> Any:
        """Return the module's own condition, or the classes themselves if it has none."""
        return classes if self._condition is None else self._condition(latents, classes)

    def run(self, step: int, activation: Any, condition: Any) -> Any:
        """Run one step on the activation."""
        return self._calls[step](activation, condition)


class TorchAutoencoder(TorchGenerator):
    """A generator whose latents are encoded photos."""

    def __init__(
        self,
        module: Any,
        calls: Sequence[Callable[[Any, Any], Any]],
        *,
        spec: GeneratorSpec,
        device: str,
        encode: Callable[[Any], Any],
        condition: Condition | None = None,
    ) -> None:
        super().__init__(module, calls, spec=spec, device=device, condition=condition)
        self._encode = encode

    def encode(self, pixels: Any) -> Any:
        """Return the latents (N, latent_size) of RGB pixels (N, 3, H, W) in [0, 1]."""
        return self._encode(pixels)


def layered(
    module: Any,
    steps: Sequence[Step],
    *,
    classes: LabelSpace | str | Sequence[str],
    latent_size: int,
    image_hw: tuple[int, int],
    condition: Condition | None = None,
    name: str = "mine",
    device: str = "cpu",
    settings: Mapping[str, Any] | None = None,
    batch_size: int = 32,
) -> TorchGenerator:
    """Wrap your own generator.

    Each step is a name, a granularity (coarse, middle or fine, and pixel for the last step) and a callable.

    A step is called with the previous activation (the latents for the first step) and the condition. The condition is
    the classes (N,), or the result of `condition(latents, classes)`. The last step returns (N, 3, H, W), or (N, 1, H,
    W) if grey. `classes` are names, a LabelSpace, or the name of a shipped one. Latents are sampled from N(0, 1).
    """
    label_space = (
        classes
        if isinstance(classes, LabelSpace)
        else space(classes)
        if isinstance(classes, str)
        else LabelSpace.of_names(f"{name} classes", list(classes))
    )
    spec = GeneratorSpec(
        name=name,
        provider="py",
        label_space=label_space,
        weights=digest_of_tensors(module.state_dict()),
        latent_size=latent_size,
        image_hw=image_hw,
        settings=dict(settings or {}),
        batch_size=batch_size,
        steps=tuple(GeneratorStep(name=step, granularity=fine) for step, fine, _ in steps),  # type: ignore[arg-type]  # it checks them
    )
    return TorchGenerator(module, [call for _, _, call in steps], spec=spec, device=device, condition=condition)
