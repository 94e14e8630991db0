# The arithmetic of a bench's result, a run and a server's metrics, in each form; and what gives no rate.
. "$CLI_TESTS/lib.sh"
cat >layer.json <<'END'
{"bench": "layer", "streams": [{"streams": 1, "modes": [{"mode": "off", "qps": 1.0}, {"mode": "legacy", "qps": 0.25}, {"mode": "wane", "qps": 0.8}]},
 {"streams": 4, "modes": [{"mode": "off", "qps": 2.0}, {"mode": "legacy", "qps": 0.5}, {"mode": "wane", "qps": 1.5}]}],
 "modes": [{"mode": "off", "requests": 10, "tokens": 640}, {"mode": "legacy", "requests": 10, "tokens": 640}, {"mode": "wane", "requests": 10, "tokens": 600}]}
END
cat >run.json <<'END'
{"bench": "protocol", "mode": "wane", "requests": 100, "streams": 4, "metrics": {"tokens_per_second": 100.0}}
END
printf 'wane_reply_tokens_total 1100\nwane_spare_tokens_total 100\nwane_busy_seconds_total 20\nwane_uptime_seconds 80\n' >metrics
"$WANE" cost --machine-price 0.36 --watts 100 --power-price 0.3 --network-price 0.1 layer.json; code
"$WANE" cost --machine-price 3.6 --streams 1 --currency USD layer.json here=run.json metrics
"$WANE" cost --machine-price 3.6 --utilisation 0.5 --csv run.json old=metrics
"$WANE" cost --machine-price 3.6 --json run.json
"$WANE" cost layer.json; code
"$WANE" cost --machine-price 1; code
"$WANE" cost --machine-price 1 --watts 5 layer.json; code
"$WANE" cost --machine-price 1 --csv --json layer.json; code
"$WANE" cost --machine-price 1 --streams 7 layer.json; code
"$WANE" cost --machine-price 1 missing.json; code
echo '{"bench": "decode"}' >decode.json && "$WANE" cost --machine-price 1 decode.json; code
echo 'nothing here' >empty && "$WANE" cost --machine-price 1 empty; code
"$WANE" cost --machine-price 1 --url http://127.0.0.1:1; code
