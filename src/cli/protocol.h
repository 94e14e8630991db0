/*
 * protocol.h - the acceptance run as numbers: samples, the figures made of them, limits that they must keep, and two runs side by
 * side with intervals. No model, no clock, no output: bench_protocol.c and bench_compare.c have those.
 */
#ifndef WANE_CLI_PROTOCOL_H
#define WANE_CLI_PROTOCOL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PROTOCOL_VERSION = 1,
    PROTOCOL_SAMPLES_MOST = 1000000,
    PROTOCOL_BARS_MOST = 64,
    PROTOCOL_DRAWS = 2000
};

/* One request. */
struct protocol_sample {
    double ttft_ms, tpot_ms, whole_ms; /* tpot: of its tokens after the first, their mean */
    int tokens;
    bool done;
};

/* A run, perhaps in several legs: it was stopped in between. */
struct protocol_run {
    struct protocol_sample *sample; /* by number */
    int count, done, streams, cpus;
    double seconds, cpu_seconds, engine_seconds; /* of all legs */
    double *gap_ms; /* of the last tokens of the long reply; NULL: there was none */
    int gaps, long_tokens;
};

enum protocol_figure {
    TTFT_P50,
    TTFT_P90,
    TTFT_P99,
    TPOT_P50,
    TPOT_P90,
    TPOT_P99,
    TOKENS_PER_SECOND,
    REQUESTS_PER_SECOND,
    CPU_SHARE,
    SLOT_SHARE,
    ENGINE_SHARE,
    LONG_TPOT_P50,
    LONG_TPOT_P90,
    LONG_TPOT_P99,
    PROTOCOL_FIGURES
};
const char *protocol_figure_name(int figure);

/* NAN: it was not measured. */
void protocol_figures(const struct protocol_run *run, double out[PROTOCOL_FIGURES]);

/* ---- a stopped run ------------------------------------------------------------------------------------------------------ */

/*
 * The state's file: its first line is the head, of what the run is; each other one a request that is done. `head` must be equal, or
 * `why` says what is not. Lines behind a cut one do not count; *size: bytes of those that do. A new state has size 0.
 */
bool protocol_read_state(struct protocol_run *run, const json_t *head, const char *text, size_t text_size,
                         size_t *size, char why[300]);
/* A line for request `number`; free() it. Sums are those of this leg so far. */
char *protocol_state_line(const struct protocol_run *run, int number, int leg, double seconds,
                          double cpu_seconds, double engine_seconds);
/* Legs that were read. */
int protocol_legs(const char *text, size_t size);

/* ---- the bar ------------------------------------------------------------------------------------------------------------- */

struct protocol_limit {
    int figure;
    bool at_least; /* else at most */
    double limit;
};

struct protocol_bar {
    struct protocol_limit list[PROTOCOL_BARS_MOST];
    int count;
};

/* {"ttft_p99_ms": 900, "tokens_per_second": {"at_least": 50}}; a bare number is the most, of what counts by the second the least. */
bool protocol_read_bar(struct protocol_bar *bar, const json_t *json, char why[300]);
/* What was not measured keeps no limit. */
bool protocol_keeps(const struct protocol_limit *limit, const double figures[PROTOCOL_FIGURES]);

/* ---- two results ----------------------------------------------------------------------------------------------------------- */

struct protocol_series {
    double *ttft_ms, *tpot_ms; /* in the order of the requests */
    int count;
};
/* Of a result's JSON. */
bool protocol_read_series(struct protocol_series *series, const json_t *result, char why[300]);
void protocol_series_free(struct protocol_series *series);

/* One statistic of both. Intervals of 95 %. */
struct protocol_difference {
    char name[24];
    double a, b;
    double difference, low, high;        /* b - a */
    double ratio, ratio_low, ratio_high; /* b / a */
    bool real;                           /* the interval of the difference does not hold 0 */
};
enum { PROTOCOL_DIFFERENCES = 8 };
/*
 * Percentiles and means of both, with percentile intervals of a bootstrap over blocks of consecutive requests, because neighbours in time
 * share the machine's moods. The same series give the same intervals.
 */
void protocol_compare(const struct protocol_series *a, const struct protocol_series *b,
                      struct protocol_difference out[PROTOCOL_DIFFERENCES]);

#endif
