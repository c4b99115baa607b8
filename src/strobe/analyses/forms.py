"""Which models of a run are forms of one model, and what differs between two forms. Both follow from stored facts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strobe.core.errors import expect, printable
from strobe.core.files import json_of

_RUNTIMES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "torch": "PyTorch"}
_OWN_KEYS = ("precision", "backend", "runtime", "compiled", "size_hw")
"""The keys of the preprocessing that have a name of their own in `form_of_facts`."""

_NAMED = ("answers", "precision", "runtime", "decoder", "image size", "batch size")
"""The facts that are stated even if the reference does not state them."""

Facts = Mapping[str, Any]
"""The facts of a model in a run, by name: the content of its model.json, or what is stored with a prediction file."""


@dataclass(frozen=True, slots=True)
class FormFamily:
    """The forms of one model by their names in the run. The first one is the reference."""

    names: tuple[str, ...]

    @property
    def reference(self) -> str:
        """The form that the others are compared with."""
        return self.names[0]


def form_families(models: Mapping[str, Facts]) -> tuple[FormFamily, ...]:
    """Return the families of at least two forms, in the order in which the models were requested.

    Two models are forms of one if their weights have the same digest, if they are the same bundled model, or if one
    declares `form_of` the other, by its name in the run or by its model string. A model that sees crops, or that only
    derives its answers from boxes, is no form.

    >>> form_families({"a": {"weights": "1f"}, "b": {"weights": "1f"}, "c": {"weights": "2e"}})
    (FormFamily(names=('a', 'b')),)
    """
    able = {name: facts for name, facts in models.items() if not facts.get("view")}
    groups: list[tuple[set[str], list[str]]] = []
    for name, facts in able.items():
        keys, members = _keys(name, facts, able), [name]
        for group in [group for group in groups if group[0] & keys]:
            groups.remove(group)
            keys, members = keys | group[0], [*group[1], *members]
        groups.append((keys, members))
    order = sorted(models, key=lambda name: models[name].get("place", len(models)))
    found = [sorted(members, key=order.index) for _, members in groups if len(members) > 1]
    return tuple(_family(members, able) for members in sorted(found, key=lambda members: order.index(members[0])))


def _keys(name: str, facts: Facts, models: Mapping[str, Facts]) -> set[str]:
    """Return the marks that a model shares with other forms of the same model."""
    keys, text = {f"name {name}"}, _text(facts)
    if facts.get("weights"):
        # without a file of weights, the digest of a py: model is that of its code, which may hold several models
        own = f" {text}" if facts.get("spec", {}).get("provider") == "py" and "@" not in text else ""
        keys.add(f"weights {facts['weights']}{own}")
    if facts.get("spec", {}).get("provider") == "bundled" and "@" not in text:
        keys.add(f"model {text}")
    if declared := str(facts.get("form_of", "")):
        known = [other for other, model in models.items() if declared in (other, _text(model))]
        keys |= {f"name {other}" for other in known} or {f"declared {declared}"}
    return keys


def _declared(facts: Facts) -> dict[str, str]:
    """Return the facts that a form declares, which are stored as one text."""
    text = facts.get("form", "{}")
    try:
        found: Any = json_of(text) if isinstance(text, str) else None
    except ValueError:
        found = None
    expect(isinstance(found, dict), "form of a model", "a JSON object", text)
    return {str(name): str(value) for name, value in found.items()}


def _text(facts: Facts) -> str:
    return str(facts.get("spec", {}).get("name", ""))


def _family(names: Sequence[str], models: Mapping[str, Facts]) -> FormFamily:
    """Return the family with its reference first: the declared one, else a form in float32 before all others."""
    declared = [str(models[name].get("form_of", "")) for name in names]

    def rank(name: str) -> tuple[bool, bool, bool]:
        facts = models[name]
        known = name in declared or (_text(facts) in declared and not facts.get("form_of"))
        own = form_of_facts(facts)
        return not known, "answers" in own, own.get("precision") not in ("float32", "as exported")

    return FormFamily(tuple(sorted(names, key=rank)))


def form_of_facts(facts: Facts) -> dict[str, str]:
    """Return what makes a form, by name, as far as the facts state it. What a form declares comes before all else.

    >>> form_of_facts({"preprocessing": {"precision": "bfloat16", "size_hw": [64, 64]}, "batch_size": 4})
    {'precision': 'bfloat16', 'compiled': 'no', 'image size': '64×64', 'batch size': '4'}
    """
    out: dict[str, str] = {}
    settings = facts.get("preprocessing")
    if settings is None:
        out["answers"] = "from a file"
        settings = {}
    options = settings.get("options")
    precision = settings.get("precision") or (options.get("precision") if isinstance(options, Mapping) else None)
    if precision:
        out["precision"] = str(precision)
    if "backend" in settings:
        name = str(settings["backend"])
        out["runtime"] = " ".join([_RUNTIMES.get(name, name), str(settings.get("runtime", ""))]).strip()
    elif facts.get("runtime"):
        out["runtime"] = str(facts["runtime"])
    if settings:
        out["compiled"] = "yes" if settings.get("compiled") else "no"
    if facts.get("decode"):
        out["decoder"] = str(facts["decode"])
    if isinstance(size := settings.get("size_hw"), Sequence) and len(size) == 2:
        out["image size"] = f"{size[0]}×{size[1]}"
    if facts.get("batch_size"):
        out["batch size"] = str(facts["batch_size"])
    out |= {
        key: json.dumps(value, sort_keys=True)
        for key, value in settings.items()
        if key not in _OWN_KEYS and value is not None
    }
    out |= _declared(facts)
    if facts.get("weights") and not (facts.get("spec", {}).get("provider") == "bundled" and "@" not in _text(facts)):
        out["weights"] = str(facts["weights"])[:12]
    return out


def differences(reference: Facts, form: Facts) -> tuple[str, ...]:
    """Return what differs between two forms, one text for each fact; empty if all facts are equal.

    A fact that only the reference states is unknown, not different, and is left out. A fact that only the form states
    is given if the form declares it or if it has a name of its own, such as the runtime.

    >>> differences({"preprocessing": {"precision": "float32"}}, {"preprocessing": {"precision": "bfloat16"}})
    ('precision: float32 → bfloat16',)
    """
    old, new, declared = form_of_facts(reference), form_of_facts(form), _declared(form)
    texts = []
    for name, value in new.items():
        if old.get(name) == value or (name not in old and name not in (*_NAMED, *declared)):
            continue
        text = f"{name}: {old[name]} → {value}" if name in old else f"{name}: {value}"
        texts.append(f"{text} (declared)" if name in declared else text)
    return tuple(printable(text, limit=160) for text in texts)
