"""A chat service in this process: it answers in the documented format, by a function of the image and the question."""

import base64
import io
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from PIL import Image


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


Answer = Callable[[Asked], "str | dict[str, Any] | tuple[int, dict[str, Any]]"]


class ChatEndpoint:
    """A running service: its `url` ends with /v1, and `asked` has every request with an image."""

    def __init__(self, answer: Answer, *, key: str | None = None) -> None:
        self.answer, self.key = answer, key
        self.asked: list[Asked] = []
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.root = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.url = f"{self.root}/v1"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def __enter__(self) -> "ChatEndpoint":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reply(self, path: str, header: str | None, body: bytes) -> tuple[int, dict[str, Any]]:
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


def _handler(endpoint: ChatEndpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, reply = endpoint.reply(self.path, self.headers.get("Authorization"), body)
            data = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    return Handler
