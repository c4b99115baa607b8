"""What `strobe review` says about files that it cannot read: votes with a giant field, a closed folder or database."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[3] / "golden"


@pytest.mark.parametrize("what", ["folder", "database"])
def test_review_status_of_what_cannot_be_written_or_read(what: str, tmp_path: Path) -> None:
    """Both ended with exit 70, `a bug in strobe`."""
    drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.name == "posix" and os.geteuid() == 0 else []
    if os.name != "posix" or (drop and shutil.which("setpriv") is None):
        pytest.skip("permissions do not bind this user")
    place = tmp_path / "set"
    shutil.copytree(GOLDEN / "datasets/votes", place)
    make = (
        "import sys; from pathlib import Path; from contextlib import closing\n"
        "from strobe.annexes.web.review.store import Store; from strobe.store.dataset_folder import content, read\n"
        "with closing(Store('sqlite:///' + sys.argv[1] + '/review.sqlite')) as store:\n"
        "    store.check(read(Path(sys.argv[1])), content(Path(sys.argv[1])))\n"
    )
    subprocess.run([sys.executable, "-c", make, str(place)], check=True)
    closed = place if what == "folder" else place / "review.sqlite"
    closed.chmod(0o555 if what == "folder" else 0o000)
    words = [*drop, sys.executable, "-m", "strobe", "review", "status", str(place), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    closed.chmod(0o755)
    if what == "folder":
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["dataset"] == "golden-votes"
    else:
        assert done.returncode == 2
        assert done.stderr == f"strobe: {place}/review.sqlite: no permission to read it; ask its owner\n"
