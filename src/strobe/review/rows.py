"""Rows of the database as records, and back."""

import json
from dataclasses import fields
from typing import Any

from sqlalchemy import RowMapping

from strobe.core.records import Verdict
from strobe.review.plan import Task

__all__ = ["VERDICT_COLUMNS", "row_of_task", "row_of_verdict", "task_of", "verdict_of"]

_TASK_COLUMNS = tuple(field.name for field in fields(Task))
VERDICT_COLUMNS = tuple(field.name for field in fields(Verdict))
"""A vote's columns are its fields."""


def row_of_task(task: Task) -> dict[str, Any]:
    """A task as the values of its row."""
    return {name: getattr(task, name) for name in _TASK_COLUMNS}


def task_of(row: RowMapping) -> Task:
    """The task in a row of `tasks`."""
    return Task(**{name: row[name] for name in _TASK_COLUMNS})


def verdict_of(row: RowMapping) -> Verdict:
    """The vote in a row of `verdicts`."""
    right = row["label_right"]
    told = {
        "label_right": None if right is None else bool(right),
        "bad_anchor": bool(row["bad_anchor"]),
        "labels": tuple(json.loads(row["labels"])),
    }
    return Verdict(**{name: row[name] for name in VERDICT_COLUMNS} | told)


def row_of_verdict(verdict: Verdict) -> dict[str, Any]:
    """A vote as the values of its row."""
    right = verdict.label_right
    kept = {
        "label_right": None if right is None else int(right),
        "bad_anchor": int(verdict.bad_anchor),
        "labels": json.dumps(verdict.labels),
    }
    return {name: getattr(verdict, name) for name in VERDICT_COLUMNS} | kept
