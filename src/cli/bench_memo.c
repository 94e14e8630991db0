/*
 * bench_memo.c - `wane bench memo`: the same request once more, by the plain loop and from the memo.
 *
 * All on one loaded model, by turns. The plain loop has the dense head and no drafts, and starts from nothing, as the engine's own
 * would; the other side is wane as it is set, which has answered each request once before. Two times: a token's, from the first
 * one to the end, which leaves the prompt out; and the whole request's. Every token is compared with the plain loop's.
 */
#include "bench.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

enum { SIDES = 2, BASE = 0, WANE = 1 };
enum { TOKENS = 128 };

struct bench_memo {
    const struct settings *settings;
    struct bench_work work;
    int rounds, head, draft;
    double *ms[SIDES];    /* a token, by round */
    double *whole[SIDES]; /* a request */
    struct bench_reply reply[SIDES];
    double load;
    long tokens, divergent;
};

/* ---- measuring ----------------------------------------------------------------------------------------------------- */

static int set_side(const struct bench_memo *bench, int side, wane_error *error) {
    int result = wane_model_set_head(bench->work.model, side == BASE ? WANE_HEAD_DENSE : bench->head, error);
    if (result == WANE_OK)
        result = wane_model_set_draft(bench->work.model, side == BASE ? WANE_DRAFT_OFF : bench->draft, error);
    return result;
}

/* Round -1 warms up and gives the first answers, which are compared too: they are what is repeated. */
static int measure_round(struct bench_memo *bench, int round, wane_error *error) {
    double sum[SIDES] = {0}, whole[SIDES] = {0};
    long tokens = 0;
    for (int prompt = 0; prompt < bench->work.count; prompt++) {
        progress_show(round < 0 ? "warming up" : "measuring",
                      (round + 1 + (double)prompt / bench->work.count) / (bench->rounds + 1));
        for (int i = 0; i < SIDES; i++) {
            int side = (i + prompt + round + 1) % SIDES;
            int result = set_side(bench, side, error);
            if (result == WANE_OK)
                result = bench_reply(&bench->work, prompt, side == BASE, &bench->reply[side], error);
            if (result != WANE_OK) return result;
        }
        bench->divergent += !bench_same_reply(&bench->reply[WANE], &bench->reply[BASE]);
        if (round >= 0) bench->tokens += bench->reply[BASE].count;
        tokens += bench->reply[BASE].count > 1 ? bench->reply[BASE].count - 1 : 0;
        for (int side = 0; side < SIDES; side++) {
            sum[side] += bench->reply[side].ms;
            whole[side] += bench->reply[side].whole_ms;
        }
    }
    for (int side = 0; side < SIDES && round >= 0; side++) {
        bench->ms[side][round] = tokens > 0 ? sum[side] / (double)tokens : 0;
        bench->whole[side][round] = whole[side] / bench->work.count;
    }
    return WANE_OK;
}

static int measure(struct bench_memo *bench, wane_error *error) {
    int result = WANE_OK;
    for (int round = -1; round < bench->rounds && result == WANE_OK; round++)
        result = measure_round(bench, round, error);
    progress_clear();
    return result;
}

/* ---- results ------------------------------------------------------------------------------------------------------- */

static double ratio(double above, double below) {
    return below > 0 ? above / below : 0;
}

