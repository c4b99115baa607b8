"""What comes into a run comes together: killed at any rename, the run is the old one or the new one and goes on."""

import json
from collections.abc import Callable
from pathlib import Path

from strobe.core.files import write_json
from strobe.store.run_folder import Run

KILLED = """
from strobe.core.files import write_json
from strobe.store.run_folder import Run

def put(folder, word):
    for name in ("results.json", "tables/scores.json"):
        write_json(folder / name, word)

def begin(place):
    put(place, "old")

def change(place, mortal):
    with Run(place).stage() as stage:
        put(stage, "new")
        mortal("rename", "replace", "unlink", "rmdir")
"""


def test_killed_inside_every_rename(killed_at_every_call: Callable[[str], list[Path]]) -> None:
    places, found = killed_at_every_call(KILLED), []
    for place in places:
        run = Run(place)  # opening it finishes what was decided
        said = {json.loads((place / name).read_text()) for name in ("results.json", "tables/scores.json")}
        assert len(said) == 1, f"killed at call {place.name}"
        found += said
        with run.stage() as stage:
            write_json(stage / "results.json", "newer")
        assert [path.name for path in place.iterdir() if path.name.startswith(".")] == []
    assert len(places) > 4
    assert found == sorted(found, reverse=True)
    assert {*found} == {"old", "new"}
