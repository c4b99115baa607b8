"""The container of the review server: its commands run here as they stand; the whole thing where an engine runs."""

import contextlib
import http.client
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from strobe.core.dataset import Dataset

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[4]
COMPOSE = ROOT / "deploy/compose.yaml"
DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")


def filled(text: str, values: dict[str, str]) -> str:
    """The text with ${NAME}, ${NAME:-default} and ${NAME:?why} filled in as Compose does; a missing one is an error."""

    def one(found: re.Match[str]) -> str:
        name, how, rest = found[1], found[2], found[3]
        if values.get(name):
            return values[name]
        assert how == ":-", f"{name}: {rest}"
        return rest or ""

    return re.sub(r"\$\{(\w+)(?:(:[-?])([^}]*))?\}", one, text)


def services(**values: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(filled(COMPOSE.read_text(encoding="utf-8"), values))["services"]
    return found


def test_what_must_be_set_is_asked_for() -> None:
    asked = set(re.findall(r"\$\{(\w+):\?", COMPOSE.read_text(encoding="utf-8")))
    assert asked == {"DATASET", "POSTGRES_PASSWORD", "STROBE_REVIEW_TOKEN"}
    example = (ROOT / "deploy/example.env").read_text(encoding="utf-8")
    assert asked <= set(re.findall(r"^(\w+)=", example, re.MULTILINE))
    with pytest.raises(AssertionError, match="set it in"):
        services(DATASET="/data", POSTGRES_PASSWORD="", STROBE_REVIEW_TOKEN="x")


def test_the_image_is_built_from_what_is_there() -> None:
    for line in re.findall(r"^COPY (.+)", DOCKERFILE, re.MULTILINE):
        for name in line.split()[:-1]:
            assert (ROOT / name).exists(), f"COPY {name}"
    extras = re.search(r'"\.\[([a-z,]+)\]"', DOCKERFILE)
    assert extras is not None
    assert {"postgres", "video"} == set(extras[1].split(","))
    user = DOCKERFILE.index("USER strobe")
    assert user < DOCKERFILE.index("ENTRYPOINT"), "it would run as root"
    assert json.loads(re.search(r"^ENTRYPOINT (.+)", DOCKERFILE, re.MULTILINE)[1]) == ["strobe"]  # type: ignore[index]
    assert services(DATASET="d", POSTGRES_PASSWORD="p", STROBE_REVIEW_TOKEN="t")["review"]["ports"] == [
        "127.0.0.1:8321:8321"
    ]


def test_its_command_serves_and_its_health_check_says_so(tmp_path: Path, small: Dataset, postgres: str) -> None:
    """The container's own words with this machine's folder, port and PostgreSQL in the place of its own."""
    data = str(small.root)
    told = services(
        DATASET=data, POSTGRES_PASSWORD="secret", STROBE_REVIEW_TOKEN="come-in-please", PUBLIC_URL="http://lab:1"
    )["review"]
    assert told["environment"]["STROBE_REVIEW_DB"] == "postgresql://strobe:secret@db/strobe"
    words = [data if word == "/data" else word for word in told["command"]]
    check = json.loads(re.search(r"^  CMD (\[.+\])", DOCKERFILE, re.MULTILINE)[1])  # type: ignore[index]
    environment = {
        **os.environ, **told["environment"], "STROBE_REVIEW_DB": postgres, "XDG_STATE_HOME": str(tmp_path / "state"),
    }  # fmt: skip
    port = str(_free_port())
    healthy = [sys.executable, "-c", check[2].replace("8321", port)]
    assert subprocess.run(healthy, capture_output=True).returncode != 0  # nobody listens yet
    server = subprocess.Popen(
        [sys.executable, "-u", "-m", "strobe", *words, "--port", port], env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        for _ in range(100):
            if subprocess.run(healthy, capture_output=True).returncode == 0:
                break
            assert server.poll() is None, server.communicate()[0]
            time.sleep(0.1)
        else:
            pytest.fail("never healthy")
        status, page = asked("lab:1", port)
        assert (status, "<html" in page) == (200, True)
        assert asked("other:1", port)[0] in (400, 403, 421)  # an address nobody named
        assert not Path(data, "review.sqlite").exists()  # PostgreSQL has the answers
    finally:
        server.terminate()
        server.communicate(timeout=30)


def asked(host: str, port: str) -> tuple[int, str]:
    """Status and page of the server on this machine, called by that name."""
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/", headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def _free_port() -> int:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.slow
def test_compose_brings_it_up(tmp_path: Path, small: Dataset) -> None:
    docker = shutil.which("docker")
    if docker is None:
        pytest.skip("no container engine here: docker is not installed")
    for words in (("info",), ("compose", "version")):
        done = subprocess.run([docker, *words], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no container engine here: docker {words[0]}: {(done.stderr or done.stdout).strip()[-200:]}")
    data = Path(str(small.root))
    data.chmod(0o777)
    port = str(_free_port())
    text = (
        COMPOSE.read_text(encoding="utf-8")
        .replace(":8321:8321", f":{port}:8321")
        .replace("context: ..", f"context: {ROOT}")
    )
    (tmp_path / "compose.yaml").write_text(text)
    values = {
        "DATASET": str(data),
        "POSTGRES_PASSWORD": "p4ss",
        "STROBE_REVIEW_TOKEN": "come-in-please",
        "PUBLIC_URL": "http://lab:1",
    }
    base = [docker, "compose", "-p", f"strobe-test-{port}", "-f", str(tmp_path / "compose.yaml")]

    def compose(*words: str) -> str:
        done = subprocess.run(
            [*base, *words], capture_output=True, text=True, env={**os.environ, **values}, timeout=900
        )
        assert done.returncode == 0, f"{shlex.join(words)}: {done.stderr[-2000:]}"
        return done.stdout

    try:
        compose("up", "--build", "--detach", "--wait")
        assert asked("lab:1", port)[0] == 200
        assert "waiting" in compose("exec", "-T", "review", "strobe", "review", "status", "/data", "--json")
    finally:
        subprocess.run([*base, "down", "--volumes"], capture_output=True, env={**os.environ, **values})
