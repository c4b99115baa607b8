"""Map the spellings of class names to one key per class, regardless of case, spaces and synonyms."""

import re

_ALIASES = {
    "aeroplane": "airplane", "motorbike": "motorcycle", "sofa": "couch", "tvmonitor": "tv", "television": "tv",
    "televisionset": "tv", "mobilephone": "cellphone", "cellularphone": "cellphone", "cellulartelephone": "cellphone",
    "hairdryer": "hairdrier", "doughnut": "donut", "ski": "skis", "fridge": "refrigerator",
}  # fmt: skip
"""Synonyms of COCO's classes, as used by VOC, darknet, Open Images and exporters."""

NO_CLASS = frozenset({"", "na", "background", "bg"})
"""Keys of list entries that do not name a class."""


def spelling_key(name: str) -> str:
    """Return the name in one case, without spaces and punctuation; letters of every script are kept.

    >>> spelling_key("Potted_Plant"), spelling_key("pottedplant"), spelling_key("Katze, Größe 2")
    ('pottedplant', 'pottedplant', 'katzegrösse2')
    """
    return re.sub(r"[\W_]+", "", name.casefold())


def class_key(name: str) -> str:
    """Return the name's `spelling_key`, with one key for all synonyms of a class.

    >>> class_key("motorbike") == class_key("Motorcycle"), class_key("TV/monitor"), class_key("hound")
    (True, 'tv', 'hound')
    """
    key = spelling_key(name)
    return _ALIASES.get(key, key)
