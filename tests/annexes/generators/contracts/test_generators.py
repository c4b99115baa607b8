"""What every generator adapter must do, whoever provides it."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from strobe.annexes.generators.providers import load_generator
from strobe.annexes.generators.spec import GRANULARITIES, GeneratorSpec, LayeredGenerator
from strobe.core.errors import StrobeError
from strobe.models.options import LoadOptions

CPU = LoadOptions(device="cpu")


@pytest.fixture(scope="module")
def generator(case: Any) -> LayeredGenerator:
    return load_generator(case.generator, case.options)


def drawn(generator: LayeredGenerator, n: int = 4) -> tuple[Any, Any]:
    latents = torch.randn((n, generator.spec.latent_size), generator=torch.Generator().manual_seed(3))
    return latents, torch.arange(n) % len(generator.spec.label_space)


def activations(generator: LayeredGenerator, latents: Any, classes: Any) -> list[Any]:
    found, condition = [latents], generator.condition(latents, classes)
    for place in range(len(generator.spec.steps)):
        found.append(generator.run(place, found[-1], condition))
    return found


def test_says_what_it_is(case: Any, generator: LayeredGenerator) -> None:
    assert isinstance(generator, LayeredGenerator)
    spec = generator.spec
    assert isinstance(spec, GeneratorSpec)
    assert spec.name == case.generator
    assert len(spec.weights) == 64
    assert len(spec.label_space) == case.n_classes
    assert json.loads(json.dumps(dict(spec.settings))) == dict(spec.settings)
    order = [GRANULARITIES.index(granularity) for _, granularity in spec.places]
    assert order == sorted(order), "from coarse to fine"
    assert spec.places[0] == ("latent", "latent")
    assert spec.places[-1][1] == "pixel"


def test_the_last_step_gives_the_image_it_says(case: Any, generator: LayeredGenerator) -> None:
    image = activations(generator, *drawn(generator))[-1]
    assert image.shape == (4, case.channels, *generator.spec.image_hw)
    assert image.dtype == torch.float32
    assert case.encodes or ((image >= 0) & (image <= 1)).all(), "what an autoencoder returns is clipped later"
    assert len({tuple(one.flatten().tolist()) for one in image}) == 4, "different latents give different images"


def test_the_class_matters(generator: LayeredGenerator) -> None:
    latents, classes = drawn(generator)
    if "strobe-gan@" in generator.spec.name:
        pytest.skip("untrained, its norms do not look at the class yet")
    if generator.spec.encodes:
        pytest.skip("a photo has its own class")
    other = activations(generator, latents, (classes + 1) % len(generator.spec.label_space))[-1]
    assert not torch.equal(activations(generator, latents, classes)[-1], other)


def test_nothing_changed_is_the_same_image_bit_for_bit(generator: LayeredGenerator) -> None:
    latents, classes = drawn(generator)
    plain = activations(generator, latents, classes)
    condition = generator.condition(latents + torch.zeros_like(latents), classes)
    for place in range(len(generator.spec.steps)):  # from every place on
        onward = plain[place] + torch.zeros_like(plain[place])
        for step in range(place, len(generator.spec.steps)):
            onward = generator.run(step, onward, condition)
        assert torch.equal(onward, plain[-1])


def test_alone_and_in_a_batch_the_same(generator: LayeredGenerator) -> None:
    latents, classes = drawn(generator, 8)
    together = activations(generator, latents, classes)[-1]
    alone = torch.cat([activations(generator, latents[row : row + 1], classes[row : row + 1])[-1] for row in range(8)])
    torch.testing.assert_close(alone, together, rtol=0, atol=2e-6)


def test_every_place_has_gradients(generator: LayeredGenerator) -> None:
    latents, classes = drawn(generator)
    latents.requires_grad_()
    found = activations(generator, latents, classes)
    for slope in torch.autograd.grad(found[-1].square().sum(), found[:-1]):
        assert torch.isfinite(slope).all()
        assert slope.any()


def test_loading_again_gives_the_same(case: Any, generator: LayeredGenerator) -> None:
    again = load_generator(case.generator, case.options)
    assert again.spec == generator.spec
    assert torch.equal(activations(again, *drawn(again))[-1], activations(generator, *drawn(generator))[-1])


def test_weights_that_do_not_fit_are_one_line(case: Any) -> None:
    with pytest.raises(StrobeError) as caught:
        load_generator(case.misfit, case.options)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_biggan_in_steps_is_biggan(case: Any, generator: LayeredGenerator) -> None:
    if not case.generator.startswith("biggan:"):
        pytest.skip("has no other way to run")
    from pytorch_pretrained_biggan import BigGAN, BigGANConfig

    folder = Path(case.generator.removeprefix("biggan:"))
    net = BigGAN(BigGANConfig.from_json_file(folder / "config.json")).eval()
    net.load_state_dict(torch.load(folder / "pytorch_model.bin", weights_only=True))
    latents, classes = drawn(generator)
    with torch.no_grad():
        whole = net(latents, torch.nn.functional.one_hot(classes, 5).float(), 0.4) * 0.5 + 0.5
        assert torch.equal(activations(generator, latents, classes)[-1], whole)
        other = load_generator(f"{case.generator}:1.0", CPU)
        assert other.spec.settings["truncation"] == other.spec.spread == 1.0


def test_biggan_with_random_weights_is_refused(case: Any, tmp_path: Path) -> None:
    if not case.generator.startswith("biggan:"):
        pytest.skip("the others have no spectral norms")
    from pytorch_pretrained_biggan import BigGAN, BigGANConfig

    torch.manual_seed(0)
    source = Path(case.generator.removeprefix("biggan:")) / "config.json"
    net = BigGAN(BigGANConfig.from_json_file(source))
    # The library leaves these uninitialised, so they hold whatever was in memory.
    for one, value in ((net.generator.bn.weight, 1.0), (net.generator.bn.bias, 0.0)):
        torch.nn.init.constant_(one.data, value)
    shutil.copy(source, tmp_path)
    torch.save(net.state_dict(), tmp_path / "pytorch_model.bin")
    said = r"step \d \(block .*\) returned values of up to \de\+\d\d; its weights seem to be random or damaged; load"
    with pytest.raises(StrobeError, match=said):
        load_generator(f"biggan:{tmp_path}", CPU)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("py:{}:broken", "do not compose: step 2 (form) raised"),
        ("py:{}:grown", "step 1 (image) returned shape (2, 1, 2, 3), expected (2, 3, 6, 6)"),
        ("py:{}:nothing", "returned int, expected a generator"),
        ("py:{}:not_a_number", "step 2 (form) returned values that are not finite"),
        ("py:{}:raising", "do not compose: step 2 (form) raised KeyError: 'no such key' (line"),
        ("py:{}:nobody", "unknown factory"),
        ("py:nowhere.py:make", "no such file"),
        ("strobe-gann", "did you mean strobe-gan"),
        ("strobe-gan@", "expected a weights file after @"),
        ("strobe-gan@nowhere.safetensors", "no such file"),
        ("biggan:biggan-deep-129", "unknown BigGAN"),
        ("biggan:biggan-deep-128:3", "expected a truncation above 0"),
        ("biggan:{}", "unknown BigGAN"),
        ("", "unknown generator"),
    ],
)
def test_what_is_no_generator_is_one_line(decoder_file: Path, text: str, said: str) -> None:
    with pytest.raises(StrobeError) as caught:
        load_generator(text.format(decoder_file), CPU)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_offline_a_named_biggan_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from pytorch_pretrained_biggan import file_utils

    monkeypatch.setattr(file_utils, "PYTORCH_PRETRAINED_BIGGAN_CACHE", tmp_path)
    with pytest.raises(StrobeError, match="--offline forbids downloading them; name a folder"):
        load_generator("biggan:biggan-deep-128", LoadOptions(device="cpu", offline=True))


def test_the_pages_example_is_a_generator(tmp_path: Path) -> None:
    page = Path(__file__).parents[4] / "docs/annexes/generators.md"
    code = page.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    (tmp_path / "decoder.py").write_text(code)
    torch.manual_seed(0)
    net = torch.nn.ModuleDict({"first": torch.nn.Linear(30, 400), "last": torch.nn.Linear(400, 784)})
    torch.save(net.state_dict(), tmp_path / "vae.pt")
    generator = load_generator(f"py:{tmp_path / 'decoder.py'}:make@{tmp_path / 'vae.pt'}", CPU)
    latents, classes = drawn(generator)
    image = activations(generator, latents, classes)[-1]
    assert image.shape == (4, 1, 28, 28)
    assert [granularity for _, granularity in generator.spec.places] == ["latent", "coarse", "pixel"]
    assert not torch.equal(image, activations(generator, latents, classes + 1)[-1]), "it looks at the class"
    with pytest.raises(StrobeError, match=r"raised .* in line 8"):
        load_generator(f"py:{tmp_path / 'decoder.py'}:make", CPU)
