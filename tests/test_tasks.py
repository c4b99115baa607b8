"""What differs by task stands in one small table per ring: each knows every task, and nothing else compares tasks."""

import re
from pathlib import Path

import pytest
from project_files import files

from strobe.core.tasks import Task
from strobe.engine.forward import FORWARDS
from strobe.report.study import studies
from strobe.store.answer_tables import BROUGHT, SHARDS

SCORERS = {study.task: study for study in studies() if study.task is not None}

SRC = Path(__file__).parents[1] / "src" / "strobe"


@pytest.mark.parametrize("table", [FORWARDS, SHARDS, BROUGHT, SCORERS])
def test_every_table_knows_every_task(table):
    assert set(table) == set(Task)


@pytest.mark.parametrize("room", ["core", "metrics", "predict", "runs", "workflows", "datasets", "cli"])
def test_no_task_is_compared_by_hand(room):
    pattern = re.compile(r"""task\b.{0,3}(==|!=)|["'](classification|detection)["'] (==|!=)""")
    found = [
        f"{path.relative_to(SRC)}:{number}: {line.strip()}"
        for path in files(f"src/strobe/{room}/**/*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]
    assert found == []
