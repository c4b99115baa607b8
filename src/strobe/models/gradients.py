"""Which models have gradients: a plain no, in one line, before a search starts on one that has none."""

from strobe.core.errors import ModelFailed, printable
from strobe.core.late import require
from strobe.core.ports import Differentiable, Model

__all__ = ["with_gradients"]

_WAY_OUT = "take a classifier of torch (bundled, timm:, torchvision:, openclip:, hf:, most pt2:)"


def with_gradients(model: Model) -> Differentiable:
    """The model as one whose scores have gradients down to the pixels; tried on one grey image.

    ModelFailed for a model without: an ONNX file, a detector, a function of numpy, a program exported without.
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
    except RuntimeError as error:  # what torch raises where nothing on the way to the pixels has a gradient
        said = printable(str(error).splitlines()[0], limit=120)
        raise ModelFailed(f"{name}: a model without gradients ({said}); {_WAY_OUT}") from error
    if found.shape != grey.shape or not bool(torch.isfinite(found).all()):
        raise ModelFailed(f"{name}: its gradients are no finite numbers; try --precision float32")
    return model
