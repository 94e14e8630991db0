/* metrics.h - what /metrics says: requests by route and code, times as histograms, and the scheduler's counters. */
#ifndef WANE_SERVER_METRICS_H
#define WANE_SERVER_METRICS_H

#include "core/buf.h"
#include "wane.h"

#include <pthread.h>
#include <stdbool.h>

#define WANE__METRIC_ROUTES  32
#define WANE__METRIC_CODES   16
#define WANE__METRIC_BUCKETS 16

struct wane__histogram {
    uint64_t bucket[WANE__METRIC_BUCKETS + 1]; /* not cumulative; the last: above all bounds */
    double sum;
    uint64_t count;
};

struct wane__metrics {
    pthread_mutex_t lock;
    double started;
    double date; /* the same, seconds since 1970 */
    uint64_t requests[WANE__METRIC_ROUTES][WANE__METRIC_CODES];
    uint64_t dropped_blocks, disconnects;
    uint64_t ssp[WANE_SSP_KEYS][WANE_SSP_DOMAINS]; /* requests, by key and value; 0: without the key */
    uint64_t ssp_requests;
    uint64_t prepared_requests, prepared[WANE_PREPARE_STEPS];
    struct wane__histogram first_token, per_token, queue;
    uint64_t repeats[2]; /* answers to a question that came again; 1: with every feature of the rollout */
    double repeat_score[2];
    double typical_seconds; /* of a reply, newest counting most; 0 before the first */
};

void wane__metrics_init(struct wane__metrics *metrics);
void wane__metrics_close(struct wane__metrics *metrics);

/* `route` is an index into the route table, smaller than WANE__METRIC_ROUTES. */
void wane__metrics_request(struct wane__metrics *metrics, int route, int status);
/* Times and counts of a finished reply, from its END event. */
void wane__metrics_reply(struct wane__metrics *metrics, const wane_event *end);
void wane__metrics_dropped(struct wane__metrics *metrics, int blocks);
void wane__metrics_disconnect(struct wane__metrics *metrics);
/* A request's SSP, and what its text preparation changed; `steps` 0: it had none. */
void wane__metrics_policy(struct wane__metrics *metrics, const wane_ssp *ssp, unsigned steps,
                          const wane_prepared *prepared);
/* A question came again, and its answers are alike so much, 0 … 1. */
void wane__metrics_repeat(struct wane__metrics *metrics, bool on, double score);
void wane__metrics_write_repeats(struct wane__metrics *metrics, struct wane__buf *out);
/* Whole seconds after which one place in a full queue should be free: what a 429 says. */
unsigned wane__metrics_retry_after(struct wane__metrics *metrics, const wane_scheduler_state *state);

/* Append the Prometheus text. `routes` names the first `route_count` routes. */
void wane__metrics_write(struct wane__metrics *metrics, const char *const *routes, int route_count,
                         const wane_model_facts *facts, const wane_scheduler_state *state,
                         const wane_head_state *certified, const wane_draft_state *drafts,
                         struct wane__buf *out);
/* One metric's two comment lines; and a metric without labels, whole. For the files that write metrics. */
void wane__metric_head(struct wane__buf *out, const char *name, const char *type, const char *help);
void wane__metric_whole(struct wane__buf *out, const char *name, const char *type, const char *help,
                        uint64_t value);
/* The same of SSPs and of text preparation. */
void wane__metrics_write_policy(struct wane__metrics *metrics, struct wane__buf *out);
/* The same of the gate, and of corrections of tokens (metrics_quality.c). */
void wane__metrics_write_gate(const wane_gate_state *gate, const char *model, struct wane__buf *out);
void wane__metrics_write_corrections(const wane_correction_state *corrections, struct wane__buf *out);
/* The same of the governor and of what stands behind it; and of the cache under all (metrics_quality.c). */
void wane__metrics_write_governor(const wane_governor_state *governor, struct wane__buf *out);
void wane__metrics_write_cache(const wane_scheduler_state *scheduler, struct wane__buf *out);
/* A label's value in its quotes: whatever text it is, the line can be read. */
void wane__metric_label(struct wane__buf *out, const char *text);
void wane__metric_real(struct wane__buf *out, const char *name, const char *type, const char *help,
                       double value);
/* The same of this process, under the names that other programs' metrics have, and of the disks that it writes to (metrics_process.c). */
void wane__metrics_write_process(const struct wane__metrics *metrics, const wane_disk *disks, size_t count,
                                 struct wane__buf *out);
/* The same of the model's memo. */
void wane__metrics_write_memo(const wane_memo_state *memo, struct wane__buf *out);
/* The same of the table of the model of that name. */
void wane__metrics_write_table(const wane_table_state *table, const char *model, struct wane__buf *out);
/* The same of what is recorded; NULL: nothing is. */
void wane__metrics_write_trace(const wane_recorder_state *trace, struct wane__buf *out);

#endif
