/*
 * http_feedback.c - POST /v1/wane/feedback: who may rate which reply, what is written down, and what a reader who did not like a reply
 * gets instead.
 *
 *     END of a reply ─► kept.c, in memory ── rated ──► pool (SQLite), on the rating request's own thread
 *                                              └─ down, and other answers were kept ─► the one that is likely to be liked most
 *
 * Nothing is written for a reply that nobody rates, and no thread that decodes waits for a disk. Refuses ratings of what another
 * tenant got, in the same words as of what there never was.
 */
#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "model.h"
#include "server/http.h"
#include "server/json.h"
#include "server/kept.h"
#include "server/rating.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    REPLIES_MOST = 16384,
    BYTES_MOST = 32 << 20, /* of all that is kept */
    TEXT_MOST = 32 << 10,  /* bytes of a prompt (its end), a reply and another answer */
    RATINGS_MOST = 8       /* of one reply: people change their minds, but not for ever */
};

struct wane__ratings {
    wane_feedback *pool;
    struct wane__kept *kept;
    bool text;
    atomic_ullong up, down, neutral, refused, failed, alternatives;
    atomic_bool failing; /* the last rating could not be written, and that was said */
};

/* ------------------------------------------------------------------- start and stop */

int wane__server_open_feedback(struct wane_server *server, const wane_feedback_options *options,
                               wane_error *error) {
    if (options == NULL) return WANE_OK;
    if (options->keep_seconds < 1 || options->keep_seconds > 86400)
        return wane__fail(error, WANE_EINVAL, "feedback: %d seconds are not allowed; it must be 1 to 86400",
                          options->keep_seconds);
    struct wane__ratings *r = wane__alloc_zero(1, sizeof *r);
    if (r == NULL) return wane__fail(error, WANE_ENOMEM, "no memory for the server");
    server->ratings = r;
    r->text = options->text;
    r->kept = wane__kept_new(REPLIES_MOST, BYTES_MOST, options->keep_seconds);
    if (r->kept == NULL) return wane__fail(error, WANE_ENOMEM, "no memory for the server");
    return wane_feedback_open(options, &r->pool, error);
}

void wane__server_close_feedback(struct wane_server *server) {
    if (server->ratings == NULL) return;
    wane_feedback_close(server->ratings->pool);
    wane__kept_free(server->ratings->kept);
    wane__free(server->ratings);
    server->ratings = NULL;
}

/* ------------------------------------------------------------------- what is kept */

/* The end of a text, from the beginning of a character on. */
static void keep_end(struct wane__buf *buf, size_t most) {
    if (buf->size <= most) return;
    size_t from = buf->size - most;
    while (from < buf->size && ((unsigned char)buf->data[from] & 0xc0) == 0x80) from++;
    wane__buf_drop(buf, from);
}

/* Its beginning, up to the end of a character. */
static size_t beginning(const char *text, size_t size, size_t most) {
    if (size <= most) return size;
    while (most > 0 && ((unsigned char)text[most] & 0xc0) == 0x80) most--;
    return most;
}

void wane__http_keep_prompt(struct wane__exchange *exchange) {
    const struct wane__ratings *r = exchange->server->ratings;
    const struct wane__call *call = &exchange->call;
    struct wane__buf *text = &exchange->asked;
    if (r == NULL || !r->text) return;
    if (call->prompt != NULL) wane__buf_append(text, call->prompt, call->prompt_size);
    for (size_t i = 0; i < call->message_count; i++) {
        const wane_message *m = &call->messages[i];
        size_t skip = m->content_size > TEXT_MOST ? m->content_size - TEXT_MOST : 0;
        while (skip < m->content_size && ((unsigned char)m->content[skip] & 0xc0) == 0x80) skip++;
        wane__buf_format(text, "%s: ", m->role);
        wane__buf_append(text, m->content + skip, m->content_size - skip);
        wane__buf_text(text, "\n");
        keep_end(text, TEXT_MOST);
    }
    keep_end(text, TEXT_MOST);
}

