/* bench_clients.h - a scheduler under load: clients that send seeded requests, and what each of them saw. */
#ifndef WANE_CLI_BENCH_CLIENTS_H
#define WANE_CLI_BENCH_CLIENTS_H

#include "bench.h"

/* What one request was to its client. */
struct client_request {
    double first_ms, whole_ms; /* from its submission: to the first token, to the end (of the vote, too) */
    double last_ms;            /* to the last token */
    int tokens;
    int chosen; /* -1: no vote */
    char *text; /* that stands */
    size_t text_size;
};

/* Growing list of numbers. */
struct numbers {
    double *value;
    size_t count, capacity;
};

/* One mode at one width. */
struct client_cell {
    struct numbers gap_ms;             /* between two tokens: inter-token latency */
    struct numbers tpot_ms;            /* of a reply of two tokens or more: the mean of its gaps */
    struct numbers first_ms, whole_ms; /* as above */
    struct client_request *request;    /* requests_per_cell of them, by number */
    double seconds;                    /* of all rounds */
    uint64_t decoded, delivered;       /* tokens */
    uint64_t requests, votes, votes_changed;
};

struct client_load {
    wane_model *model;
    wane_scheduler *scheduler;
    const struct bench_work
        *work; /* prompts and sampling; request i has prompt i modulo their number, and seed + i */
    const wane_quality *quality; /* NULL: off */
    int streams, first, count;   /* requests first … first + count - 1, `streams` of them at any time */
    const bool *finished;        /* by number: those that are not to be sent; NULL: none */
    bool ignore_end;             /* every reply has all its tokens */
    double spread; /* request i's most tokens differ from the work's steps by this share at most */
    /* A request is over: called for one at a time, by any client; may take its text. NULL: nobody is told. */
    void (*on_done)(void *user, int number, struct client_request *request);
    void *user;
};

void numbers_add(struct numbers *numbers, double value);
/* The share `p` of the values is at most this; the numbers are sorted. 0 without any. */
double numbers_quantile(struct numbers *numbers, double p);
double numbers_deviation(const struct numbers *numbers);

/* A reply's mean time per token after its first; 0 where there is none. */
double client_tpot_ms(const struct client_request *request);
/* The cell's own lists; not its requests. */
void client_cell_close(struct client_cell *cell);
/* And its requests, `count` of them. */
void client_cell_free(struct client_cell *cell, int count);
/* Run the load; adds to the cell. */
int clients_run(const struct client_load *load, struct client_cell *cell, wane_error *error);

#endif
