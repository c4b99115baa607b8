"""A viewer on a dataset from which a model is trained: no tag is lost, and the training gives the same weights."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

NET = ["-m", "timm:test_resnet", "--from-scratch", "--image-size", "32", "--device", "cpu", "--seed", "1"]
TRAIN = ["train", "stills", "data", *NET, "--set", "epochs=8", "--set", "batch=12", "-q", "-o"]


@pytest.mark.slow
def test_a_live_viewer_and_a_training_leave_each_other_alone(world: Path, view_server: Any, started: Any) -> None:
    pytest.importorskip("torch")

    def training(out: str) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] = started([sys.executable, "-m", "strobe", *TRAIN, out], cwd=world)
        return process

    assert training("alone").wait(300) == 0
    server = view_server(world)
    ann, saved, codes, stop = server.client("Ann"), [], set(), threading.Event()

    def use() -> None:
        while not stop.is_set():
            text = f"t{len(saved)}"
            body = {"data": server.data, "act": "tag", "row": len(saved) % 24, "text": text}
            answers = [ann.get("/api/runs"), ann.get("/api/sets", params={"data": server.data, "facets": 1})]
            answers.append(ann.post("/api/tag", json=body))
            codes.update(one.status_code for one in answers)
            if answers[-1].status_code == 200:
                saved.append(text)
            time.sleep(0.1)

    using = threading.Thread(target=use)
    using.start()
    try:
        for seconds in (6, 9):
            process = training("watched")
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        assert training("watched").wait(300) == 0
    finally:
        stop.set()
        using.join()
    assert codes == {200}
    rows = [json.loads(line)["text"] for line in (world / "data/tags.jsonl").read_text().splitlines()]
    assert rows == saved
    assert len(saved) > 20
    one, other = (world / name / "model.safetensors" for name in ("alone", "watched"))
    assert one.read_bytes() == other.read_bytes()
