"""Votes on PostgreSQL through kills of the database, of its backends and of the server: none is lost, none twice."""

import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

import httpx
import psycopg
import pytest

from own_postgres import postgres_programs, started_postgres

OTHERS = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


def restart(base: Path) -> None:
    """Start the database again in its folder, as it was started before."""
    words = (base / "data/postmaster.opts").read_text().split()[0]
    program = Path(words).parent / "pg_ctl"
    user = (base / "data").owner()
    as_user = ["runuser", "-u", user, "--"] if os.geteuid() == 0 else []
    options = f"-c listen_addresses='' -c unix_socket_directories='{base}' -c fsync=off"
    start = [*as_user, str(program), "-D", str(base / "data"), "-w", "-o", options, "-l", str(base / "log"), "start"]
    for _ in range(20):  # children of the killed process may still end
        if subprocess.run(start, cwd=base, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
            return
        time.sleep(0.3)
    raise AssertionError((base / "log").read_text()[-2000:])


def kill_database(url: str, base: Path) -> None:
    os.kill(int((base / "data/postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    restart(base)


def kill_backend(url: str, base: Path) -> None:
    """A backend that is killed makes the database end every connection and recover."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(f"SELECT pid {OTHERS}")
        pids = [pid for (pid,) in rows]
    if pids:
        os.kill(random.Random(1).choice(pids), signal.SIGKILL)


def end_connections(url: str, base: Path) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"SELECT pg_terminate_backend(pid) {OTHERS}")


@pytest.mark.skipif(postgres_programs() is None, reason="no PostgreSQL here")
def test_no_vote_is_lost_or_counted_twice(helpers, tmp_path, decision, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    root = tmp_path / "data"
    helpers.make_dataset(root, n_sets=40, k=2)
    started: list[subprocess.Popen] = []

    def start(*words, **options):
        started.append(subprocess.Popen(*words, **options))
        return started[-1]

    with started_postgres(postgres_programs(), fsync=False) as url:
        base = Path(url.partition("host=")[2])
        server = helpers.Process(start, root, "--db", url, "--votes", "3")
        confirmed: dict[str, set[str]] = {}
        stop = threading.Event()

        def vote(name: str) -> None:
            """Votes as the page does: what is not confirmed is sent again, with the same id."""
            saved, number = confirmed.setdefault(name, set()), 0
            with httpx.Client(base_url=server.url, headers={"origin": server.url}, timeout=10) as client:
                while not stop.is_set():
                    try:
                        number = votes_of(client, name, saved, number)
                    except (httpx.HTTPError, ValueError):
                        time.sleep(0.05)

        def votes_of(client: httpx.Client, name: str, saved: set[str], number: int) -> int:
            client.post("/api/login", json={"name": name})
            tasks = client.post("/api/claim", json={"tab": f"tab-{name}-01", "want": 6}).json().get("tasks", [])
            for card in tasks:
                number += 1
                body = {**decision(card, number), "verdict_id": f"{name}-{number:08}"}
                while not stop.is_set():
                    answer = client.post("/api/decisions", json=body)
                    if answer.status_code == 200:
                        saved.add(body["verdict_id"])
                    if answer.status_code not in (401, 503):
                        break
                    time.sleep(0.05)
            time.sleep(0.01 if tasks else 0.2)
            return number

        people = [threading.Thread(target=vote, args=(name,)) for name in ("Ann", "Bo", "Cem")]
        for one in people:
            one.start()
        try:
            for kill in (kill_database, kill_backend, end_connections, None) * 2:
                more = 10 + sum(map(len, confirmed.values()))
                late = time.monotonic() + 60
                while sum(map(len, confirmed.values())) < more:
                    assert time.monotonic() < late, "no votes any more"
                    time.sleep(0.02)
                if kill is not None:
                    try:
                        kill(url, base)
                    except psycopg.OperationalError:  # it still recovers from the kill before
                        time.sleep(0.5)
                    continue
                server.kill()
                server = helpers.Process(start, root, "--db", url, "--votes", "3", port=server.port)
            time.sleep(1)
        finally:
            stop.set()
            for one in people:
                one.join(30)
            server.kill()
        with psycopg.connect(url) as connection:
            stored = [one for (one,) in connection.execute("SELECT verdict_id FROM verdicts")]
    all_confirmed = set().union(*confirmed.values())
    print(f"{len(all_confirmed)} confirmed, {len(stored)} stored")
    assert len(all_confirmed) > 30, "too few to tell"
    assert all_confirmed <= set(stored), "a confirmed vote was lost"
    assert len(stored) == len(set(stored)), "a vote is stored twice"
    for one in started:
        one.wait(10)
        one.stdout.close()
