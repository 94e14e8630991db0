#!/usr/bin/env python3
"""The inside of bench/sandbox.py: runs one program's function against its tests. Not for calling by hand.

    judge      ── arguments ──►  candidate        two processes, a pipe each way
    tests, nonce ◄── results ──  the program      plain values only

The candidate runs code that nobody has read. It is forked before the judge has read the tests and the nonce, so that neither is in its
memory, and what it says are results, which the tests judge. Whatever it does to itself, the nonce is printed only when `check`
came back. A value that is not plain (numbers, texts, lists, tuples, sets, dicts, ranges, iterators) is equal to nothing.

Both are limited before anything runs: CPU time, address space, files (Landlock: reads Python's own files, writes in the folder of this
run), and by a system call filter: no processes, no programs, no sockets, no signals, no looking into other processes. What the system does not have
is said to whoever asks with a probe; bench/sandbox.py adds namespaces and the time limit.
"""
import builtins
import ctypes
import decimal
import fractions
import json
import os
import platform
import resource
import struct
import sys

CPU_SECONDS = 5
MEMORY = 512 << 20
FILE_BYTES = 1 << 20
REPLY_BYTES = 16 << 20

# --------------------------------------------------------------------------------------------------------- plain values

def encode(value, depth=0):
    """A value as JSON that decode() makes the same value of."""
    if depth > 50:
        return {"opaque": 1}
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return "".join(value)  # JSON keeps lone surrogates, too
    if isinstance(value, int):
        return {"int": hex(value)}
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, complex):
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": value.hex()}
    if isinstance(value, fractions.Fraction):
        return {"fraction": [hex(value.numerator), hex(value.denominator)]}
    if isinstance(value, decimal.Decimal):
        return {"decimal": str(value)}
    if isinstance(value, range):
        return {"range": [value.start, value.stop, value.step]}
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind):
            return {kind.__name__: [encode(v, depth + 1) for v in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(k, depth + 1), encode(v, depth + 1)] for k, v in value.items()]}
    if hasattr(value, "__next__"):
        return {"iterator": [encode(v, depth + 1) for v in value]}
    return {"opaque": 1}


def decode(value):
    if not isinstance(value, dict):
        return value
    (kind, inside), = value.items()
    if kind == "int":
        return int(inside, 16)
    if kind == "float":
        return float.fromhex(inside)
    if kind == "complex":
        return complex(float.fromhex(inside[0]), float.fromhex(inside[1]))
    if kind == "bytes":
        return bytes.fromhex(inside)
    if kind == "fraction":
        return fractions.Fraction(int(inside[0], 16), int(inside[1], 16))
    if kind == "decimal":
        return decimal.Decimal(inside)
    if kind == "range":
        return range(*inside)
    if kind in ("list", "tuple", "set", "frozenset"):
        return getattr(builtins, kind)(decode(v) for v in inside)
    if kind == "dict":
        return {decode(k): decode(v) for k, v in inside}
    if kind == "iterator":
        return iter([decode(v) for v in inside])
    return object()


# --------------------------------------------------------------------------------------------------------------- limits

libc = ctypes.CDLL(None, use_errno=True)

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446  # the same on every machine
READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read a file, read a folder
WRITE_V1 = 1 << 1 | sum(1 << bit for bit in range(4, 13))

# clone makes threads (their flag is set) or processes; clone3 hides its flags, and libc goes back to clone when it is not there.
CALLS = {
    "x86_64": {"arch": 0xC000003E, "clone": 56, "clone3": 435,
               "deny": [57, 58, 59, 322, 41, 53, 62, 200, 234, 424, 101, 310, 311, 248, 250, 321, 425, 272, 165]},
    "aarch64": {"arch": 0xC00000B7, "clone": 220, "clone3": 435,
                "deny": [221, 281, 198, 199, 129, 130, 131, 424, 117, 270, 271, 217, 219, 280, 425, 97, 40]},
}


def limit_resources(files):
    """files: may any be written? Says what could not be limited."""
    missing = []
    wanted = {"RLIMIT_CPU": CPU_SECONDS, "RLIMIT_AS": MEMORY, "RLIMIT_FSIZE": FILE_BYTES if files else 0, "RLIMIT_CORE": 0,
              "RLIMIT_NOFILE": 64}
    for name, most in wanted.items():
        try:
            resource.setrlimit(getattr(resource, name), (most, most))
        except (AttributeError, ValueError, OSError):
            missing.append(f"no {name}")
    return missing


