"""strobe-net and strobe-net-small: residual networks for images of 64 pixels, to train oneself."""

from strobe.core.errors import ModelFailed
from strobe.core.labels import LabelSpace
from strobe.core.late import require
from strobe.models.header import header_of
from strobe.models.naming import space_of
from strobe.models.options import LoadOptions, ModelName
from strobe.models.plan import ImagePlan
from strobe.models.torch_classifier import TorchClassifier, classifier_of
from strobe.models.weights import classes_of_state, load_into, state_of

__all__ = ["load", "plan_of"]

_SIDE = 64


def plan_of(image_size: int | None = None) -> ImagePlan:
    """The whole image squashed to the input, pixels to about −2 … 2."""
    size = image_size or _SIDE
    mean, std = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
    return ImagePlan(size_hw=(size, size), fit="squash", interpolation="bilinear", mean=mean, std=std)


def load(model: ModelName, options: LoadOptions) -> TorchClassifier:
    """The network with the weights `strobe train` wrote; random ones only where these are asked for."""
    require("torch", what=model.name, extra="models")
    from strobe.models.strobe_net_layers import WIDTHS, StrobeNet

    state, header = state_of(model, options), header_of(model, options)
    if state is None and options.pretrained:
        raise ModelFailed(
            f"{model.name}: it comes without weights; train it (strobe train …) and write {model.name}@FILE"
        )
    n_classes = classes_of_state(state) or len(options.label_space or _ONE)
    module = StrobeNet(n_classes, WIDTHS[model.name])
    if state is not None:
        load_into(module, state, path=model.weights or "", model=model.name)
    space = header.label_space if header else space_of(model.text, n_classes, dataset=options.label_space)
    plan = header and header.plan_at(options.image_size)
    return classifier_of(module, model, plan=plan or plan_of(options.image_size), label_space=space, options=options)


_ONE = LabelSpace.of_names("one", ["thing"])
