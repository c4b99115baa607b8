"""The figures of a review as text for a terminal, for each question."""

from typing import TYPE_CHECKING, Any

from strobe.cli.common import counted
from strobe.core.errors import printable

if TYPE_CHECKING:
    from strobe.annexes.web.review.label_plan import QuestionPlan


def text_of(ask: str, figures: dict[str, Any]) -> str:
    """Return the figures of status and export as text."""
    return _TEXTS.get(ask, _plain)(figures)


def _pairs(figures: dict[str, Any]) -> str:
    """Return the lines on the papers' table, pending work, agreement, controls, reasons, annotators and classes."""
    table, agreement = figures["table"], figures["agreement"]
    out = [
        f"{printable(figures['dataset'])}: {figures['votes']} votes",
        *(f"warning: {text}" for text in figures["warnings"]),
        "",
        "            candidates   reviewed   accepted",
        f"  anchors   {table['anchors']:>10} {table['anchors_reviewed']:>10} {table['anchors_accepted']:>10}"
        + (f"   ({counted(without, 'set')} without any vote)" if (without := table["sets_without_votes"]) else ""),
        f"  pairs     {table['pairs']:>10} {table['pairs_reviewed']:>10} {table['pairs_accepted']:>10}"
        + (f"   ({table['pairs_pending']} pending)" if table["pairs_pending"] else ""),
        "",
        *_waiting(figures["waiting"], votes=figures["votes"]),
        "",
        *_agreement(agreement, "round one"),
    ]
    if agreement["round_two"]["pairs"]:
        out += _agreement(agreement["round_two"], "round two, doubtful pairs only,")
    if agreement["votes_left_out"]:
        out += [f"  excluded, because not cast independently: {counted(agreement['votes_left_out'], 'vote')}"]
    out += [
        "",
        f"control pairs right: {_estimate(figures['controls']['all'], 100.0)} (n = {figures['controls']['all']['n']})",
    ]
    if figures["reasons"]:
        out += ["reasons: " + ", ".join(f"{name} {count}" for name, count in figures["reasons"].items())]
    if figures["annotators"]:
        out += ["", "  annotator             votes  similar  dissimilar  unsure  controls  seconds"]
        out += [_annotator(row) for row in figures["annotators"]]
    if figures["classes"]:
        out += ["", "  class                 anchors  accepted   pairs  reviewed  accepted"]
        out += [
            f"  {printable(row['name'], limit=20):<20} {row['anchors']:>8} {row['anchors_accepted']:>9} "
            f"{row['pairs']:>7} {row['pairs_reviewed']:>9} {row['pairs_accepted']:>9}"
            for row in figures["classes"]
        ]
    return "\n".join(out)


def _agreement(found: dict[str, Any], which: str) -> list[str]:
    """Return the lines on the agreement of one round."""
    out = [f"agreement in {which} on {counted(found['pairs_with_two_votes'], 'pair')} with two votes or more"]
    out += [
        f"  {name:<22}{_estimate(found[key], scale)}"
        for name, key, scale in (
            ("raw", "raw", 100.0),
            ("Fleiss' κ", "fleiss_kappa", 1.0),
            ("Krippendorff's α", "krippendorff_alpha", 1.0),
        )
    ]
    return out + [
        f"  Cohen's κ {printable(row['a'])} / {printable(row['b'])}: {_estimate(row, 1.0)}"
        for row in found["cohen_kappa"]
    ]


def _plain(figures: dict[str, Any]) -> str:
    """Return the answers, counts and shares of a question that has no text of its own."""
    out = [f"{printable(figures['dataset'])}: {counted(figures['answers'], 'answer')}", ""]
    for name, value in figures.items():
        if isinstance(value, dict) and "method" in value:
            out.append(f"{name}: {_estimate(value, 100.0)} (n = {value['n']})")
        elif isinstance(value, dict) and all(isinstance(count, int) for count in value.values()):
            out.append(f"{name}: " + ", ".join(f"{printable(word)} {count:,}" for word, count in value.items()))
        elif isinstance(value, int) and name not in ("schema", "answers"):
            out.append(f"{name}: {value:,}")
    return "\n".join(out)


def _waiting(waiting: dict[str, Any], *, votes: int) -> list[str]:
    """Return the pending work with one line per round, or how to start if there are no votes."""
    one, two = waiting["round_one"], waiting["round_two"]
    if not one["pairs"]:
        first = "every pair has its votes" if one["votes"] is not None else "every pair has a vote"
    elif one["votes"] is None:
        first = f"{counted(one['pairs'], 'pair')} without a vote"
    else:
        first = f"{counted(one['votes'], 'vote')} on {counted(one['pairs'], 'pair')} pending"
    if waiting["anchors"]:
        first += f"; {counted(waiting['anchors'], 'anchor')} without labels"
    if not two["pairs"]:
        second = "no doubtful pair is pending"
    elif two["votes"] is None:
        second = f"{counted(two['pairs'], 'doubtful pair')} never verified"
    else:
        whom = ", ".join(f"{printable(name)} {count:,}" for name, count in two["people"].items())
        second = f"{counted(two['votes'], 'vote')} on {counted(two['pairs'], 'doubtful pair')} pending: {whom}"
    if two["on"] is False:
        second += " (switched off: --no-verify)"
    out = [f"round one: {first}", f"round two: {second}"]
    if two["on"] is None:
        unknown = "the requested number of votes is unknown here; it is stored in the database of this review (--db)"
        out.append(unknown if votes else "nobody has voted yet; start the review with strobe review serve")
    return out


