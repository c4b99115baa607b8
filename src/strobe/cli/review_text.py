"""The figures of a review as text for a terminal, by question."""

from typing import Any

from strobe.cli.said import counted
from strobe.core.errors import printable

__all__ = ["leaving", "text_of", "unfinished"]


def text_of(ask: str, figures: dict[str, Any]) -> str:
    """Return the figures of status and export as text."""
    return _TEXTS[ask](figures)


def _pairs(figures: dict[str, Any]) -> str:
    """Return the papers' table, the pending work, agreement, controls, reasons, annotators and classes."""
    table, agreement = figures["table"], figures["agreement"]
    out = [
        f"{printable(figures['dataset'])}: {figures['votes']} votes",
        *(f"warning: {text}" for text in figures["warnings"]),
        "",
        "            candidates   reviewed   accepted",
        f"  anchors   {table['anchors']:>10} {table['anchors_reviewed']:>10} {table['anchors_accepted']:>10}"
        + (f"   ({counted(without, 'set')} without any vote)" if (without := table["sets_without_votes"]) else ""),
        f"  pairs     {table['pairs']:>10} {table['pairs_reviewed']:>10} {table['pairs_accepted']:>10}"
        + (f"   ({table['pairs_pending']} still to do)" if table["pairs_pending"] else ""),
        "",
        *_waiting(figures["waiting"], votes=figures["votes"]),
        "",
        f"agreement on {agreement['pairs_with_two_votes']} pairs with two votes or more",
    ]
    if agreement["votes_left_out"]:
        out[-1] += f" (left out, as not cast alone: {counted(agreement['votes_left_out'], 'vote')})"
    out += [
        f"  {name:<22}{_estimate(agreement[key], scale)}"
        for name, key, scale in (
            ("raw", "raw", 100.0),
            ("Fleiss' κ", "fleiss_kappa", 1.0),
            ("Krippendorff's α", "krippendorff_alpha", 1.0),
        )
    ]
    out += [
        f"  Cohen's κ {printable(one['a'])} / {printable(one['b'])}: {_estimate(one, 1.0)}"
        for one in agreement["cohen_kappa"]
    ]
    out += [
        "",
        f"control pairs right: {_estimate(figures['controls']['all'], 100.0)} (n = {figures['controls']['all']['n']})",
    ]
    if figures["reasons"]:
        out += ["reasons: " + ", ".join(f"{name} {count}" for name, count in figures["reasons"].items())]
    if figures["annotators"]:
        out += ["", "  annotator             votes  similar  dissimilar  unsure  controls  seconds"]
        out += [_annotator(one) for one in figures["annotators"]]
    if figures["classes"]:
        out += ["", "  class                 anchors  accepted   pairs  reviewed  accepted"]
        out += [
            f"  {printable(one['name'], limit=20):<20} {one['anchors']:>8} {one['anchors_accepted']:>9} "
            f"{one['pairs']:>7} {one['pairs_reviewed']:>9} {one['pairs_accepted']:>9}"
            for one in figures["classes"]
        ]
    return "\n".join(out)


def _waiting(waiting: dict[str, Any], *, votes: int) -> list[str]:
    """Return the pending work, a line per round, or how to start if nobody has begun."""
    one, two = waiting["round_one"], waiting["round_two"]
    if not one["pairs"]:
        first = "every pair has its votes" if one["votes"] is not None else "every pair has a vote"
    elif one["votes"] is None:
        first = f"{counted(one['pairs'], 'pair')} without a vote"
    else:
        first = f"{counted(one['votes'], 'vote')} on {counted(one['pairs'], 'pair')} still to come"
    if waiting["anchors"]:
        first += f"; {counted(waiting['anchors'], 'anchor')} without labels"
    if not two["pairs"]:
        second = "no doubtful pair waits"
    elif two["votes"] is None:
        second = f"{counted(two['pairs'], 'doubtful pair')} never verified"
    else:
        whom = ", ".join(f"{printable(name)} {count:,}" for name, count in two["people"].items())
        second = f"{counted(two['votes'], 'vote')} on {counted(two['pairs'], 'doubtful pair')} still to come: {whom}"
    if two["on"] is False:
        second += " (switched off: --no-verify)"
    out = [f"round one: {first}", f"round two: {second}"]
    if two["on"] is None:
        unknown = "how many votes were asked for is not known here: the store of this review (--db) knows"
        out.append(unknown if votes else "nobody has voted yet: strobe review serve asks people")
    return out


