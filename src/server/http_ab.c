/*
 * http_ab.c - live traffic on two sides, with the governor and without it: whose request is where, what the sides' replies are like, and
 * what people say of them.
 *
 *     user, else key, else request ─► a number from 0 to 1 (core/fraction.h) ─► below the share: on, else off
 *     END of a reply ─► words ─► its side's sums        rating ─► the side of the reply that is rated
 *
 * Owns the sums, of this process alone. Refuses requests that no governor steers: greedy ones and those in another mode take no part. Keeps no text
 * beyond its reply's end.
 */
#include "ab.h"
#include "core/error.h"
#include "core/fraction.h"
#include "core/memory.h"
#include "server/http.h"
#include "server/json.h"
#include "server/route.h"

#include <string.h>

/* Of a reply that is counted: more tells no more. */
enum { TEXT_MOST = 64 << 10 };

struct wane__ab {
    double share; /* with the governor */
    pthread_mutex_t lock;
    struct wane__ab_side side[WANE__AB_SIDES];
};

int wane__server_open_ab(struct wane_server *server, double share, wane_error *error) {
    wane_governor_state governor;
    if (!(share > 0)) return WANE_OK;
    if (share >= 1)
        return wane__fail(error, WANE_EINVAL,
                          "ab_governor is %g; it must be above 0 and below 1, so that there are two sides",
                          share);
    wane_model_get_governor_state(server->model, &governor);
    if (!governor.on)
        return wane__fail(
            error, WANE_EINVAL,
            "ab_governor needs a profile with a signal for the model, or both sides are the same; "
            "\"wane tune\" makes one");
    server->ab = wane__alloc_zero(1, sizeof *server->ab);
    if (server->ab == NULL) return wane__fail(error, WANE_ENOMEM, "no memory for the server");
    server->ab->share = share;
    pthread_mutex_init(&server->ab->lock, NULL);
    return WANE_OK;
}

void wane__server_close_ab(struct wane_server *server) {
    if (server->ab == NULL) return;
    pthread_mutex_destroy(&server->ab->lock);
    wane__free(server->ab);
    server->ab = NULL;
}

/* ------------------------------------------------------------------- a request */

static bool is_given(const char *name) {
    return name != NULL && name[0] != '\0';
}

/* This never changes: users would change sides. */
static double place_of(const struct wane__exchange *exchange) {
    const char *user = exchange->call.user, *key = exchange->key.name;
    if (is_given(user)) return wane__fraction("ab-governor", "", "user:", user);
    if (is_given(key)) return wane__fraction("ab-governor", "", "key:", key);
    return wane__fraction("ab-governor", "", "request:", exchange->request_id);
}

void wane__http_ab_take(struct wane__exchange *exchange) {
    const struct wane__ab *ab = exchange->server->ab;
    wane_quality *quality = &exchange->quality;
    if (ab == NULL || quality->mode != WANE_MODE_WANE || exchange->call.api == WANE__API_COUNT) return;
    if (!(exchange->call.generation.sampling.temperature > 0)) return;
    bool on = place_of(exchange) < ab->share;
    quality->governor = on;
    exchange->ab_side = 1 + (on ? WANE__AB_ON : WANE__AB_OFF);
}

const char *wane__http_ab_side(const struct wane__exchange *exchange) {
    return exchange->ab_side > 0 ? wane__ab_names[exchange->ab_side - 1] : NULL;
}

static void count(struct wane__exchange *exchange, const wane_event *end) {
    struct wane__ab *ab = exchange->server->ab;
    const struct wane__buf *said = &exchange->ab_text;
    const char *text = said->size > 0 ? said->data : "";
    size_t size = said->size;
    if (end->chosen_text != NULL) { /* the answer that stands */
        text = end->chosen_text;
        size = end->chosen_size < TEXT_MOST ? end->chosen_size : TEXT_MOST;
    }
    struct wane__ab_side one = {0};
    if (said->failed || !wane__ab_reply(&one, text, size, end->reply_tokens, end->finish == WANE_FINISH_FUSE))
        return;
    pthread_mutex_lock(&ab->lock);
    wane__ab_add(&ab->side[exchange->ab_side - 1], &one);
    pthread_mutex_unlock(&ab->lock);
}

void wane__http_ab_see(struct wane__exchange *exchange, const wane_event *event) {
    if (exchange->ab_side == 0 || event->kind == WANE_EVENT_START) return;
    struct wane__buf *said = &exchange->ab_text;
    bool fallback =
        event->kind == WANE_EVENT_END && event->finish == WANE_FINISH_FUSE; /* not the model's words */
    size_t room = said->size < TEXT_MOST ? TEXT_MOST - said->size : 0;
    if (!fallback && event->text_size > 0)
        wane__buf_append(said, event->text, event->text_size < room ? event->text_size : room);
    if (event->kind != WANE_EVENT_END) return;
    count(exchange, event);
    wane__buf_free(said);
}

void wane__http_ab_rated(struct wane_server *server, int side, double rating) {
    struct wane__ab *ab = server->ab;
    if (ab == NULL || side < 1 || side > WANE__AB_SIDES) return;
    pthread_mutex_lock(&ab->lock);
    wane__ab_rating(&ab->side[side - 1], rating);
    pthread_mutex_unlock(&ab->lock);
}

/* ------------------------------------------------------------------- what is told */

static void take_sides(struct wane__ab *ab, struct wane__ab_side sides[WANE__AB_SIDES]) {
    pthread_mutex_lock(&ab->lock);
    memcpy(sides, ab->side, sizeof ab->side);
    pthread_mutex_unlock(&ab->lock);
}

