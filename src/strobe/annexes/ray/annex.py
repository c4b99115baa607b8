"""What this annex adds to strobe."""

from strobe.core.annex import Annex, Item

ANNEX = Annex(
    what="Models, searches and builds on a Ray cluster.",
    adds={"executors": {"ray": Item("strobe.annexes.ray.cluster:ray_cluster")}},
)
