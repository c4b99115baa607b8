"""docs/scale.md: its cluster files are ones Ray takes, and its table is what the benchmark works out."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from project_files import files

ROOT = Path(__file__).parents[1]
CLUSTERS = files("docs/clusters/*.yaml")


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.name)
def test_cluster_files_are_what_ray_takes(path: Path) -> None:
    util: Any = pytest.importorskip("ray.autoscaler._private.util", reason="Ray has no wheel for this Python")
    yaml: Any = pytest.importorskip("yaml")
    given = yaml.safe_load(path.read_text(encoding="utf-8"))
    # Ray fills in its defaults, but ships none for nodes on one machine: such a file says everything itself.
    filled = (lambda config: config) if given["provider"]["type"] == "fake_multinode" else util.prepare_config
    whole = filled(given)
    util.validate_config(whole)
    assert {name: whole["available_node_types"][name]["resources"] for name in given["available_node_types"]} == {
        name: about["resources"] for name, about in given["available_node_types"].items()
    }
    assert any(about.get("max_workers", 0) for about in whole["available_node_types"].values())
    page = (ROOT / "docs/scale.md").read_text(encoding="utf-8")
    assert f"(clusters/{path.name})" in page
    for broken in ({**given, "max_workers": "many"}, {**given, "nodes": 3}, {**given, "head_node_type": "nobody"}):
        with pytest.raises(Exception, match=r"many|nodes|head_node_type"):
            util.validate_config(filled(broken))


def test_the_table_is_what_the_benchmark_works_out() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks/cluster_cost.py")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() in (ROOT / "docs/scale.md").read_text(encoding="utf-8")


def test_the_limit_follows_what_is_given() -> None:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from cluster_cost import WAYS, WRITTEN, Study
    finally:
        sys.path.pop(0)
    gpu = WAYS[0]
    one = Study(models=1, at_once=1, read=1e6)
    assert one.hours(gpu) == pytest.approx(one.frames / gpu.one / 3600)
    assert Study(models=1, at_once=1, read=100).limit(gpu, 1) == "read"
    assert Study(models=9, at_once=8, read=1e6).hours(gpu) == pytest.approx(
        Study(models=8, at_once=8, read=1e6).hours(gpu) + one.hours(gpu)
    )
    many = Study()
    assert (many.limit(gpu, 1), many.limit(gpu, 1000)) == ("forward", "write")
    assert many.days(gpu, 1000) == pytest.approx(many.pairs / WRITTEN / 86400)
