# Shared by the cases: . "$CLI_TESTS/lib.sh"

# The cases that decode use the default model.
need_model() {
    [ -e "$WANE_CACHE/models/smollm2-135m.gguf" ] && return
    echo "smollm2-135m is not in the cache" >&2
    exit 77
}

need() {
    command -v "$1" >/dev/null && return
    echo "there is no $1" >&2
    exit 77
}

# Wait up to a minute until a file has something in it.
wait_for() {
    tries=600
    while [ ! -s "$1" ] && [ $tries -gt 0 ]; do
        sleep 0.1
        tries=$((tries - 1))
    done
    [ -s "$1" ]
}

# Show the last exit code where a case runs several commands.
code() { echo "exit code $?"; }