static void print(struct bench_memo *bench) {
    const wane_model_facts *facts = wane_model_get_facts(bench->work.model);
    const char *sampler = setting_text(bench->settings, SET_SAMPLER);
    double ms[SIDES], whole[SIDES];
    wane_memo_state memo;
    wane_model_get_memo_state(bench->work.model, &memo);
    for (int side = 0; side < SIDES; side++) {
        ms[side] = bench_median(bench->ms[side], bench->rounds);
        whole[side] = bench_median(bench->whole[side], bench->rounds);
    }
    if (!setting_on(bench->settings, SET_JSON)) {
        out_format("%s (%s), %d threads, %s, up to %d tokens, %d rounds\n\n", facts->name, facts->description,
                   facts->threads, sampler, bench->work.steps, bench->rounds);
        out_format("plain loop      %9.4f ms a token  %9.3f ms a request\n", ms[BASE], whole[BASE]);
        out_format("memo            %9.4f ms a token  %9.3f ms a request\n", ms[WANE], whole[WANE]);
        out_format("gain            %9.1f             %9.1f\n", ratio(ms[BASE], ms[WANE]),
                   ratio(whole[BASE], whole[WANE]));
        out_format("divergent       %9ld of %d replies, %ld tokens\n", bench->divergent,
                   bench->work.count * (bench->rounds + 1), bench->tokens);
        return;
    }
    json_t *all = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:i, s:i, s:i, s:o}", "bench", "memo",
                            "wane", wane_version(), "engine", wane_engine_version(), "model", facts->name,
                            "description", facts->description, "threads", facts->threads, "sampler", sampler,
                            "rounds", bench->rounds, "prompts", bench->work.count, "most_tokens",
                            bench->work.steps, "load", json_ms(bench->load));
    json_object_set_new(all, "base_ms", json_real(ms[BASE]));
    json_object_set_new(all, "wane_ms", json_real(ms[WANE]));
    json_object_set_new(all, "gain", json_ms(ratio(ms[BASE], ms[WANE])));
    json_object_set_new(all, "base_request_ms", json_real(whole[BASE]));
    json_object_set_new(all, "wane_request_ms", json_real(whole[WANE]));
    json_object_set_new(all, "request_gain", json_ms(ratio(whole[BASE], whole[WANE])));
    json_object_set_new(all, "divergent", json_integer(bench->divergent));
    json_object_set_new(all, "tokens", json_integer(bench->tokens));
    json_object_set_new(all, "hits", json_integer((json_int_t)memo.hits));
    json_object_set_new(all, "misses", json_integer((json_int_t)memo.misses));
    json_object_set_new(all, "evictions", json_integer((json_int_t)memo.evictions));
    out_json(all, false);
}

/* ---- the command --------------------------------------------------------------------------------------------------- */

static int run(struct bench_memo *bench, wane_model *model, char **texts, int count) {
    wane_error error = {0};
    for (int side = 0; side < SIDES; side++) {
        bench->ms[side] = text_alloc((size_t)bench->rounds * sizeof(double));
        bench->whole[side] = text_alloc((size_t)bench->rounds * sizeof(double));
        bench->reply[side].ids = text_alloc((size_t)bench->work.steps * sizeof(int32_t));
    }
    int result = bench_work_open(&bench->work, model, texts, count,
                                 texts != NULL ? count : bench_prompt_count, bench->work.steps, &error);
    bench_set_sampler(&bench->work.sampling, setting_text(bench->settings, SET_SAMPLER));
    bench->work.sampling.seed = 20260202;
    bench->work.sampling.seeded = true;
    if (result == WANE_OK) result = measure(bench, &error);
    int code = result == WANE_OK ? EXIT_FINE : cli_fail_wane(&error);
    if (code == EXIT_FINE) print(bench);
    if (code == EXIT_FINE && bench->divergent > 0)
        code = cli_fail(EXIT_FAILED, "the tokens are not the plain loop's");
    bench_work_close(&bench->work);
    for (int side = 0; side < SIDES; side++) {
        free(bench->ms[side]);
        free(bench->whole[side]);
        free(bench->reply[side].ids);
    }
    return code;
}

int bench_memo(const struct settings *settings) {
    struct bench_memo bench = {.settings = settings,
                               .rounds = setting_int(settings, SET_ROUNDS),
                               .work = {.steps = setting_int(settings, SET_TOKENS)}};
    if (settings->value[SET_TOKENS].source == FROM_DEFAULT) bench.work.steps = TOKENS;
    if (settings->value[SET_MEMO].integer == 0)
        return cli_usage("bench", "wane bench memo measures the memo; --memo 0 leaves nothing to measure");
    const char *name = setting_text(settings, SET_PROMPTS), *draft = setting_text(settings, SET_DRAFT);
    int count = 0;
    char **texts = name != NULL ? lines_read(name, &count) : NULL;
    if (name != NULL && texts == NULL) return EXIT_FAILED;
    bench.draft = strcmp(draft, "off") == 0      ? WANE_DRAFT_OFF
                  : strcmp(draft, "always") == 0 ? WANE_DRAFT_ALWAYS
                                                 : WANE_DRAFT_AUTO;
    interrupt_catch();
    bench.load = bench_load();
    wane_model *model = NULL;
    struct model_wish wish = {.sequences = 1,
                              .decodes = true,
                              .drafts = true,
                              .shadow = -1,
                              .least_context = bench.work.steps + 1024};
    int code = name == NULL || count > 0 ? model_open(settings, &wish, &model) : EXIT_FAILED;
    if (code == EXIT_FINE) code = memo_attach(settings, model);
    if (code == EXIT_FINE) {
        wane_head_state head;
        wane_model_get_head_state(model, &head);
        bench.head = head.certified ? WANE_HEAD_CERTIFIED : WANE_HEAD_DENSE;
        code = run(&bench, model, texts, count);
    }
    wane_model_free(model);
    if (texts != NULL) lines_free(texts, count);
    return code;
}
