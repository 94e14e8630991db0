"""What runs on the cluster's nodes: one part of some traces, one merge of some parts. Needs there only the program wane.

A task hands back a dict and raises nothing that was to be expected: {"failed": sentence}, with "again" where another try may help.
A finished part lies in the place of work under a name made from what it was made of, so whoever does it again finds it there.
"""
import ctypes
import hashlib
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from .places import PlaceError, fetch, place_of, remove_folder, size_and_time, stamp_of

# The settings that a part depends on; everything else is decided when parts are merged.
OF_A_PART = ("window", "samples")
HEAD = 256
# Of the programs that this process has asked.
VERSIONS = {}


def part_name(kind, digests, settings):
    """The same inputs, in any order, and the same settings: the same name."""
    told = {"form": 1, "kind": kind, "of": sorted(digests), "settings": {key: settings.get(key) for key in OF_A_PART}}
    return "wane-" + hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=20).hexdigest() + ".part"


def is_whole(store, name):
    """Is the part there, and as long as its head says (docs/table.md)? Its checksum is read when it is merged."""
    size = store.size(name)
    if size is None or size < HEAD:
        return False
    head = store.head(name, HEAD)
    return head[:8] == b"WANEPART" and HEAD + struct.unpack_from("<Q", head, 184)[0] == size


def with_parent():
    """The child ends with its worker: a worker that is killed leaves nothing running. Linux only."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl

    def die_with_it():
        prctl(1, signal.SIGKILL)
    return die_with_it


def find_wane(job):
    """The driver's own path where it exists here too, else what PATH has; of the driver's version."""
    path = job["wane"] if os.access(job["wane"], os.X_OK) else shutil.which("wane")
    if path is None:
        raise PlaceError(f"{os.uname().nodename} has no program {job['wane']}, and none of the name wane in its PATH: install wane there")
    if path not in VERSIONS:
        VERSIONS[path] = json.loads(subprocess.run([path, "version", "--json"], capture_output=True, text=True, check=True).stdout)["wane"]
    if VERSIONS[path] != job["version"]:
        raise PlaceError(f"{path} on {os.uname().nodename} is wane {VERSIONS[path]}, and here it is {job['version']}: install one version everywhere")
    return path


def run_wane(job, words, scratch):
    words = [find_wane(job), "table", *words, "--memory", str(job["memory"]), "--temporary", job["temporary"] or scratch, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", preexec_fn=with_parent())
    if done.returncode < 0:
        return {"failed": f"wane was ended by signal {-done.returncode} on {os.uname().nodename} (out of memory?)", "again": True}
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return {"failed": said[0].removeprefix("wane: "), "again": "No space left" in said[0]}
    return json.loads(done.stdout)


def known_digest(store, named):
    """(name of the note, digest) where the file's stamp is that of a digest which was taken before."""
    stamp = stamp_of(named)
    if stamp is None:
        return None, None
    note = "note-" + hashlib.blake2b(f"{named}\n{stamp}".encode(), digest_size=20).hexdigest()
    kept = store.read(note)
    return note, kept.decode() if kept else None


def with_scratch(job, work):
    """What `work` hands back, given the place of parts and a folder of its own that is gone behind it; a sentence where that fails."""
    scratch = tempfile.mkdtemp(prefix="wane-ray-", dir=job["temporary"])
    try:
        return work(place_of(job["work"]), scratch)
    except PlaceError as why:
        return {"failed": str(why)}
    except OSError as why:
        return {"failed": f"{os.uname().nodename}: {why}", "again": True}
    finally:
        remove_folder(scratch)


def made_part(store, name, **more):
    """What a task says of its part; `more` where it made it."""
    return {"part": name, "kept": not more, "bytes": store.size(name), "node": os.uname().nodename, **more}


def build_part(job, files):
    """A part of these traces. Reads a trace only when it is not known what is in it, or the part is not there."""
    def build(store, scratch):
        try:
            return _build_part(job, files, store, scratch)
        except FileNotFoundError as why:
            return {"failed": f"{os.uname().nodename} cannot see {why.filename or why}: traces and --ray-work must lie where every node finds "
                              "them, in a shared folder or at an address"}
    return with_scratch(job, build)


def _build_part(job, files, store, scratch):
    began = time.time()
    notes = [known_digest(store, file) for file in files]
    if all(digest for _, digest in notes):
        name = part_name("build", [digest for _, digest in notes], job["settings"])
        if is_whole(store, name):
            return made_part(store, name)
    before = [size_and_time(file) for file in files]
    fetched = [fetch(file, scratch, i) for i, file in enumerate(files)]
    for (note, known), (_, digest) in zip(notes, fetched):
        if note and digest != known:
            store.write(note, digest.encode())
    name = part_name("build", [digest for _, digest in fetched], job["settings"])
    if is_whole(store, name):
        return made_part(store, name)
    fresh = store.fresh(name, scratch)
    words = ["build", "--partial", "--output", fresh, *job["of_parts"]]
    for path, _ in fetched:
        words += ["--log-file", path]
    said = run_wane(job, words, scratch)
    if "failed" in said:
        return _without_copies(said, files, [path for path, _ in fetched])
    for file, was in zip(files, before):
        if size_and_time(file) != was:
            os.remove(fresh)
            return {"failed": f"{file} was written to while it was read; leave out traces that are still being written"}
    store.take(fresh, name)
    return made_part(store, name, records=said["records"], seconds=time.time() - began)


def _without_copies(said, files, paths):
    """Names the trace or the part, and not a copy of it that is gone."""
    for file, path in zip(files, paths):
        said["failed"] = said["failed"].replace(path, file)
    return said


def merge_parts(job, names):
    """One part of several."""
    return with_scratch(job, lambda store, scratch: _merge_parts(job, names, store, scratch))


def _merge_parts(job, names, store, scratch):
    began = time.time()
    name = part_name("merge", names, job["settings"])
    if is_whole(store, name):
        return made_part(store, name)
    fresh = store.fresh(name, scratch)
    paths = [store.bring(one, scratch) for one in names]
    said = run_wane(job, ["merge", "--partial", "--output", fresh, *paths], scratch)
    if "failed" in said:
        return _without_copies(said, [f"{job['work']}/{one}" for one in names], paths)
    store.take(fresh, name)
    return made_part(store, name, seconds=time.time() - began)
