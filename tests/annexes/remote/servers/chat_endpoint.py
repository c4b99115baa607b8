"""A chat service in this process: it answers in the documented format, by a function of the image and the question."""

import base64
import io
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image
from serving import HttpService, Request, send


@dataclass(frozen=True)
class Asked:
    """One request: its body, its question, its image, and the choices it lists by letter or number, in order."""

    body: dict[str, Any]
    text: str
    image: np.ndarray
    url: str

    @property
    def choices(self) -> dict[str, str]:
        return dict(re.findall(r"^([A-Za-z]|\d+)\. (.+)$", self.text, re.MULTILINE))

    @property
    def listed(self) -> list[str]:
        return re.findall(r"^- (.+)$", self.text, re.MULTILINE)

    def symbol(self, name: str) -> str:
        return next(symbol for symbol, choice in self.choices.items() if choice == name)


def completion(text: str | None, **more: Any) -> dict[str, Any]:
    """A chat completion as OpenAI documents it. `logprobs` has a dict of tokens for each token."""
    content = [
        {
            "token": max(tokens, key=tokens.get), "logprob": max(tokens.values()), "bytes": None,
            "top_logprobs": [{"token": one, "logprob": value, "bytes": None} for one, value in tokens.items()],
        }
        for tokens in more.get("logprobs") or ()
    ]  # fmt: skip
    message = {"role": "assistant", "content": text, "refusal": more.get("refusal")}
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_760_000_000,
        "model": more.get("model", "tiny-2026-11-18"), "system_fingerprint": "fp_1",
        "choices": [{
            "index": 0, "message": message, "finish_reason": more.get("finish", "stop"),
            "logprobs": {"content": content, "refusal": None} if content else None,
        }],
        "usage": {"prompt_tokens": 90, "completion_tokens": 2, "total_tokens": 92},
    }  # fmt: skip


Answer = Callable[[Asked], "str | dict[str, Any] | tuple[int, dict[str, Any] | bytes]"]


class ChatEndpoint(HttpService):
    """A running service: its `url` ends with /v1, and `asked` has every request with an image."""

    def __init__(self, answer: Answer, *, key: str | None = None) -> None:
        super().__init__(self._reply)
        self.answer, self.key, self.url = answer, key, f"{self.root}/v1"
        self.asked: list[Asked] = []
        self.lock = threading.Lock()

    def _reply(self, request: Request, body: bytes) -> None:
        status, reply = self._of(request.path, request.headers.get("Authorization"), body)
        content = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        send(request, status, content, {"Content-Type": "application/json"})

    def _of(self, path: str, header: str | None, body: bytes) -> tuple[int, dict[str, Any] | bytes]:
        if path != "/v1/chat/completions":
            return 404, {"detail": "Not Found"}
        if self.key is not None and header != f"Bearer {self.key}":
            return 401, {"error": {"message": f"Incorrect API key provided: {header}"}}
        given = json.loads(body)
        parts = {part["type"]: part for part in given["messages"][0]["content"]}
        url = parts["image_url"]["image_url"]["url"]
        image = np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGB"))
        asked = Asked(given, parts["text"]["text"], image, url)
        with self.lock:
            self.asked.append(asked)
        answer = self.answer(asked)
        if isinstance(answer, tuple):
            return answer
        return 200, completion(answer) if isinstance(answer, str) else answer
