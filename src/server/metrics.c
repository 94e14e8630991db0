/*
 * metrics.c - counts under one lock, written out as Prometheus text.
 *
 * Every series is there from the start, at 0, so that a rate is right from the first scrape on; counters never fall;
 * nothing divides, so nothing can be NaN.
 */
#include "server/metrics.h"

#include "core/clock.h"
#include "server/json.h"

#include <math.h>
#include <string.h>

/* The statuses that wane answers with; the last stands for any other. */
static const int codes[WANE__METRIC_CODES] = {200, 400, 401, 403, 404, 405, 408,
                                              413, 429, 499, 500, 503, 504, 0};

/* Seconds. Wide enough for a first token after a long prompt on a CPU. */
static const double long_bounds[WANE__METRIC_BUCKETS] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                                         2.5,   5,    10,    20,   40,  80,   160, 320};
/* A free sequence is had at once; behind others it takes as long as a reply. */
static const double queue_bounds[WANE__METRIC_BUCKETS] = {0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                                          1,     2.5,   5,    10,    20,   40,  80,   160};
static const double token_bounds[WANE__METRIC_BUCKETS] = {0.0005, 0.001, 0.002, 0.004, 0.006, 0.008,
                                                          0.012,  0.016, 0.024, 0.032, 0.05,  0.08,
                                                          0.12,   0.2,   0.5,   2};

void wane__metrics_init(struct wane__metrics *metrics) {
    *metrics = (struct wane__metrics){.started = wane__now(), .date = 1e-3 * (double)wane__date_ms()};
    pthread_mutex_init(&metrics->lock, NULL);
}

void wane__metrics_close(struct wane__metrics *metrics) {
    pthread_mutex_destroy(&metrics->lock);
}

void wane__metrics_request(struct wane__metrics *metrics, int route, int status) {
    int code = 0;
    while (codes[code] != 0 && codes[code] != status) code++;
    pthread_mutex_lock(&metrics->lock);
    metrics->requests[route][code]++;
    pthread_mutex_unlock(&metrics->lock);
}

static void observe(struct wane__histogram *histogram, const double *bounds, double value) {
    if (!(value >= 0)) return; /* a clock that has not been set yet is no measurement */
    int i = 0;
    while (i < WANE__METRIC_BUCKETS && value > bounds[i]) i++;
    histogram->bucket[i]++;
    histogram->sum += value;
    histogram->count++;
}

void wane__metrics_reply(struct wane__metrics *metrics, const wane_event *end) {
    double whole = (end->prompt_ms + end->reply_ms) / 1000;
    pthread_mutex_lock(&metrics->lock);
    observe(&metrics->queue, queue_bounds, end->queue_ms / 1000);
    observe(&metrics->first_token, long_bounds, (end->queue_ms + end->prompt_ms) / 1000);
    if (end->reply_tokens > 1) {
        observe(&metrics->per_token, token_bounds, end->reply_ms / 1000 / (end->reply_tokens - 1));
    }
    if (whole >= 0) {
        double before = metrics->typical_seconds;
        metrics->typical_seconds = before > 0 ? before + 0.2 * (whole - before) : whole;
    }
    pthread_mutex_unlock(&metrics->lock);
}

void wane__metrics_dropped(struct wane__metrics *metrics, int blocks) {
    pthread_mutex_lock(&metrics->lock);
    metrics->dropped_blocks += (uint64_t)blocks;
    pthread_mutex_unlock(&metrics->lock);
}

void wane__metrics_disconnect(struct wane__metrics *metrics) {
    pthread_mutex_lock(&metrics->lock);
    metrics->disconnects++;
    pthread_mutex_unlock(&metrics->lock);
}

unsigned wane__metrics_retry_after(struct wane__metrics *metrics, const wane_scheduler_state *state) {
    if (state->stuck) return 60;
    pthread_mutex_lock(&metrics->lock);
    double typical = metrics->typical_seconds;
    pthread_mutex_unlock(&metrics->lock);
    double seconds = ceil(typical / (state->slots > 0 ? state->slots : 1));
    return seconds < 1 ? 1 : seconds > 300 ? 300 : (unsigned)seconds;
}

/* ----------------------------------------------------------------- writing */

