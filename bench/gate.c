/*
 * gate.c - how long the gate takes: a LUT's answer, the net's, and a look at 50 candidates. By hand:
 *
 *     build/tests/bench_gate [GATE]      without one: a LUT of 20,000 made-up patterns
 *     build/tests/bench_gate GATE MODEL [THREADS]      what a token of a real model takes in mode off, in wane without a gate, and with GATE (-: the one
 *                                                      that ships for it), by turns, the same seeds
 */
#include "gate/gate.h"
#include "core/clock.h"
#include "core/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MADE = 20000, ASKED = 1 << 16, ROUNDS = 200 };

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static struct wane__gate *make_up(void) {
    static uint32_t pattern[MADE];
    static struct wane__gate_net net;
    static const struct wane__gate_made made = {.vocab_size = 1};
    struct wane__gate *gate = NULL;
    size_t n = 0;
    for (size_t i = 0; i < sizeof net / sizeof(float); i++)
        ((float *)&net)[i] = (float)(wane__random_unit(2, i) - 0.5);
    for (size_t i = 0; i < MADE; i++) pattern[i] = (uint32_t)(wane__random_bits(1, i) % WANE__GATE_PATTERNS);
    qsort(pattern, MADE, sizeof *pattern, by_number);
    for (size_t i = 0; i < MADE; i++)
        if (n == 0 || pattern[i] != pattern[n - 1]) pattern[n++] = pattern[i];
    wane__gate_new(&made, &net, pattern, n, &gate, NULL);
    return gate;
}

static void say(const char *what, double began, double count, float sum) {
    printf("%-30s %6.1f ns%s\n", what, 1e9 * (wane__now() - began) / count, sum > 1e30f ? "!" : "");
}

enum { REPLIES = 40, TOKENS = 64 };

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Milliseconds a token of one reply, the first one left out. */
static double reply(wane_model *model, const wane_tokens *prompt, const wane_generation *g) {
    wane_session *session = NULL;
    wane_event event;
    double began = 0;
    int count = 0;
    if (wane_session_new(model, &session, NULL) != WANE_OK) exit(1);
    if (wane_session_start(session, prompt->id, prompt->count, g, NULL) != WANE_OK) exit(1);
    while (wane_session_next(session, &event, NULL) == WANE_OK && event.kind == WANE_EVENT_TEXT)
        if (count++ == 0) began = wane__now();
    double ms = 1e3 * (wane__now() - began) / (count - 1);
    wane_session_free(session);
    return ms;
}

/* Each against the one before: the layer as such, the gate, and the votes over a doubtful token's vote. */
static const struct way {
    const char *name;
    int mode, doubt_votes; /* -1: as it is by default */
    bool gate;
} ways[] = {
    {"off", WANE_MODE_OFF, 0, false},
    {"wane without the gate", WANE_MODE_WANE, 0, false},
    {"wane, doubt_votes 0", WANE_MODE_WANE, 0, true},
    {"wane", WANE_MODE_WANE, -1, true},
};
enum { WAYS = sizeof ways / sizeof *ways };

static int set_way(const struct way *way, wane_model *model, const char *gate, wane_quality *quality,
                   wane_error *error) {
    wane_quality_init(quality);
    quality->mode = way->mode;
    if (way->doubt_votes >= 0) quality->doubt_votes = way->doubt_votes;
    return way->gate ? wane_model_set_gate(model, gate, error) : wane_model_drop_gate(model, error);
}

static void say_pairs(const char *what, const double *ms, const double *base) {
    double gap[REPLIES];
    for (int i = 0; i < REPLIES; i++) gap[i] = 100 * (ms[i] / base[i] - 1);
    qsort(gap, REPLIES, sizeof *gap, by_size);
    printf("  %s %+.2f %% (quartiles %+.2f, %+.2f)", what, gap[REPLIES / 2], gap[REPLIES / 4],
           gap[3 * REPLIES / 4]);
}

