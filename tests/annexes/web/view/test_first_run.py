"""The viewer may be there before the first run."""

import shutil
import time


def test_a_run_that_begins_after_the_viewer_appears(world, tmp_path, view_server):
    (tmp_path / "later").mkdir()
    client = view_server(tmp_path / "later").client("Ann")
    assert client.get("/api/runs").json()["runs"] == []
    for name in ("one", "two"):
        shutil.copytree(world, tmp_path / "later" / name)
    deadline = time.monotonic() + 60
    while len(client.get("/api/runs").json()["runs"]) < 2 and time.monotonic() < deadline:
        time.sleep(0.2)
    found = client.get("/api/runs").json()
    assert len(found["runs"]) == 2
    names = {dataset["name"] for dataset in found["datasets"]}
    assert {"toys (one·data)", "toys (two·data)"} <= names, "datasets of one name have their folder"
