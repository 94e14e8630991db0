/*
 * trace_count.c - what a program may ask of traces: counts, faults, lines. Memory is bounded whatever their size: different
 * windows are estimated (HyperLogLog of 2^14 registers: within 1 % or so; exact for practical purposes while they are few).
 */
#include "core/error.h"
#include "core/memory.h"
#include "core/rng.h"
#include "table/trace_read.h"

#include <math.h>
#include <string.h>

enum { REGISTER_BITS = 14, REGISTERS = 1 << REGISTER_BITS, WINDOW = WANE__WINDOW };

struct counting {
    struct wane__trace_reader *reader;
    bool strictly;
    wane_trace_fault_fn fault;
    wane_progress_fn progress;
    void *user;
    wane_trace_stats *stats;
    char told[1024]; /* the file whose first fault was given */
    uint64_t shown;  /* lines, when progress was last shown */
    unsigned char registers[REGISTERS];
};

static void note_window(struct counting *c, const struct wane__trace_token *t) {
    if (t->last_count < WINDOW) return;
    uint64_t hash = wane__mix64(wane__context_window(t->tenant, t->last + t->last_count, WINDOW));
    unsigned char *at = &c->registers[hash >> (64 - REGISTER_BITS)];
    unsigned char zeros = 1;
    for (uint64_t rest = hash << REGISTER_BITS; zeros <= 64 - REGISTER_BITS && rest >> 63 == 0; rest <<= 1)
        zeros++;
    if (zeros > *at) *at = zeros;
}

static uint64_t estimate_windows(const struct counting *c) {
    double sum = 0, m = REGISTERS;
    int empty = 0;
    for (int i = 0; i < REGISTERS; i++) {
        sum += ldexp(1, -c->registers[i]);
        empty += c->registers[i] == 0;
    }
    double estimate = 0.7213 / (1 + 1.079 / m) * m * m / sum;
    if (estimate <= 2.5 * m && empty > 0) estimate = m * log(m / empty);
    return (uint64_t)llround(estimate);
}

/* The file's first fault is told. False: the caller has seen enough. */
static bool tell(struct counting *c, const char *path, uint64_t line, const char *text) {
    c->stats->bad_lines++;
    if (c->fault == NULL || strncmp(c->told, path, sizeof c->told - 1) == 0) return true;
    size_t size = strnlen(path, sizeof c->told - 1);
    memcpy(c->told, path, size);
    c->told[size] = '\0';
    return c->fault(c->user, path, line, text);
}

static void count_token(struct counting *c, const struct wane__trace_token *t) {
    c->stats->tokens++;
    c->stats->tokens_of[t->kind]++;
    c->stats->changed += t->changed;
    note_window(c, t);
}

static void count_origin(struct counting *c, const struct wane__trace_origin *o) {
    wane_trace_stats *s = c->stats;
    if (s->vocab_size != 0 && (strcmp(s->model, o->model) != 0 || strcmp(s->tokenizer, o->tokenizer) != 0))
        s->mixed = true;
    memcpy(s->model, o->model, sizeof s->model);
    memcpy(s->tokenizer, o->tokenizer, sizeof s->tokenizer);
    s->vocab_size = o->vocab_size;
}

static void count_record(struct counting *c, const struct wane__trace_record *r) {
    wane_trace_stats *s = c->stats;
    switch (r->type) {
    case WANE__TRACE_ORIGIN: count_origin(c, r->origin); break;
    case WANE__TRACE_TOKEN: count_token(c, r->token); break;
    case WANE__TRACE_REQUEST:
        s->requests++;
        s->requests_of[r->request->kind]++;
        s->redacted_tokens += (uint64_t)r->request->redacted;
        break;
    case WANE__TRACE_END:
        s->ends++;
        s->withheld_tokens += (uint64_t)r->end->redacted;
        break;
    case WANE__TRACE_DROPPED:
        s->dropped_requests += r->dropped->requests;
        s->dropped_tokens += r->dropped->tokens;
        break;
    case WANE__TRACE_VOTE: s->votes++; break;
    default: break;
    }
}

