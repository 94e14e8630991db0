/*
 * layer.c - how many streams a server carries in the modes legacy and wane, on an engine whose times are known. By hand:
 *
 *     build/tests/bench_layer [REQUESTS] [DOUBT...]      10000 requests in all; shares of requests in doubt: 0 0.037 0.1 0.3
 *
 * The engine is scripted: a call takes BASE_MS, and ROW_US for each row, about as a small model's on two cores. A share of the
 * requests has flat candidates, so that the gate doubts their first token; the others' are sharp. Clients are closed loops: each sends
 * a request when its last one is over. Replies have TOKENS tokens, and up to SPREAD fewer or more. For each share and width both modes run by turns in slices; printed are times a
 * token as the clients saw them, of replies and of single gaps, tokens decoded for each one delivered, and how many streams wane carries where the slowest
 * twentieth of its tokens is as slow as legacy's. What a real model's requests doubt is another question: wane bench layer.
 */
#include "core/clock.h"
#include "core/rng.h"
#include "engine/engine.h"
#include "model.h"
#include "origin.h"
#include "unit/gate_rig.h"

#include <math.h>
#include <pthread.h>
#include <unistd.h>

enum {
    V = 384,
    TOKENS = 16,
    SPREAD = 8,
    BASE_MS = 1,
    ROW_US = 400,
    SLICES = 4,
    WIDTHS = 5,
    MODES = 2,
    SHARES_MOST = 8
};
static const int widths[WIDTHS] = {1, 2, 4, 8, 12};
static const int modes[MODES] = {WANE_MODE_LEGACY, WANE_MODE_WANE};

static float sharp[V], flat[V];
static const int32_t none[1];
static const struct wane__script_reply replies[] = {
    {.match = "sure", .tokens = none, .fail_at = -1, .delay_ms = BASE_MS, .logits = sharp},
    {.match = "unsure", .tokens = none, .fail_at = -1, .delay_ms = BASE_MS, .logits = flat},
};

struct list {
    double *ms;
    size_t count, room;
};

enum { REPLY, GAP };

struct times {
    struct list per[2]; /* a token of a reply, the mean of its gaps; a gap, between two tokens */
    uint64_t decoded, delivered, votes, requests;
};

struct clients {
    wane_scheduler *scheduler;
    const wane_quality *quality;
    struct times *times;
    double doubt;
    pthread_mutex_t lock;
    int next, end;
};

static void give_up(const char *what) {
    fprintf(stderr, "bench_layer: %s\n", what);
    exit(1);
}

static void add(struct list *times, double ms) {
    if (times->count == times->room) {
        times->room = times->room > 0 ? 2 * times->room : 1024;
        times->ms = realloc(times->ms, times->room * sizeof *times->ms);
        if (times->ms == NULL) give_up("no memory");
    }
    times->ms[times->count++] = ms;
}

static void one_request(struct clients *c, int number) {
    static const char *const prompts[] = {"are you sure", "are you unsure"};
    const char *text = prompts[wane__random_unit(3, (uint64_t)number) < c->doubt];
    int32_t prompt[32];
    size_t count = strlen(text);
    for (size_t i = 0; i < count; i++) prompt[i] = (unsigned char)text[i];
    wane_generation g;
    wane_ticket *ticket;
    wane_event event;
    double gap[TOKENS + SPREAD], last = 0;
    int gaps = 0;
    wane_generation_init(&g);
    g.sampling.seeded = true;
    g.sampling.seed = (uint64_t)number;
    g.max_tokens = TOKENS - SPREAD + (int)(wane__random_unit(4, (uint64_t)number) * (2 * SPREAD + 1));
    g.quality = c->quality;
    if (wane_scheduler_submit(c->scheduler, prompt, count, &g, &ticket, NULL) != WANE_OK)
        give_up("a request was refused");
    for (bool ended = false; !ended;) {
        if (wane_ticket_next(ticket, 60000, &event, &ended, NULL) != WANE_OK) give_up("a request failed");
        double now = 1e3 * wane__now();
        if (event.kind == WANE_EVENT_TEXT && last > 0) gap[gaps++] = now - last;
        if (event.kind == WANE_EVENT_TEXT) last = now;
    }
    pthread_mutex_lock(&c->lock);
    double sum = 0;
    for (int i = 0; i < gaps; i++) {
        add(&c->times->per[GAP], gap[i]);
        sum += gap[i];
    }
    if (gaps > 0) add(&c->times->per[REPLY], sum / gaps);
    c->times->decoded += (uint64_t)(event.reply_tokens + event.spare_tokens);
    c->times->delivered += (uint64_t)event.reply_tokens;
    c->times->votes += event.answers > 0;
    c->times->requests++;
    pthread_mutex_unlock(&c->lock);
    wane_ticket_free(ticket);
}