static void keep(struct wane__exchange *exchange, const wane_event *end) {
    struct wane__ratings *r = exchange->server->ratings;
    struct wane__kept_reply reply = {.id = exchange->reply_id,
                                     .tenant = exchange->key.tenant,
                                     .ab_side = exchange->ab_side};
    char *other[WANE__KEPT_OTHERS] = {NULL};
    if (r->text && !exchange->said.failed && !exchange->asked.failed) {
        reply.prompt = exchange->asked.size > 0 ? exchange->asked.data : "";
        reply.reply = exchange->said.size > 0 ? exchange->said.data : "";
    }
    for (int i = 0; i < end->other_count; i++) {
        other[i] = wane__copy_bytes(end->other[i], beginning(end->other[i], end->other_size[i], TEXT_MOST));
        reply.other[i] = other[i];
        if (other[i] == NULL) break;
    }
    if (!wane__kept_add(r->kept, &reply, wane__now())) atomic_fetch_add(&r->failed, 1);
    for (int i = 0; i < WANE__KEPT_OTHERS; i++) wane__free(other[i]);
    wane__buf_free(&exchange->asked);
    wane__buf_free(&exchange->said);
}

void wane__http_keep(struct wane__exchange *exchange, const wane_event *event) {
    struct wane__ratings *r = exchange->server->ratings;
    if (r == NULL || event->kind == WANE_EVENT_START) return;
    if (r->text && !exchange->said_enough) {
        size_t size = beginning(event->text, event->text_size, TEXT_MOST - exchange->said.size);
        wane__buf_append(&exchange->said, event->text, size);
        exchange->said_enough = size < event->text_size;
    }
    if (event->kind == WANE_EVENT_END) keep(exchange, event);
}

/* ------------------------------------------------------------------- another answer */

/* The one that is likely to be liked most; without a reward model the one that stood nearest to the others, which is the first. */
static const char *best_other(const struct wane__reward *reward, const struct wane__kept_reply *kept,
                              double *score) {
    const char *best = kept->other[0];
    *score = (double)NAN;
    for (int i = 0; i < WANE__KEPT_OTHERS && kept->other[i] != NULL && wane__reward_on(reward); i++) {
        double one;
        if (!wane__reward_score(reward, kept->other[i], strlen(kept->other[i]), &one)) continue;
        if (one <= *score) continue; /* false for the first */
        *score = one;
        best = kept->other[i];
    }
    return best;
}

static void put_other(struct wane__exchange *x, const struct wane__kept_reply *kept) {
    double score;
    const char *text = best_other(&x->server->model->reward, kept, &score);
    if (text == NULL) return;
    wane__buf_text(&x->out, ",\"alternative\":{\"text\":");
    wane__json_string(&x->out, text, strlen(text));
    if (isnan(score)) {
        wane__buf_text(&x->out, ",\"ranked_by\":\"vote\"}");
    } else {
        wane__buf_text(&x->out, ",\"ranked_by\":\"reward\",\"score\":");
        wane__json_number(&x->out, score);
        wane__buf_text(&x->out, "}");
    }
    atomic_fetch_add(&x->server->ratings->alternatives, 1);
}

/* ------------------------------------------------------------------- the route */

static bool find(struct wane__exchange *x, const struct wane__rating *rating,
                 struct wane__kept_reply **kept) {
    struct wane__ratings *r = x->server->ratings;
    bool full;
    *kept = wane__kept_take(r->kept, rating->id, x->key.tenant, RATINGS_MOST, wane__now(), &full);
    if (*kept != NULL) return true;
    atomic_fetch_add(&r->refused, 1);
    if (full)
        return wane__problem(&x->problem, WANE__PROBLEM_INVALID, "response_id",
                             "response_id: %.40s was rated %d times already", rating->id, RATINGS_MOST);
    return wane__problem(
        &x->problem, WANE__PROBLEM_NO_REPLY, "response_id",
        "response_id: there is no reply %.40s that may be rated here: it must be whole, not too old, and "
        "its reader's key of the same tenant",
        rating->id);
}

