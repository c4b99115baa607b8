"""Measure how many frames --stop-early saves, by replaying the stored answers of a full run.

    python benchmarks/stop_early.py RUN [RUN …]

RUN is a run folder of classifiers in which every frame has an answer (`strobe demo` makes one). No model runs, because
all answers are known. Each model is measured twice: as the first of the run (only distances are known), and after all
others. The script prints the frames that it runs, the minimum that settles every set, their ratio (the target is at
most 1.15), the share of all frames, the rounds, and whether acc_orig, acc_pmk and drop equal those of the full run.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from strobe.analyses.classification import score
from strobe.analyses.early import EarlyStopRounds, Failures, saved
from strobe.analyses.plan import Plan, ScoreOptions
from strobe.core.answers import ClassAnswers, State
from strobe.store.opening import Opened
from strobe.store.run_folder import Run

QUICK = ScoreOptions(bootstrap=False)


def stopped(plan: Plan, failures: Failures, full: ClassAnswers) -> tuple[ClassAnswers, int]:
    """Return the answers of a model that stops early, and the number of rounds."""
    asking, asked, rounds = EarlyStopRounds(plan, failures.risk()), np.zeros(len(full), dtype=bool), 0
    while len(rows := asking.next()):
        asked[rows] = True
        asking.tell(rows, full)
        rounds += 1
    state = np.where(asked, full.state, State.SKIPPED).astype(np.uint8)
    return replace(full, state=state, label=np.where(asked, full.label, -1)), rounds


def measured(run: Path) -> list[dict[str, Any]]:
    """Return a row for every model of the run and both orders."""
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
