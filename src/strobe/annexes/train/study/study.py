"""Recipes that were trained several times: means over trainings, and their spread over seeds."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from strobe.analyses.model_results import ClassificationScore
from strobe.analyses.results import Results
from strobe.analyses.scoring import Collector
from strobe.annexes.train.study import figures
from strobe.annexes.train.study.score import SEED_MARK, trainings
from strobe.core.codec import encode
from strobe.core.errors import printable
from strobe.report.study import SectionFigures, Study
from strobe.report.tables import spread
from strobe.report.view import Lines, Row, Table, View
from strobe.report.wording import with_interval


def _trainings(view: View) -> Iterator[Row]:
    for one in view.results.added.get("trainings", ()):
        row: Row = {"recipe": one.name, "trainings": len(one.models)}
        for name in ("acc_orig", "acc_pmk", "drop"):
            row |= spread(name, getattr(one, name)) | {
                f"{name}_seeds_{key}": value for key, value in encode(getattr(one, f"{name}_spread")).items()
            }
        yield row


TABLES: Mapping[str, Callable[[View], Table]] = {
    "trainings": lambda view: list(_trainings(view)),
}


def training_lines(view: View) -> list[Lines]:
    """Return a row for each recipe with several trainings: mean, interval over clips, lowest and highest seed."""
    rows = [
        [
            f"{printable(recipe.name)} ({len(recipe.models)} trainings)",
            *(
                with_interval(figure, f"; {100 * spread.low:.1f} – {100 * spread.high:.1f}".replace("-", "−"))
                for figure, spread in (
                    (recipe.acc_orig, recipe.acc_orig_spread),
                    (recipe.acc_pmk, recipe.acc_pmk_spread),
                    (recipe.drop, recipe.drop_spread),
                )
            ),
        ]
        for recipe in view.results.added.get("trainings", ())
    ]
    notes = [f"means over trainings [95 % interval over {view.words.source}s]; range over trainings"]
    columns = ["recipe", "acc_orig", "acc_pmk", "drop"]
    return [("Recipes with several trainings", columns, rows, notes)] if rows else []


FIGURES = (figures.trainings,)


def _content(view: View) -> Mapping[str, object]:
    """Return the table of the recipes."""
    if view.words.is_still:
        return {}
    return {"trainings": training_lines(view), "first_results": f"{__package__}:trainings.html.j2"}


class TrainingScores(Collector):
    """Adds the means over the trainings of each recipe."""

    def into(self, results: Results) -> Results:
        """Return the results with the means over trainings."""
        scores = [model for model in results.models.values() if isinstance(model, ClassificationScore)]
        if not any(SEED_MARK in score.model for score in scores):
            return results
        whole, options = self.scoring.merged.labelled_sets(), self.scoring.options
        found = trainings(whole, scores, seed=options.seed, replicates=options.draws)
        return replace(results, added={**results.added, "trainings": found}) if found else results


TRAININGS = Study(
    name="trainings",
    tables=TABLES,
    drawings=FIGURES,
    needs_to_score=("has_several_models",),
    needs_to_show=("results.added",),
    applies=lambda view: "trainings" in view.results.added,
    collector=TrainingScores,
    lines=training_lines,
    figures=lambda view: () if view.words.is_still else [SectionFigures(section="trainings", figures=FIGURES)],
    content=_content,
)
"""The figures of each recipe over its trainings; models of one recipe are called NAME~SEED."""
