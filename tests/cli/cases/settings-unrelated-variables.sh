# What another program puts into the environment does not stop a command that does not use it.
WANE_HTTP_PORT=tcp://10.0.0.1:80 "$WANE" tokenize --help >/dev/null && echo fine
WANE_HTTP_PORT=tcp://10.0.0.1:80 "$WANE" serve
