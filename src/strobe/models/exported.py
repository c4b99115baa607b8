"""What networks in a file and networks behind an address share: named tensors, and settings in JSON that explain them.

In addition to the keys in `strobe.models.file_settings`, `layout` is nchw (default) or nhwc. `output` names the output
with the scores (default: the first).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import InvalidValue, ModelFailed, UnknownName, printable
from strobe.core.labels import LabelSpace
from strobe.core.ports import Image
from strobe.core.records import ModelSpec
from strobe.models.exact_resize import SentPlan
from strobe.models.file_settings import plan_of
from strobe.models.naming import labels_of
from strobe.models.options import LoadOptions, ModelName
from strobe.models.plan import ImagePlan

CLASSIFIER_KEYS = ("layout", "output", "task", "form_of", "form")
"""The settings of a classifier that are about its tensors, and about the model that it is a form of."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or an output: its name, the name of its numpy type, and its shape. None is a variable dimension."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTensors:
    """How a classifier's tensors are filled and read, from its settings and its tensors."""

    plan: ImagePlan
    layout: str
    output: str
    labels: LabelSpace
    kind: Any
    """None if it is not declared."""
    dtype: str
    batch: int | None
    """The batch size of the input; None if it is variable."""

    def facts(self) -> dict[str, Any]:
        """Return what belongs to the key of the answers."""
        return {**self.plan.to_json(), "layout": self.layout, "output": self.output, "precision": "as exported"}


def score_tensors(
    model: ModelName,
    settings: Mapping[str, Any],
    options: LoadOptions,
    *,
    image: Tensor,
    outputs: Sequence[Tensor],
    place: str,
) -> ScoreTensors:
    """Return how the tensors are filled and read. `place` names the file or the service in messages."""
    name, layout, shape = printable(model.plain), str(settings.get("layout", "nchw")), image.shape
    if layout not in ("nchw", "nhwc"):
        raise InvalidValue(f"{name}: layout: expected nchw or nhwc, got {printable(layout)!r}")
    if len(shape) != 4:
        raise ModelFailed(f"{name}: its input has shape {written(shape)}, expected four dimensions (a batch of images)")
    n_channels = shape[1] if layout == "nchw" else shape[3]
    if n_channels not in (3, None):
        other = "nhwc" if layout == "nchw" else "nchw"
        raise ModelFailed(
            f"{name}: its input {written(shape)} has {n_channels} channels in the layout {layout}, expected 3; "
            f'is the layout {other}? Then set "layout" in its JSON file'
        )
    height, width = shape[2:] if layout == "nchw" else shape[1:3]
    plan = plan_of(model, settings, options, height=height, width=width)
    by_name = {one.name: one for one in outputs}
    output = str(settings.get("output", next(iter(by_name), "")))
    if output not in by_name:
        raise UnknownName(f"output of {printable(place)}", output, by_name, hint=f"it has {', '.join(by_name)}")
    labels, n_outputs = labels_of(model.plain, settings["labels"], options.label_space), by_name[output].shape[-1:]
    if any(n is not None and n != len(labels) for n in n_outputs):
        raise ModelFailed(f"{name}: it has {n_outputs[0]} outputs, but {len(labels)} labels ({labels.name})")
    return ScoreTensors(
        plan=plan, layout=layout, output=output, labels=labels, kind=settings.get("kind"),
        dtype=image.dtype, batch=shape[0],
    )  # fmt: skip


def written(shape: Sequence[int | None]) -> str:
    """Return a shape as text.

    >>> written((None, 3, 64, 64))
    '[?, 3, 64, 64]'
    """
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"


class ExportedClassifier:
    """The half of a classifier that prepares images and fills its input. A subclass runs it."""

    def __init__(self, *, spec: ModelSpec, tensors: ScoreTensors) -> None:
        self.spec, self.plan, self._tensors = spec, tensors.plan, tensors
        self.preparation = SentPlan(tensors.plan)
        self._mean = np.array(self.plan.mean, dtype=np.float32)
        self._std = np.array(self.plan.std, dtype=np.float32)

    @property
    def layout(self) -> str:
        """The order of the input's dimensions, nchw or nhwc."""
        return self._tensors.layout

    def prepare(self, image: Image) -> Image:
        """Return the image, resized and cropped."""
        return self.plan.prepare(image)

    def prepare_input(self, image: Image) -> Image:
        """Return the image unchanged if it has the input's size, otherwise resized to it ignoring aspect ratio."""
        return self.plan.prepare_input(image)

    def pixels_of(self, prepared: Sequence[Any]) -> NDArray[Any]:
        """Return the prepared images as the input."""
        is_nchw = self._tensors.layout == "nchw"
        pixels, shape = np.stack(prepared), (3, 1, 1) if is_nchw else (3,)
        # Reorder bytes before they become floats, and compute in place: less than half the time.
        pixels = (pixels.transpose(0, 3, 1, 2) if is_nchw else pixels).astype(np.float32, order="C")
        if self.plan.divide != 1:
            pixels /= np.float32(self.plan.divide)
        pixels -= self._mean.reshape(shape)
        pixels /= self._std.reshape(shape)
        return np.ascontiguousarray(pixels, dtype=self._tensors.dtype)
