"""Drives `wane run` on a pseudo-terminal and prints what matters of it, in words that are the same everywhere."""
import json
import os
import pty
import select
import sys
import time

os.environ["TERM"] = "xterm"
os.environ["NO_COLOR"] = "1"
child, terminal = pty.fork()
if child == 0:
    os.execv(os.environ["WANE"], ["wane", "run", "--temperature", "0", "-n", "2000"])


buffer = b""


def read_until(mark, seconds=100):
    """What came up to and with the mark; what is behind it is for the next."""
    global buffer
    end = time.time() + seconds
    while mark not in buffer:
        ready, _, _ = select.select([terminal], [], [], max(0, end - time.time()))
        try:
            more = os.read(terminal, 4096) if ready else b""
        except OSError:
            more = b""
        if not more:
            sys.exit(f"waited for {mark!r}; there was {buffer!r}")
        buffer += more
    text, mark, buffer = buffer.partition(mark)
    return text + mark


def read_some(letters, seconds=100):
    """Wait until the reply has begun: so many letters have come up."""
    global buffer
    end = time.time() + seconds
    while sum(chr(byte).isalpha() for byte in buffer) < letters:
        ready, _, _ = select.select([terminal], [], [], max(0, end - time.time()))
        if not ready:
            sys.exit(f"waited for a reply; there was {buffer!r}")
        buffer += os.read(terminal, 4096)


def send(text, mark):
    os.write(terminal, text)
    return read_until(mark)


read_until(b"/help for help")
read_until(b"> ")
print("typo:", b"did you mean /save?" in send(b"/svae\n", b"mean /save?"))
send(b"/system Be brief.\n", b"is set]")
print("system:", b"Be brief." in send(b"/system\n", b"Be brief.\r\n"))
read_until(b"> ")
send(b"Write a very long \\\nstory.\n", b"\n")
read_until(b". story.\r\n")
read_some(8)
send(b"\x03", b"[stopped]")
read_until(b"> ")
send(b"/save saved.json\n", b"wrote 3 messages")
saved = json.load(open("saved.json", encoding="utf-8"))
print("saved:", [message["role"] for message in saved], repr(saved[1]["content"]))
read_until(b"> ")
os.write(terminal, b"half a line")
time.sleep(0.3)
os.write(terminal, b"\x03")  # clears the line, does not leave
time.sleep(0.3)
send(b"/reset\n", b"[a new conversation]")
read_until(b"> ")
# Again every second: on a busy machine the prompt may stand there before the line editor listens.
status, end = None, time.time() + 100
while status is None:
    if time.time() > end:
        os.kill(child, 9)
        sys.exit("wane run did not leave on Ctrl-C")
    try:
        os.write(terminal, b"\x03")
        select.select([], [], [], 1)
    except OSError:
        pass
    done, code = os.waitpid(child, os.WNOHANG)
    status = code if done else None
print("left with", os.waitstatus_to_exitcode(status))
history = os.path.join(os.environ["HOME"], ".local/state/wane/history")
print("history:", oct(os.stat(history).st_mode & 0o777), "half" in open(history).read())
