"""The cluster file of docs/scale.md for real: a Ray that has no core until there is work, and the same bytes as here.

    python benchmarks/ray_cluster.py [--videos 160]

Starts docs/clusters/try.yaml on a free port in a folder of its own, predicts there and here with one thread a forward,
compares every shard, and ends what it started. Exit code 1 where a byte differs.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
ENV = {
    **os.environ, "RAY_FAKE_CLUSTER": "1", "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled",
    "OMP_NUM_THREADS": "1",
}  # fmt: skip


def strobe(*words: str) -> float:
    """Seconds of a command."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "strobe", *words, "-q"], check=True, env=ENV, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("", 0))
        return int(taken.getsockname()[1])


def shards(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(run.glob("predictions/*/*.parquet"))}


def started_in(folder: Path) -> list[int]:
    """The processes whose command names the folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words and int(place.name) != os.getpid():
            found.append(int(place.name))
    return found


def end(folder: Path) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for pid in started_in(folder):
            try:
                os.kill(pid, sign)
            except ProcessLookupError:
                continue
        until = time.monotonic() + 10
        while started_in(folder) and time.monotonic() < until:
            time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=int, default=160)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ray-try-") as name:
        folder, port = Path(name), free_port()
        ip = socket.gethostbyname(socket.gethostname())
        config = yaml.safe_load((ROOT / "docs/clusters/try.yaml").read_text(encoding="utf-8"))
        config["provider"]["gcs_address"] = f"{ip}:{port}"  # the port is 6379 where nobody says another
        (folder / "try.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        strobe("synthesize", str(folder / "data"), "--videos", str(given.videos), "--k", "3", "--size", "64")
        head = ["ray", "start", "--head", "--port", str(port), "--num-cpus", "0", "--include-dashboard", "false"]
        where = ["--temp-dir", str(folder / "ray"), "--autoscaling-config", str(folder / "try.yaml")]
        try:
            subprocess.run([*head, *where], check=True, env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            predict = ["predict", str(folder / "data"), "-m", "strobe-world", "--device", "cpu", "-o"]
            ray = ["--engine", f"ray={ip}:{port}", "--actors", "2", "--actor-cores", "1"]
            empty = strobe(*predict, str(folder / "first"), *ray)
            warm = strobe(*predict, str(folder / "second"), *ray)
            here = strobe(*predict, str(folder / "here"))
        finally:
            end(folder)
        same = shards(folder / "first") == shards(folder / "second") == shards(folder / "here")
        seconds = {"from_no_node": round(empty, 1), "with_nodes": round(warm, 1), "here": round(here, 1)}
        about = {"frames": 7 * given.videos, "shards": len(shards(folder / "here")), "same_bytes": same}
        print(json.dumps({**about, "seconds": seconds}))
        sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
