"""The result of a gate: as Markdown for a pull request, as JUnit XML for a CI server, and as lines for a terminal."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import replace

from strobe.analyses.clips import SCOPES
from strobe.analyses.gate import Check, Gate
from strobe.analyses.gate_plan import GatePlan
from strobe.analyses.measures import SUFFIXES
from strobe.core.errors import printable
from strobe.core.quoting import safe_markdown
from strobe.report.clips import clip_lines, clip_markdown
from strobe.report.view import renamed, sources
from strobe.report.wording import aligned, counted, in_subset, join, with_interval

MOST_NAMED = 10


def figure_of(check: Check) -> str:
    """Return the figure of a rule with its interval and unit."""
    if check.figure.value is None:
        return "—"
    if check.limit.unit != "share":
        return f"{check.figure.text(scale=1, digits=2).replace('-', '−')}{SUFFIXES[check.limit.unit]}"
    return f"{with_interval(check.figure)} {'points' if check.limit.is_difference else '%'}"


def in_short(found: Gate) -> Gate:
    """Return the gate with display names of models."""
    return replace(renamed(found, found.short), short=None) if found.short else found


def _about(found: Gate) -> str:
    against = f" against {join([printable(name) for name in found.baselines])}" if found.baselines else ""
    sizes = sources(found.n_sources, kinds=found.kinds or ())
    if found.k or not found.kinds or found.n_sets != found.n_sources:  # sets of a single image are not called sets
        sizes = f"{counted(found.n_sets, 'set')} of {sizes}{in_subset(found.subset)}, k = {found.k}"
    else:
        sizes += in_subset(found.subset)
    if found.missing_sets:
        sizes += f", {found.missing_sets} of them with missing predictions"
    return f"{printable(found.model)}{against} on {printable(found.dataset)}: {sizes}"


def gate_lines(found: Gate) -> Iterator[str]:
    """Return a line for each rule, and the overall verdict."""
    found = in_short(found)
    yield _about(found)
    yield from found.cautions or ()
    for check in found.checks:
        yield f"  {check.mark}  {check.title}: {figure_of(check)}: {check.verdict}, {check.sentence}"
    for change in found.changes:
        yield change.sentence()
    for pair in found.clips or ():
        yield from clip_lines(pair)
    yield f"about {found.scope.replace('-', ' ')}: {SCOPES[found.scope]}"
    yield verdict_of(found)


def verdict_of(found: Gate) -> str:
    """Return the overall verdict with the number of checks that did not pass."""
    failed = sum(check.passed is False for check in found.checks)
    open_ = sum(check.passed is None for check in found.checks)
    if failed:
        return f"FAILED: {failed} of {len(found.checks)} checks"
    return f"INCONCLUSIVE: {open_} of {len(found.checks)} checks" if open_ else "passed"


def plan_lines(plans: Sequence[GatePlan]) -> Iterator[str]:
    """Return how many videos each rule needs, as a table per rule with a row for each scope."""
    for plan in plans:
        churn = "" if plan.churn is None else f", {100 * plan.churn:.3g} % of the sets change between equal models"
        source = "assumed" if plan.measured_on is None else f"measured on {counted(plan.measured_on, 'video')}"
        yield f"{plan.limit.title}{churn} ({source})"
        unit = " points" if plan.limit.unit == "share" else SUFFIXES[plan.limit.unit]
        lost = f"a loss of {2 * plan.limit.value:g}{unit} fails"
        rows = [["--for", "videos", "equal models fail", lost]]
        rows += [
            [row.scope, f"{row.videos:,}", f"{100 * row.false_alarms:.1f} %", f"{100 * row.detected:.1f} %"]
            for row in plan.rows
        ]
        yield from (f"  {line}" for line in aligned(rows))
    yield (
        "Videos: the smallest number with which equal models fail in at most 5 % of cases, and a loss of twice the "
        "margin fails in at least 80 %. Assumed values count one set per video. With several sets per video, fewer "
        "videos may be enough."
    )
    if any(plan.measured_on is not None for plan in plans):
        yield (
            "A run measures the changes only roughly: in simulation, equal models then failed in 5 to 13 % of cases if "
            "the run had 25 videos, and in 5 to 9 % if it had 100 (most where videos have unequally many sets)."
        )


_HEADS = {True: "passed ✅", False: "failed ❌", None: "inconclusive ⚠️"}


def as_markdown(found: Gate) -> str:
    """Return a table of the rules, and the newly broken and newly held sets. External text is escaped."""
    found = in_short(found)
    cells = [
        (_mark(check), _title(check), figure_of(check), f"**{check.verdict}**: {safe_markdown(check.sentence)}")
        for check in found.checks
    ]
    rows = [f"| {' | '.join(row)} |" for row in cells]
    lines = [
        f"### strobe gate: {_HEADS[found.passed]}",
        "",
        safe_markdown(_about(found)),
        "",
        "| | rule | figure [95 % interval] | verdict |",
        "|---|---|---|---|",
        *rows,
    ]
    lines += [line for caution in found.cautions or () for line in ("", safe_markdown(_sentence(caution, found)))]
    for change in found.changes:
        lines += ["", safe_markdown(change.sentence())]
        better, worse = change.words
        lines += _named(worse.capitalize(), change.broken, change.newly_broken)
        lines += _named(better.capitalize(), change.held, change.newly_held)
    for pair in found.clips or ():
        lines += ["", clip_markdown(pair)]
    lines += ["", safe_markdown(f"About {found.scope.replace('-', ' ')}: {SCOPES[found.scope]}.")]
    return "\n".join(lines) + "\n"


def _sentence(caution: str, found: Gate) -> str:
    """Return a line as a sentence. A model name at its start stays unchanged."""
    is_named = any(caution.startswith(f"{printable(name)}: ") for name in (found.model, *found.baselines))
    text = caution if is_named else f"{caution[0].upper()}{caution[1:]}"
    return text if text.endswith("?") else f"{text}."


def _title(check: Check) -> str:
    """Return the rule as text. Names of contrasts and baselines are arbitrary and must be escaped."""
    return safe_markdown(check.title) if check.limit.is_contrast or check.against else check.title


def _mark(check: Check) -> str:
    return {True: "✅", False: "❌", None: "⚠️"}[check.passed]


def _named(what: str, names: Sequence[str], n: int) -> list[str]:
    if not n:
        return []
    shown = [safe_markdown(name) for name in names[:MOST_NAMED]]
    rest = [f"{n - len(shown)} more"] if n > len(shown) else []
    return [
        "",
        f"<details><summary>{what}: {counted(n, 'set')}</summary>",
        "",
        ", ".join([*shown, *rest]),
        "",
        "</details>",
    ]


def as_junit(found: Gate) -> str:
    """Return a test suite with a case for every rule. An undecided rule is reported in the output of its case."""
    found = in_short(found)
    failed = sum(check.passed is not True for check in found.checks)
    suites = ElementTree.Element("testsuites", name="strobe gate", tests=str(len(found.checks)), failures=str(failed))
    suite = ElementTree.SubElement(
        suites, "testsuite", name=_about(found), tests=str(len(found.checks)), failures=str(failed), errors="0"
    )
    for one in found.checks:
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"strobe.gate.{printable(found.model)}", name=one.title
        )
        text = f"{figure_of(one)}: {one.verdict}, {one.sentence}"
        if one.passed:
            ElementTree.SubElement(case, "system-out").text = text
        else:
            ElementTree.SubElement(case, "failure", message=text, type=one.verdict)
    if found.cautions:
        ElementTree.SubElement(suite, "system-out").text = "\n".join(found.cautions)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"
