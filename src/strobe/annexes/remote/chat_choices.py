"""Ask a chat model to choose a class, and read its answer: a symbol, a JSON object, a name, or log-probabilities."""

import hashlib
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.annexes.remote.chat_names import ClassNames, readings
from strobe.annexes.remote.chat_settings import ChatSettings, digest_of_texts, filled
from strobe.core.class_names import spelling_key
from strobe.core.errors import ModelFailed, printable
from strobe.core.files import json_of
from strobe.core.labels import LabelSpace
from strobe.core.remote import RemoteAnswer

LETTERS = string.ascii_uppercase + string.ascii_lowercase
MOST_CHOICES = 2000
"""The largest number of classes that a prompt lists."""

_SYMBOL = re.compile(r"(?P<symbol>[A-Za-z]|\d{1,4})(?:\s*[.):\]]\s*|\s*[-–—]\s+|\s+|$)(?P<rest>.*)", re.DOTALL)
_AROUND = " \t\r\n\"'`*_()[].:,▁Ġ"
"""Characters around a symbol in a token. Tokenizers write a leading space as ▁ or Ġ."""


@dataclass(frozen=True, slots=True)
class ChatQuestion:
    """A question about one source: its text, and the class behind each choice as shown; −1 is "none of these"."""

    text: str
    places: tuple[int, ...]
    symbols: tuple[str, ...]


class Choices:
    """The classes as choices of a chat model. The order of the choices is drawn per source and fixed within it."""

    def __init__(self, classes: LabelSpace, settings: ChatSettings, prompt: str, *, what: str) -> None:
        self.classes, self._settings, self._prompt = classes, settings, prompt
        self._found = ClassNames(classes)
        self.names = choice_names(classes)
        self._none = spelling_key(settings.none)
        lists = "{choices}" in prompt or settings.answer == "constrained"
        if len(classes) < 2:
            raise ModelFailed(
                f"{printable(what)}: the dataset has one class ({printable(classes.names[0])}), and a choice needs two"
            )
        if self._none in {spelling_key(name) for name in self.names}:
            raise ModelFailed(
                f'{printable(what)}: {printable(settings.none)} is a class of the dataset; set another text as "none" '
                "in <<model_settings>>"
            )
        if lists and len(classes) > MOST_CHOICES:
            raise ModelFailed(
                f"{printable(what)}: the dataset has {len(classes):,} classes, and a prompt lists at most "
                f'{MOST_CHOICES:,}; use {{"answer": "free"}} in <<model_settings>> with a prompt without {{choices}}'
            )

    @property
    def are_letters(self) -> bool:
        """Whether each choice, with "none of these", has a letter of its own. More choices have numbers."""
        return len(self.names) + 1 <= len(LETTERS)

    @property
    def digest(self) -> str:
        """A digest of the choices as they are written."""
        return digest_of_texts(*self.names, self._settings.none)[:16]

    def question(self, source: str) -> ChatQuestion:
        """Return the question for all frames of this source."""
        settings, n = self._settings, len(self.names)
        order = np.arange(n)
        if settings.order is not None:
            seed = hashlib.sha256(f"{settings.order}\0{source}".encode()).digest()[:8]
            order = np.random.default_rng(int.from_bytes(seed)).permutation(n)
        places = (*order.tolist(), -1)
        symbols = tuple(LETTERS[: n + 1] if self.are_letters else map(str, range(1, n + 2)))
        words = [self._word(place) for place in places]
        if settings.answer == "letters":
            lines = [f"{symbol}. {word}" for symbol, word in zip(symbols, words, strict=True)]
        else:
            lines = [f"- {word}" for word in words]
        values = {"choices": "\n".join(lines), "symbol": "letter" if self.are_letters else "number"}
        return ChatQuestion(filled(self._prompt, values), places, symbols)

    def _word(self, place: int) -> str:
        return self._settings.none if place < 0 else self.names[place]

    def schema(self, question: ChatQuestion) -> dict[str, Any]:
        """Return the `response_format` that allows these choices and nothing else."""
        names = [self._word(place) for place in question.places]
        return json_schema({"class": {"type": "string", "enum": names}})

    def read(self, text: str, tokens: Sequence[Any] | None, question: ChatQuestion) -> RemoteAnswer | None:
        """Return the answer, or None if the text names no choice. `tokens` are the log-probabilities, if requested."""
        chosen = self._symbol_place(text, question) if tokens is not None else None
        shares = None if tokens is None or chosen is None else _shares(tokens, question, chosen)
        if shares is not None:
            own, none = shares
            outside = none > float(own.max())
            return RemoteAnswer(said=self._settings.none) if outside else RemoteAnswer(scores=own, said=text)
        place = self._place(text, question)
        if place is None:
            return None
        if place < 0:
            return RemoteAnswer(said=self._settings.none)
        scores = np.zeros(len(self.names), dtype=np.float32)
        scores[place] = 1.0
        return RemoteAnswer(scores=scores, said=text)

    def _place(self, text: str, question: ChatQuestion) -> int | None:
        """Return the class that the text chooses, −1 for "none of these", or None."""
        if self._settings.answer == "constrained":
            text = _in_json(text)
        if self._settings.answer == "letters":
            place = self._symbol_place(text, question)
            if place is not None:
                return place
        if self._none in map(spelling_key, readings(text)):
            return -1
        exact = [index for index, name in enumerate(self.names) if name == text.strip()]
        return exact[0] if len(exact) == 1 else self._found.find(text)

    def _symbol_place(self, text: str, question: ChatQuestion) -> int | None:
        """Return the class whose symbol the text gives, −1 for "none of these", or None."""
        places = (self._by_symbol(reading, question) for reading in readings(text))
        return next((place for place in places if place is not None), None)

    def _by_symbol(self, text: str, question: ChatQuestion) -> int | None:
        found = _SYMBOL.fullmatch(text.strip().lstrip("([*\"'` "))
        if found is None:
            return None
        symbol, rest = found["symbol"], found["rest"].strip().strip("*\"'`.)] ")
        if symbol not in question.symbols:
            # Up to 26 choices have capital letters only, so a small letter is clear.
            symbol = symbol.upper()
            if symbol not in question.symbols:
                return None
        place = question.places[question.symbols.index(symbol)]
        if not rest or text.strip().lstrip("([*\"'` ")[len(symbol) :].lstrip()[:1] in (".", ")", ":", "]", "*"):
            return place
        # "A dog" may be the article; it is the letter only if the rest is the name of that choice.
        return place if spelling_key(rest) == spelling_key(self._word(place)) else None


