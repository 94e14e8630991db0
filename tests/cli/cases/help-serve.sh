"$WANE" help serve
