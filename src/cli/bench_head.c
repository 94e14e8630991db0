/*
 * bench_head.c - `wane bench head`: the same tokens by the dense head, by the certified one, and the body alone.
 *
 * All three on one loaded model, by turns; who begins changes from set to set and from round to round. The body alone is
 * wane's loop with a graph that ends before the head and no draw: what is left when the head costs nothing. Seeds are the
 * same on both sides, so every token can be compared. A reply that has parted goes on in another context: its first
 * difference counts, and what follows it is not compared.
 */
#include "bench.h"
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODES = 3, PROMPTS_MOST = 100000 };
static const int mode_head[MODES] = {WANE_HEAD_DENSE, WANE_HEAD_CERTIFIED, WANE_HEAD_NONE};

struct bench_heads {
    const struct settings *settings;
    struct bench_work work;
    int rows, rounds, modes, sets;
    double *ms[MODES]; /* a token of each stream, by round */
    int32_t *ids[MODES];
    uint64_t seed;
    double load;
    long tokens, divergent; /* compared; first differences of a reply */
    wane_head_state before, after;
};

/* ---- measuring ----------------------------------------------------------------------------------------------------- */

static void compare(struct bench_heads *bench) {
    int steps = bench->work.steps;
    for (int stream = 0; stream < bench->rows; stream++) {
        const int32_t *dense = bench->ids[0] + (size_t)stream * (size_t)steps;
        const int32_t *wane = bench->ids[1] + (size_t)stream * (size_t)steps;
        for (int i = 0; i < steps; i++) {
            bench->tokens++;
            if (dense[i] == wane[i]) continue;
            bench->divergent++;
            break;
        }
    }
}

/* All heads on one set of prompts; adds to the sums. */
static int measure_set(struct bench_heads *bench, int set, int turn, double sum[MODES], wane_error *error) {
    for (int i = 0; i < bench->modes; i++) {
        int mode = (i + turn) % bench->modes;
        struct bench_run run = {.ids = bench->ids[mode]};
        int result = wane_model_set_head(bench->work.model, mode_head[mode], error);
        if (result == WANE_OK) result = bench_wane(&bench->work, set * bench->rows, bench->rows, &run, error);
        if (result != WANE_OK) return result;
        if (interrupt_seen()) {
            *error = (wane_error){.code = WANE_ECANCELLED};
            return WANE_ECANCELLED;
        }
        sum[mode] += run.ms;
    }
    return WANE_OK;
}

static int measure_round(struct bench_heads *bench, int round, wane_error *error) {
    double sum[MODES] = {0};
    bench->work.sampling.seed = bench->seed + (uint64_t)(round + 1) * 1000003u;
    for (int set = 0; set < bench->sets; set++) {
        char what[80];
        snprintf(what, sizeof what, round < 0 ? "warming up" : "round %d of %d", round + 1, bench->rounds);
        progress_show(what, (round + 1 + (double)set / bench->sets) / (bench->rounds + 1));
        int result = measure_set(bench, set, round + 1 + set, sum, error);
        if (result != WANE_OK || round < 0) return result;
        compare(bench);
    }
    for (int mode = 0; mode < bench->modes; mode++)
        bench->ms[mode][round] = sum[mode] / bench->sets / bench->work.steps;
    return WANE_OK;
}

static int measure(struct bench_heads *bench, wane_error *error) {
    int result = measure_round(bench, -1, error);
    wane_model_get_head_state(bench->work.model, &bench->before);
    for (int round = 0; round < bench->rounds && result == WANE_OK; round++)
        result = measure_round(bench, round, error);
    wane_model_get_head_state(bench->work.model, &bench->after);
    progress_clear();
    return result;
}

/* ---- results ------------------------------------------------------------------------------------------------------- */

struct results {
    double dense, wane, body;                /* ms a token; body 0: not measured    */
    double survivors1, survivors2, rescored; /* a row                               */
    double fallbacks, backed_off, rows;
};

