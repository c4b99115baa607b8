"""Test the cluster file of docs/scale.md: a Ray cluster that starts without cores must give the same bytes as a local
run.

    python benchmarks/ray_cluster.py [--videos 160]

The script starts docs/clusters/try.yaml on a free port in a temporary folder. It predicts on the cluster and locally,
with one thread per forward, compares every shard and stops the cluster. It exits with 1 if a byte differs.
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
    """Run a command and return its seconds."""
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
    """Return the processes whose command line names the folder."""
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
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ray-try-") as name:
        folder, port = Path(name), free_port()
        ip = socket.gethostbyname(socket.gethostname())
        config = yaml.safe_load((ROOT / "docs/clusters/try.yaml").read_text(encoding="utf-8"))
        config["provider"]["gcs_address"] = f"{ip}:{port}"  # otherwise the port is 6379
        (folder / "try.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        strobe("synthesize", str(folder / "data"), "--videos", str(options.videos), "--k", "3", "--size", "64")
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
        about = {"frames": 7 * options.videos, "shards": len(shards(folder / "here")), "same_bytes": same}
        print(json.dumps({**about, "seconds": seconds}))
        sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