def leaving(ask: str, figures: dict[str, Any]) -> str:
    """Return one line on how many sets have no vote and whether they are kept, or an empty string."""
    n = figures["table"].get("sets_without_votes", 0) if ask == "pairs" else 0
    if not n:
        return ""
    have = f"{n} of {counted(figures['table']['anchors'], 'set')} {'has' if n == 1 else 'have'} no vote"
    if figures["unreviewed"] == "keep":
        return f"{have} and {'stays' if n == 1 else 'stay'} in the study as built; --unreviewed exclude excludes them"
    return f"{have} and {'is' if n == 1 else 'are'} excluded from the study; --unreviewed keep keeps them as built"


def unfinished(ask: str, figures: dict[str, Any]) -> str:
    """Return one line on the answers that a complete review still needs, or an empty string."""
    if ask not in ("pairs", "box"):
        return ""
    waiting = figures["waiting"]
    if ask == "box":
        left, doubtful = waiting["round_one"]["pictures"], waiting["round_two"]["pictures"]
        parts = [(left, "image", "with fewer boxes than requested"), (doubtful, "image", "not reviewed in round two")]
        return ", ".join(f"{counted(count, noun)} {lacks}" for count, noun, lacks in parts if count)
    everyone = "" if waiting["round_two"]["votes"] is None else " by everyone"
    parts = [
        (waiting["round_one"]["pairs"], "pair", "with fewer votes than requested"),
        (waiting["anchors"], "anchor", "without labels"),
        (waiting["round_two"]["pairs"], "doubtful pair", f"not verified{everyone} in round two"),
    ]
    return ", ".join(f"{counted(count, noun)} {lacks}" for count, noun, lacks in parts if count)


def _name(figures: dict[str, Any]) -> str:
    """Return the lines on images, answers, controls, conditions and people."""
    images, decisions, controls = figures["pictures"], figures["said"], figures["controls"]
    out = [
        f"{printable(figures['dataset'])}: {counted(figures['answers'], 'answer')}",
        *(f"warning: {text}" for text in figures["warnings"]),
        "",
        f"{images['answered']:,} of {counted(images['asked'], 'image')} answered"
        + (f", {images['waiting']:,} pending" if images["waiting"] else ", none pending"),
        f"answers: a class {decisions['class']:,}, none of these {decisions['none']:,}, "
        f"cannot tell {decisions['unsure']:,}, too late {decisions['late']:,}",
    ]
    if labels := figures.get("labels"):
        out.append(f"{labels['labelled']:,} of the {labels['asked']:,} sampled sets have a label")
    else:
        out.append(f"control images right: {_estimate(controls, 100.0)} (n = {controls['n']})")
    if figures["conditions"]:
        out += ["", "  condition             images  answers"]
        out += [
            f"  {printable(row['name'], limit=20):<20} {row['pictures']:>9} {row['answers']:>8}"
            for row in figures["conditions"]
        ]
    for row in figures["scores"]:
        out += ["", f"{printable(row['name'])}: right {_estimate(row['accuracy'], 100.0)} % of answers"]
        words = {"majority": ("majority right, %", 100.0), "fleiss_kappa": ("Fleiss' κ", 1.0)}
        words |= {"consistency": ("error consistency", 1.0)}
        out += [f"  {word:<22}{_estimate(row[key], scale)}" for key, (word, scale) in words.items()]
    if figures["people"]:
        out += ["", "  person               answers  class   none  cannot tell  late  controls  seconds"]
        out += [_person(row) for row in figures["people"]]
    return "\n".join(out)


def _person(row: dict[str, Any]) -> str:
    decisions = row["said"]
    return (
        f"  {printable(row['name'], limit=20):<20} {row['answers']:>7} {decisions['class']:>6} {decisions['none']:>6} "
        f"{decisions['unsure']:>12} {decisions['late']:>5} {_right(row['controls']):>9} {_median(row['seconds']):>8}"
    )


def _right(controls: dict[str, Any]) -> str:
    return "—" if controls["value"] is None else f"{controls['count']}/{controls['n']}"


def _median(seconds: dict[str, Any]) -> str:
    return "—" if seconds["median"] is None else f"{seconds['median']:.1f}"


