"""Check that a model has gradients, with a one-line error before a search starts on one that has none."""

from strobe.core.errors import ModelFailed, printable
from strobe.core.late import require
from strobe.core.ports import Differentiable, Model

__all__ = ["with_gradients"]

_WAY_OUT = "take a classifier of torch (bundled, timm:, torchvision:, openclip:, hf:, most pt2:)"


def with_gradients(model: Model) -> Differentiable:
    """Return the model as one whose scores are differentiable in the pixels, after a test on one grey image.

    Raises ModelFailed for other models: an ONNX file, a detector, a numpy function, a program exported without
    gradients.
    """
    name = printable(model.spec.name)
    if not isinstance(model, Differentiable):
        raise ModelFailed(f"{name}: a model without gradients; {_WAY_OUT}")
    if model.input_hw is None:
        raise ModelFailed(
            f"{name}: its network may have gradients, but its preprocessing does not say the input's size and "
            "normalisation; give strobe.ImagePlan(size_hw=(224, 224), resize=256, mean=…, std=…) in place of the "
            "transform"
        )
    torch = require("torch", what="gradients", extra="models")
    grey = torch.full((1, 3, *model.input_hw), 0.5, device=model.device, requires_grad=True)
    try:
        (found,) = torch.autograd.grad(model.input_scores(grey).sum(), grey)
    except RuntimeError as error:  # torch raises it if nothing on the way to the pixels has a gradient
        said = printable(str(error).splitlines()[0], limit=120)
        raise ModelFailed(f"{name}: a model without gradients ({said}); {_WAY_OUT}") from error
    if found.shape != grey.shape or not bool(torch.isfinite(found).all()):
        raise ModelFailed(f"{name}: its gradients are no finite numbers; try --precision float32")
    return model