static bool write_down(struct wane__exchange *x, const struct wane__rating *rating,
                       const struct wane__kept_reply *kept, int64_t *number) {
    struct wane__ratings *r = x->server->ratings;
    wane_error error = {0};
    wane_feedback_entry entry = {.response = rating->id,
                                 .tenant = x->key.tenant,
                                 .key = x->key.name,
                                 .model = wane_model_get_facts(x->server->model)->name,
                                 .rating = rating->value,
                                 .comment = rating->comment,
                                 .prompt = kept->prompt,
                                 .reply = kept->reply};
    if (wane_feedback_append(r->pool, &entry, &error) == WANE_OK) {
        atomic_fetch_add(rating->value > 0 ? &r->up : rating->value < 0 ? &r->down : &r->neutral, 1);
        if (atomic_exchange(&r->failing, false))
            wane__log(&x->server->log, WANE_LOG_INFO, "feedback: ratings are written again");
        *number = entry.id;
        return true;
    }
    atomic_fetch_add(&r->failed, 1);
    if (!atomic_exchange(&r->failing, true))
        wane__log(&x->server->log, WANE_LOG_ERROR,
                  "feedback: %s Ratings are refused until it can be written.", error.text);
    bool later = error.code == WANE_EBUSY;
    return wane__problem(&x->problem, later ? WANE__PROBLEM_BUSY : WANE__PROBLEM_ENGINE, NULL, "%s",
                         error.text);
}

static bool rate(struct wane__exchange *x, const struct wane__rating *rating) {
    struct wane__kept_reply *kept = NULL;
    int64_t number = 0;
    if (!find(x, rating, &kept)) return false;
    bool fine = write_down(x, rating, kept, &number);
    if (fine) {
        if (kept->ratings == 0) wane__http_ab_rated(x->server, kept->ab_side, rating->value);
        wane__buf_format(&x->out, "{\"id\":\"feedback_%lld\",\"response_id\":", (long long)number);
        wane__json_string(&x->out, rating->id, strlen(rating->id));
        wane__buf_text(&x->out, ",\"rating\":");
        wane__json_number(&x->out, rating->value);
        if (rating->value < 0) put_other(x, kept);
        wane__buf_text(&x->out, "}");
    }
    wane__free(kept);
    return fine;
}

enum MHD_Result wane__http_feedback(struct wane__exchange *x) {
    if (x->server->ratings == NULL) {
        wane__problem(&x->problem, WANE__PROBLEM_NO_ROUTE, NULL,
                      "this server takes no feedback; start it with --feedback FILE");
        return wane__http_refuse(x);
    }
    struct wane__rating rating;
    bool fine = wane__rating_parse(&rating, x->body.data, x->body.size, &x->problem) && rate(x, &rating);
    wane__rating_free(&rating);
    return fine ? wane__http_send(x, MHD_HTTP_OK, "application/json") : wane__http_refuse(x);
}

void wane__http_feedback_metrics(struct wane_server *server, struct wane__buf *out) {
    static const char name[] = "wane_feedback_total", counter[] = "counter", gauge[] = "gauge";
    struct wane__ratings *r = server->ratings;
    struct wane__kept_state kept;
    wane__metric_whole(out, "wane_feedback_on", gauge, "1 where replies can be rated.", r != NULL);
    if (r == NULL) return;
    wane__kept_get_state(r->kept, &kept);
    wane__metric_head(out, name, counter, "Ratings that were written down.");
    wane__buf_format(out, "%s{rating=\"up\"} %llu\n%s{rating=\"down\"} %llu\n%s{rating=\"neutral\"} %llu\n",
                     name, (unsigned long long)atomic_load(&r->up), name,
                     (unsigned long long)atomic_load(&r->down), name,
                     (unsigned long long)atomic_load(&r->neutral));
    wane__metric_whole(out, "wane_feedback_refused_total", counter,
                       "Ratings of replies that may not be rated by who tried.", atomic_load(&r->refused));
    wane__metric_whole(out, "wane_feedback_failures_total", counter,
                       "Ratings that could not be written, and replies that could not be kept.",
                       atomic_load(&r->failed));
    wane__metric_whole(out, "wane_feedback_alternatives_total", counter,
                       "Ratings that were answered with another answer.", atomic_load(&r->alternatives));
    wane__metric_whole(out, "wane_feedback_kept", gauge, "Replies that can be rated.", kept.replies);
    wane__metric_whole(out, "wane_feedback_kept_bytes", gauge, "Memory that they take.", kept.bytes);
    wane__metric_whole(out, "wane_feedback_evicted_total", counter,
                       "Replies that gave way before their time.", kept.evicted);
}