def _annotator(row: dict[str, Any]) -> str:
    decisions = row["decisions"]
    return (
        f"  {printable(row['name'], limit=20):<20} {row['votes']:>6} {decisions['similar']:>8} "
        f"{decisions['dissimilar']:>11} {decisions['unsure']:>7} {_right(row['controls']):>9} "
        f"{_median(row['seconds']):>8}"
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
    """Return the lines on kept and discarded images, pending work, agreement and people."""
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
    first = f"{counted(one['answers'], 'answer')} on {counted(one['pictures'], 'image')} pending"
    out += ["", "round one: " + (first if one["pictures"] else "every image has its boxes")]
    whom = ", ".join(f"{printable(name)} {count:,}" for name, count in two["people"].items())
    second = f"{counted(two['pictures'], 'image')} on which people disagree" + (f", pending: {whom}" if whom else "")
    second = second if two["pictures"] else "no image on which people disagree is pending"
    out += [f"round two: {second}" + (" (switched off: --no-verify)" if two["on"] is False else "")]
    out += [
        "",
        "agreement in round one, before people saw each other's boxes",
        f"  median overlap (IoU)  {_estimate(figures['overlap'], 1.0)} (n = {figures['overlap']['n']})",
        f"  without suggestions   {_estimate(figures['overlap_own'], 1.0)} (n = {figures['overlap_own']['n']})",
        f"  disagree              {_estimate(figures['disagreed'], 100.0)} (n = {figures['disagreed']['n']}, "
        f"below an overlap of {figures['agree']:g})",
        f"  Fleiss' κ of keeping  {_estimate(figures['fleiss_kappa'], 1.0)}",
    ]
    if figures["unsettled"]:
        out += [f"{counted(figures['unsettled'], 'image')} kept although two boxes still overlap less than that"]
    if figures["suggested"]["count"]:
        out += [f"boxes accepted as a detector suggested them: {_estimate(figures['suggested'], 100.0)}"]
    if figures["people"]:
        out += ["", "  person               images   kept  discarded  suggested  overlap  seconds"]
        out += [_boxer(one) for one in figures["people"]]
    return "\n".join(out)


def _boxer(row: dict[str, Any]) -> str:
    overlap = "—" if row["overlap"]["value"] is None else f"{row['overlap']['value']:.2f}"
    seconds = "—" if row["seconds"] is None else f"{row['seconds']:.1f}"
    return (
        f"  {printable(row['person'], limit=20):<20} {row['n_pictures']:>8} {row['kept']:>6} {row['discarded']:>10} "
        f"{row['suggested']:>10} {overlap:>8} {seconds:>8}"
    )


def _checks(figures: dict[str, Any]) -> str:
    """Return the lines on checked sets."""
    sets, said = figures["sets"], figures["said"]
    return "\n".join(
        [
            f"{printable(figures['dataset'])}: {counted(figures['answers'], 'answer')}",
            "",
            f"{sets['answered']:,} of {counted(sets['asked'], 'set')} checked"
            + (f", {sets['waiting']:,} pending" if sets["waiting"] else ", none pending"),
            f"answers: one thing {said['one']:,}, it changes {said['changed']:,}, several right answers "
            f"{said['several']:,}, cannot tell {said['unsure']:,}",
        ]
    )


def plan_text(plan: "QuestionPlan") -> str:
    """Return a sample of sets as text: its strata, and what it can promise for each model."""
    what = "to name" if plan.purpose == "name" else "to check"
    state = "" if plan.is_new else ", resumed"
    out = [f"plan: {plan.asked:,} of {counted(plan.sets, 'set')} {what} (seed {plan.seed}{state})"]
    wide = max(len("stratum"), *(len(printable(one.name, limit=60)) for one in plan.strata))
    out += ["", f"  {'stratum':<{wide}}    sets  {what:>8}"]
    out += [f"  {printable(one.name, limit=60):<{wide}} {one.sets:>7,} {one.asked:>9,}" for one in plan.strata]
    if plan.promises:
        wide = max(len("model"), *(len(printable(promise.model, limit=60)) for promise in plan.promises))
        out += ["", "expected intervals, in points (in brackets: with as many random labels)"]
        out += [f"  {'model':<{wide}}  flicker        acc_orig         acc_pmk            drop"]
        for one in plan.promises:
            cells = [f"±{own:.1f} (±{other:.1f})".rjust(15) for own, other in zip(one.planned, one.random, strict=True)]
            out.append(f"  {printable(one.model, limit=60):<{wide}}  {100 * one.flicker:6.1f}% {' '.join(cells)}")
        little = [printable(promise.model) for promise in plan.promises if promise.helps_little]
        if little:
            out.append(f"note: the plan helps little for {', '.join(little)}, whose answers rarely change within a set")
    return "\n".join(out) + "\n"


_TEXTS = {"pairs": _pairs, "name": _name, "box": _box, "check": _checks}