def limit_files(folder):
    """Landlock: read what Python needs, write below the folder. False where the system has no Landlock."""
    syscall = libc.syscall
    syscall.restype = ctypes.c_long
    version = syscall(ctypes.c_long(LANDLOCK_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1 or libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    write = WRITE_V1 | (1 << 13 if version >= 2 else 0) | (1 << 14 if version >= 3 else 0)
    handled = ctypes.create_string_buffer(struct.pack("=Q", READ | write))
    rules = syscall(ctypes.c_long(LANDLOCK_CREATE), handled, ctypes.c_size_t(8), ctypes.c_uint32(0))
    if rules < 0:
        return False
    readable = [p for p in sys.path if os.path.isdir(p)] + ["/usr/lib", "/usr/lib64", "/lib", "/lib64"]
    for path, access in [(p, READ) for p in readable] + [(folder, READ & ~1 | write)] + [
            (p, 1 << 2 | 1 << 1) for p in ("/dev/null", "/dev/urandom")]:
        try:
            fd = os.open(path, os.O_PATH)
        except OSError:
            continue
        rule = ctypes.create_string_buffer(struct.pack("=Qi", access, fd))
        syscall(ctypes.c_long(LANDLOCK_ADD), ctypes.c_int(rules), ctypes.c_int(1), rule, ctypes.c_uint32(0))
        os.close(fd)
    done = syscall(ctypes.c_long(LANDLOCK_RESTRICT), ctypes.c_int(rules), ctypes.c_uint32(0)) == 0
    os.close(rules)
    return done


def limit_calls():
    """A filter of system calls. False where there is none for this machine: then RLIMIT_NPROC alone is against processes."""
    try:
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))  # does not bind root
    except (AttributeError, ValueError, OSError):
        pass
    calls = CALLS.get(platform.machine())
    if calls is None or not sys.platform.startswith("linux"):
        return False
    allow, deny, absent = 0x7FFF0000, 0x00050001, 0x00050000 | 38  # EPERM, ENOSYS
    jeq, jge, jset, load, ret = 0x15, 0x35, 0x45, 0x20, 0x06
    code = [(load, 0, 0, 4), (jeq, 1, 0, calls["arch"]), (ret, 0, 0, deny), (load, 0, 0, 0),
            (jge, 0, 1, 0x40000000), (ret, 0, 0, deny)]
    for number in calls["deny"]:
        code += [(jeq, 0, 1, number), (ret, 0, 0, deny)]
    code += [(jeq, 0, 1, calls["clone3"]), (ret, 0, 0, absent)]
    code += [(jeq, 0, 3, calls["clone"]), (load, 0, 0, 16), (jset, 1, 0, 0x10000), (ret, 0, 0, deny), (ret, 0, 0, allow)]
    data = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in code))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(code), ctypes.addressof(data)))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0) == 0


# ----------------------------------------------------------------------------------------------------------- candidate

def candidate(asked, told):
    """Run the program, then call its function as often as it is asked to. Never returns."""
    def say(what):
        told.write(json.dumps(what).encode() + b"\n")
        told.flush()

    def problem(fault):
        return {"error": type(fault).__name__, "text": str(fault)[:200]}

    job = json.loads(asked.readline())
    space = {"__name__": "candidate"}
    try:
        exec(compile(job["program"], "program", "exec"), space)
        function = space[job["entry_point"]]
    except BaseException as fault:  # noqa: BLE001 - whatever it is, it is an answer
        say(problem(fault))
        os._exit(0)
    say({"ready": 1})
    for line in asked:
        call = json.loads(line)
        try:
            result = encode(function(*decode(call["args"]), **decode(call["named"])))
            say({"result": result})
        except BaseException as fault:  # noqa: BLE001
            say(problem(fault))
    os._exit(0)


# --------------------------------------------------------------------------------------------------------------- judge

class Over(BaseException):
    """There is no candidate any more. No test's `except Exception` may take it."""


def listen(told):
    line = told.readline(REPLY_BYTES)
    if not line.endswith(b"\n"):
        raise Over("the program ended before its tests were over, or said too much")
    return json.loads(line)


def judge(job, ask, told):
    """None, or why the program did not pass."""
    ask.write(json.dumps({"program": job["program"], "entry_point": job["entry_point"]}).encode() + b"\n")
    ask.flush()
    first = listen(told)
    if "ready" not in first:
        return f"{first.get('error')}: {first.get('text')}"

    def call(*args, **named):
        try:
            ask.write(json.dumps({"args": encode(args), "named": encode(named)}).encode() + b"\n")
            ask.flush()
        except BrokenPipeError:
            raise Over("the program ended before its tests were over") from None
        answer = listen(told)
        if "result" in answer:
            return decode(answer["result"])
        kind = getattr(builtins, str(answer.get("error")), RuntimeError)
        fine = isinstance(kind, type) and issubclass(kind, Exception)
        raise (kind if fine and not issubclass(kind, UnicodeError) else RuntimeError)(str(answer.get("text")))

    space = {"__name__": "tests"}
    exec(compile(job["prompt"], "prompt", "exec"), space)  # what else it defines, tests may use
    space[job["entry_point"]] = call
    exec(compile(job["test"], "tests", "exec"), space)
    try:
        space["check"](call)
    except AssertionError:
        return "a test failed"
    return None


def main():
    out = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    ask_read, ask_write = os.pipe()
    told_read, told_write = os.pipe()
    compile("", "warm", "exec")
    filed = limit_files(os.getcwd())
    missing = limit_resources(filed)
    if not filed:
        missing.append("no Landlock: files can be read, and none written")
    child = os.fork()
    if child == 0:
        for fd in (out, ask_write, told_read):
            os.close(fd)
        os.dup2(null, 0)
        os.close(null)
        limit_calls()
        candidate(os.fdopen(ask_read, "rb"), os.fdopen(told_write, "wb"))
    os.close(ask_read)
    os.close(told_write)
    if not limit_calls():
        missing.append("no filter of system calls")
    job = json.loads(sys.stdin.buffer.read())  # only now: the candidate has a copy of everything before
    if "probe" in job:
        os.write(out, json.dumps(missing).encode())
        os._exit(0)
    try:
        why = judge(job, os.fdopen(ask_write, "wb"), os.fdopen(told_read, "rb"))
    except BaseException as fault:  # noqa: BLE001 - the tests or the program, both are no pass
        why = str(fault) if isinstance(fault, Over) else f"{type(fault).__name__}: {str(fault)[:200]}"
    os.write(out, (job["nonce"] if why is None else json.dumps({"why": why})).encode())
    os._exit(0)


if __name__ == "__main__":
    main()