static void *client(void *user) {
    struct clients *c = user;
    for (;;) {
        pthread_mutex_lock(&c->lock);
        int number = c->next < c->end ? c->next++ : -1;
        pthread_mutex_unlock(&c->lock);
        if (number < 0) return NULL;
        one_request(c, number);
    }
}

static void run(struct clients *c, int streams) {
    pthread_t thread[16];
    for (int i = 0; i < streams; i++)
        if (pthread_create(&thread[i], NULL, client, c) != 0) give_up("no thread");
    for (int i = 0; i < streams; i++) pthread_join(thread[i], NULL);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(struct list *times, double p) {
    qsort(times->ms, times->count, sizeof *times->ms, ascending);
    return times->ms[(size_t)(p * (double)(times->count - 1))];
}

static double deviation(const struct list *times) {
    double sum = 0, squares = 0, n = (double)times->count;
    for (size_t i = 0; i < times->count; i++) sum += times->ms[i];
    for (size_t i = 0; i < times->count; i++) squares += (times->ms[i] - sum / n) * (times->ms[i] - sum / n);
    return sqrt(squares / n);
}

/* A model whose gate doubts flat candidates only. */
static wane_model *make_model(void) {
    static struct wane__gate_net net;
    struct wane__script script = {.replies = replies,
                                  .reply_count = 2,
                                  .sequences = 3 * widths[WIDTHS - 1],
                                  .row_delay_us = ROW_US};
    struct wane__engine *engine;
    struct wane__trace_origin origin;
    wane_model *model;
    char path[64];
    uint32_t pattern = 1;
    for (int i = 0; i < V; i++) sharp[i] = flat[i] = i >= 'a' && i < 'e' ? 5 : -20;
    sharp['a'] = 8;
    if (wane__script_load(&script, NULL, &engine, NULL) != WANE_OK ||
        wane__model_wrap(engine, NULL, NULL, &model, NULL) != WANE_OK ||
        wane__model_origin(model, &origin, NULL) != WANE_OK)
        give_up("no model");
    struct wane__gate_made made = gate_made(origin.model, origin.tokenizer);
    gate_line(&net, -10, 1); /* equal chances: bin 0 or 1; clearly apart: bin 31 */
    struct wane__gate *gate = gate_of(&made, &net, &pattern, 1);
    snprintf(path, sizeof path, "/tmp/wane-layer-%ld.gate", (long)getpid());
    if (wane__gate_write(gate, path, NULL) != WANE_OK || wane_model_set_gate(model, path, NULL) != WANE_OK)
        give_up("no gate");
    unlink(path);
    wane__gate_free(gate);
    return model;
}

/* Streams at which wane's 95th percentile is `p95`: between two widths a straight line of the logarithms. */
static double streams_at(const double *wane_p95, double p95) {
    for (int w = 0; w < WIDTHS; w++) {
        if (wane_p95[w] < p95) continue;
        if (w == 0) return widths[0];
        return widths[w - 1] * pow((double)widths[w] / widths[w - 1],
                                   log(p95 / wane_p95[w - 1]) / log(wane_p95[w] / wane_p95[w - 1]));
    }
    return widths[WIDTHS - 1];
}

static void measure(wane_scheduler *scheduler, double doubt, int requests) {
    struct times times[WIDTHS][MODES] = {0};
    double p95[2][MODES][WIDTHS];
    wane_quality quality[MODES];
    for (int m = 0; m < MODES; m++) {
        wane_quality_init(&quality[m]);
        quality[m].mode = modes[m];
        quality[m].doubt_budget = 0;
    }
    for (int w = 0; w < WIDTHS; w++)
        for (int slice = 0; slice < SLICES; slice++)
            for (int i = 0; i < MODES; i++) {
                int m = (i + slice) % MODES, each = requests / WIDTHS / MODES / SLICES;
                struct clients c = {.scheduler = scheduler,
                                    .quality = &quality[m],
                                    .times = &times[w][m],
                                    .doubt = doubt,
                                    .lock = PTHREAD_MUTEX_INITIALIZER,
                                    .next = slice * each,
                                    .end = (slice + 1) * each};
                run(&c, widths[w]);
            }
    printf("\n%.1f %% of requests in doubt; ms a token of a reply (TPOT), and between two tokens "
           "(ITL)\nstreams  mode    requests  votes  "
           "decoded  |  TPOT p50     p95  deviation  |   ITL p50     p95  deviation\n",
           100 * doubt);
    for (int w = 0; w < WIDTHS; w++)
        for (int m = 0; m < MODES; m++) {
            struct times *t = &times[w][m];
            for (int per = 0; per < 2; per++) p95[per][m][w] = quantile(&t->per[per], 0.95);
            printf("%7d  %-6s  %8d  %5d  %7.2f  |  %8.2f  %6.2f  %9.2f  |  %8.2f  %6.2f  %9.2f\n", widths[w],
                   wane_mode_name(modes[m]), (int)t->requests, (int)t->votes,
                   (double)t->decoded / (double)t->delivered, quantile(&t->per[REPLY], 0.5), p95[REPLY][m][w],
                   deviation(&t->per[REPLY]), quantile(&t->per[GAP], 0.5), p95[GAP][m][w],
                   deviation(&t->per[GAP]));
        }
    for (int w = 1; w < 4; w++)
        for (int per = 0; per < 2; per++)
            printf(
                "%s: where legacy carries %d streams, wane carries %.1f (%.2f times) at equal p95; deviation "
                "%+.0f %%\n",
                per == REPLY ? "TPOT" : "ITL ", widths[w], streams_at(p95[per][1], p95[per][0][w]),
                streams_at(p95[per][1], p95[per][0][w]) / widths[w],
                100 * (deviation(&times[w][1].per[per]) / deviation(&times[w][0].per[per]) - 1));
    for (int w = 0; w < WIDTHS; w++)
        for (int m = 0; m < MODES; m++) {
            for (int per = 0; per < 2; per++) free(times[w][m].per[per].ms);
        }
    fflush(stdout);
}

int main(int argc, char **argv) {
    static const double usual[] = {0, 0.037, 0.1, 0.3};
    int requests = argc > 1 ? atoi(argv[1]) : 10000, shares = argc > 2 ? argc - 2 : 4;
    wane_scheduler_options options;
    wane_scheduler *scheduler;
    if (requests < 400) give_up("give at least 400 requests");
    wane_model *model = make_model();
    wane_scheduler_options_init(&options);
    options.max_batch_requests = 64;
    options.window_ms = 0;
    if (wane_scheduler_new(model, &options, &scheduler, NULL) != WANE_OK) give_up("no scheduler");
    for (int i = 0; i < shares; i++)
        measure(scheduler, argc > 2 ? atof(argv[i + 2]) : usual[i], requests / shares);
    wane_scheduler_free(scheduler);
    wane_model_free(model);
    return 0;
}
