"""Names of classes as people and tools spell them: one key for each class, whatever its case, spaces or word."""

import re

__all__ = ["NO_CLASS", "class_key", "spelling_key"]

_ALIASES = {
    "aeroplane": "airplane", "motorbike": "motorcycle", "sofa": "couch", "tvmonitor": "tv", "television": "tv",
    "televisionset": "tv", "mobilephone": "cellphone", "cellularphone": "cellphone", "cellulartelephone": "cellphone",
    "hairdryer": "hairdrier", "doughnut": "donut", "ski": "skis", "fridge": "refrigerator",
}  # fmt: skip
"""Other words for COCO's classes, as VOC, darknet, Open Images and exporters write them."""

NO_CLASS = frozenset({"", "na", "background", "bg"})
"""Keys of list entries that stand for no class."""


def spelling_key(name: str) -> str:
    """The name without case, spaces and punctuation; letters of every script stay.

    >>> spelling_key("Potted_Plant"), spelling_key("pottedplant"), spelling_key("Katze, Größe 2")
    ('pottedplant', 'pottedplant', 'katzegrösse2')
    """
    return re.sub(r"[\W_]+", "", name.casefold())


def class_key(name: str) -> str:
    """The same, and one key for words that name the same class.

    >>> class_key("motorbike") == class_key("Motorcycle"), class_key("TV/monitor"), class_key("hound")
    (True, 'tv', 'hound')
    """
    key = spelling_key(name)
    return _ALIASES.get(key, key)
