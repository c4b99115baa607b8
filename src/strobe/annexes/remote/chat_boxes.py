"""Ask a chat model for boxes, and read its JSON."""

import json
from typing import Any

import numpy as np

from strobe.annexes.remote.chat_choices import choice_names, json_schema, without_fence
from strobe.annexes.remote.chat_images import SentImage
from strobe.annexes.remote.chat_names import ClassNames
from strobe.annexes.remote.chat_settings import ChatSettings, digest_of_texts, filled
from strobe.core.class_names import spelling_key
from strobe.core.errors import printable
from strobe.core.files import json_of
from strobe.core.labels import LabelSpace
from strobe.core.records import Detections
from strobe.models.detectors.boxes import Placement, detections

_KEYS = ("box", "bbox_2d", "box_2d")
"""The names of a box: ours, Qwen's and Gemini's."""

_CORNERS = {"xyxy": "[x0, y0, x1, y1]", "yxyx": "[y0, x0, y1, x1]"}
OTHER = "other than these classes"
"""The last class of a detector: labels that name no class of the dataset."""


class WrongForm(Exception):
    """An answer that is not the JSON that was requested."""


def with_other(classes: LabelSpace) -> LabelSpace:
    """Return the space with a class for all other labels at its end. The dataset has no such class."""
    return LabelSpace(name=f"{classes.name} or other", ids=(*classes.ids, OTHER), names=(*classes.names, OTHER))


class ChatBoxes:
    """The question for boxes of these classes, and the reader of its answers."""

    def __init__(self, classes: LabelSpace, settings: ChatSettings, prompt: str) -> None:
        self._settings, self._prompt, self._other = settings, prompt, len(classes)
        self._names, self._found = choice_names(classes), ClassNames(classes)

    @property
    def digest(self) -> str:
        """A digest of the classes as they are written."""
        return digest_of_texts(*self._names)[:16]

    def text(self, image: SentImage) -> str:
        """Return the question about this image."""
        wide, high = image.sent_wh
        corners = f"Each box is {_CORNERS[self._settings.box_order]}, its top left and bottom right corners,"
        if self._settings.boxes == "pixels":
            coordinates = f"{corners} in pixels of the image, which is {wide} wide and {high} high."
        else:
            coordinates = f"{corners} from 0 to 1000, where 1000 is the full width or height of the image."
        lines = "\n".join(f"- {name}" for name in self._names)
        values = {"choices": lines, "coordinates": coordinates, "width": str(wide), "height": str(high)}
        return filled(self._prompt, values).replace("[x0, y0, x1, y1]", _CORNERS[self._settings.box_order])

    def schema(self) -> dict[str, Any]:
        """Return the `response_format` of a list of boxes. The list is in an object, because a schema must be one."""
        number = {"type": "number"}
        one = {
            "type": "object",
            "properties": {
                "label": {"type": "string", "enum": list(self._names)},
                "box": {"type": "array", "items": number, "minItems": 4, "maxItems": 4},
                "score": number,
            },
            "required": ["label", "box", "score"],
            "additionalProperties": False,
        }
        return json_schema({"boxes": {"type": "array", "items": one}})

    def read(self, text: str, image: SentImage) -> tuple[Detections, list[str]]:
        """Return the boxes in pixels of the frame, and the labels that name no class. Raises WrongForm."""
        try:
            found = json_of(without_fence(text))
        except ValueError:
            raise WrongForm(f"expected a JSON list of boxes, got {printable(text, limit=80)!r}") from None
        if isinstance(found, dict) and len(found) == 1:
            found = next(iter(found.values()))
        if not isinstance(found, list):
            raise WrongForm(f"expected a JSON list of boxes, got {printable(text, limit=80)!r}")
        rows = [self._row(one) for one in found]
        outside = [str(one["label"]) for one, row in zip(found, rows, strict=True) if row[0] == self._other]
        wide, high = image.sent_wh
        full = np.array([wide, high, wide, high]) / (1.0 if self._settings.boxes == "pixels" else 1000.0)
        unit = 1.0 if self._settings.boxes == "pixels" else full
        xyxy = np.array([row[1] for row in rows], dtype=np.float64).reshape(-1, 4) * unit
        own_wide, own_high = image.own_wh
        placement = Placement(scale_xy=(wide / own_wide, high / own_high), pad_xy=(0, 0), size_wh=image.own_wh)
        labels, scores = np.array([row[0] for row in rows], dtype=np.int64), np.array([row[2] for row in rows])
        return detections(xyxy, labels, scores, placement=placement), outside

    def _row(self, one: Any) -> tuple[int, list[float], float]:
        """Return the class, the corners and the score of one entry."""
        shown = printable(json.dumps(one, ensure_ascii=False), limit=80)
        if not isinstance(one, dict) or not isinstance(one.get("label"), str):
            raise WrongForm(f"expected an object with label and box, got {shown}")
        box = next((one[key] for key in _KEYS if key in one), None)
        if not isinstance(box, list) or len(box) != 4 or not all(_is_number(value) for value in box):
            raise WrongForm(f"expected a box of four numbers, got {shown}")
        score = one.get("score", 1.0)
        if not _is_number(score) or not 0 <= score <= 1:
            raise WrongForm(f"expected a score from 0 to 1, got {shown}")
        if self._settings.box_order == "yxyx":
            box = [box[1], box[0], box[3], box[2]]
        if box[2] < box[0] or box[3] < box[1]:
            raise WrongForm(f"expected the top left corner first, got {shown}")
        exact = [index for index, name in enumerate(self._names) if spelling_key(name) == spelling_key(one["label"])]
        place = exact[0] if exact else self._found.find(one["label"])
        return self._other if place is None else place, [float(value) for value in box], float(score)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= 1e9  # NaN and infinity are not
