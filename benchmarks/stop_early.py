"""What --stop-early saves: the models of a full run once more, each set to its first wrong frame, from stored answers.

    python benchmarks/stop_early.py RUN [RUN …]

RUN is a run folder of classifiers, all frames answered (`strobe demo` makes one). No model runs: what a model would
have answered is known. For every model, first of the run (nothing is known but distances) and after all the others:
the frames it runs, the least that settle every set, their ratio (at most 1.15 is the aim), the share of all frames,
the rounds; and whether acc_orig, acc_pmk and drop equal those of the full run.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from strobe.analyses.classification import ScoreOptions, score
from strobe.analyses.early import EarlyStopRounds, Failures, saved
from strobe.analyses.plan import Plan
from strobe.core.answers import ClassAnswers, State
from strobe.runs.folder import Run
from strobe.workflows.opening import Opened

QUICK = ScoreOptions(bootstrap=False)


def stopped(plan: Plan, failures: Failures, full: ClassAnswers) -> tuple[ClassAnswers, int]:
    """The answers of a model that stops early, and in how many rounds."""
    asking, asked, rounds = EarlyStopRounds(plan, failures.risk()), np.zeros(len(full), dtype=bool), 0
    while len(rows := asking.next()):
        asked[rows] = True
        asking.tell(rows, full)
        rounds += 1
    state = np.where(asked, full.state, State.SKIPPED).astype(np.uint8)
    return replace(full, state=state, label=np.where(asked, full.label, -1)), rounds


def measured(run: Path) -> list[dict[str, Any]]:
    """A row for every model of the run and each of the two orders."""
    opened = Opened.of_run(Run(run))
    plan = Plan(opened.dataset, QUICK)
    models: list[ClassAnswers] = []
    for one in Run(run).models_as_asked(opened.dataset):
        answers = one.load()
        if isinstance(answers, ClassAnswers):
            models.append(answers)
    rows = []
    for place, full in enumerate(models):
        for before in ([], [*models[:place], *models[place + 1 :]]):
            failures = Failures(plan)
            for other in before:
                failures.add(stopped(plan, failures, other)[0])
            early, rounds = stopped(plan, failures, full)
            found = saved(plan, early)
            a, b = (score(opened.dataset, one, options=QUICK).headline for one in (early, full))
            rows.append(
                {"run": run.name, "model": full.model, "models before": len(before), "frames": found.frames,
                 "ran": found.ran, "least": found.least, "over the least": round(found.ran / found.least, 4),
                 "share of all": round(found.ran / found.frames, 4), "rounds": rounds, "same figures": a == b}
            )  # fmt: skip
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    for row in (row for run in parser.parse_args().runs for row in measured(run)):
        print(json.dumps(row))
