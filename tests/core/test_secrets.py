"""A key is found in every text, however it is written: with encoders of the standard library, also one in another."""

import base64
import html
import json
import string
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strobe.core.errors import StrobeError, printable
from strobe.core.labels import space
from strobe.core.records import ModelSpec
from strobe.core.secrets import _known, hidden, remember

KEYS = st.text(alphabet=string.ascii_letters + string.digits + "-_./+=:~!#%&'\"\\<>", min_size=8, max_size=60)
ESCAPES: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "json": lambda text: json.dumps(text)[1:-1],
    "json, slashes": lambda text: json.dumps(text)[1:-1].replace("/", r"\/"),
    "unicode": lambda text: "".join(f"\\u{ord(one):04x}" for one in text),
    "unicode, upper": lambda text: "".join(f"\\u{ord(one):04X}" for one in text),
    "unicode, braces": lambda text: "".join(f"\\u{{{ord(one):x}}}" for one in text),
    "x": lambda text: "".join(f"\\x{ord(one):02x}" for one in text),
    "octal": lambda text: "".join(f"\\{ord(one):03o}" for one in text),
    "url": lambda text: urllib.parse.quote(text, safe=""),
    "url, all": lambda text: "".join(f"%{ord(one):02x}" for one in text),
    "html": html.escape,
    "html, numbers": lambda text: "".join(f"&#{ord(one)};" for one in text),
    "html, hexadecimal": lambda text: "".join(f"&#X{ord(one):04X};" for one in text),
    "quoted-printable": lambda text: "".join(f"={ord(one):02X}" for one in text),
}
WHOLE: dict[str, Callable[[bytes], str]] = {
    "base64": lambda data: base64.b64encode(data).decode(),
    "base64, url": lambda data: base64.urlsafe_b64encode(data).decode().rstrip("="),
    "hex": bytes.hex,
}


def _hides(secret: str, text: str) -> str:
    _known.clear()
    remember(secret)
    found = hidden(text)
    assert "…" in found, (secret, text)
    return found


@given(KEYS, st.sampled_from(list(ESCAPES)), st.sampled_from(list(ESCAPES)), st.text("xyz ", max_size=5))
def test_escaped_once_and_twice(secret: str, inner: str, outer: str, around: str) -> None:
    once = ESCAPES[inner](secret)
    assert _hides(secret, f"{around}@{once}@{around}") == f"{around}@…@{around}"
    if inner in ("plain", "json", "url", "html") and outer in ("json", "url", "html"):
        assert _hides(secret, f"@{ESCAPES[outer](once)}@") == "@…@"


@given(KEYS, st.data())
def test_each_character_in_its_own_way(secret: str, data: st.DataObject) -> None:
    ways = data.draw(st.lists(st.sampled_from(list(ESCAPES)), min_size=len(secret), max_size=len(secret)))
    text = "".join(ESCAPES[way](one) for way, one in zip(ways, secret, strict=True))
    assert _hides(secret, f"a {text} b").startswith("a …")


@given(KEYS, st.sampled_from(["\x1b", "\u200b", r"\u001b", "%0a", "&#7;", r"\n"]), st.integers(1, 7))
def test_with_something_invisible_between(secret: str, between: str, at: int) -> None:
    assert _hides(secret, f"@{secret[:at]}{between}{secret[at:]}@") == "@…@"


@given(KEYS, st.sampled_from(list(WHOLE)), st.binary(max_size=7), st.binary(max_size=7))
def test_as_a_part_of_encoded_bytes(secret: str, way: str, before: bytes, after: bytes) -> None:
    text = WHOLE[way](before + secret.encode() + after)
    left = _hides(secret, text)
    assert len(left) < len(text) - len(secret), "little more than the neighbours is left"


@given(KEYS, st.integers(0, 400))
def test_a_text_that_is_cut_keeps_no_part_of_a_key(secret: str, at: int) -> None:
    _known.clear()
    remember(secret)
    shown = printable("~" * at + secret[:4] + "\x00" + secret[4:] + "~" * 50, limit=200)
    assert secret[:8] not in shown.replace("~" * 8, "")


def test_every_kept_or_printed_text_is_searched() -> None:
    remember("sk-very-secret")
    assert str(StrobeError(r"no: sk-very\u002dsecret")) == "no: …"
    assert printable("sk%2Dvery-\x1bsecret") == "…"
    facts = {"version": "v sk-very-secret", "more": [{"sk-very-secret": ("a", "sk-very-secret", 2)}]}
    about = {"name": "n", "provider": "p", "task": "classification", "weights": ""}
    spec = ModelSpec(**about, label_space=space("coco-80"), preprocessing=facts)
    assert spec.preprocessing == {"version": "v …", "more": [{"…": ("a", "…", 2)}]}


def test_other_texts_stay_as_they_are() -> None:
    remember("sk-very-secret")
    remember("none")  # a placeholder, as services without keys ask for
    for text in ("none of these", "sk-very", "secret", "%73%6b", "c2stdmVyeQ", "\\u0073k", "Löwe/狮子 100 % &amp; <b>"):
        assert hidden(text) == text


@pytest.mark.parametrize("piece", ["\\", "%25", "&amp;", "&#0000", "sk-very-", "\\u000", "=", "c2st", "a"])
def test_no_text_takes_long(piece: str) -> None:
    remember("sk-very-secret/with\\many%odd&letters")
    text = piece * (2**17 // len(piece))
    assert hidden(text) == text, "an exponential search would not end"