def leaving(ask: str, figures: dict[str, Any]) -> str:
    """Return how many sets without a vote leave the study or stay as built, or nothing if every set has a vote."""
    n = figures["table"].get("sets_without_votes", 0) if ask == "pairs" else 0
    if not n:
        return ""
    have = f"{n} of {counted(figures['table']['anchors'], 'set')} {'has' if n == 1 else 'have'} no vote"
    if figures["unreviewed"] == "keep":
        return f"{have} and {'stays' if n == 1 else 'stay'} in the study as built; --unreviewed exclude leaves them out"
    return f"{have} and {'leaves' if n == 1 else 'leave'} the study; --unreviewed keep keeps them as built"


def unfinished(ask: str, figures: dict[str, Any]) -> str:
    """Return in one line what the reviewed sets or boxes lack, or nothing."""
    if ask not in ("pairs", "box"):
        return ""
    waiting = figures["waiting"]
    if ask == "box":
        left, doubtful = waiting["round_one"]["pictures"], waiting["round_two"]["pictures"]
        parts = [(left, "image", "not boxed as often as asked"), (doubtful, "image", "not looked at again")]
        return ", ".join(f"{counted(count, noun)} {lacks}" for count, noun, lacks in parts if count)
    everyone = "" if waiting["round_two"]["votes"] is None else " by everyone"
    parts = [
        (waiting["round_one"]["pairs"], "pair", "not voted on as often as asked"),
        (waiting["anchors"], "anchor", "without labels"),
        (waiting["round_two"]["pairs"], "doubtful pair", f"not verified{everyone} in round two"),
    ]
    return ", ".join(f"{counted(count, noun)} {lacks}" for count, noun, lacks in parts if count)


def _name(figures: dict[str, Any]) -> str:
    """Return images, answers, controls, conditions and people."""
    pictures, said, controls = figures["pictures"], figures["said"], figures["controls"]
    out = [
        f"{printable(figures['dataset'])}: {counted(figures['answers'], 'answer')}",
        *(f"warning: {text}" for text in figures["warnings"]),
        "",
        f"{pictures['answered']:,} of {counted(pictures['asked'], 'image')} answered"
        + (f", {pictures['waiting']:,} still to do" if pictures["waiting"] else ", none left to do"),
        f"said: a class {said['class']:,}, none of these {said['none']:,}, cannot tell {said['unsure']:,}, "
        f"too late {said['late']:,}",
        f"control images right: {_estimate(controls, 100.0)} (n = {controls['n']})",
    ]
    if figures["conditions"]:
        out += ["", "  condition             images  answers"]
        out += [
            f"  {printable(one['name'], limit=20):<20} {one['pictures']:>9} {one['answers']:>8}"
            for one in figures["conditions"]
        ]
    for one in figures["scores"]:
        out += ["", f"{printable(one['name'])}: right {_estimate(one['accuracy'], 100.0)} % of answers"]
        words = {"majority": ("majority right, %", 100.0), "fleiss_kappa": ("Fleiss' κ", 1.0)}
        words |= {"consistency": ("error consistency", 1.0)}
        out += [f"  {word:<22}{_estimate(one[key], scale)}" for key, (word, scale) in words.items()]
    if figures["people"]:
        out += ["", "  person               answers  class   none  cannot tell  late  controls  seconds"]
        out += [_person(one) for one in figures["people"]]
    return "\n".join(out)


def _person(one: dict[str, Any]) -> str:
    said = one["said"]
    return (
        f"  {printable(one['name'], limit=20):<20} {one['answers']:>7} {said['class']:>6} {said['none']:>6} "
        f"{said['unsure']:>12} {said['late']:>5} {_right(one['controls']):>9} {_median(one['seconds']):>8}"
    )


