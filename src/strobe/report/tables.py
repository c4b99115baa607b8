"""Write the tables of every study of a run as CSV."""

from pathlib import Path

from strobe.analyses.results import Results
from strobe.core.files import write_text
from strobe.report.rows import Table, as_csv
from strobe.report.studies import applying, tables
from strobe.report.view import View


def _with_unscored(results: Results, rows: Table) -> Table:
    """Add to each row how many frames and sets of its model are unscored, if any model has unscored frames or sets.

    Tables with models also get the number of sets that are scored for no model.
    """
    unscored = {name: model.unscored for name, model in results.models.items()}
    facts = results.dataset
    counts = {"unlabelled_sets": facts.unlabelled_sets, "sets_without_votes": facts.sets_without_votes}
    of_all = {name: count for name, count in counts.items() if count}
    own = any(found.sets for found in unscored.values())
    if not of_all and not own:
        return rows
    return [
        row | ({"unscored_frames": found.frames, "unscored_sets": found.sets} if own else {}) | of_all
        if (found := unscored.get(str(row.get("model"))))
        else row
        for row in rows
    ]


def write_tables(run: Path, results: Results) -> list[Path]:
    """Write every table that has rows to `run/tables/NAME.csv`, remove tables without rows, and return the paths."""
    written, view = [], View(results=results)
    used = {name for study in applying(view) for name in study.tables}
    for name, make in tables().items():
        rows = _with_unscored(results, make(view)) if name in used else []
        path = run / "tables" / f"{name}.csv"
        if rows:
            write_text(path, as_csv(rows))
            written.append(path)
        elif path.is_file():
            path.unlink()
    return written
