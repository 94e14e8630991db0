/* bench_layer.h - the quality layer under load: the same seeded requests in the modes off, legacy and wane. */
#ifndef WANE_CLI_BENCH_LAYER_H
#define WANE_CLI_BENCH_LAYER_H

#include "bench.h"

enum { LAYER_MODES = 3 };

/* What one request was to its client. */
struct layer_request {
    double first_ms, whole_ms; /* from its submission: to the first token, to the end (of the vote, too) */
    int tokens;
    int chosen; /* -1: no vote */
    char *text; /* that stands */
    size_t text_size;
};

/* Growing list of numbers. */
struct layer_numbers {
    double *value;
    size_t count, capacity;
};

/* One mode at one width. */
struct layer_cell {
    struct layer_numbers gap_ms, first_ms, whole_ms; /* between tokens; as above */
    struct layer_request *request;                   /* requests_per_cell of them, by number */
    double seconds;                                  /* of all rounds */
    uint64_t decoded, delivered;                     /* tokens */
    uint64_t requests, votes, votes_changed;
};

struct layer_load {
    wane_model *model;
    wane_scheduler *scheduler;
    const struct bench_work
        *work; /* prompts and sampling; request i has prompt i modulo their number, and seed + i */
    const wane_quality *quality; /* NULL: off */
    int streams, first, count;   /* requests first … first + count - 1, `streams` of them at any time */
};

void layer_add(struct layer_numbers *numbers, double value);
/* The share `p` of the values is at most this; the numbers are sorted. 0 without any. */
double layer_quantile(struct layer_numbers *numbers, double p);
double layer_deviation(const struct layer_numbers *numbers);

/* What was counted from `before` to `after`, added to `sum`. */
void layer_add_corrections(wane_correction_state *sum, const wane_correction_state *before,
                           const wane_correction_state *after);

/* Run the load; adds to the cell. */
int layer_run(const struct layer_load *load, struct layer_cell *cell, wane_error *error);

#endif
