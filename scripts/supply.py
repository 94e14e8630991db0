"""What scripts/engine and scripts/model share: the lock file, the cache folder, digests, and failures in one sentence.

It owns nothing that is fetched. It refuses a file whose digest is not the one in engine.lock, and it never writes
outside the cache folder. Only the standard library, because it runs before anything is installed.
"""
import base64
import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
LOCK = os.path.join(HERE, "engine.lock")
BLOCK = 1 << 20


class Fail(Exception):
    """A failure to show as it stands: what is wrong, where, what to do."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def run_main(name, main):
    """Runs main(argv) and turns a Fail, an interrupt or an error of the system into one line and exit code 1."""
    # So that `finally` blocks remove temporary folders when make or a shell ends us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main(sys.argv[1:]))
    except Fail as why:
        say(f"{name}: {why}")
    except KeyboardInterrupt:
        say(f"{name}: interrupted; run it again to go on")
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as why:
        where = f" {why.filename}" if why.filename else ""
        say(f"{name}: cannot use{where}: {why.strerror or why}; check its permissions and the free space, or set WANE_CACHE")
    sys.exit(1)


def size_text(count):
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{max(count, 1) / 1e6:.1f} MB"


def cache_dir(*below):
    base = os.environ.get("WANE_CACHE")
    if not base:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        base = os.path.join(base, "wane")
    return os.path.join(os.path.abspath(base), *below)


# ---- the lock file -----------------------------------------------------------------------------------------------

FIELDS = {  # the record's kind, then its fields; a final "title" takes the rest of the line
    "engine": ("release", "commit", "bundle"),
    "npm": ("platform", "package", "version", "size", "digest"),
    "client": ("platform", "package", "version", "size", "sha256"),
    "model": ("name", "licence", "size", "sha256", "title"),
    "part": ("model", "package", "version", "size", "sha256", "entry", "entry_size", "entry_sha256"),
}


def read_lock():
    """Returns {kind: [record, ...]} in the file's order."""
    records = {kind: [] for kind in FIELDS}
    try:
        with open(LOCK, encoding="utf-8") as file:
            lines = file.readlines()
    except OSError as why:
        raise Fail(f"cannot read {LOCK}: {why.strerror}; it belongs beside this script, so install wane again") from why
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        kind, *values = line.split()
        names = FIELDS.get(kind, ())
        if names and names[-1] == "title":
            values = line.split(None, len(names))[1:]
        if not names or len(values) != len(names):
            raise Fail(f"{LOCK} line {number} is not understood; restore that file")
        record = dict(zip(names, (value.strip() for value in values)))
        try:
            for name in ("size", "entry_size"):
                if name in record:
                    record[name] = int(record[name])
        except ValueError as why:
            raise Fail(f"{LOCK} line {number} has a size that is no number; restore that file") from why
        records[kind].append(record)
    return records


# ---- this machine ------------------------------------------------------------------------------------------------

def platform_name():
    """The name that engine.lock uses for this machine, for instance linux-x64."""
    machine = platform.machine().lower()
    arch = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(machine, machine or "unknown")
    if sys.platform == "darwin":
        return "mac-arm64-metal" if arch == "arm64" else "mac-" + arch
    if sys.platform.startswith("linux"):
        # The prebuilt libraries want glibc; elsewhere (musl) the source is built.
        return f"linux-{arch}" if platform.libc_ver()[0] == "glibc" else f"linux-musl-{arch}"
    return f"{sys.platform}-{arch}"


def need_space(folder, wanted):
    free = shutil.disk_usage(folder).free
    if free < wanted:
        raise Fail(f"{folder} has {size_text(free)} free and {size_text(wanted)} are needed; "
                   "make room, or set WANE_CACHE to another folder")


# ---- digests -----------------------------------------------------------------------------------------------------

def file_digest(path, algorithm="sha256"):
    digest = hashlib.new(algorithm)
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest


def check_file(path, what, size, digest):
    """Refuses the file unless it has that size and digest: bare hex is SHA-256, "sha512-…" is npm's own notation."""
    if digest.startswith("sha512-"):
        found = "sha512-" + base64.b64encode(file_digest(path, "sha512").digest()).decode()
    else:
        found = file_digest(path).hexdigest()
    if found != digest:
        length = os.path.getsize(path)
        raise Fail(f"{what} is damaged: {length} bytes (expected {size}) with digest {found}, expected {digest}; "
                   "nothing was kept, so try again, and if it stays so do not trust the source")


