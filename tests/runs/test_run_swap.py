"""What comes into a run comes together: killed at any rename, the run is the old one or the new one and goes on."""

import json
import subprocess
import sys
from pathlib import Path

from strobe.core.files import write_json
from strobe.runs.folder import Run

KILLED = """
import os, sys
from pathlib import Path
from strobe.core.files import write_json
from strobe.runs.folder import Run

def come_in(run, at):
    calls = 0

    def deadly(real):
        def call(*args, **options):
            nonlocal calls
            calls += 1
            if calls > at:
                os._exit(9)
            return real(*args, **options)
        return call

    with run.stage() as stage:
        write_json(stage / "results.json", "new")
        write_json(stage / "tables/scores.json", "new")
        for name in ("rename", "replace", "unlink", "rmdir"):
            setattr(os, name, deadly(getattr(os, name)))
    os._exit(0)

for at in range(1000):
    run = Path(sys.argv[1]) / str(at)
    for name in ("results.json", "tables/scores.json"):
        write_json(run / name, "old")
    child = os.fork()
    if not child:
        come_in(Run(run), at)
    if os.waitpid(child, 0)[1] == 0:
        break
"""


def test_killed_inside_every_rename(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=True)
    places = sorted(tmp_path.iterdir(), key=lambda path: int(path.name))
    found = []
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
