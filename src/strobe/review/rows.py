"""Rows of the database as records, and back."""

import json
from typing import Any

from sqlalchemy import RowMapping

from strobe.core.protocol import is_clean
from strobe.core.records import Verdict
from strobe.review.plan import Task

__all__ = ["NO_TIME", "latest_row", "row_of_task", "row_of_verdict", "task_of", "verdict_of"]

NO_TIME = "1970-01-01T00:00:00.000000Z"
"""The time of a vote whose file has none: earlier than any vote made on the page, so that those count."""


def row_of_task(task: Task) -> dict[str, Any]:
    """A task as the values of its row."""
    return {name: getattr(task, name) for name in ("task_id", "kind", "position", "set_id", "frame_id")}


def task_of(row: RowMapping) -> Task:
    """The task in a row of `tasks`."""
    return Task(**{name: row[name] for name in ("task_id", "kind", "position", "set_id", "frame_id")})


def latest_row(task_id: str, verdict: Verdict) -> dict[str, Any]:
    """What `latest` remembers of a vote."""
    return {
        "task_id": task_id,
        "annotator": verdict.annotator,
        "round": 2 if verdict.stage in ("verify", "joint") else 1,
        "at": verdict.at,
        "verdict_id": verdict.verdict_id,
        "clean": int(is_clean(verdict)),
        "bad": int(verdict.bad_anchor),
    }


def verdict_of(row: RowMapping) -> Verdict:
    """The vote in a row of `verdicts`."""
    return Verdict(
        verdict_id=row["verdict_id"],
        annotator=row["annotator"],
        at=row["at"],
        stage=row["stage"],
        set_id=row["set_id"],
        frame_id=row["frame_id"],
        decision=row["decision"],
        label_right=None if row["label_right"] is None else bool(row["label_right"]),
        reason=row["reason"],
        bad_anchor=bool(row["bad_anchor"]),
        labels=tuple(json.loads(row["labels"])),
        note=row["note"],
        seconds=row["seconds"],
        page_version=row["page_version"],
    )


def row_of_verdict(verdict: Verdict) -> dict[str, Any]:
    """A vote as the values of its row."""
    texts = ("verdict_id", "annotator", "at", "stage", "set_id", "frame_id", "decision", "reason", "note")
    return {
        **{name: getattr(verdict, name) for name in texts},
        "seconds": verdict.seconds,
        "page_version": verdict.page_version,
        "label_right": None if verdict.label_right is None else int(verdict.label_right),
        "bad_anchor": int(verdict.bad_anchor),
        "labels": json.dumps(verdict.labels),
    }