def choice_names(classes: LabelSpace) -> tuple[str, ...]:
    """Return the name of each class as a choice: its first name, or more of it if two classes share that.

    >>> choice_names(LabelSpace(name="m", ids=("a", "b", "c"), names=("crane", "crane", "box_kite, kite")))
    ('crane (a)', 'crane (b)', 'box kite')
    """
    out = [name.split(",")[0].replace("_", " ").strip() or label for label, name in _pairs(classes)]
    for longer in ("{name}", "{name} ({label})"):
        keys = [spelling_key(name) for name in out]
        out = [
            longer.format(name=name.strip(), label=label) if keys.count(key) > 1 else short
            for (label, name), key, short in zip(_pairs(classes), keys, out, strict=True)
        ]
    return tuple(out)


def _pairs(classes: LabelSpace) -> list[tuple[str, str]]:
    return list(zip(classes.ids, classes.names, strict=True))


def json_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return a `response_format` for an object with exactly these properties."""
    schema = {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


def without_fence(text: str) -> str:
    """Return the text without the ``` lines of a code block around it."""
    return re.sub(r"^```[a-z]*\s*\n?|\n?```\s*$", "", text.strip()).strip()


def _in_json(text: str) -> str:
    """Return the class in a JSON answer. A service may ignore the schema, so other text is returned as it is."""
    try:
        json = json_of(without_fence(text))
    except ValueError:
        return text
    inner = json.get("class") if isinstance(json, dict) else json
    return inner if isinstance(inner, str) else text


def _shares(tokens: Sequence[Any], question: ChatQuestion, chosen: int) -> tuple[NDArray[np.float32], float] | None:
    """Return the probability of each class and of "none of these", at the token with the symbol of the `chosen` one.

    The probabilities of all spellings of a symbol are added and divided by their sum over the choices. Returns None if
    no token is that symbol.
    """
    folded = len(question.symbols) <= len(string.ascii_uppercase)
    place_of = dict(zip(question.symbols, question.places, strict=True))

    def place(token: str) -> int | None:
        bare = token.strip(_AROUND)
        return place_of.get(bare.upper() if folded else bare)

    token = next((one for one in tokens if place(one["token"]) == chosen), None)
    if token is None:
        return None
    shares = np.zeros(len(question.places), dtype=np.float64)  # the last one is "none of these"
    listed = {one["token"]: float(one["logprob"]) for one in (*token["top_logprobs"], token)}
    for written, logprob in listed.items():
        behind = place(written)
        if behind is not None:
            shares[behind] += np.exp(min(logprob, 0.0))
    total = float(shares.sum())
    if not np.isfinite(total) or total <= 0:
        return None
    shares /= total
    return shares[:-1].astype(np.float32), float(shares[-1])
