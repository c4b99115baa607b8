"""A hostile chat service: it repeats the key in every form, and sends replies that no parser should survive.

Only the frames that it spoils have no answer, and the key is in no file, no output and no message.
"""

import base64
import html
import json
import re
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from chat_endpoint import Asked, ChatEndpoint, completion

SECRET = "sk-live/Ab+9z_QQ"
Command = Callable[..., tuple[int, str, str]]

FORMS: list[Callable[[str], str]] = [
    lambda key: key,
    lambda key: key.replace("/", r"\/"),
    lambda key: "".join(f"\\u{ord(one):04x}" for one in key),
    lambda key: urllib.parse.quote(key, safe=""),
    lambda key: urllib.parse.quote(urllib.parse.quote(key, safe=""), safe=""),
    lambda key: "".join(f"&#{ord(one)};" for one in key),
    lambda key: base64.b64encode(f"user:{key}".encode()).decode(),
    lambda key: key.encode().hex(),
    lambda key: key[:5] + "\x1b" + key[5:],
]
NESTED = b"[" * 200_000 + b"]" * 200_000


def decoded(text: str) -> str:
    """The text with every encoding undone, again and again; by the standard library, not by strobe."""
    before, out = "", text
    while before != text:
        before = text
        text = re.sub(r"\\u\{?([0-9a-fA-F]{2,4})\}?", lambda found: chr(int(found[1], 16)), text)
        text = re.sub(r"\\([^\w])", r"\1", html.unescape(urllib.parse.unquote(text)))
        text = re.sub(r"[\x00-\x1f]", "", text)
        out += "\n" + text
    for word in re.findall(r"[\w+/-]{16,}", out, re.ASCII):
        for cut in range(4):
            piece = word[cut:].replace("-", "+").replace("_", "/")
            out += base64.b64decode(piece[: len(piece) // 4 * 4]).decode("latin-1")
        if re.fullmatch("[0-9a-fA-F]+", word):
            out += bytes.fromhex(word[: len(word) // 2 * 2]).decode("latin-1")
    return out


def everything_in(folder: Path) -> str:
    """The text of every file in a folder, and its name."""
    out = ""
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        out += f"\n{path.name}\n"
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            out += json.dumps(table.to_pylist(), default=str, ensure_ascii=False)
            out += str({name.decode(): value.decode() for name, value in (table.schema.metadata or {}).items()})
        else:
            out += path.read_bytes().decode("latin-1")
    return out


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from strobe.cli.main import main

    path = tmp_path_factory.mktemp("hostile") / "clips"
    with pytest.raises(SystemExit):
        main(["synthesize", str(path), "--videos", "18", "--k", "2", "--size", "48", "-q"])
    return path


def spoilt(asked: Asked, number: int) -> Any:
    """The reply to a request: one of many forms of the key in one of many places."""
    form = FORMS[number % len(FORMS)](SECRET)
    nested: Any = []
    for _ in range(900):  # the parser takes it, and whatever repeats it as text goes deeper
        nested = [nested]
    return [
        completion(f"I saw {form}"),
        completion(None, refusal=f"no {form}"),
        (400, {"error": {"message": f"bad {form}"}}),
        (422, {"detail": form, "more": nested}),
        (200, {"error": {"message": form, "code": 1}}),
        (200, {"choices": nested, "key": form}),
        (200, {form: nested}),
        completion(f"half a letter \ud83d {form}"),
        asked.symbol(next(iter(asked.choices.values()))),
    ][number // len(FORMS) % 9]


def test_no_key_rests_anywhere(clips: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("STROBE_DEBUG", "1")  # with tracebacks
    asked: dict[str, int] = {}

    def answer(one: Asked) -> Any:
        number = asked.setdefault(one.url, len(asked))
        reply = spoilt(one, number - 1) if number else "A"  # the first is the test image
        reply = completion(reply) if isinstance(reply, str) else reply
        return {**reply, "model": f"v1 {FORMS[2](SECRET)}"} if isinstance(reply, dict) else reply

    run = tmp_path / "run"
    with ChatEndpoint(answer, key=SECRET) as service:
        words = ("eval", clips, "-m", f"vlm=openai:tiny@{service.url}", "-o", run, "--allow-missing")
        code, out, err = command(*words, "--limits", "retries=0,concurrency=1", "--json")
    assert code == 0, err
    assert len(asked) > len(FORMS) * 5, "there are fewer frames than forms and places"
    for text in (out, err, everything_in(run)):
        assert SECRET not in decoded(text)
    with ChatEndpoint(answer, key="another") as service:  # its message repeats the key that it refuses
        code, out, err = command("predict", clips, "-m", f"vlm=openai:tiny@{service.url}", "-o", tmp_path / "wrong")
    assert code == 2
    assert "it refused the key in OPENAI_API_KEY" in out + err
    assert SECRET not in decoded(out + err)
    assert "nested too deeply" in everything_in(run) or "no chat completion" in everything_in(run)
    for shown in (("report", run), ("score", clips, run, "--allow-missing"), ("view", run, "--json")):
        _, out, err = command(*shown)
        assert SECRET not in decoded(out + err)
        assert "bug in strobe" not in err


@pytest.mark.parametrize("status", [200, 400, 500])
def test_a_nested_reply_fails_its_frame(clips: Path, command: Command, tmp_path: Path, status: int) -> None:
    """Deeper than the parser goes. The other frames are answered."""
    spoiled: list[str] = []

    def answer(asked: Asked) -> Any:
        if len(service.asked) < 4 or len(spoiled) >= 3:
            return asked.symbol(next(iter(asked.choices.values())))
        spoiled.append(asked.url)
        return status, NESTED

    run = tmp_path / "run"
    with ChatEndpoint(answer) as service:
        words = ("predict", clips, "-m", f"vlm=openai:tiny@{service.url}", "-o", run)
        code, _, err = command(*words, "--limits", "retries=0,concurrency=1")
    assert code == 0, err
    assert len(spoiled) == 3
    assert "bug in strobe" not in err
    rows = [row for path in run.rglob("*.parquet") for row in pq.read_table(path).to_pylist()]
    assert sum(bool(row.get("error")) for row in rows) == 3
