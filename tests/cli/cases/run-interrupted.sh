# Ctrl-C: what came is printed, the exit code is 130.
. "$CLI_TESTS/lib.sh"
need_model
need python3
python3 - <<'END'
import os, signal, subprocess
process = subprocess.Popen([os.environ["WANE"], "run", "-p", "Write a very long story.", "-n", "3000", "--temperature", "0"],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
first = process.stdout.read(1)
process.send_signal(signal.SIGINT)
rest = process.stdout.read()
print(len(first), rest.endswith(b"\n"), len(rest) < 5000, process.wait(30))
END
