"""Which models of a run are forms of one model, and what differs between two forms. Both follow from stored facts."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from strobe.core.errors import printable

_RUNTIMES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "torch": "PyTorch"}
_OWN_KEYS = ("precision", "backend", "runtime", "compiled", "size_hw")
"""The keys of the preprocessing that have a name of their own in `form_of_facts`."""

_NAMED = ("answers", "precision", "runtime", "decoder", "image size", "batch size")
"""The facts that are stated even if the reference does not state them."""

Facts = Mapping[str, Any]
"""The facts of a model in a run, by name: the content of its model.json, or what is stored with a prediction file."""


def form_families(models: Mapping[str, Facts]) -> tuple[tuple[str, ...], ...]:
    """Return the names of the forms of each model that has several, in the order in which they were requested.

    The first name is the reference, with which the others are compared. Two models are forms of one if their weights
    have the same digest, if they are the same bundled model, or if one declares `form_of` the other, by its name in the
    run or by its model string. A model that sees crops, or that only derives its answers, is no form.

    >>> form_families({"a": {"weights": "1f"}, "b": {"weights": "1f"}, "c": {"weights": "2e"}})
    (('a', 'b'),)
    """
    order = sorted(models, key=lambda name: models[name].get("place", len(models)))
    able = {name: models[name] for name in order if not models[name].get("view")}
    groups: list[tuple[set[str], list[str]]] = []
    for name, facts in able.items():
        keys, members = _keys(name, facts, able), [name]
        for group in [group for group in groups if group[0] & keys]:
            groups.remove(group)
            keys, members = keys | group[0], [*group[1], *members]
        groups.append((keys, sorted(members, key=order.index)))
    found = sorted((members for _, members in groups if len(members) > 1), key=lambda members: order.index(members[0]))
    return tuple(_reference_first(members, able) for members in found)


def _keys(name: str, facts: Facts, models: Mapping[str, Facts]) -> set[str]:
    """Return the marks that a model shares with other forms of the same model."""
    keys, text = {f"name {name}"}, _text(facts)
    if facts.get("weights"):
        # without a file of weights, the digest of a py: model is that of its code, which may hold several models
        own = f" {text}" if facts.get("spec", {}).get("provider") == "py" and "@" not in text else ""
        keys.add(f"weights {facts['weights']}{own}")
    if facts.get("spec", {}).get("provider") == "bundled" and "@" not in text:
        keys.add(f"model {text}")
    if form_of := str(facts.get("form_of", "")):
        known = [other for other, model in models.items() if form_of in (other, _text(model))]
        keys |= {f"name {other}" for other in known} or {f"declared {form_of}"}
    return keys


def declared(facts: Facts) -> dict[str, str]:
    """Return the facts that a form declares about itself, by name."""
    return {name.removeprefix("form."): str(value) for name, value in facts.items() if name.startswith("form.")}


def _text(facts: Facts) -> str:
    return str(facts.get("spec", {}).get("name", ""))


def _reference_first(names: Sequence[str], models: Mapping[str, Facts]) -> tuple[str, ...]:
    """Return the names, the declared reference first, else a form in float32 before all others."""
    wanted = [str(models[name].get("form_of", "")) for name in names]

    def rank(name: str) -> tuple[bool, bool, bool]:
        facts, own = models[name], form_of_facts(models[name])
        known = name in wanted or (_text(facts) in wanted and not facts.get("form_of"))
        return not known, "answers" in own, own.get("precision") not in ("float32", "as exported")

    return tuple(sorted(names, key=rank))


def form_of_facts(facts: Facts) -> dict[str, str]:
    """Return what makes a form, by name, as far as the facts state it. What a form declares comes before all else.

    >>> form_of_facts({"preprocessing": {"precision": "bfloat16", "size_hw": [64, 64]}, "batch_size": 4})
    {'precision': 'bfloat16', 'compiled': 'no', 'image size': '64×64', 'batch size': '4'}
    """
    settings, options = facts.get("preprocessing") or {}, (facts.get("preprocessing") or {}).get("options")
    precision = settings.get("precision") or (options.get("precision") if isinstance(options, Mapping) else None)
    runtime = facts.get("runtime")
    if "backend" in settings:
        name = str(settings["backend"])
        runtime = f"{_RUNTIMES.get(name, name)} {settings.get('runtime', '')}".strip()
    size = settings.get("size_hw")
    named = {
        "answers": None if "preprocessing" in facts else "from a file",
        "precision": precision,
        "runtime": runtime,
        "compiled": ("yes" if settings.get("compiled") else "no") if settings else None,
        "decoder": facts.get("decode"),
        "image size": f"{size[0]}×{size[1]}" if isinstance(size, Sequence) and len(size) == 2 else None,
        "batch size": facts.get("batch_size"),
    }
    out = {name: str(value) for name, value in named.items() if value}
    rest = {name: value for name, value in settings.items() if name not in _OWN_KEYS and value is not None}
    out |= {name: json.dumps(value, sort_keys=True) for name, value in rest.items()}
    out |= declared(facts)
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
    old, new, own = form_of_facts(reference), form_of_facts(form), declared(form)
    texts = []
    for name, value in new.items():
        if old.get(name) == value or (name not in old and name not in (*_NAMED, *own)):
            continue
        text = f"{name}: {old[name]} → {value}" if name in old else f"{name}: {value}"
        texts.append(f"{text} (declared)" if name in own else text)
    return tuple(printable(text, limit=160) for text in texts)
