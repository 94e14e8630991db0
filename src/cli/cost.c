/*
 * cost.c - from rates and prices to the cost of 10,000 tokens. Pure: owns nothing, reads what it is handed. Refuses figures from
 * which nothing follows: no tokens, no time, shares above one.
 */
#include "cost.h"

#include "json_of.h"
#include "metrics_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void cost_of(const struct cost_rate *rate, const struct cost_prices *prices, struct cost_sum *sum) {
    *sum = (struct cost_sum){.seconds = COST_TOKENS / rate->tokens_per_second / rate->utilisation};
    sum->machine = sum->seconds / 3600 * prices->machine_hour;
    sum->kilowatt_hours = prices->watts * sum->seconds / 3.6e6;
    sum->power = sum->kilowatt_hours * prices->kilowatt_hour;
    sum->gigabytes = COST_TOKENS * prices->bytes_per_token / 1e9;
    sum->network = sum->gigabytes * prices->gigabyte;
    sum->all = sum->machine + sum->power + sum->network;
}

static const char *add(struct cost_rates *rates, const char *mode, double per_second, double utilisation,
                       const char *from) {
    if (rates->count == COST_RATES_MOST) return "there are more rates than can be set side by side";
    if (!(per_second > 0) || !isfinite(per_second)) return "it holds no rate of tokens above 0";
    if (!(utilisation > 0 && utilisation <= 1)) return "its share of busy time is not between 0 and 1";
    struct cost_rate *rate = &rates->list[rates->count++];
    *rate = (struct cost_rate){.tokens_per_second = per_second, .utilisation = utilisation};
    snprintf(rate->mode, sizeof rate->mode, "%s", mode);
    snprintf(rate->from, sizeof rate->from, "%s", from);
    return NULL;
}

/* ---- bench layer --------------------------------------------------------------------------------------------------------- */

static const json_t *entry_of(const json_t *list, const char *mode) {
    size_t i;
    const json_t *one;
    json_array_foreach(list, i, one) if (strcmp(json_text_of(one, "mode"), mode) == 0) return one;
    return NULL;
}

/* The row of a width; 0: the widest. */
static const json_t *width_of(const json_t *bench, int streams) {
    size_t i;
    const json_t *one, *found = NULL;
    json_array_foreach(json_object_get(bench, "streams"), i, one) {
        double width = json_number_of(one, "streams");
        bool better = found == NULL || width > json_number_of(found, "streams");
        if (streams > 0 ? fabs(width - streams) < 0.5 : better) found = one;
    }
    return found;
}

/* Requests a second at that width, by the tokens of a request in that mode. */
static const char *from_layer(struct cost_rates *rates, const json_t *bench, int streams) {
    const json_t *row = width_of(bench, streams), *cell;
    const char *fault = NULL;
    size_t i;
    if (row == NULL) return streams > 0 ? "it has no such number of streams" : "it has no streams";
    json_array_foreach(json_object_get(row, "modes"), i, cell) {
        const char *mode = json_text_of(cell, "mode");
        const json_t *sum = entry_of(json_object_get(bench, "modes"), mode);
        double per_request = json_number_of(sum, "tokens") / json_number_of(sum, "requests");
        double qps = json_number_of(cell, "qps");
        char from[200];
        snprintf(from, sizeof from, "%.3f requests/s of %.1f tokens, %.0f streams", qps, per_request,
                 json_number_of(row, "streams"));
        if (fault == NULL) fault = add(rates, mode, qps * per_request, 1, from);
    }
    return fault != NULL ? fault : i > 0 ? NULL : "it has no modes";
}

const char *cost_from_bench(struct cost_rates *rates, const json_t *bench, const char *name, int streams) {
    const char *kind = json_text_of(bench, "bench");
    char from[200];
    if (strcmp(kind, "layer") == 0)
        return name == NULL ? from_layer(rates, bench, streams)
                            : "it has several modes; a name fits none of them";
    if (strcmp(kind, "protocol") != 0)
        return "it is no result of wane bench layer --json or wane bench protocol";
    const json_t *metrics = json_object_get(bench, "metrics");
    snprintf(from, sizeof from, "%.0f requests, %.0f streams", json_number_of(bench, "requests"),
             json_number_of(bench, "streams"));
    return add(rates, name != NULL ? name : json_text_of(bench, "mode"),
               json_number_of(metrics, "tokens_per_second"), 1, from);
}

const char *cost_from_metrics(struct cost_rates *rates, const char *metrics, const char *name) {
    double decoded = metrics_value(metrics, "wane_reply_tokens_total", NULL);
    double spare = metrics_value(metrics, "wane_spare_tokens_total", NULL);
    double busy = metrics_value(metrics, "wane_busy_seconds_total", NULL);
    double up = metrics_value(metrics, "wane_uptime_seconds", NULL);
    char from[200];
    if (isnan(decoded) || isnan(busy) || isnan(up))
        return "it is neither JSON nor the metrics of a wane server";
    if (!(busy > 0) || !(decoded > 0)) return "that server has given out no tokens yet";
    double delivered = decoded - (isnan(spare) ? 0 : spare);
    snprintf(from, sizeof from, "%.0f tokens delivered of %.0f decoded, busy %.1f s of %.1f s", delivered,
             decoded, busy, up);
    /* The clock of one is read before the other's: a server that was never idle may be busy a moment longer than it ran. */
    return add(rates, name != NULL ? name : "live", delivered / busy, busy < up ? busy / up : 1, from);
}
