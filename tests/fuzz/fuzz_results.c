/*
 * fuzz_results.c - any bytes as a bench's result, a server's metrics, a bar, or a stopped run's state: refused in words, or rates from
 * which a cost follows that is a number, limits on figures that there are, requests whose numbers are inside.
 */
#include "cost.h"
#include "protocol.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct cost_rates *rates, const char *fault, int before) {
    static const struct cost_prices prices = {1, 1, 1, 1, 1};
    if (fault == NULL && rates->count == before) abort();
    for (int i = 0; i < rates->count; i++) {
        struct cost_sum sum;
        cost_of(&rates->list[i], &prices, &sum);
        if (!(sum.all > 0) || memchr(rates->list[i].mode, 0, sizeof rates->list[i].mode) == NULL) abort();
    }
}

static void check_protocol(const json_t *json) {
    struct protocol_bar bar;
    struct protocol_series series;
    char why[300] = "";
    if (protocol_read_bar(&bar, json, why) ? bar.count < 1 : why[0] == '\0') abort();
    for (int i = 0; i < bar.count; i++)
        if (bar.list[i].figure < 0 || bar.list[i].figure >= PROTOCOL_FIGURES) abort();
    why[0] = '\0';
    if (protocol_read_series(&series, json, why) ? series.count < 2 : why[0] == '\0') abort();
    protocol_series_free(&series);
}

static void check_state(const char *text, size_t size) {
    struct protocol_sample sample[8] = {{0}};
    struct protocol_run run = {.sample = sample, .count = 8, .streams = 1, .cpus = 1};
    json_t *head = json_pack("{s:i}", "protocol", 1);
    double figures[PROTOCOL_FIGURES];
    char why[300] = "";
    size_t good = 0;
    int done = 0;
    bool read = protocol_read_state(&run, head, text, size, &good, why);
    if (!read && why[0] == '\0') abort();
    if (good > size || (good > 0 && text[good - 1] != '\n')) abort();
    for (int i = 0; i < 8; i++) done += sample[i].done;
    if (read && done != run.done) abort();
    protocol_figures(&run, figures);
    protocol_legs(text, good);
    json_decref(head);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct cost_rates rates = {.count = 0};
    json_t *bench = json_loadb((const char *)data, size, 0, NULL);
    if (bench != NULL) {
        check_protocol(bench);
        check(&rates, cost_from_bench(&rates, bench, NULL, size % 9 == 0 ? 4 : 0), 0);
        json_decref(bench);
    }
    char *text = calloc(size + 1, 1);
    int before = rates.count;
    if (text == NULL) abort();
    if (size > 0) memcpy(text, data, size);
    check(&rates, cost_from_metrics(&rates, text, NULL), before);
    check_state(text, size);
    free(text);
    return 0;
}