def _right(controls: dict[str, Any]) -> str:
    return "—" if controls["value"] is None else f"{controls['count']}/{controls['n']}"


def _median(seconds: dict[str, Any]) -> str:
    return "—" if seconds["median"] is None else f"{seconds['median']:.1f}"


def _annotator(one: dict[str, Any]) -> str:
    decisions = one["decisions"]
    return (
        f"  {printable(one['name'], limit=20):<20} {one['votes']:>6} {decisions['similar']:>8} "
        f"{decisions['dissimilar']:>11} {decisions['unsure']:>7} {_right(one['controls']):>9} "
        f"{_median(one['seconds']):>8}"
    )


def _estimate(data: dict[str, Any], scale: float) -> str:
    from strobe.core.codec import decode
    from strobe.core.estimate import Estimate

    estimate = decode(Estimate, data)
    if estimate.value is None:
        return f"— ({estimate.reason})"
    shown = estimate.text(scale=scale, digits=1 if scale == 100.0 else 2)
    return shown if estimate.reason is None else f"{shown} ({estimate.reason})"


def _box(figures: dict[str, Any]) -> str:
    """Return kept and discarded images, pending work, agreement and people."""
    table, one, two = figures["table"], figures["waiting"]["round_one"], figures["waiting"]["round_two"]
    out = [
        f"{printable(figures['dataset'])}: {counted(figures['answers'], 'answer')}",
        "",
        f"{table['answered']:,} of {counted(table['pictures'], 'image')} answered: {table['kept']:,} kept, "
        f"{table['discarded']:,} not",
        f"kept: {_estimate(figures['kept'], 100.0)}",
    ]
    if figures["reasons"]:
        out += ["reasons to discard: " + ", ".join(f"{name} {count:,}" for name, count in figures["reasons"].items())]
    first = f"{counted(one['answers'], 'answer')} on {counted(one['pictures'], 'image')} still to come"
    out += ["", "round one: " + (first if one["pictures"] else "every image has its boxes")]
    whom = ", ".join(f"{printable(name)} {count:,}" for name, count in two["people"].items())
    second = f"{counted(two['pictures'], 'image')} that people see differently" + (
        f", still to come: {whom}" if whom else ""
    )
    second = second if two["pictures"] else "nothing that people see differently waits"
    out += [f"round two: {second}" + (" (switched off: --no-verify)" if two["on"] is False else "")]
    out += [
        "",
        "agreement in round one, before anybody saw the others' boxes",
        f"  median overlap (IoU)  {_estimate(figures['overlap'], 1.0)} (n = {figures['overlap']['n']})",
        f"  not a detector's box  {_estimate(figures['overlap_own'], 1.0)} (n = {figures['overlap_own']['n']})",
        f"  see it differently    {_estimate(figures['disagreed'], 100.0)} (n = {figures['disagreed']['n']}, "
        f"below an overlap of {figures['agree']:g})",
        f"  Fleiss' κ of keeping  {_estimate(figures['fleiss_kappa'], 1.0)}",
    ]
    if figures["unsettled"]:
        out += [f"{counted(figures['unsettled'], 'image')} kept though two boxes still overlap less"]
    if figures["suggested"]["count"]:
        out += [f"boxes taken as a detector suggested them: {_estimate(figures['suggested'], 100.0)}"]
    if figures["people"]:
        out += ["", "  person               images   kept  discarded  suggested  overlap  seconds"]
        out += [_boxer(one) for one in figures["people"]]
    return "\n".join(out)


def _boxer(one: dict[str, Any]) -> str:
    overlap = "—" if one["overlap"]["value"] is None else f"{one['overlap']['value']:.2f}"
    seconds = "—" if one["seconds"] is None else f"{one['seconds']:.1f}"
    return (
        f"  {printable(one['person'], limit=20):<20} {one['n_pictures']:>8} {one['kept']:>6} {one['discarded']:>10} "
        f"{one['suggested']:>10} {overlap:>8} {seconds:>8}"
    )


_TEXTS = {"pairs": _pairs, "name": _name, "box": _box}
