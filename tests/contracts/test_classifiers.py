"""What every classifier adapter must do, whoever provides the model."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from strobe.core.errors import ModelFailed, StrobeError
from strobe.core.labels import LabelSpace
from strobe.core.ports import Classifier, RemoteModel
from strobe.core.records import ModelSpec
from strobe.models.gradients import with_gradients
from strobe.models.options import LoadOptions
from strobe.models.registry import MODELS, load_model, parse


@pytest.fixture(scope="module")
def options(case: Any, pets: LabelSpace) -> LoadOptions:
    return LoadOptions(
        label_space=pets, device="cpu", image_size=case.image_size, settings=case.settings,
        backend=case.backend,
    )  # fmt: skip


@pytest.fixture(scope="module")
def model(case: Any, options: LoadOptions) -> Any:
    return load_model(case.model, options)


def test_says_what_it_is(case: Any, model: Classifier) -> None:
    assert isinstance(model, Classifier)
    spec = model.spec
    assert isinstance(spec, ModelSpec)
    assert spec.name == case.model
    assert len(spec.weights) == 64
    assert len(spec.label_space) == case.n_classes
    assert json.loads(json.dumps(dict(spec.preprocessing))) == dict(spec.preprocessing)
    assert spec.preprocessing, "the preprocessing is said"


def test_scores_are_one_finite_row_per_image(case: Any, model: Classifier, pictures: list[Any]) -> None:
    scores = model.forward([model.prepare(image) for image in pictures[:8]])
    assert scores.shape == (8, case.n_classes)
    assert scores.dtype == np.float32
    assert np.isfinite(scores).all()
    assert len(np.unique(scores.round(5), axis=0)) > 1, "different images get different scores"


def test_the_same_alone_and_in_a_batch(model: Classifier, pictures: list[Any]) -> None:
    prepared = [model.prepare(image) for image in pictures]
    together = model.forward(prepared)
    alone = np.concatenate([model.forward([one]) for one in prepared[:16]])
    assert (together[:16].argmax(axis=1) == alone.argmax(axis=1)).all()
    np.testing.assert_allclose(together[:16], alone, rtol=1e-3, atol=2e-4)


def test_preparing_is_thread_safe(model: Classifier, pictures: list[Any]) -> None:
    plain = [np.asarray(model.prepare(image)) for image in pictures]
    with ThreadPoolExecutor(4) as pool:
        threaded = list(pool.map(model.prepare, pictures))
    assert all((np.asarray(a) == b).all() for a, b in zip(threaded, plain, strict=True))


def test_preparing_leaves_the_image_alone(model: Classifier, pictures: list[Any]) -> None:
    image = pictures[0].copy()
    model.forward([model.prepare(image)])
    assert (image == pictures[0]).all()


def test_loading_again_gives_the_same_digest_and_scores(
    case: Any, model: Classifier, options: LoadOptions, pictures: list[Any]
) -> None:
    again = load_model(case.model, options)
    assert again.spec == model.spec
    first = model.forward([model.prepare(image) for image in pictures[:4]])
    second = again.forward([again.prepare(image) for image in pictures[:4]])
    assert (np.asarray(first) == np.asarray(second)).all()


def test_weights_that_do_not_fit_are_one_line(case: Any, options: LoadOptions) -> None:
    if case.misfit is None:
        pytest.skip("weights and network are one file")
    with pytest.raises(StrobeError, match=r"do not fit|expected") as caught:
        load_model(case.misfit, options)
    assert "\n" not in str(caught.value)


def test_a_name_nobody_knows_is_one_line(case: Any, options: LoadOptions) -> None:
    provider, colon, _ = case.model.partition(":")
    name = f"{provider}:no-such/thing-at-all" if colon else "efficientnet-lite7"
    with pytest.raises(StrobeError) as caught:
        load_model(name, replace(options, offline=True))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_models_own_input_is_neither_resized_nor_cropped(case: Any, model: Classifier) -> None:
    rng = np.random.default_rng(3)
    size_hw = np.asarray(model.prepare(rng.integers(0, 256, (40, 40, 3), dtype=np.uint8))).shape
    size_hw = size_hw[:2] if size_hw[-1] == 3 else size_hw[1:]  # transformers' lies with its channels first

    def planes(image: Any) -> Any:
        found = np.asarray(model.prepare_input(image)).astype(np.float64)
        return found if found.shape[-1] == 3 else found.transpose(1, 2, 0)

    image = rng.integers(0, 256, (*size_hw, 3), dtype=np.uint8)
    found = planes(image)
    assert found.shape == image.shape
    for channel in range(3):  # at most another scale of the same pixels
        slope, offset = np.polyfit(image[..., channel].ravel(), found[..., channel].ravel(), 1)
        np.testing.assert_allclose(found[..., channel], slope * image[..., channel] + offset, atol=1e-4)
    other = rng.integers(0, 256, (size_hw[0] * 2, size_hw[1] * 3, 3), dtype=np.uint8)
    if case.model.startswith("py:"):
        assert planes(other).shape == other.shape  # a function's own affair
        return
    assert planes(other).shape == found.shape
    for crop_hw in ((8, 61), (60, 9)):  # what a view may cut out
        assert planes(rng.integers(0, 256, (*crop_hw, 3), dtype=np.uint8)).shape == found.shape
    for corner in ((slice(2), slice(3)), (slice(-2, None), slice(-3, None))):  # whole: its corners are seen
        changed = other.copy()
        changed[corner] = 255 - changed[corner]
        assert (planes(changed) != planes(other)).any()
    assert model.forward([model.prepare_input(image), model.prepare_input(image)]).shape == (2, case.n_classes)


def test_prepared_elsewhere_is_prepared_the_same(model: Classifier, pictures: list[Any]) -> None:
    assert model.device == ("remote" if isinstance(model, RemoteModel) else "cpu")
    assert model.lanes >= 1
    if model.preparation is None:
        return
    sent = pickle.loads(pickle.dumps(model.preparation))
    assert sent == model.preparation
    assert hash(sent) == hash(model.preparation)
    for image in pictures[:8]:
        np.testing.assert_array_equal(sent.prepare(image), model.prepare(image))
        assert sent.prepare(image).nbytes <= sent.n_bytes
        np.testing.assert_array_equal(sent.prepare_input(image), model.prepare_input(image))
        assert sent.prepare_input(image).nbytes <= sent.n_bytes


def test_has_gradients_down_to_its_pixels_or_says_no_in_one_line(
    model: Classifier, case: Any, options: LoadOptions, pictures: list[Any]
) -> None:
    import torch

    model = (
        load_model(case.model, replace(options, backend="auto").for_gradients())
        if case.model == parse(case.model).name
        else model
    )
    if not MODELS.provider_of(parse(case.model)).gradients:
        with pytest.raises(ModelFailed, match="this model has no gradients") as caught:
            with_gradients(model)
        assert "\n" not in str(caught.value)
        return
    model.forward([model.prepare(pictures[0])])  # what a forward leaves behind is no hindrance
    able = with_gradients(model)
    shown = [able.input_pixels(image) for image in pictures[:3]]
    assert all(one.shape == (*(able.input_hw or ()), 3) and one.dtype == np.uint8 for one in shown)
    pixels = torch.from_numpy(np.stack(shown)).permute(0, 3, 1, 2).float().div(255).requires_grad_()
    scores = able.input_scores(pixels)
    forward = model.forward([model.prepare(image) for image in pictures[:3]])
    np.testing.assert_allclose(scores.detach().numpy(), forward, rtol=1e-4, atol=1e-4)
    (slope,) = torch.autograd.grad(scores[:, 0].sum(), pixels)
    # A small step up the slope raises the score by as much as the slope says.
    length = slope.square().sum((1, 2, 3)).sqrt()
    step = 0.002 * slope / length[:, None, None, None]
    with torch.no_grad():
        rise = (able.input_scores(pixels + step) - able.input_scores(pixels - step))[:, 0]
    assert (length > 0).all()
    assert torch.allclose(rise, 0.004 * length, rtol=0.2, atol=1e-6)
