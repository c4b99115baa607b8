"""Find the class that a text names: by its name, a synonym, or a class that a label map puts under it."""

import re
from collections.abc import Iterable, Iterator
from functools import cached_property

from strobe.core.class_names import class_key, spelling_key
from strobe.core.labels import LabelSpace, other_names, shipped_spaces, space
from strobe.core.projections import shipped_between

_ARTICLE = re.compile(r"^(?:an?|the)\s+", re.IGNORECASE)
_PHRASE = re.compile(
    r"^(?:(?:the\s+)?(?:final\s+|correct\s+|best\s+|main\s+)?(?:answer|choice|class|label|object|animal|image|picture|"
    r"photo|photograph)(?:\s+(?:in|of)\s+(?:the|this)\s+(?:image|picture|photo|photograph))?\s*"
    r"(?:is|shows|depicts|contains|features|:)|(?:this|that|it|there)\s*(?:is|'s|’s)|i\s+see)\s*:?\s*",
    re.IGNORECASE,
)
_WRAPPED = "\"'`*_“”‘’()[]<>"


class ClassNames:
    """The names under which the classes of a label space can be found.

    A name of a class comes first, then a synonym, then a name of a class that a label map puts under it. A text that
    names two classes at the same step names none.

    >>> names = ClassNames(space("imagenet-vid"))
    >>> [names.find(text) for text in ("Dogs.", "It is a tabby", "motorbike", "a spaceship")]
    [8, 9, 18, None]
    """

    def __init__(self, classes: LabelSpace) -> None:
        self.classes = classes

    def find(self, text: str) -> int | None:
        """Return the class that the whole text names, or None. Case, punctuation, articles and plurals are ignored."""
        for candidate in readings(text):
            for key in _keys(candidate):
                for step in self._steps:
                    if key in step:
                        return step[key]
        return None

    @cached_property
    def _steps(self) -> tuple[dict[str, int | None], ...]:
        """The class of each key, in the order of the steps; None for a key of two classes."""
        classes = self.classes
        named = (
            (index, word)
            for index, (label_id, name) in enumerate(zip(classes.ids, classes.names, strict=True))
            for word in (label_id, name, *name.split(","))
        )
        synonyms = ((place, word) for place, words in enumerate(other_names(classes)) for word in words)
        return _table(named), _table(synonyms), _table(self._children())

    def _children(self) -> Iterator[tuple[int, str]]:
        """Yield each class with the names and synonyms of its children in every shipped map to this space."""
        for name in shipped_spaces():
            shipped = None if name == self.classes.name else shipped_between(space(name), self.classes)
            if shipped is None:
                continue
            more = other_names(shipped.source)
            for index, group in enumerate(shipped.children):
                for child in group:
                    own = shipped.source.names[child]
                    yield from ((index, word) for word in (own, *own.split(","), *more[child]))


def readings(text: str) -> Iterator[str]:
    """Yield the parts of an answer that may be a name: all of it, its first line, and each without a usual opening.

    >>> list(readings("The answer is: **a dog**."))
    ['The answer is: **a dog**.', 'a dog']
    """
    seen = set()
    lines = [line for line in text.strip().splitlines() if line.strip()]
    for part in (text, lines[0] if lines else ""):
        opened = _PHRASE.sub("", part.strip().strip(_WRAPPED).strip())
        for one in (part.strip(), opened.rstrip(".!,;: ").strip(_WRAPPED).strip()):
            if one and one not in seen:
                seen.add(one)
                yield one


def _keys(text: str) -> Iterator[str]:
    """Yield the keys of a text, without its article and also in the singular."""
    bare = _ARTICLE.sub("", text.strip())
    for one in (text, bare):
        yield class_key(one)
    key = spelling_key(bare)
    for plural, singular in (("ies", "y"), ("ves", "f"), ("es", ""), ("s", "")):
        if key.endswith(plural) and len(key) > len(plural) + 2:
            yield class_key(key.removesuffix(plural) + singular)


def _table(words: Iterable[tuple[int, str]]) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for place, word in words:
        key = class_key(word)
        if key:
            found[key] = place if found.get(key, place) == place else None
    return found
