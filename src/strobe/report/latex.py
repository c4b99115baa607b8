"""Tables for papers: models and their figures as LaTeX, with intervals and significance letters."""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations, product
from typing import Any

from strobe.analyses.comparison import Comparison
from strobe.analyses.measures import Measure
from strobe.analyses.model_results import flicker_measures
from strobe.analyses.results import Results
from strobe.core.errors import StrobeError, printable
from strobe.core.estimate import Estimate
from strobe.core.late import installed_version
from strobe.core.tasks import Task
from strobe.report.headline import headline
from strobe.report.view import View, in_short_names
from strobe.report.wording import is_sure

LONG = 40
"""The largest number of models in a table on one page. A longer table needs the package longtable."""

_ESCAPED = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": "$-$",
    "–": "--",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "Δ": r"$\Delta$",
    "\N{NO-BREAK SPACE}": "~",
    "’": "'",
    "“": "``",
    "”": "''",
    "…": r"\ldots{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}
_METHODS = {"clopper-pearson": "Clopper--Pearson", "korn-graubard": "Korn--Graubard"}


def escaped(text: str) -> str:
    r"""Return plain text for LaTeX. No sign of the text is read as a command.

    >>> escaped("a_b & 50 % \\input{x}")
    'a\\_b \\& 50 \\% \\textbackslash{}input\\{x\\}'
    """
    return "".join(_ESCAPED.get(sign, sign) for sign in printable(text, limit=4000))


def letters(names: Sequence[str], different: Collection[frozenset[str]]) -> dict[str, str]:
    """Return letters for the models: two models share a letter exactly if their pair is not in `different`.

    >>> letters(["x", "y", "z"], [frozenset("xz")])
    {'x': 'a', 'y': 'ab', 'z': 'b'}
    """
    groups = [frozenset(names)]
    for pair in different:
        parts = [group - {name} for group in groups if pair <= group for name in pair]
        kept = {group for group in groups if not pair <= group}.union(parts)
        groups = [group for group in kept if not any(group < other for other in kept)]
    order = {name: index for index, name in enumerate(names)}
    groups.sort(key=lambda group: sorted(order[name] for name in group))
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    signs = [*alphabet, *map("".join, product(alphabet, repeat=2))]
    return {name: "".join(sign for sign, group in zip(signs, groups, strict=False) if name in group) for name in names}


def latex_tables(results: Results) -> str:
    """Return a LaTeX file with a table for classifiers, for detectors, and for flicker without labels.

    Raises:
        StrobeError: The results have no model.
    """
    results, _ = in_short_names(results)
    view = View(results=results)
    tables = []
    for task in Task:
        if models := view.of(task):
            made = headline(view, task)
            metric = made.columns[0 if view.words.is_still else 1].name
            tables.append(_table(view, str(task), made.caption, made.columns, models, metric))
    if (flicker := results.flicker) is not None and flicker.models:
        caption = f"Flicker without labels: {flicker.n_sets} sets from {flicker.n_videos} videos."
        own = flicker.models.values()
        known = [flicker_measure for flicker_measure in flicker_measures() if flicker_measure.headline]
        columns = [one for one in known if not one.seldom or any(one.of(model).value is not None for model in own)]
        tables.append(_table(view, "flicker", caption, columns, flicker.models, "flicker"))
    if not tables:
        raise StrobeError("these results have no model, so there is no table; run strobe eval with a model first")
    is_long = any("longtable" in table for table in tables)
    packages = "packages booktabs and longtable, and one-column pages (\\onecolumn)" if is_long else "package booktabs"
    about = f"% Made by strobe {installed_version() or ''} for the dataset {escaped(results.dataset.name)}\n"
    return f"{about}% (digest {escaped(results.dataset.digest)}). Needs the {packages}.\n" + "\n".join(tables)


def _table(
    view: View,
    name: str,
    caption: str,
    columns: Sequence[Measure[Any]],
    models: Mapping[str, Any],
    metric: str,
) -> str:
    figures = {model: [column.of(one) for column in columns] for model, one in models.items()}
    marks, tested = _marks(view.results.comparison, list(models), metric)
    rows = []
    for model, row in figures.items():
        cells = []
        for column, found in zip(columns, row, strict=True):
            cell = _cell(found)
            cells.append(cell + (f"$^{{{marks[model]}}}$" if column.name == metric and model in marks else ""))
        rows.append(f"    {escaped(model)} & {' & '.join(cells)} \\\\")
    head = f"    Model & {' & '.join(escaped(column.name) for column in columns)} \\\\"
    text = _caption(view, caption, figures.values(), metric, tested)
    label = f"\\label{{tab:strobe-{_slug(view.results.dataset.name)}-{name}}}"
    spec = "l" + "r" * len(columns)
    if len(models) > LONG:
        top = ["    \\toprule", head, "    \\midrule", "    \\endhead", "    \\bottomrule", "    \\endfoot"]
        begin = ["\\begingroup\\small\\setlength{\\tabcolsep}{4pt}", f"\\begin{{longtable}}{{{spec}}}"]
        lines = [*begin, f"    \\caption{{{text}}}", f"    {label} \\\\", *top, *rows]
        return "\n".join([*lines, "\\end{longtable}", "\\endgroup", ""])
    lines = [
        "\\begin{table*}",
        "  \\centering\\small\\setlength{\\tabcolsep}{4pt}",
        f"  \\caption{{{text}}}",
        f"  {label}",
        f"  \\begin{{tabular}}{{{spec}}}",
    ]
    lines += [
        "    \\toprule",
        head,
        "    \\midrule",
        *rows,
        "    \\bottomrule",
        "  \\end{tabular}",
        "\\end{table*}",
        "",
    ]
    return "\n".join(lines)


def _cell(found: Estimate) -> str:
    if found.value is None:
        return "--"
    value = _number(found.value)
    ends = found.ends()
    bounds = "" if ends is None else f"[{', '.join(ends)}]".replace("-", "$-$")
    return value + (f" {{\\scriptsize {bounds}}}" if bounds else "")


def _number(value: float) -> str:
    return f"{100 * value:z.1f}".replace("-", "$-$")


def _marks(rows: Sequence[Comparison], models: Sequence[str], metric: str) -> tuple[dict[str, str], str]:
    """Return the letters of the models and the test behind them. There are none unless every pair was tested."""
    pairs = {frozenset((row.a, row.b)): row for row in rows if row.metric == metric}
    every = [frozenset(pair) for pair in combinations(models, 2)]
    if not every or any(pair not in pairs or pairs[pair].p is None for pair in every):
        return {}, ""
    tests = sorted({pairs[pair].test for pair in every})
    return letters(models, [pair for pair in every if is_sure(pairs[pair])]), " or ".join(tests)


def _caption(view: View, caption: str, rows: Collection[Sequence[Estimate]], metric: str, tested: str) -> str:
    data = view.results.dataset
    methods = sorted({found.method for row in rows for found in row if found.low is not None})
    out = [escaped(f"{data.name}: {caption[:1].lower()}{caption[1:]}")]
    if not view.words.is_still:
        out.append(escaped(f"k = {data.k}."))
    out.append("Values are in per cent.")
    if methods:
        named = "; ".join(_METHODS.get(method, escaped(method)) for method in methods)
        out.append(f"Brackets: 95\\,\\% intervals ({named}).")
    if tested:
        out.append(
            f"Models that share a letter do not differ significantly in {escaped(metric)} "
            f"({escaped(tested)}, corrected by Holm, $p < 0.05$)."
        )
    return " ".join(out)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "data"
