/*
 * fuzz_results.c - any bytes as a bench's result or a server's metrics: refused in words, or rates from which a cost follows that is a
 * number.
 */
#include "cost.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct cost_rates rates = {.count = 0};
    json_t *bench = json_loadb((const char *)data, size, 0, NULL);
    if (bench != NULL) {
        check(&rates, cost_from_bench(&rates, bench, NULL, size % 9 == 0 ? 4 : 0), 0);
        json_decref(bench);
    }
    char *text = calloc(size + 1, 1);
    int before = rates.count;
    if (text == NULL) abort();
    if (size > 0) memcpy(text, data, size);
    check(&rates, cost_from_metrics(&rates, text, NULL), before);
    free(text);
    return 0;
}
