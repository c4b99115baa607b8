"""A vision-language model behind an address: `openai:MODEL@URL`, chat completions with an image.

The address ends before /chat/completions, e.g. https://HOST/v1. The key comes from OPENAI_API_KEY or STROBE_TOKEN.
Loading sends one request with a test image. It shows whether the service can be used, which version of the model
answers, and whether it returns log-probabilities.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from strobe.annexes.remote.chat_boxes import ChatBoxes, WrongForm, with_other
from strobe.annexes.remote.chat_choices import Choices
from strobe.annexes.remote.chat_images import ImageEncoding, SentImage
from strobe.annexes.remote.chat_settings import ChatSettings, chat_settings, digest_of_texts, prompt_of
from strobe.annexes.remote.http import HttpClient, patiently
from strobe.core.errors import ModelFailed, printable
from strobe.core.labels import LabelSpace
from strobe.core.ports import Image
from strobe.core.records import ModelSpec
from strobe.core.remote import Blame, RemoteAnswer, Reply, RequestFailed, RequestLimits, Usage
from strobe.models.guard import probe_image
from strobe.models.naming import labels_of
from strobe.models.options import LoadOptions, ModelName
from strobe.models.providers import Provider

KEYS = ("OPENAI_API_KEY", "STROBE_TOKEN")
"""The environment variables with the key, in order."""

PROTOCOL = "chat completions 1"
"""The form of our requests and of our reading of the answers. It changes when either changes."""

_THOUGHTS = re.compile(r"^\s*<think>.*?</think>", re.DOTALL)
_SAID = 200
"""How many characters of an answer are kept."""


class ChatModel:
    """One model of a service. Subclasses write the question and read the answer."""

    device, lanes, preparation = "remote", 1, None

    def __init__(self, client: HttpClient, model: ModelName, settings: ChatSettings, options: LoadOptions) -> None:
        self.limits = RequestLimits.of(options.limits)
        self.spec: ModelSpec
        self._client, self._model, self._settings = client, model, settings
        self._version: str | None = None
        self._encoding = ImageEncoding(encoding=settings.encoding, quality=settings.quality, longest=options.image_size)

    def prepare(self, image: Image) -> SentImage:
        """Return the image as it is sent. Thread-safe."""
        return self._encoding.encode(image)

    def prepare_input(self, image: Image) -> SentImage:
        """Return the same as `prepare`, which never crops."""
        return self._encoding.encode(image)

    def ask(self, prepared: Sequence[SentImage], *, sources: Sequence[str], attempt: int = 0) -> Reply:  # noqa: ARG002 (the question stays the same)
        """Send one request with one image and return its answer. Raises RequestFailed, and never retries."""
        (image,), (source,) = prepared, sources
        text, more, read = self._question(image, source)
        completion = self._complete(image, text, more)
        return Reply(answers=(read(completion),), used=completion.used)

    def _question(self, image: SentImage, source: str) -> tuple[str, dict[str, Any], Any]:
        """Return the question, further fields of the request, and the function that reads the completion."""
        raise NotImplementedError

    def _complete(self, image: SentImage, text: str, more: dict[str, Any]) -> "Completion":
        settings = self._settings
        url = {"url": image.url} | ({"detail": settings.detail} if settings.detail else {})
        parts = [{"type": "image_url", "image_url": url}, {"type": "text", "text": text}]
        body: dict[str, Any] = {
            "model": self._model.name,
            "messages": [{"role": "user", "content": parts}],
            "max_tokens": settings.max_tokens,
            "temperature": settings.temperature,
            "seed": settings.seed,
            **more,
            **settings.extra,
        }
        data = json.dumps({name: value for name, value in body.items() if value is not None}).encode()
        sent = Usage(requests=1, sent_bytes=len(data))
        reply = self._client.send("POST", "/chat/completions", body=data, headers={"Content-Type": "application/json"})
        try:
            content = reply.json(self._model.plain)
        except RequestFailed as failure:
            raise RequestFailed(str(failure), blame=failure.blame, used=sent) from None
        completion = Completion(content, sent, what=self._model.plain)
        if self._version is None:
            self._version = completion.version
        elif not settings.version and completion.version != self._version:
            completion.fail(
                f"the service answered as {printable(self._version, limit=60)!r} and now answers as "
                f"{printable(completion.version, limit=60)!r}; run the same command again to ask that version, or set "
                '"version" in <<model_settings>> to treat them as one',
                blame="model",
            )
        return completion

    def probe(self) -> "Completion":
        """Return the completion for a test image. Raises ModelFailed if the service cannot be used."""
        image = self.prepare(probe_image())
        text, more, _ = self._question(image, "probe")
        try:
            return patiently(lambda: self._complete(image, text, more), within=self.limits.timeout)
        except RequestFailed as failure:
            raise ModelFailed(str(failure)) from failure


class Completion:
    """The first choice of a chat completion, with its form checked."""

    def __init__(self, reply: Any, sent: Usage, *, what: str) -> None:
        self.used, self._what = sent, what
        given = reply if isinstance(reply, dict) else {}
        usage = given.get("usage") if isinstance(given.get("usage"), dict) else {}
        self.used = Usage(
            requests=sent.requests,
            sent_bytes=sent.sent_bytes,
            input_tokens=_count(usage, "prompt_tokens"),
            output_tokens=_count(usage, "completion_tokens"),
        )
        choices = given.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        message = first.get("message") if isinstance(first, dict) else None
        if not isinstance(first, dict) or not isinstance(message, dict):
            self._refuse_form(given, reply)
        self.version = printable(given.get("model") or "", limit=_SAID)
        self.ended = str(first.get("finish_reason") or "")
        self.refusal = message.get("refusal") if isinstance(message.get("refusal"), str) else None
        self.text = _text(message.get("content"))
        self.tokens = _tokens(first.get("logprobs"))

    def _refuse_form(self, given: dict[str, Any], reply: Any) -> NoReturn:
        """Raise the failure of a reply that is no completion. Some services send errors with status 200."""
        error = given.get("error")
        if error:
            said = error.get("message", error) if isinstance(error, dict) else error
            code = error.get("code") if isinstance(error, dict) else None
            blame: Blame = "again" if code in (429, 500, 502, 503, 504) else "frame"
            self.fail(f"the service answers with an error: {printable(said, limit=160)}", blame=blame)
        start = printable(json.dumps(reply, ensure_ascii=False), limit=80)
        self.fail(f"the reply is no chat completion: {start}; does the address end with /v1?")

    def fail(self, reason: str, *, blame: Blame = "frame") -> NoReturn:
        """Raise the failure of this request, with what it used."""
        raise RequestFailed(f"{printable(self._what)}: {reason}", blame=blame, used=self.used)

    def checked_text(self) -> str:
        """Return the text. Raises RequestFailed if the service withheld it."""
        if self.ended == "content_filter":
            self.fail("the content filter of the service withheld the answer")
        return self.text

    def cut(self) -> NoReturn:
        """Raise the failure of an answer that was cut off before it named anything."""
        start = printable(self.text, limit=60)
        self.fail(f'the answer was cut off ({start!r}); raise "max_tokens" in <<model_settings>>')


class ChatClassifier(ChatModel):
    """A chat model that chooses one of the classes."""

    def __init__(
        self, client: HttpClient, model: ModelName, settings: ChatSettings, options: LoadOptions, classes: LabelSpace
    ) -> None:
        super().__init__(client, model, settings, options)
        prompt = prompt_of(settings, options, what=model.plain)
        self._choices = Choices(classes, settings, prompt, what=model.plain)
        can_have = settings.answer == "letters" and self._choices.are_letters
        if settings.scores == "logprobs" and not can_have:
            raise ModelFailed(
                f"{printable(model.plain)}: {len(classes) + 1} choices are more than 52 letters, so they have numbers, "
                'which have no single token; use "scores": "choice" in <<model_settings>>'
            )
        self._wants_tokens = can_have and settings.scores != "choice"
        found = self.probe()
        if self._wants_tokens and found.tokens is None:
            if settings.scores == "logprobs":
                raise ModelFailed(
                    f"{printable(model.plain)}: the service returns no log-probabilities; use "
                    '"scores": "choice" in <<model_settings>>'
                )
            self._wants_tokens = False
        source = "log-probabilities of the letters" if self._wants_tokens else "the choice"
        facts = {"scores": source, "choices": self._choices.digest}
        self.spec = _spec(model, client, settings, options, found, classes, prompt=prompt, facts=facts)

    def _question(self, image: SentImage, source: str) -> tuple[str, dict[str, Any], Any]:  # noqa: ARG002
        question = self._choices.question(source)
        more: dict[str, Any] = {}
        if self._wants_tokens:
            more = {"logprobs": True, "top_logprobs": self._settings.top_logprobs}
        elif self._settings.answer == "constrained":
            more = {"response_format": self._choices.schema(question)}

        def read(completion: Completion) -> RemoteAnswer:
            text = completion.checked_text()
            if self._wants_tokens and completion.tokens is None and not completion.refusal:
                completion.fail("the reply has no log-probabilities, but the first one had them")
            tokens = completion.tokens if self._wants_tokens else None
            answer = self._choices.read(text, tokens, question)
            if answer is not None:
                return _short(answer)
            if completion.ended == "length":
                completion.cut()
            said = completion.refusal or text.strip() or "(no text)"
            return RemoteAnswer(said=printable(said, limit=_SAID))

        return question.text, more, read


class ChatDetector(ChatModel):
    """A chat model that answers with boxes."""

    def __init__(
        self, client: HttpClient, model: ModelName, settings: ChatSettings, options: LoadOptions, classes: LabelSpace
    ) -> None:
        super().__init__(client, model, settings, options)
        prompt = prompt_of(settings, options, what=model.plain)
        self._boxes = ChatBoxes(classes, settings, prompt)
        facts = {"choices": self._boxes.digest}
        self.spec = _spec(
            model, client, settings, options, self.probe(), with_other(classes), prompt=prompt, facts=facts
        )

    def _question(self, image: SentImage, source: str) -> tuple[str, dict[str, Any], Any]:  # noqa: ARG002
        more = {"response_format": self._boxes.schema()} if self._settings.answer == "constrained" else {}

        def read(completion: Completion) -> RemoteAnswer:
            text = completion.checked_text()
            if completion.refusal:
                completion.fail(f"the model refused: {printable(completion.refusal, limit=120)}")
            if completion.ended == "length":
                completion.cut()
            try:
                found, outside = self._boxes.read(text, image)
            except WrongForm as error:
                completion.fail(str(error))
            return RemoteAnswer(found=found, said=printable(", ".join(outside), limit=_SAID) or None)

        return self._boxes.text(image), more, read


def load(model: ModelName, options: LoadOptions) -> ChatModel:
    """Load a classifier or a detector behind an address."""
    if model.address is None:
        raise ModelFailed(f"{printable(model.text)}: expected openai:MODEL@URL, e.g. openai:gpt-4o@https://HOST/v1")
    settings, limits = chat_settings(options), RequestLimits.of(options.limits)
    if settings.labels == "dataset" and options.label_space is None:
        raise ModelFailed(
            f"{printable(model.plain)}: its choices are the classes of a dataset; give them with <<label_space=FILE>>, "
            'or as "labels" in <<model_settings>>'
        )
    classes = labels_of(model.plain, settings.labels, options.label_space)
    client = HttpClient(
        model.address, what=model.plain, timeout=limits.timeout, connections=limits.concurrency, keys=KEYS
    )
    kind = ChatDetector if settings.task == "detection" else ChatClassifier
    return kind(client, model, settings, options, classes)


def _spec(
    model: ModelName,
    client: HttpClient,
    settings: ChatSettings,
    options: LoadOptions,
    found: Completion,
    classes: LabelSpace,
    *,
    prompt: str,
    facts: dict[str, Any],
) -> ModelSpec:
    """Return the description of the model, with everything that can change its answers."""
    version = settings.version or found.version
    return ModelSpec(
        name=model.text,
        provider="openai",
        task=settings.task,
        label_space=classes,
        weights=digest_of_texts(PROTOCOL, client.address, model.name, version),
        kind="probabilities",
        preprocessing={
            "protocol": PROTOCOL,
            "address": client.address,
            "model": model.name,
            "version": version,
            **settings.facts(),
            **ImageEncoding(longest=options.image_size).facts(),
            **facts,
            "prompt": prompt,
        },
        batch_size=1,
    )


def _short(answer: RemoteAnswer) -> RemoteAnswer:
    return RemoteAnswer(scores=answer.scores, said=printable((answer.said or "").strip(), limit=_SAID))


def _count(usage: Any, name: str) -> int:
    value = usage.get(name)
    return value if type(value) is int and value >= 0 else 0


def _text(content: Any) -> str:
    """Return the text of a message: a text, a list of parts, or nothing."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    return _THOUGHTS.sub("", content) if isinstance(content, str) else ""


def _tokens(logprobs: Any) -> list[Any] | None:
    """Return the tokens of an answer with their log-probabilities; None if the form is another."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list) or not content:
        return None
    for token in content:
        top = token.get("top_logprobs") if isinstance(token, dict) else None
        if not isinstance(top, list) or not all(_is_token(one) for one in (token, *top)):
            return None
    return content


def _is_token(one: Any) -> bool:
    return isinstance(one, dict) and isinstance(one.get("token"), str) and type(one.get("logprob")) in (int, float)


PROVIDER = Provider(
    load=load,
    what="a vision-language model behind an OpenAI-compatible address, which chooses a class or finds boxes",
    example="openai:MODEL@https://HOST/v1",
    package="urllib3",
    extra="remote",
    settings=("prompt", "limits", "image_size"),
    model_settings=True,
    address=True,
)
