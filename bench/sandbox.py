#!/usr/bin/env python3
"""Runs a program that nobody has read against tests: a process of its own, limited, killed with all that it started.

    sandbox.passes(program, item)   (True, "") or (False, why); item has prompt, entry_point and test, as in HumanEval
    sandbox.missing()               what this system cannot do against such a program, in words; an empty list where all is there

sandbox_child.py is the inside: two processes, and a nonce that is printed only when the tests passed. Here are namespaces (no network;
a process namespace, with which whatever is left ends) where `unshare` may make them, a folder that is removed afterwards, an empty
environment, and the limit on time.
"""
import functools
import json
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile

CHILD = pathlib.Path(__file__).resolve().with_name("sandbox_child.py")
SECONDS = 20  # by the wall: the limit of CPU time is for loops, this one for sleepers

WAYS = [["--net", "--pid", "--fork", "--kill-child", "--ipc"], ["--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--ipc"],
        ["--net"], ["--map-root-user", "--net"]]


@functools.lru_cache(maxsize=None)
def wrapper():
    """The command in front, as tuple: the strongest that this system allows."""
    unshare = shutil.which("unshare")
    for way in WAYS if unshare else []:
        tried = subprocess.run([unshare, *way, sys.executable, "-I", "-S", "-c", ""], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if tried.returncode == 0:
            return (unshare, *way)
    return ()


def converse(job, seconds):
    """What the inside printed; None when it had to be killed."""
    with tempfile.TemporaryDirectory(prefix="sandbox-", ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen([*wrapper(), sys.executable, "-I", "-S", str(CHILD)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder, env={}, start_new_session=True)
        try:
            out, _ = process.communicate(json.dumps(job).encode(), timeout=seconds)
            return out.decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            return None
        finally:
            # Also after an orderly end: without a process namespace something may be left of the session.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
            process.kill()
            process.communicate()


def passes(program, item, seconds=SECONDS):
    nonce = secrets.token_hex(16)
    job = {"program": program, "prompt": item["prompt"], "entry_point": item["entry_point"], "test": item["test"], "nonce": nonce}
    out = converse(job, seconds)
    if out == nonce:
        return True, ""
    if out is None:
        return False, f"not over after {seconds} s"
    try:
        return False, str(json.loads(out)["why"])
    except (ValueError, KeyError, TypeError):
        return False, "it ended without a word: too much time or memory"


@functools.lru_cache(maxsize=None)
def missing():
    out = converse({"probe": True}, SECONDS)
    try:
        found = json.loads(out)
    except (ValueError, TypeError):
        return ("the sandbox does not start",)
    way = wrapper()
    if "--net" not in way:
        found.append("no network namespace: unshare is not there or not allowed")
    if "--pid" not in way:
        found.append("no process namespace: what leaves its session may outlive its run")
    return tuple(found)
