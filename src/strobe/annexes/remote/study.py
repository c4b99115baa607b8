"""Models behind an address: what was asked and spent, and what they answered instead of a class."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from strobe.analyses.model_results import ModelResult
from strobe.analyses.results import Results
from strobe.analyses.scoring import Collector, ScorableModel, Scoring
from strobe.annexes.remote.records import OutsideAnswer, RemoteScore
from strobe.core.answers import Answers, ClassAnswers
from strobe.core.codec import decode
from strobe.core.errors import printable
from strobe.report.study import Chapter, PageInput, Study
from strobe.report.tables import as_row
from strobe.report.view import Lines, Row, Table, View
from strobe.store.run_folder import StoredModel

_MOST = 1000
"""The number of different answers outside the classes that are listed for a model."""
_SHOWN = 5
"""The number of these answers on the page, for each model."""
_LONGEST = 200
"""The number of characters of such an answer."""


def _scores(view: View) -> Mapping[str, RemoteScore]:
    records = (view.results.studies or {}).get("remote", {})
    return {name: decode(RemoteScore, record, where=f"studies.remote.{name}") for name, record in records.items()}


def _outside(view: View) -> Table:
    rows: list[Row] = []
    for name, model in _scores(view).items():
        rows += [{"model": name, **as_row(one)} for one in model.outside]
        rows += [{"model": name, "said": "other answers", "frames": model.others}] if model.others else []
    return rows


TABLES: Mapping[str, Callable[[View], Table]] = {
    "outside": _outside,
    "spent": lambda view: [{"model": name, **as_row(model.spent)} for name, model in _scores(view).items()],
}


def _chapter(page: PageInput) -> Chapter | None:
    """Return the chapter with the same tables."""
    intro = (
        "These models were asked over a network. Answers outside the classes count as wrong. tables/outside.csv "
        "has all of them."
    )
    return Chapter(
        name="remote",
        title="What was asked over the network?",
        nav="Requests",
        content={"intro": intro, "tables": _lines(page.view)},
    )


def _lines(view: View) -> list[Lines]:
    spent, outside = [], []
    for name, model in _scores(view).items():
        used, short = model.spent, printable(name, limit=60)
        spent.append(
            [
                short,
                f"{used.requests:,}",
                f"{used.retries:,}",
                f"{used.failed:,}",
                f"{used.sent_bytes / 1e6:,.1f}",
                f"{used.input_tokens:,} + {used.output_tokens:,}",
                f"{used.cost:,.4g}" if used.cost else "–",
            ]
        )
        outside += [[short, printable(one.said, limit=80), f"{one.frames:,}"] for one in model.outside[:_SHOWN]]
    columns = ["model", "requests", "retries", "frames without an answer", "MB sent", "tokens in + out", "cost"]
    tables: list[Lines] = [("Requests to models behind an address", columns, spent, [])]
    if outside:
        notes = ["tables/outside.csv has all of these answers"]
        tables.append(("Answers outside the classes", ["model", "answer", "frames"], outside, notes))
    return tables


class RemoteScores(Collector):
    """Counts the answers outside the classes of each model behind an address."""

    def __init__(self, scoring: Scoring) -> None:
        super().__init__(scoring)
        self._models: dict[str, RemoteScore] = {}

    def add(self, result: ModelResult | None, model: ScorableModel, answers: Answers) -> ModelResult | None:
        """Add a model, if it was asked over a network."""
        said = answers.said if isinstance(answers, ClassAnswers) else {}
        if isinstance(model, StoredModel) and model.facts.get("remote"):
            counts = Counter(printable(text, limit=_LONGEST) for text in said.values())
            ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
            self._models[model.name] = RemoteScore(
                spent=model.spent(),
                outside=tuple(OutsideAnswer(said=text, frames=n) for text, n in ranked[:_MOST]),
                others=sum(n for _, n in ranked[_MOST:]) or None,
            )
        return result

    def into(self, results: Results) -> Results:
        """Return the results with these models, if there are any."""
        if not self._models:
            return results
        return replace(results, studies={**(results.studies or {}), "remote": self._models})


REMOTE = Study(
    name="remote",
    tables=TABLES,
    needs_to_score=("is_remote",),
    needs_to_show=("results.studies",),
    applies=lambda view: bool(_scores(view)),
    collector=RemoteScores,
    lines=_lines,
    chapter=_chapter,
)
"""What was spent on models behind an address, and their answers outside the classes."""