static struct results results_of(struct bench_heads *bench) {
    const wane_head_state *a = &bench->before, *b = &bench->after;
    struct results r = {.rows = (double)(b->rows - a->rows)};
    double each = r.rows > 0 ? r.rows : 1;
    r.dense = bench_median(bench->ms[0], bench->rounds);
    r.wane = bench_median(bench->ms[1], bench->rounds);
    r.body = bench->modes == MODES ? bench_median(bench->ms[2], bench->rounds) : 0;
    r.survivors1 = (double)(b->survivors1 - a->survivors1) / each;
    r.survivors2 = (double)(b->survivors2 - a->survivors2) / each;
    r.rescored = (double)(b->rescored - a->rescored) / each;
    r.fallbacks = (double)(b->dense_many - a->dense_many + b->dense_sum - a->dense_sum + b->dense_batch -
                           a->dense_batch);
    r.backed_off = (double)(b->dense_pace - a->dense_pace);
    return r;
}

static json_t *rounds_json(const double *values, int count) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(list, json_ms(values[i]));
    return list;
}

static void print_json(struct bench_heads *bench) {
    const wane_model_facts *facts = wane_model_get_facts(bench->work.model);
    json_t *rounds = json_pack("{s:o, s:o}", "dense", rounds_json(bench->ms[0], bench->rounds), "wane",
                               rounds_json(bench->ms[1], bench->rounds));
    if (bench->modes == MODES) json_object_set_new(rounds, "body", rounds_json(bench->ms[2], bench->rounds));
    struct results r = results_of(bench);
    json_t *all =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:i, s:i, s:i, s:i, s:o}", "bench", "head", "wane",
                  wane_version(), "engine", wane_engine_version(), "model", facts->name, "description",
                  facts->description, "threads", facts->threads, "sampler",
                  setting_text(bench->settings, SET_SAMPLER), "rows", bench->rows, "rounds", bench->rounds,
                  "prompts", bench->work.count, "steps", bench->work.steps, "load", json_ms(bench->load));
    json_object_set_new(all, "kernel", json_string(bench->after.kernel));
    json_object_set_new(all, "dense_ms", json_ms(r.dense));
    json_object_set_new(all, "wane_ms", json_ms(r.wane));
    json_object_set_new(all, "body_ms", r.body > 0 ? json_ms(r.body) : json_null());
    json_object_set_new(all, "gain", json_ms(r.dense / r.wane));
    json_object_set_new(all, "limit", r.body > 0 ? json_ms(r.dense / r.body) : json_null());
    json_object_set_new(all, "limit_share", r.body > 0 ? json_ms(r.body / r.wane) : json_null());
    json_object_set_new(all, "saved_share",
                        r.body > 0 && r.dense > r.body ? json_ms((r.dense - r.wane) / (r.dense - r.body))
                                                       : json_null());
    json_object_set_new(all, "tokens", json_integer(bench->tokens));
    json_object_set_new(all, "divergent", json_integer(bench->divergent));
    json_object_set_new(all, "dense_fallbacks", json_integer((json_int_t)r.fallbacks));
    json_object_set_new(all, "backed_off", json_integer((json_int_t)r.backed_off));
    json_object_set_new(all, "survivors",
                        json_pack("{s:o, s:o, s:o}", "level1", json_ms(r.survivors1), "level2",
                                  json_ms(r.survivors2), "rescored", json_ms(r.rescored)));
    json_object_set_new(all, "rounds_ms", rounds);
    out_json(all, false);
}

