"""A study: how often each model gives each answer, without regard to labels."""

from collections import Counter
from dataclasses import replace

from strobe.analyses.scoring import Collector
from strobe.report.study import Chapter, Study

NAME = "answer-shares"


class Shares(Collector):
    """Counts the answers of every classifier while the models are scored."""

    def __init__(self, scoring):
        super().__init__(scoring)
        self.names = scoring.dataset.info.label_space.names
        self.shares = {}

    def add(self, result, model, answers):
        """Count the answers of one model; its result stays as it is."""
        given = answers.as_classes().label.tolist()
        counts = Counter(self.names[label] for label in given if label >= 0)
        self.shares[model.name] = {name: counts[name] / len(given) for name in self.names}
        return result

    def into(self, results):
        """Add the record under `studies` in results.json."""
        return replace(results, studies={**(results.studies or {}), NAME: self.shares})


def rows(view):
    """Return a row for every model and class."""
    shares = (view.results.studies or {}).get(NAME, {})
    return [
        {"model": model, "class": name, "share": share} for model, of in shares.items() for name, share in of.items()
    ]


def lines(view):
    """Return the rows as a table of text: title, columns, rows, notes."""
    cells = [[row["model"], row["class"], f"{row['share']:.0%}"] for row in rows(view)]
    return [("Answers by class", ["model", "class", "share of frames"], cells, [])] if cells else []


def chapter(page):
    """Return the chapter of the page: an introduction and the table."""
    content = {"intro": "How often each model gives each answer.", "tables": lines(page.view)}
    return Chapter(name=NAME, title="Answers by class", content=content)


STUDY = Study(name=NAME, tables={"answer_shares": rows}, collector=Shares, lines=lines, chapter=chapter)