static int with_model(const char *gate, const char *path, int threads) {
    static const char text[] = "Tell me about the tides, and why there are two a day.";
    static const wane_message message = {"user", text, sizeof text - 1};
    wane_model_options options;
    wane_model *model = NULL;
    wane_tokens prompt = {0};
    wane_quality quality;
    wane_generation g;
    wane_error error = {0};
    static double ms[WAYS][REPLIES];
    wane_model_options_init(&options);
    options.path = path;
    options.threads = threads;
    options.draft = WANE_DRAFT_OFF;
    wane_generation_init(&g);
    g.sampling.seeded = g.ignore_end = true;
    g.max_tokens = TOKENS;
    g.quality = &quality;
    int status = wane_model_load(&options, &model, &error);
    if (status == WANE_OK) status = wane_chat_tokenize(model, &message, 1, &prompt, &error);
    for (int i = -1; i < REPLIES && status == WANE_OK; i++)
        for (int w = 0; w < WAYS && status == WANE_OK; w++) {
            int way = (w + i + 1) % WAYS;
            status = set_way(&ways[way], model, gate, &quality, &error);
            g.sampling.seed = (uint64_t)(i + 1);
            if (status == WANE_OK) ms[way][i < 0 ? 0 : i] = reply(model, &prompt, &g);
        }
    if (status != WANE_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    for (int way = 0; way < WAYS; way++) {
        double sorted[REPLIES];
        memcpy(sorted, ms[way], sizeof sorted);
        qsort(sorted, REPLIES, sizeof *sorted, by_size);
        printf("%-22s  %.4f ms a token", ways[way].name, sorted[REPLIES / 2]);
        if (way > 1) say_pairs("against the one above", ms[way], ms[way - 1]);
        if (way > 0) say_pairs("against off", ms[way], ms[0]);
        printf("\n");
    }
    wane_gate_state state;
    wane_model_get_gate_state(model, &state);
    printf("%llu tokens judged, %llu looked up in vain, %llu rejected\n", (unsigned long long)state.judged,
           (unsigned long long)(state.lookups - state.lut_hits), (unsigned long long)state.rejects);
    wane_tokens_free(&prompt);
    wane_model_free(model);
    return 0;
}

int main(int argc, char **argv) {
    struct wane__gate *gate = NULL;
    wane_error error = {0};
    if (argc > 2)
        return with_model(strcmp(argv[1], "-") == 0 ? NULL : argv[1], argv[2], argc > 3 ? atoi(argv[3]) : 0);
    if (argc > 1 && wane__gate_read(argv[1], &gate, &error) != WANE_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    if (argc == 1) gate = make_up();
    uint32_t *asked = malloc(ASKED * sizeof *asked);
    if (gate == NULL || asked == NULL) return 1;
    uint32_t *known = malloc(gate->lut.count * sizeof *known), n = 0;
    size_t slots = (size_t)1 << (32 - gate->lut.shift);
    if (known == NULL) return 1;
    for (size_t i = 0; i < slots; i++)
        if (gate->lut.slot[i].pattern != WANE__GATE_PATTERNS) known[n++] = gate->lut.slot[i].pattern;
    for (size_t i = 0; i < ASKED; i++) asked[i] = known[wane__random_bits(3, i) % n];

    float sum = 0, odds = 0;
    double began = wane__now();
    for (int r = 0; r < ROUNDS; r++)
        for (size_t i = 0; i < ASKED; i++)
            if (wane__gate_lut_find(&gate->lut, asked[i], &odds)) sum += odds;
    say("LUT, patterns at random", began, (double)ROUNDS * ASKED, sum);
    began = wane__now();
    for (int r = 0; r < ROUNDS / 10; r++)
        for (size_t i = 0; i < ASKED; i++) sum += wane__gate_run(&gate->net, asked[i]);
    say("net", began, ROUNDS / 10.0 * ASKED, sum);
    struct wane__candidate list[WANE__GATE_OVER];
    struct wane__gate_view view = {0};
    for (int i = 0; i < WANE__GATE_OVER; i++) list[i] = (struct wane__candidate){i, (float)(-0.3 * i)};
    static const int counts[] = {8, 24, WANE__GATE_OVER};
    for (int c = 0; c < 3; c++) {
        char what[40];
        snprintf(what, sizeof what, "look at %d candidates", counts[c]);
        began = wane__now();
        for (int r = 0; r < 500000; r++) {
            list[0].logit = (float)(r & 7) * 0.1f;
            wane__gate_look(list, counts[c], false, 1, &view);
            sum += (float)view.pattern;
        }
        say(what, began, 500000, sum);
    }
    free(known);
    free(asked);
    wane__gate_free(gate);
    return 0;
}