# ---- files -------------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def only_one(path, what):
    """Holds an exclusive lock on path; waits, and says so, while another process has it. It ends with the process."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting: another process is fetching {what}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def scratch(parent):
    """A temporary folder inside parent, so that a rename out of it is atomic. Call it under only_one()."""
    for name in os.listdir(parent):
        if name.startswith("tmp-"):  # left by a process that was killed: the lock says that none is alive
            shutil.rmtree(os.path.join(parent, name), ignore_errors=True)
    folder = tempfile.mkdtemp(prefix="tmp-", dir=parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sync(path):
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ---- package clients ---------------------------------------------------------------------------------------------

def redraw(text):
    """One line that changes in place, on a terminal only; None takes it away."""
    if sys.stderr.isatty():
        print("\r\033[K" + (text or ""), end="", file=sys.stderr, flush=True)


def folder_size(folder):
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # the client may just have moved it
                total += os.path.getsize(os.path.join(base, name))
    return total


# What the line says that tells why a package client failed, when the last line with "error" says only that it did.
CAUSES = re.compile(r"ENOTFOUND|EAI_AGAIN|ECONN|ETIMEDOUT|resol(ve|ution)|unreachable|refused|timed out|certificate|proxy|"
                    r"No space left|Permission denied", re.IGNORECASE)


def cause(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() and "complete log" not in line.lower()]
    known = [line for line in lines if CAUSES.search(line)]
    line = (known or errors or lines or [""])[-1]
    inner = re.search(r"\[Errno -?\d+\][^'\")]*|reason: .*", line)  # pip and npm wrap it in much else
    return (inner.group() if inner else line)[:240]


def call(command, what, hint, watch=None, **options):
    """Runs a command and returns its output; a failure becomes a sentence. watch=(folder, size, label) shows, on a
    terminal, how far the folder has grown."""
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, errors="replace", **options)
    except FileNotFoundError as why:
        raise Fail(f"{command[0]} is missing, needed to {what}; install it (scripts/deps build)") from why
    try:
        while True:
            try:
                out, err = process.communicate(timeout=0.5)
                break
            except subprocess.TimeoutExpired:
                if watch:
                    folder, size, label = watch
                    redraw(f"{label}: {size_text(min(folder_size(folder), size))} of {size_text(size)}")
    finally:
        if process.poll() is None:  # interrupted: the client goes with us
            process.kill()
            process.wait()
        if watch:
            redraw(None)
    if process.returncode:
        reason = cause(out + "\n" + err)
        raise Fail(f"could not {what} ({os.path.basename(command[0])} gave {process.returncode}"
                   f"{': ' + reason if reason else ''}); {hint}")
    return out


def fetch_wheel(package, version, size, sha256, folder, label):
    """Downloads one wheel with pip into folder, checks it, returns its path."""
    what = f"fetch {package} {version} with pip"
    hint = "check the network and pip's settings, and run it again"
    python = shutil.which("python3") or sys.executable
    call([python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--only-binary=:all:",
          "--disable-pip-version-check", "--progress-bar", "off", "--dest", folder, f"{package}=={version}"],
         # pip's temporary files lie here as well: the progress is seen, and a small /tmp does no harm.
         what, hint, watch=(folder, size, label), cwd=folder, env=dict(os.environ, TMPDIR=folder))
    wheels = [name for name in os.listdir(folder) if name.endswith(".whl")]
    if len(wheels) != 1:
        raise Fail(f"could not {what}: it left {len(wheels)} wheels in place of one; {hint}")
    path = os.path.join(folder, wheels[0])
    check_file(path, f"{package} {version}", size, sha256)
    return path


def fetch_package(name, npm, record, folder, watch, hint=""):
    """Downloads one package with npm (a command line) into folder, checks npm's digest over it, returns the tarball's path."""
    title = f"{record['package']} {record['version']}"
    say(f"{name}: fetching {title} ({size_text(record['size'])})")
    # A cache of its own, thrown away: the packages are kept unpacked and once, not a second time in npm's cache.
    env = dict(os.environ, npm_config_cache=os.path.join(watch, "npm-cache"), npm_config_update_notifier="false",
               npm_config_dry_run="false", PATH=os.path.dirname(npm[0]) + os.pathsep + os.environ.get("PATH", ""))
    call([*npm, "pack", f"{record['package']}@{record['version']}", "--loglevel=error", "--ignore-scripts",
          # Without a network npm's own patience is over a minute.
          "--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"],
         f"fetch {title} with npm", "check the network and npm's settings, and run it again" + hint,
         watch=(watch, record["size"], f"{name}: {record['package']}"), cwd=folder, env=env)
    found = [one for one in os.listdir(folder) if one.endswith(".tgz")]
    if len(found) != 1:
        raise Fail(f"npm left {len(found)} files for {title} in place of one; run it again")
    path = os.path.join(folder, found[0])
    check_file(path, title, record["size"], record["digest"])
    return path
