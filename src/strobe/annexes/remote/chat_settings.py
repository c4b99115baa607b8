"""The settings of a chat model behind an address: the keys of the JSON file of --model-settings, and the prompt."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from strobe.core.errors import InvalidFile, InvalidValue, ModelFailed, UnknownName, expect, in_file, printable
from strobe.core.files import read_json
from strobe.models.options import LoadOptions

Answer = Literal["letters", "constrained", "free"]
ScoreSource = Literal["auto", "logprobs", "choice"]

_OURS = ("model", "messages", "stream", "n", "response_format", "logprobs", "top_logprobs")
"""Fields of a request that `extra` may not change, because strobe reads the answer by them."""

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")

CLASS_PLACEHOLDERS = ("choices", "symbol")
BOX_PLACEHOLDERS = ("choices", "coordinates", "width", "height")

DEFAULT_PROMPTS: Mapping[str, str] = {
    "letters": (
        "Which of these is the main object in the image?\n\n{choices}\n\n"
        "Answer with the {symbol} of one choice and nothing else."
    ),
    "constrained": (
        "Which of these is the main object in the image?\n\n{choices}\n\n"
        'Answer as JSON with the name of one choice: {"class": "NAME"}'
    ),
    "free": "What is the main object in the image? Answer with its name and nothing else.",
    "boxes": (
        "Find every object of these classes in the image:\n\n{choices}\n\n"
        "Answer with a JSON list and nothing else. It has one entry for each object, or none: "
        '[{"label": "CLASS", "box": [x0, y0, x1, y1], "score": 0.9}]\n'
        "{coordinates} The score is your confidence from 0 to 1."
    ),
}
"""The prompts without --prompt: for each `answer` of a classifier, and for a detector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """How a chat model is asked. Every field is a key of the settings file and part of the key of the answers.

    `answer`: choose a letter, fill a JSON schema, or answer freely. `scores`: log-probabilities, the choice alone, or
    `auto`, which uses log-probabilities if the service returns them. `order` is the seed of the order of choices, or
    None for the order of the classes. `none` is the text of the choice "none of these". `labels` are the choices.
    `boxes` are the units of a detector's coordinates, and `box_order` is the order of its four numbers. `extra` has
    further fields of the request; None removes a field. `version` replaces the version that the service reports.

    >>> ChatSettings(answer="free").max_tokens
    64
    """

    task: Literal["classification", "detection"] = "classification"
    answer: Answer | None = None
    scores: ScoreSource = "auto"
    labels: Any = "dataset"
    none: str = "none of these"
    order: int | None = 0
    encoding: Literal["jpeg", "png"] = "jpeg"
    quality: int = 95
    detail: Literal["auto", "low", "high"] | None = None
    temperature: float | None = 0.0
    seed: int | None = 0
    max_tokens: int | None = None
    top_logprobs: int = 20
    boxes: Literal["pixels", "thousand"] = "pixels"
    box_order: Literal["xyxy", "yxyx"] = "xyxy"
    version: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _among(self.task, "task", ("classification", "detection"))
        is_detector = self.task == "detection"
        if self.answer is None:
            object.__setattr__(self, "answer", "free" if is_detector else "letters")
        _among(self.answer, "answer", ("constrained", "free") if is_detector else ("letters", "constrained", "free"))
        _among(self.scores, "scores", ("auto", "logprobs", "choice"))
        if self.scores == "logprobs" and self.answer != "letters":
            raise InvalidValue('scores: "logprobs" needs "answer": "letters", because a choice must be one token')
        _among(self.encoding, "encoding", ("jpeg", "png"))
        _among(self.detail, "detail", ("auto", "low", "high", None))
        _among(self.boxes, "boxes", ("pixels", "thousand"))
        _among(self.box_order, "box_order", ("xyxy", "yxyx"))
        expect(isinstance(self.none, str) and bool(self.none.strip()), "none", "a text", self.none)
        expect(isinstance(self.version, str), "version", "a text", self.version)
        _whole(self.order, "order", 0, 2**32 - 1, optional=True)
        _whole(self.quality, "quality", 1, 100)
        _whole(self.seed, "seed", 0, 2**63 - 1, optional=True)
        _whole(self.top_logprobs, "top_logprobs", 1, 100)
        if self.max_tokens is None:
            most = 4096 if is_detector else {"letters": 16, "constrained": 128, "free": 64}[str(self.answer)]
            object.__setattr__(self, "max_tokens", most)
        _whole(self.max_tokens, "max_tokens", 1, 10**6)
        number = type(self.temperature) in (int, float)
        fits = self.temperature is None or (number and 0 <= self.temperature <= 2)
        expect(fits, "temperature", "0 to 2, or null", self.temperature)
        expect(isinstance(self.extra, Mapping), "extra", "an object of fields of the request", self.extra)
        ours = next((name for name in self.extra if name in _OURS), None)
        expect(ours is None, "extra", f"none of {', '.join(_OURS)}, which strobe sets itself", ours)

    @property
    def prompt_kind(self) -> str:
        """The name of the default prompt."""
        return "boxes" if self.task == "detection" else str(self.answer)

    def facts(self) -> dict[str, Any]:
        """Return the settings that can change an answer of this task, as plain JSON."""
        other = {"labels", "version"}  # the classes and the weights of the spec contain these
        other |= {"scores", "top_logprobs", "none"} if self.task == "detection" else {"boxes", "box_order"}
        other |= {"quality"} if self.encoding == "png" else set()
        return {one.name: _plain(getattr(self, one.name)) for one in fields(self) if one.name not in other}


