"""Chat models behind an address that answer with boxes."""

import json
from typing import Any

import numpy as np
import pytest
from chat_endpoint import Asked

from strobe.core.remote import RequestFailed


def picture(height: int = 36, width: int = 64, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def ask(model: Any, image: np.ndarray | None = None, source: str = "clip") -> Any:
    return model.ask([model.prepare(picture() if image is None else image)], sources=[source])


def boxes(*rows: Any) -> str:
    return json.dumps([dict(zip(("label", "box", "score"), row, strict=False)) for row in rows])


def test_boxes_are_read_in_pixels_of_the_frame(serve: Any, load: Any) -> None:
    text = boxes(("dog", [8, 4, 16, 12], 0.6), ("Cat", [0, 0, 99, 99], 0.9), ("tree", [1, 1, 2, 2]))
    service = serve(text)
    model = load(service.url, {"task": "detection"}, image_size=32)
    answer = ask(model).answers[0]
    assert "which is 32 wide and 18 high" in service.asked[-1].text
    assert answer.found.label.tolist() == [4, 0, 1], "best first; tree is no class of the dataset"
    assert answer.found.xyxy.tolist() == [[2.0, 2.0, 4.0, 4.0], [0.0, 0.0, 64.0, 36.0], [16.0, 8.0, 32.0, 24.0]]
    assert answer.found.score.tolist() == [1.0, 0.9, 0.6]
    assert answer.said == "tree"
    assert (model.spec.task, len(model.spec.label_space)) == ("detection", 5)
    assert len(ask(load(serve("[]").url, {"task": "detection"})).answers[0].found) == 0


def test_boxes_on_a_scale_of_a_thousand_in_either_order(serve: Any, load: Any) -> None:
    for order, box in (("xyxy", [250, 500, 500, 1000]), ("yxyx", [500, 250, 1000, 500])):
        text = "```json\n" + json.dumps([{"label": "dog", "box_2d": box}]) + "\n```"
        service = serve(text)
        model = load(service.url, {"task": "detection", "boxes": "thousand", "box_order": order})
        assert ask(model).answers[0].found.xyxy.tolist() == [[16.0, 18.0, 32.0, 36.0]]
        assert "from 0 to 1000" in service.asked[-1].text


def test_constrained_boxes_have_a_schema(serve: Any, load: Any) -> None:
    def by_schema(asked: Asked) -> str:
        schema = asked.body["response_format"]["json_schema"]["schema"]
        names = schema["properties"]["boxes"]["items"]["properties"]["label"]["enum"]
        return json.dumps({"boxes": [{"label": names[3], "box": [1, 2, 3, 4], "score": 0.5}]})

    found = ask(load(serve(by_schema).url, {"task": "detection", "answer": "constrained"})).answers[0].found
    assert found.label.tolist() == [3]


@pytest.mark.parametrize(
    "text",
    ["no boxes here", '{"a": 1, "b": 2}', '[{"label": "dog"}]', '[["dog", 1, 2, 3, 4]]', boxes(("dog", [1, 2, 3])),
     boxes(("dog", [1, 2, 3, "4"])), boxes(("dog", [9, 2, 3, 4])), boxes(("dog", [1, 2, 3, 4], 7)),
     '[{"label": 3, "box": [1, 2, 3, 4]}]', '[{"label": "dog", "box": [1, 2, NaN, 4]}]', '[{"label": "dog", "box"'],
)  # fmt: skip
def test_boxes_in_another_form_fail_the_frame(serve: Any, load: Any, text: str) -> None:
    model = load(serve(text).url, {"task": "detection"})
    with pytest.raises(RequestFailed, match="expected") as caught:
        ask(model)
    assert caught.value.blame == "frame"
    assert "\n" not in str(caught.value)
