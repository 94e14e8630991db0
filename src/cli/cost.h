/*
 * cost.h - what tokens cost: rates from a bench's result or a server's metrics, prices, and the arithmetic between them. No files, no
 * output: cmd_cost.c has both.
 */
#ifndef WANE_CLI_COST_H
#define WANE_CLI_COST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { COST_TOKENS = 10000, COST_RATES_MOST = 32 };

/* How fast something gave out tokens. */
struct cost_rate {
    char mode[64];
    char from[200];           /* in words: which figures it is made of */
    double tokens_per_second; /* that clients got, while it worked */
    double utilisation;       /* share of the paid time in which it worked, 0..1 */
};

struct cost_rates {
    struct cost_rate list[COST_RATES_MOST];
    int count;
};

struct cost_prices {
    double machine_hour;  /* of a machine */
    double watts;         /* that it draws while it is paid for */
    double kilowatt_hour; /* price */
    double gigabyte;      /* price of sending one */
    double bytes_per_token;
};

/* Of COST_TOKENS tokens. */
struct cost_sum {
    double seconds; /* of paid time */
    double machine;
    double kilowatt_hours, power;
    double gigabytes, network;
    double all;
};

void cost_of(const struct cost_rate *rate, const struct cost_prices *prices, struct cost_sum *sum);

/*
 * Add the rates that a result holds: of `wane bench layer --json` one a mode, at `streams` (0: the widest), of `wane bench protocol`
 * one. `name` (NULL: as it says) is the mode's. NULL when it went well, else what is wrong, in static words.
 */
const char *cost_from_bench(struct cost_rates *rates, const json_t *bench, const char *name, int streams);
/* The same of a server's /metrics: what it delivered by the time that it was busy; utilisation by the time that it has run. */
const char *cost_from_metrics(struct cost_rates *rates, const char *metrics, const char *name);

#endif
