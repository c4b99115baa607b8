"""A real Ray of two nodes, and the module `made_ray` of this folder."""

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strobe.annexes.ray.cluster import _QUIET

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one core each, which this process is connected to, with a folder of their own."""
    small = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    with tempfile.TemporaryDirectory(prefix="r") as short, pytest.MonkeyPatch.context() as patched:
        for name, value in {**_QUIET, "RAY_TMPDIR": short}.items():
            patched.setenv(name, value)  # some are read when it is imported
        patched.delenv("OMP_NUM_THREADS")  # Ray gives its workers as many threads as cores
        import ray
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
        try:
            made.add_node(**small)
            ray.init(address=made.address, log_to_driver=False, logging_level="error")
            yield made
        finally:
            ray.shutdown()
            made.shutdown()


@pytest.fixture(autouse=True)
def only_two_nodes(request: pytest.FixtureRequest) -> None:
    """Wait until a node that an earlier test removed is gone, because Ray notices it only after a while."""
    if "cluster" not in request.fixturenames:
        return
    request.getfixturevalue("cluster")
    import ray

    end = time.monotonic() + 120
    while sum(node["Alive"] for node in ray.nodes()) > 2 and time.monotonic() < end:
        time.sleep(0.05)