def chat_settings(options: LoadOptions) -> ChatSettings:
    """Return the settings of the JSON file, or the defaults without one."""
    if options.settings is None:
        return ChatSettings()
    given = read_json(options.settings)
    if not isinstance(given, dict):
        raise InvalidFile(options.settings, 'expected a JSON object of settings, e.g. {"answer": "letters"}')
    known = [one.name for one in fields(ChatSettings)]
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        what = f"setting in {printable(options.settings)}"
        raise UnknownName(what, unknown, known, hint=f"known: {', '.join(known)}")
    with in_file(options.settings):
        return ChatSettings(**given)


def prompt_of(settings: ChatSettings, options: LoadOptions, *, what: str) -> str:
    """Return the prompt of the options, or the default, after checking its placeholders."""
    prompt = options.prompt if options.prompt is not None else DEFAULT_PROMPTS[settings.prompt_kind]
    known = BOX_PLACEHOLDERS if settings.task == "detection" else CLASS_PLACEHOLDERS
    found = _PLACEHOLDER.findall(prompt)
    unknown = next((name for name in found if name not in known), None)
    if unknown is not None:
        hint = "known: " + ", ".join(f"{{{name}}}" for name in known)
        raise UnknownName(f"placeholder of the prompt of {printable(what)}", unknown, known, hint=hint)
    if not prompt.strip():
        raise ModelFailed(f"{printable(what)}: the prompt is empty; write a question, or remove <<prompt>>")
    if "choices" not in found and settings.prompt_kind == "letters":
        raise ModelFailed(
            f"{printable(what)}: the prompt does not list the choices; write {{choices}} where they belong, or set "
            '"answer": "free" in <<model_settings>>'
        )
    return prompt


def filled(prompt: str, values: Mapping[str, str]) -> str:
    """Return the prompt with its placeholders replaced. Other braces stay, so that a prompt may contain JSON.

    >>> filled('{choices} as {"class": "NAME"}', {"choices": "A. cat"})
    'A. cat as {"class": "NAME"}'
    """
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), prompt)


def digest_of_texts(*texts: str) -> str:
    """Return one digest of several texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _among(value: object, name: str, known: tuple[str | None, ...]) -> None:
    words = ", ".join("null" if one is None else one for one in known)
    expect(value in known, name, f"one of {words}", value)


def _whole(value: Any, name: str, low: int, high: int, *, optional: bool = False) -> None:
    """Raise InvalidValue unless the value is a whole number in this range; null is allowed if `optional`."""
    fits = (type(value) is int and low <= value <= high) or (optional and value is None)
    expect(fits, name, f"{low:,} to {high:,}" + (", or null" if optional else ""), "null" if value is None else value)
