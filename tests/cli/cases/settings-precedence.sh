# Option over environment over file over default; each says where it came from.
export XDG_CONFIG_HOME="$PWD/xdg"
mkdir -p xdg/wane
cat >xdg/wane/wane.conf <<'END'
# comments, blanks, and a value that goes on
[sampling]
temperature = 0.1 ; by the file
top_k = 11
top_p = 0.5
stop = \n\n
stop = END
[chat]
system = You are brief.
  Answer in one line.
[engine]
mmap = no
END
WANE_TOP_K=22 WANE_TOP_P=0.6 WANE_MIN_P= "$WANE" config --top-p 0.7 --stats --temperature=0.2 | grep -v '(default)'
echo
printf '[sampling]\ntop_k = 33\n' >other.conf
WANE_CONFIG=other.conf "$WANE" config | grep -e '^file' -e top_k -e 'temperature'
"$WANE" config -c other.conf --no-mmap --no-history --stop x --stop 'y\t' | grep -e '^file' -e top_k -e mmap -e history -e stop
