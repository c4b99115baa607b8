"""Keys that must never be printed or stored: every text is searched for them, also for escaped and encoded forms."""

import re
import threading
from collections.abc import Mapping
from functools import cache
from typing import Any

_known: dict[str, re.Pattern[str]] = {}
_lock = threading.Lock()
_SHORTEST = 5
_BETWEEN = (
    r"(?:[\x00-\x1f\x7f\xad\u200b-\u200f\u2060\ufeff]|\\{1,8}(?:u00[01][0-9a-fA-F]|[bfnrt])|%[01][0-9a-fA-F]"
    r"|&#(?:[xX]0{0,4}[01]?[0-9a-fA-F]|0{0,4}[0-9]|0{0,4}[12][0-9]);){0,8}"
)
"""Characters that nobody sees, plain or escaped, which may stand between those of a secret."""


def remember(secret: str) -> None:
    """From now on, `hidden` removes this secret from every text. Shorter words are placeholders, such as `none`."""
    if len(secret) >= _SHORTEST:
        with _lock:
            _known.setdefault(secret, _pattern(secret))


def hidden(text: str) -> str:
    """Return the text with `…` in place of each known secret, however a service wrote it.

    A character may be plain, or escaped as in JSON, a URL, HTML, or quoted-printable, also twice, with invisible
    characters between. The whole secret may be in base64 or in hexadecimal digits.

    >>> remember("sk-a/b")
    >>> hidden(r"key sk-a\\/b, %73k-a%2Fb, \\u0073k-a&#x2f;b, c2stYS9i")
    'key …, …, …, …'
    """
    for pattern in tuple(_known.values()):
        text = pattern.sub("…", text)
    return text


def hidden_in(value: Any) -> Any:
    """Return plain JSON with its texts `hidden`."""
    if not _known or not isinstance(value, str | Mapping | list | tuple):
        return value
    if isinstance(value, str):
        return hidden(value)
    if isinstance(value, Mapping):
        return {hidden(str(name)): hidden_in(inner) for name, inner in value.items()}
    return type(value)(hidden_in(inner) for inner in value)


def _pattern(secret: str) -> re.Pattern[str]:
    """Return what matches the secret in every form. The repetitions are bounded, so that no text takes long."""
    forms = [_BETWEEN.join(map(_character, secret)), _hex(secret.encode().hex())]
    forms += [_in_base64(secret.encode(), before) for before in range(3)]
    return re.compile("|".join(forms))


@cache
def _character(one: str) -> str:
    """Return what matches a character of a secret."""
    import html.entities  # late, so that the help is fast

    code = ord(one)
    pair = _hex(f"{code:02x}")
    backslash = r"(?:\\|%(?:25){0,3}5[cC]|&(?:amp;){0,3}(?:#0{0,4}92|#[xX]0{0,4}5[cC]|bsol);?){1,8}"
    named = [re.escape(name.rstrip(";")) for name, shown in html.entities.html5.items() if shown == one]
    names = "|".join([f"#0{{0,6}}{code}", f"#[xX]0{{0,6}}{pair}", *named])
    plain = f"(?:{re.escape(one)}|%(?:25){{0,3}}(?:[uU]00)?{pair}|={pair}|&(?:amp;){{0,3}}(?:{names});?)"
    escaped = f"[uU]0{{0,6}}{pair}|[uU]\\{{0{{0,6}}{pair}\\}}|[xX]{pair}|0?{code:o}|{plain}"
    return f"(?:{plain}|{backslash}(?:{escaped}))"


def _hex(digits: str) -> str:
    """Return what matches hexadecimal digits in either case."""
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in digits)


def _in_base64(secret: bytes, before: int) -> str:
    """Return what matches the base64 of any text that has the secret after `before` bytes, modulo 3.

    The first and last characters of the secret's part also depend on its neighbours, so they are any characters.
    """
    import base64

    encoded = base64.b64encode(b"\0" * before + secret).decode().rstrip("=")
    rest = (before + len(secret)) % 3
    inner = encoded[before and before + 1 : len(encoded) - (rest > 0)]
    safe = "".join({"+": "[+-]", "/": r"(?:[/_]|\\/)"}.get(one, one) for one in inner)
    any_one = r"[\w+/-]"
    return (any_one if before else "") + safe + (any_one if rest else "") + "={0,2}"