void wane__metric_head(struct wane__buf *out, const char *name, const char *type, const char *help) {
    wane__buf_format(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void wane__metric_whole(struct wane__buf *out, const char *name, const char *type, const char *help,
                        uint64_t value) {
    wane__metric_head(out, name, type, help);
    wane__buf_format(out, "%s %llu\n", name, (unsigned long long)value);
}

void wane__metric_real(struct wane__buf *out, const char *name, const char *type, const char *help,
                       double value) {
    wane__metric_head(out, name, type, help);
    wane__buf_format(out, "%s %.9g\n", name, isfinite(value) ? value : 0.0);
}

static void histogram(struct wane__buf *out, const char *name, const char *help,
                      const struct wane__histogram *h, const double *bounds) {
    uint64_t below = 0;
    wane__metric_head(out, name, "histogram", help);
    for (int i = 0; i < WANE__METRIC_BUCKETS; i++) {
        below += h->bucket[i];
        wane__buf_format(out, "%s_bucket{le=\"%g\"} %llu\n", name, bounds[i], (unsigned long long)below);
    }
    wane__buf_format(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.9g\n%s_count %llu\n", name,
                     (unsigned long long)h->count, name, h->sum, name, (unsigned long long)h->count);
}

void wane__metric_label(struct wane__buf *out, const char *text) {
    size_t size = strlen(text);
    wane__buf_append(out, "\"", 1);
    for (size_t i = 0; i < size;) {
        int step = wane__json_utf8(text + i, size - i);
        unsigned char c = (unsigned char)text[i];
        if (c == '\n')
            wane__buf_append(out, "\\n", 2);
        else if (step == 0 || c < 0x20 || c == 0x7f)
            wane__buf_append(out, "\xef\xbf\xbd", 3);
        else if (c == '"' || c == '\\')
            wane__buf_format(out, "\\%c", c);
        else
            wane__buf_append(out, text + i, (size_t)step);
        i += step > 0 ? (size_t)step : 1;
    }
    wane__buf_append(out, "\"", 1);
}

static void write_info(const wane_model_facts *facts, struct wane__buf *out) {
    wane__metric_head(out, "wane_build_info", "gauge", "Version, engine and model; always 1.");
    wane__buf_format(out, "wane_build_info{version=\"%s\",engine=", wane_version());
    wane__metric_label(out, facts->engine);
    wane__buf_text(out, ",model=");
    wane__metric_label(out, facts->name);
    wane__buf_text(out, "} 1\n");
}

static void write_scheduler(const wane_scheduler_state *s, struct wane__buf *out) {
    static const char gauge[] = "gauge", counter[] = "counter";
    wane__metric_whole(out, "wane_slots", gauge, "Sequences that can run at once.", (uint64_t)s->slots);
    wane__metric_whole(out, "wane_slots_busy", gauge, "Sequences that run now.", (uint64_t)s->slots_busy);
    wane__metric_whole(out, "wane_queue_length", gauge, "Requests that wait for a sequence.",
                       (uint64_t)s->queued);
    wane__metric_whole(out, "wane_stopping", gauge, "1 while the server stops.", s->stopping);
    wane__metric_whole(out, "wane_engine_stuck", gauge,
                       "1 while an engine call takes longer than the watchdog allows.", s->stuck);
    wane__metric_whole(out, "wane_engine_stuck_total", counter, "Engine calls that did.", s->stuck_calls);
    wane__metric_whole(out, "wane_requests_accepted_total", counter, "Requests taken into the queue.",
                       s->accepted);
    wane__metric_whole(out, "wane_requests_refused_total", counter,
                       "Requests refused before they were queued: the queue was full, or they were wrong.",
                       s->refused);
    wane__metric_whole(out, "wane_requests_completed_total", counter, "Requests that ended with a reply.",
                       s->completed);
    wane__metric_whole(out, "wane_requests_cancelled_total", counter, "Requests whose client went away.",
                       s->cancelled);
    wane__metric_whole(out, "wane_requests_failed_total", counter, "Requests that the engine failed.",
                       s->failed);
    wane__metric_whole(out, "wane_requests_timed_out_total", counter, "Requests that passed their deadline.",
                       s->timed_out);
    wane__metric_whole(out, "wane_prompt_tokens_total", counter, "Prompt tokens, reused ones included.",
                       s->prompt_tokens);
    wane__metric_whole(out, "wane_prompt_tokens_reused_total", counter,
                       "Prompt tokens kept from earlier requests.", s->reused_tokens);
    wane__metric_whole(out, "wane_reply_tokens_total", counter, "Tokens decoded.", s->reply_tokens);
    wane__metric_whole(out, "wane_engine_calls_total", counter, "Calls of the engine.", s->engine_calls);
    wane__metric_whole(out, "wane_votes_total", counter, "Votes over answers.", s->votes);
    wane__metric_whole(out, "wane_votes_changed_total", counter,
                       "Votes in which another answer than the first stood.", s->votes_changed);
    wane__metric_whole(out, "wane_votes_by_value_total", counter, "Votes decided by two equal final values.",
                       s->votes_by_value);
    wane__metric_whole(out, "wane_votes_by_reward_total", counter,
                       "Votes that a reward model decided otherwise than distances would have.",
                       s->votes_by_reward);
    wane__metric_whole(out, "wane_spare_tokens_total", counter,
                       "Tokens decoded for answers that were not given out.", s->spare_tokens);
    wane__metric_whole(out, "wane_engine_rows_total", counter, "Rows sampled; by calls, the batch size.",
                       s->engine_rows);
    wane__metric_real(out, "wane_engine_seconds_total", counter, "Seconds inside the engine.",
                      s->engine_seconds);
    wane__metric_real(out, "wane_busy_seconds_total", counter, "Seconds with at least one sequence running.",
                      s->busy_seconds);
}

static void write_head(const wane_head_state *h, struct wane__buf *out) {
    static const char counter[] = "counter";
    wane__metric_whole(out, "wane_head_certified", "gauge", "1 while tokens come from the certified head.",
                       h->certified);
    wane__metric_whole(out, "wane_head_rows_total", counter, "Hidden rows scanned by the certified head.",
                       h->rows);
    wane__metric_head(out, "wane_head_survivors_total", counter,
                      "Rows of the LM head that the scan left over, by level; exact: rescored.");
    wane__buf_format(out,
                     "wane_head_survivors_total{level=\"1\"} %llu\n"
                     "wane_head_survivors_total{level=\"2\"} %llu\n"
                     "wane_head_survivors_total{level=\"exact\"} %llu\n",
                     (unsigned long long)h->survivors1, (unsigned long long)h->survivors2,
                     (unsigned long long)h->rescored);
    wane__metric_head(out, "wane_head_dense_total", counter,
                      "Answers and rows of the dense head, by reason.");
    const char *const reasons[] = {"many", "sum", "batch", "off", "pace", "whole", "without"};
    const uint64_t counts[] = {h->dense_many, h->dense_sum,   h->dense_batch,  h->dense_off,
                               h->dense_pace, h->dense_whole, h->dense_without};
    for (int i = 0; i < 7; i++)
        wane__buf_format(out, "wane_head_dense_total{reason=\"%s\"} %llu\n", reasons[i],
                         (unsigned long long)counts[i]);
    wane__metric_whole(out, "wane_shadow_checks_total", counter,
                       "Tokens that the dense head computed as well.", h->shadow_checks);
    wane__metric_whole(
        out, "output_divergence_count", counter,
        "Times that a feature's token was not the plain path's; by feature: wane_divergences_total.",
        h->divergences);
}

static void write_drafts(const wane_draft_state *d, struct wane__buf *out) {
    static const char counter[] = "counter";
    wane__metric_whole(out, "wane_draft_on", "gauge", "1 while tokens may be drafted.", d->on);
    wane__metric_head(out, "wane_draft_proposed_total", counter,
                      "Tokens verified ahead, by where they were proposed from.");
    for (int i = 0; i < WANE_DRAFT_SOURCES; i++)
        wane__buf_format(out, "wane_draft_proposed_total{source=\"%s\"} %llu\n", wane_draft_source_name(i),
                         (unsigned long long)d->proposed[i]);
    wane__metric_head(out, "wane_draft_accepted_total", counter, "Of these, tokens that were drawn.");
    for (int i = 0; i < WANE_DRAFT_SOURCES; i++)
        wane__buf_format(out, "wane_draft_accepted_total{source=\"%s\"} %llu\n", wane_draft_source_name(i),
                         (unsigned long long)d->accepted[i]);
    wane__metric_whole(out, "wane_draft_blocks_total", counter, "Blocks verified.", d->blocks);
    wane__metric_whole(out, "wane_draft_rehearsals_total", counter,
                       "Blocks compared bit for bit with single tokens.", d->rehearsals);
    wane__metric_whole(out, "wane_draft_differing_total", counter, "Of these, blocks that were not the same.",
                       d->differing);
    wane__metric_whole(out, "wane_draft_failures_total", counter, "Blocks that the engine could not decode.",
                       d->failures);
    wane__metric_whole(out, "wane_draft_pool_tokens", "gauge",
                       "Tokens of earlier replies that drafts are taken from.", d->pool_tokens);
    wane__metric_whole(out, "wane_draft_pool_bytes", "gauge", "Memory that they take.", d->pool_bytes);
    wane__metric_whole(out, "wane_draft_pool_evicted_total", counter,
                       "Tokens of earlier replies that were given up.", d->pool_evicted);
}

void wane__metrics_write_trace(const wane_recorder_state *t, struct wane__buf *out) {
    static const char counter[] = "counter";
    static const wane_recorder_state none = {0};
    wane__metric_whole(out, "wane_trace_recording", "gauge", "1 while replies are recorded.", t != NULL);
    if (t == NULL) t = &none;
    wane__metric_head(out, "wane_trace_records_total", counter, "Records of the trace on the disk, by type.");
    wane__buf_format(
        out,
        "wane_trace_records_total{type=\"request\"} %llu\nwane_trace_records_total{type=\"token\"} "
        "%llu\nwane_trace_records_total{type=\"end\"} %llu\n",
        (unsigned long long)t->requests, (unsigned long long)t->tokens, (unsigned long long)t->ends);
    wane__metric_head(out, "wane_trace_dropped_total", counter,
                      "Records that the trace lacks: the queue was full, or the disk did not take them.");
    wane__buf_format(out,
                     "wane_trace_dropped_total{type=\"request\"} %llu\n"
                     "wane_trace_dropped_total{type=\"token\"} %llu\n",
                     (unsigned long long)t->dropped_requests, (unsigned long long)t->dropped_tokens);
    wane__metric_whole(out, "wane_trace_redacted_tokens_total", counter,
                       "Tokens of prompts and replies that were redacted.", t->redacted_tokens);
    wane__metric_whole(out, "wane_trace_withheld_total", counter, "Token records left out by redaction.",
                       t->withheld_tokens);
    wane__metric_whole(out, "wane_trace_bytes_total", counter, "Bytes written to traces.", t->bytes);
    wane__metric_whole(out, "wane_trace_failures_total", counter, "Times that a trace could not be written.",
                       t->failures);
    wane__metric_whole(out, "wane_trace_queue_bytes", "gauge", "Bytes that wait for the trace's writer.",
                       t->waiting_bytes);
    wane__metric_whole(out, "wane_trace_held_bytes", "gauge",
                       "Bytes of requests that wait for their end, to be redacted.", t->held_bytes);
}

/* What alerts look at is there before it happens: of a series that begins with 1, nobody sees that it rose. */
static bool always_there(int code) {
    return code == 200 || code == 429 || code >= 500;
}

static void write_requests(const struct wane__metrics *metrics, const char *const *routes, int route_count,
                           struct wane__buf *out) {
    wane__metric_head(out, "wane_http_requests_total", "counter",
                      "HTTP requests by route and status (499: the client left).");
    for (int route = 0; route < route_count; route++) {
        for (int code = 0; code < WANE__METRIC_CODES; code++) {
            uint64_t count = metrics->requests[route][code];
            if (!always_there(codes[code]) && count == 0) continue;
            wane__buf_format(out, "wane_http_requests_total{route=\"%s\",code=\"", routes[route]);
            if (codes[code] != 0) wane__buf_format(out, "%d", codes[code]);
            if (codes[code] == 0) wane__buf_text(out, "other");
            wane__buf_format(out, "\"} %llu\n", (unsigned long long)count);
            if (codes[code] == 0) break;
        }
    }
}

void wane__metrics_write(struct wane__metrics *metrics, const char *const *routes, int route_count,
                         const wane_model_facts *facts, const wane_scheduler_state *state,
                         const wane_head_state *certified, const wane_draft_state *drafts,
                         struct wane__buf *out) {
    write_info(facts, out);
    write_scheduler(state, out);
    write_head(certified, out);
    write_drafts(drafts, out);
    pthread_mutex_lock(&metrics->lock);
    wane__metric_real(out, "wane_uptime_seconds", "gauge", "Seconds since the server started.",
                      wane__now() - metrics->started);
    write_requests(metrics, routes, route_count, out);
    wane__metric_whole(out, "wane_http_disconnects_total", "counter",
                       "Clients that left before their reply was complete.", metrics->disconnects);
    wane__metric_whole(out, "wane_http_dropped_client_blocks_total", "counter",
                       "System blocks that were client metadata, not prompt, and were left out.",
                       metrics->dropped_blocks);
    histogram(out, "wane_queue_seconds", "From submission to a sequence.", &metrics->queue, queue_bounds);
    histogram(out, "wane_time_to_first_token_seconds", "From submission to the first token.",
              &metrics->first_token, long_bounds);
    histogram(out, "wane_time_per_output_token_seconds", "Mean time of a reply's tokens after its first.",
              &metrics->per_token, token_bounds);
    pthread_mutex_unlock(&metrics->lock);
}

void wane__metrics_write_memo(const wane_memo_state *m, struct wane__buf *out) {
    static const char gauge[] = "gauge", counter[] = "counter";
    wane__metric_whole(out, "wane_memo_entries", gauge, "Tokens that the memo holds.", m->entries);
    wane__metric_whole(out, "wane_memo_bytes", gauge, "Memory that it takes.", m->bytes);
    wane__metric_whole(out, "wane_memo_hits_total", counter,
                       "Tokens repeated from the memo, without the body.", m->hits);
    wane__metric_whole(out, "wane_memo_misses_total", counter,
                       "Tokens drawn and kept, because it did not know them.", m->misses);
    wane__metric_whole(out, "wane_memo_evictions_total", counter, "Tokens that it gave up for others.",
                       m->evictions);
    wane__metric_whole(out, "wane_memo_saves_total", counter, "Times that its file was written while in use.",
                       m->saves);
    wane__metric_whole(out, "wane_memo_save_failures_total", counter, "Times that it could not be.",
                       m->save_failures);
}

/* The name that dashboards know: the hits alone, by the model they were made on. */
static void write_hits(const wane_table_state *t, const char *model, struct wane__buf *out) {
    wane__metric_head(out, "slmt_hit_total", "counter",
                      "Tokens for which the table was right, by model and grade.");
    const char *const grades[] = {"strict", "rank"};
    const uint64_t hits[] = {t->strict, t->rank};
    for (int i = 0; i < 2; i++) {
        wane__buf_text(out, "slmt_hit_total{model=");
        wane__metric_label(out, model);
        wane__buf_format(out, ",grade=\"%s\"} %llu\n", grades[i], (unsigned long long)hits[i]);
    }
}

/* The other name that dashboards know: what a token takes that the table did not have. */
static void write_fallbacks(const wane_table_state *t, struct wane__buf *out) {
    static const char name[] = "slmt_fallback_latency_seconds", *const shares[] = {"0.5", "0.9", "0.99"};
    wane__metric_head(out, name, "summary",
                      "From a lookup without a hit to the token; quantiles of the last minutes, 0: none.");
    for (int i = 0; i < 3; i++)
        wane__buf_format(out, "%s{quantile=\"%s\"} %.9g\n", name, shares[i], t->fallback_quantile[i]);
    wane__buf_format(out, "%s_sum %.9g\n%s_count %llu\n", name, t->fallback_seconds, name,
                     (unsigned long long)t->fallbacks);
}

void wane__metrics_write_table(const wane_table_state *t, const char *model, struct wane__buf *out) {
    static const char gauge[] = "gauge", counter[] = "counter";
    wane__metric_whole(out, "wane_table_given", gauge, "1 where the server was given a table.", t->given);
    wane__metric_whole(out, "wane_table_on", gauge, "1 while a table is in use.", t->on);
    wane__metric_whole(out, "wane_table_entries", gauge, "Contexts in the table.", t->entries);
    wane__metric_whole(out, "wane_table_positions", gauge, "Position records in the table.", t->positions);
    wane__metric_whole(out, "wane_table_bytes", gauge, "Bytes of the table.", t->bytes);
    wane__metric_head(out, "wane_table_info", gauge,
                      "Digest of the table in use, and whether its signature was verified; always 1.");
    if (t->on)
        wane__buf_format(out, "wane_table_info{digest=\"%s\",verified=\"%s\"} 1\n", t->digest,
                         t->verified ? "yes" : "no");
    wane__metric_whole(out, "wane_table_reloads_total", counter, "Times that the table was exchanged.",
                       t->reloads);
    wane__metric_whole(out, "wane_table_reload_failures_total", counter,
                       "Times that its file could not be taken in.", t->failures);
    wane__metric_head(
        out, "wane_table_tokens_total", counter,
        "Tokens looked up, by grade: hits strict and rank; miss: there, but it does not fit; absent.");
    const char *const grades[] = {"strict", "rank", "miss", "absent"};
    const uint64_t graded[] = {t->strict, t->rank, t->miss, t->absent};
    for (int i = 0; i < 4; i++)
        wane__buf_format(out, "wane_table_tokens_total{grade=\"%s\"} %llu\n", grades[i],
                         (unsigned long long)graded[i]);
    write_hits(t, model, out);
    write_fallbacks(t, out);
    wane__metric_head(out, "wane_table_records_total", counter, "Records found, by how.");
    for (int i = WANE_TABLE_CONTEXT; i <= WANE_TABLE_MEAN; i++)
        wane__buf_format(out, "wane_table_records_total{source=\"%s\"} %llu\n", wane_table_source(i),
                         (unsigned long long)t->source[i]);
    wane__metric_whole(out, "wane_table_taken_total", counter,
                       "Tokens that the meaning argmax took from the table.", t->taken);
}
