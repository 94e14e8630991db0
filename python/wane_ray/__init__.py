"""Tables of more traces than one machine reads: `wane table build --ray ADDRESS`, and the same for Python.

    from wane_ray import Cluster, Options, build
    code, counts = build(Options(["/shared/traces"], "/shared/parts", wane="wane", merge_words=["--output", "T.slmt"]), Cluster("auto"))

Shards of the traces become partial builds, as Ray tasks that run the program wane on the nodes; the parts are merged, the last time here.
The table has the bytes of a single build. docs/scale.md says how it is used and what it costs.
"""
from .drive import Cluster, Options, RayBuildError, build, make_shards
from .places import PlaceError

__all__ = ["Cluster", "Options", "PlaceError", "RayBuildError", "build", "make_shards"]