static void print_text(struct bench_heads *bench) {
    const wane_model_facts *facts = wane_model_get_facts(bench->work.model);
    struct results r = results_of(bench);
    out_format("%s (%s), %d threads, %s, %d row%s, %d tokens, %d rounds\n\n", facts->name, facts->description,
               facts->threads, setting_text(bench->settings, SET_SAMPLER), bench->rows,
               bench->rows > 1 ? "s" : "", bench->work.steps, bench->rounds);
    out_format("dense head      %9.3f ms a token\ncertified head  %9.3f ms a token\n", r.dense, r.wane);
    if (r.body > 0) out_format("body alone      %9.3f ms a token\n", r.body);
    out_format("\ngain            %9.3f", r.dense / r.wane);
    if (r.body > 0)
        out_format("   of at most %.3f: %.0f %% of the limit", r.dense / r.body, 100 * r.body / r.wane);
    out_format("\nrows left       %9.0f after level 1, %.0f after level 2, %.0f computed exactly\n",
               r.survivors1, r.survivors2, r.rescored);
    out_format("dense answers   %9.0f of %.0f rows\n", r.fallbacks, r.rows);
    out_format("backed off      %9.0f rows, for which the dense head was the faster one\n", r.backed_off);
    out_format("divergent       %9ld of %ld tokens\n", bench->divergent, bench->tokens);
}

static int run(struct bench_heads *bench, wane_model *model, char **texts, int text_count) {
    int count = texts != NULL ? text_count : bench_prompt_count;
    bench->sets = (count + bench->rows - 1) / bench->rows;
    wane_error error = {0};
    for (int mode = 0; mode < MODES; mode++) {
        bench->ms[mode] = text_alloc((size_t)bench->rounds * sizeof(double));
        bench->ids[mode] = text_alloc((size_t)bench->rows * (size_t)bench->work.steps * sizeof(int32_t));
    }
    int result = bench_work_open(&bench->work, model, texts, text_count, bench->sets * bench->rows,
                                 bench->work.steps, &error);
    bench_set_sampler(&bench->work.sampling, setting_text(bench->settings, SET_SAMPLER));
    if (result == WANE_OK) result = measure(bench, &error);
    int code = result == WANE_OK ? EXIT_FINE : cli_fail_wane(&error);
    if (code == EXIT_FINE && setting_on(bench->settings, SET_JSON))
        print_json(bench);
    else if (code == EXIT_FINE)
        print_text(bench);
    if (code == EXIT_FINE && bench->divergent > 0)
        code = cli_fail(EXIT_FAILED, "the certified head's tokens are not the dense head's");
    bench_work_close(&bench->work);
    for (int mode = 0; mode < MODES; mode++) {
        free(bench->ms[mode]);
        free(bench->ids[mode]);
    }
    return code;
}

int bench_head(const struct settings *settings) {
    struct bench_heads bench = {.settings = settings,
                                .rows = setting_int(settings, SET_ROWS),
                                .rounds = setting_int(settings, SET_ROUNDS),
                                .modes = setting_on(settings, SET_BODY) ? MODES : MODES - 1,
                                .seed = 20260101,
                                .work = {.steps = setting_int(settings, SET_TOKENS)}};
    const char *file = setting_text(settings, SET_PROMPTS);
    int text_count = 0;
    char **texts = file != NULL ? lines_read(file, &text_count) : NULL;
    if (file != NULL && text_count == 0) return EXIT_FAILED;
    interrupt_catch();
    bench.load = bench_load();
    wane_model *model = NULL;
    struct model_wish wish = {.sequences = bench.rows,
                              .decodes = true,
                              .certified = true,
                              .shadow = -1, /* a checked token is the dense one: it would hide a difference */
                              .least_context = bench.work.steps + 640 + 16 * bench.rows};
    int code = model_open(settings, &wish, &model);
    if (code == EXIT_FINE) {
        wane_head_state state;
        wane_model_get_head_state(model, &state);
        code = state.certified
                   ? run(&bench, model, texts, text_count)
                   : cli_fail(EXIT_FAILED, "there is no certified head to measure: %s", state.reason);
    }
    wane_model_free(model);
    lines_free(texts, text_count);
    return code;
}
