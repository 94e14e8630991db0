# The tints in letters: without them the text is the text, and the legend counts every token. On a terminal they are colours.
. "$CLI_TESTS/lib.sh"
need_model
need python3
"$WANE" run -p "Say hello." --temperature 0 -n 12 >plain.txt
"$WANE" run -p "Say hello." --temperature 0 -n 12 --xray >xray.txt
"$WANE" run -p x --xray --json
code
python3 - <<'END'
import os, pty, re
lines = open("xray.txt", encoding="utf-8").read().split("\n")
text = "\n".join(lines[:lines.index("", 1)])
print(re.sub(r"\[[MDT12XF-][?!]?\]", "", text) == open("plain.txt", encoding="utf-8").read().rstrip("\n"), text[0] == "[")
legend = lines[lines.index("", 1) + 1]
print(re.sub(r"\d+(?=  |$)", "N", legend))
print(sum(int(n) for n in re.findall(r" (\d+)(?=  |$)", legend)))
for term, wanted in (("xterm", r"\033\[0;(0|33|30;43|97;41|36|30;46|97;44)m"), ("xterm-256color", r"48;5;\d+m"), ("dumb", r"\[[12XFMDT]\]")):
    seen = b""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.pop("NO_COLOR", None)
        os.environ.pop("COLORTERM", None)
        os.environ["TERM"] = term
        os.execvp(os.environ["WANE"], [os.environ["WANE"], "run", "-p", "Say hello.", "--temperature", "0", "-n", "6", "--xray"])
    try:
        while piece := os.read(fd, 4096):
            seen += piece
    except OSError:
        pass
    os.waitpid(pid, 0)
    said = seen.decode("utf-8", "replace")
    print(term, bool(re.search(wanted, said)), said.count("\033") > 0)
END
