"""One contract for every verb that writes a folder, one case a verb; fuzz/rules.py tries the rules.

A red test names the verb and the rule; `make fuzz CASE=rules/VERB` repeats it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULES = {"again", "held", "foreign", "settings", "disk", "kills"}
VERBS = (
    "build", "simulate", "synthesize", "vary", "attack", "import-coco-vid", "import-photos", "export-coco",
    "export-fiftyone", "export-huggingface", "export-croissant", "export-csv", "export-latex", "export-figures",
    "leaderboard", "gate", "history", "predict", "score", "score-again", "eval", "eval-two", "eval-videos",
    "eval-more", "eval-early", "report", "sheet",
)  # fmt: skip
"""The verbs of the house as fuzz/kill_cases.py names them; `make fuzz` tries those of annexes, too."""
MADE_ONCE = {
    "build", "simulate", "synthesize", "vary", "attack", "import-coco-vid", "import-photos", "eval-videos",
}  # fmt: skip
"""A folder of other settings is refused. The other verbs write the same files anew, or beside what is there."""
EXCEPT = {verb: set() if verb in MADE_ONCE else {"settings"} for verb in VERBS}
"""The rules that do not apply."""
EXCEPT["gate"] |= {"disk"}  # its files are too small to be cut short
for _verb in ("leaderboard", "score-again", "eval-more", "report"):
    EXCEPT[_verb] |= {"foreign"}  # they add to a folder that is there


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the fuzzer forks")
def test_every_verb_keeps_the_rules_of_folders(tmp_path: Path) -> None:
    """Run again, it changes nothing; it refuses a locked folder, foreign files and other settings; after a full disk or
    a kill, the same command gives the files of an uninterrupted run."""
    sweeps = [word for verb in VERBS for word in ("--sweep", f"rules/{verb}")]
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", "--folder", str(tmp_path), "--lanes", "1", *sweeps], cwd=ROOT, text=True,
        capture_output=True, timeout=900, env={**os.environ, "FUZZ_PATIENCE": "4"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()[1:]]
    assert {line["verb"]: RULES - set(line["kinds"]) for line in lines} == EXCEPT