/* What reading lets pass, because it costs time and harms nobody there. */
static const char *strict_fault(const struct wane__trace_record *r) {
    if (r->type != WANE__TRACE_TOKEN) return NULL;
    const struct wane__trace_token *t = r->token;
    for (int i = 1; i < t->top_count; i++)
        for (int j = 0; j < i; j++)
            if (t->top[i].token == t->top[j].token) return "\"top\" names a token twice";
    int least = t->position < WANE__TEN ? t->position : WANE__TEN;
    if (t->last_count != least) return "\"last\" does not hold the last ten tokens";
    if (isfinite(t->log_sum) && t->log_sum < t->top[0].logit - 0.02f)
        return "\"log_sum\" is below the best logit";
    return NULL;
}

static bool goes_on(struct counting *c) {
    uint64_t lines = wane__trace_read_get_counts(c->reader)->lines;
    if (c->progress == NULL || lines < c->shown + 20000) return true;
    c->shown = lines;
    return c->progress(c->user, "reading", wane__trace_read_share(c->reader));
}

static int count_all(struct counting *c, wane_error *error) {
    for (;;) {
        struct wane__trace_record record;
        wane_error why = {0};
        uint64_t line = 0;
        int code = wane__trace_read_next(c->reader, &record, &why);
        if (code == WANE_ENOMEM) return wane__fail(error, code, "%s", why.text);
        bool fine = goes_on(c);
        if (code != WANE_OK) {
            const char *path = wane__trace_read_where(c->reader, &line);
            fine = tell(c, path, line, why.text) && fine;
        } else if (record.type == WANE__TRACE_DONE) {
            return WANE_OK;
        } else {
            const char *fault = c->strictly ? strict_fault(&record) : NULL;
            if (fault != NULL) {
                wane__fail(&why, WANE_EFORMAT, "%.200s:%llu: %s.", record.path,
                           (unsigned long long)record.line, fault);
                fine = tell(c, record.path, record.line, why.text) && fine;
            } else {
                count_record(c, &record);
            }
        }
        if (!fine) return wane__fail(error, WANE_ECANCELLED, "Stopped.");
    }
}

int wane_trace_count(const char *const *paths, size_t count, bool strictly, wane_trace_fault_fn fault,
                     wane_progress_fn progress, void *user, wane_trace_stats *stats, wane_error *error) {
    wane__clear(error);
    *stats = (wane_trace_stats){0};
    struct counting *c = wane__alloc_zero(1, sizeof *c);
    if (c == NULL) return wane__fail(error, WANE_ENOMEM, "No memory to count records.");
    c->strictly = strictly;
    c->fault = fault;
    c->progress = progress;
    c->user = user;
    c->stats = stats;
    struct wane__trace_read_options options = {.any_origin = true, .want_all = strictly};
    int code = wane__trace_read_open(paths, count, &options, &c->reader, error);
    if (code == WANE_OK) {
        code = count_all(c, error);
        const struct wane__trace_read_counts *counts = wane__trace_read_get_counts(c->reader);
        stats->files = counts->files;
        stats->lines = counts->lines;
        stats->bytes = counts->bytes;
        stats->cut_tails = counts->cut_tails;
        stats->windows = estimate_windows(c);
        wane__trace_read_close(c->reader);
    }
    wane__free(c);
    return code;
}

int wane_trace_lines(const char *const *paths, size_t count, wane_trace_line_fn give, void *user,
                     wane_error *error) {
    wane__clear(error);
    struct wane__trace_reader *reader = NULL;
    struct wane__trace_read_options options = {.any_origin = true};
    int code = wane__trace_read_open(paths, count, &options, &reader, error);
    while (code == WANE_OK) {
        struct wane__trace_record record;
        code = wane__trace_read_next(reader, &record, error);
        if (code != WANE_OK || record.type == WANE__TRACE_DONE ||
            !give(user, record.path, record.line, record.text, record.text_size))
            break;
    }
    wane__trace_read_close(reader);
    return code;
}
