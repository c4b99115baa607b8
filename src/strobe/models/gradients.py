"""Check that a model has gradients, and raise a one-line error before a search starts if it has none."""

from strobe.core.errors import ModelFailed, printable
from strobe.core.late import require
from strobe.core.ports import Differentiable, Model
from strobe.models.providers import PROVIDERS


def _way_out(model: Model) -> str:
    """Return advice: another runtime for this model, or the providers whose classifiers have gradients."""
    if "backend" in model.spec.preprocessing:
        return "load it with <<backend=torch>>"
    able = PROVIDERS.own_members().items()
    named = [f"{'most ' * (one.gradients == 'most')}{scheme}:" for scheme, one in able if one.gradients]
    return f"choose a torch classifier ({', '.join(['bundled', *named])})"


def with_gradients(model: Model, *, image_hw: tuple[int, int] | None = None) -> Differentiable:
    """Test on one grey image that the model's scores are differentiable in the pixels, and return the model.

    `image_hw` is the size of the images. By default, it is the size of the model's input. Raises ModelFailed for other
    models: an ONNX file, a detector, a numpy function, a program exported without gradients.
    """
    name = printable(model.spec.name)
    if not isinstance(model, Differentiable):
        raise ModelFailed(f"{name}: this model has no gradients; {_way_out(model)}")
    if model.input_hw is None:
        raise ModelFailed(
            f"{name}: its network may have gradients, but its preprocessing does not declare the size and "
            "normalisation of its input; give strobe.ImagePlan(size_hw=(224, 224), resize=256, mean=…, std=…) instead "
            "of the transform"
        )
    torch = require("torch", what="gradients", extra="models")
    size_hw = image_hw or model.input_hw
    grey = torch.full((1, 3, *size_hw), 0.5, device=model.device, requires_grad=True)
    try:
        (gradient,) = torch.autograd.grad(model.input_scores(grey).sum(), grey)
    except ModelFailed as error:
        raise error if size_hw == model.input_hw else ModelFailed(f"{name}: {error}") from error
    except RuntimeError as error:  # raised if no operation between the pixels and the scores has a gradient
        reason = printable(str(error).splitlines()[0], limit=120)
        raise ModelFailed(f"{name}: this model has no gradients ({reason}); {_way_out(model)}") from error
    if gradient.shape != grey.shape or not bool(torch.isfinite(gradient).all()):
        raise ModelFailed(f"{name}: its gradients are not finite; try <<precision=float32>>")
    return model
