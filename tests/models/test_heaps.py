"""Threads of a program that runs models on the CPU share one heap, and workers of one machine its cores."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from strobe.models import cores

_HEAPS = """
import ctypes, sys, threading
from strobe.models.cores import share_one_heap

worked = share_one_heap(sys.argv[1])
libc, everyone = ctypes.CDLL(None), threading.Barrier(4)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

def work():
    place = libc.malloc(100_000)
    everyone.wait()
    libc.free(place)

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc.fopen.restype, libc.fclose.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
file = libc.fopen(sys.argv[2].encode(), b"w")
libc.malloc_info(0, file)
libc.fclose(file)
print(worked, open(sys.argv[2]).read().count("<heap nr="))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="heaps of threads are glibc's")
@pytest.mark.parametrize(("device", "shared"), [("cpu", True), ("cuda", False)])
def test_threads_share_one_heap_where_models_run_on_the_cpu(device: str, shared: bool, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _HEAPS, device, str(tmp_path / "heaps.xml")]
    worked, heaps = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert worked == str(shared)
    assert (int(heaps) == 1) == shared


def test_a_worker_counts_only_the_cores_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "_limits", [])
    there = cores.cores()
    cores.limit_cores(1)
    assert (cores.cores(), cores.cpu_lanes()) == (1, 1)
    cores.limit_cores(there + 100)
    assert cores.cores() == there