static void put_interval(struct wane__buf *out, const char *name, wane_interval i) {
    wane__buf_format(out, ",\"%s\":{\"value\":", name);
    wane__json_number(out, i.value);
    wane__buf_text(out, ",\"low\":");
    wane__json_number(out, i.low);
    wane__buf_text(out, ",\"high\":");
    wane__json_number(out, i.high);
    wane__buf_text(out, "}");
}

enum MHD_Result wane__http_ab(struct wane__exchange *exchange) {
    struct wane__ab *ab = exchange->server->ab;
    struct wane__buf *out = &exchange->out;
    struct wane__ab_side sides[WANE__AB_SIDES];
    if (!wane__route_check_admin(exchange)) return wane__http_refuse(exchange);
    if (ab == NULL) {
        wane__problem(&exchange->problem, WANE__PROBLEM_NO_ROUTE, NULL,
                      "this server compares nothing; start it with --ab-governor SHARE");
        return wane__http_refuse(exchange);
    }
    take_sides(ab, sides);
    wane__buf_text(out, "{\"experiment\":\"governor\",\"share\":");
    wane__json_number(out, ab->share);
    for (int s = 0; s < WANE__AB_SIDES; s++) {
        const struct wane__ab_side *side = &sides[s];
        wane__buf_format(out, ",\"%s\":{\"replies\":%llu,\"tokens\":%llu,\"ratings\":%llu", wane__ab_names[s],
                         (unsigned long long)side->replies, (unsigned long long)side->tokens,
                         (unsigned long long)side->rating.count);
        for (int f = 0; f < WANE__AB_FIGURES; f++)
            put_interval(out, wane__ab_figures[f], wane__ab_figure(side, f));
        wane__buf_text(out, "}");
    }
    wane__buf_text(out, ",\"difference\":{\"of\":\"on less off\"");
    for (int f = 0; f < WANE__AB_FIGURES; f++)
        put_interval(out, wane__ab_figures[f], wane__ab_difference(sides, f));
    wane__buf_text(out, "}}");
    return wane__http_send(exchange, MHD_HTTP_OK, "application/json");
}

static void put_counts(struct wane__buf *out, const char *name, const char *help, uint64_t off, uint64_t on) {
    wane__metric_head(out, name, "counter", help);
    wane__buf_format(out, "%s{side=\"off\"} %llu\n%s{side=\"on\"} %llu\n", name, (unsigned long long)off,
                     name, (unsigned long long)on);
}

void wane__http_ab_metrics(struct wane_server *server, struct wane__buf *out) {
    static const char distinct[] = "wane_ab_distinct", ratings[] = "wane_ab_ratings_total";
    struct wane__ab *ab = server->ab;
    struct wane__ab_side s[WANE__AB_SIDES];
    wane__metric_real(out, "wane_ab_share", "gauge",
                      "Share of the traffic that is steered while sides are compared; 0: they are not.",
                      ab != NULL ? ab->share : 0);
    if (ab == NULL) return;
    take_sides(ab, s);
    put_counts(out, "wane_ab_replies_total", "Whole replies, by side of the governor's A/B switch.",
               s[0].replies, s[1].replies);
    put_counts(out, "wane_ab_tokens_total", "Their tokens.", s[0].tokens, s[1].tokens);
    put_counts(out, "wane_ab_loops_total", "Of these replies, those that go round in a loop of words.",
               s[0].loops, s[1].loops);
    put_counts(out, "wane_ab_fused_total", "Of these replies, those that the fuse ended.", s[0].fused,
               s[1].fused);
    wane__metric_head(out, distinct, "summary", "Share of different n-grams of words in a reply.");
    for (int side = 0; side < WANE__AB_SIDES; side++)
        for (int n = 0; n < WANE_GRAMS; n++)
            wane__buf_format(out, "%s_sum{side=\"%s\",n=\"%d\"} %.9g\n%s_count{side=\"%s\",n=\"%d\"} %llu\n",
                             distinct, wane__ab_names[side], n + 1, s[side].distinct[n].sum, distinct,
                             wane__ab_names[side], n + 1, (unsigned long long)s[side].distinct[n].count);
    wane__metric_head(out, ratings, "counter", "First ratings of these replies.");
    for (int side = 0; side < WANE__AB_SIDES; side++)
        wane__buf_format(out,
                         "%s{side=\"%s\",rating=\"up\"} %llu\n%s{side=\"%s\",rating=\"down\"} %llu\n"
                         "%s{side=\"%s\",rating=\"neutral\"} %llu\n",
                         ratings, wane__ab_names[side], (unsigned long long)s[side].up, ratings,
                         wane__ab_names[side], (unsigned long long)s[side].down, ratings,
                         wane__ab_names[side], (unsigned long long)s[side].neutral);
}

void wane__http_ab_live(struct wane_server *server, struct wane__buf *out) {
    struct wane__ab *ab = server->ab;
    struct wane__ab_side sides[WANE__AB_SIDES];
    if (ab == NULL) {
        wane__buf_text(out, "null");
        return;
    }
    take_sides(ab, sides);
    wane__buf_text(out, "{\"share\":");
    wane__json_number(out, ab->share);
    for (int s = 0; s < WANE__AB_SIDES; s++)
        wane__buf_format(out, ",\"%s\":{\"replies\":%llu,\"tokens\":%llu,\"loops\":%llu,\"fused\":%llu}",
                         wane__ab_names[s], (unsigned long long)sides[s].replies,
                         (unsigned long long)sides[s].tokens, (unsigned long long)sides[s].loops,
                         (unsigned long long)sides[s].fused);
    wane__buf_text(out, "}");
}
