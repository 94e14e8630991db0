/*
 * bench_draft.c - `wane bench draft`: the same replies with the dense head, with the certified one, and with drafts too.
 *
 * All on one loaded model, by turns; who begins changes from prompt to prompt and from round to round. Replies end where
 * the model ends them, or after --tokens: what goes on past an end repeats itself, and would flatter drafts. The clock runs from the
 * first token to the end, so that the prompt is not in it. Every token is compared with the dense loop's.
 */
#include "bench.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODES = 3, BASE = 0, PLAIN = 1, WANE = 2 };
/* Where --tokens is not given: a copy of fewer is mostly its beginning. */
enum { TOKENS = 128 };

struct one_prompt {
    double ms[MODES]; /* over the rounds together */
    long tokens;
};

struct bench_drafts {
    const struct settings *settings;
    struct bench_work work;
    const char *const *kinds; /* NULL: prompts of a file */
    int rounds, head;
    double *ms[MODES]; /* a token, by round */
    struct bench_reply reply[MODES];
    struct one_prompt *prompt;
    uint64_t seed;
    double load;
    long tokens, divergent;
    wane_draft_state before, after;
};

/* ---- measuring ----------------------------------------------------------------------------------------------------- */

static void compare(struct bench_drafts *bench) {
    for (int mode = PLAIN; mode < MODES; mode++)
        bench->divergent += !bench_same_reply(&bench->reply[mode], &bench->reply[BASE]);
    bench->tokens += bench->reply[BASE].count;
}

static int set_mode(const struct bench_drafts *bench, int mode, wane_error *error) {
    int result = wane_model_set_head(bench->work.model, mode == BASE ? WANE_HEAD_DENSE : bench->head, error);
    int drafts =
        strcmp(setting_text(bench->settings, SET_DRAFT), "always") == 0 ? WANE_DRAFT_ALWAYS : WANE_DRAFT_AUTO;
    if (result == WANE_OK)
        result = wane_model_set_draft(bench->work.model, mode == WANE ? drafts : WANE_DRAFT_OFF, error);
    return result;
}

/* A prompt in all modes; adds to the sums. Times are of the tokens after the first. */
static int measure_prompt(struct bench_drafts *bench, int prompt, int turn, double sum[MODES], long *tokens,
                          wane_error *error) {
    for (int i = 0; i < MODES; i++) {
        int mode = (i + turn) % MODES;
        int result = set_mode(bench, mode, error);
        if (result == WANE_OK) result = bench_reply(&bench->work, prompt, false, &bench->reply[mode], error);
        if (result != WANE_OK) return result;
    }
    if (bench->reply[BASE].count < 2) return WANE_OK;
    *tokens += bench->reply[BASE].count - 1;
    if (turn > prompt) bench->prompt[prompt].tokens += bench->reply[BASE].count - 1;
    for (int mode = 0; mode < MODES; mode++) {
        sum[mode] += bench->reply[mode].ms;
        if (turn > prompt) bench->prompt[prompt].ms[mode] += bench->reply[mode].ms;
    }
    return WANE_OK;
}

/* Round -1 warms up, and lets drafts be rehearsed: it is not counted. */
static int measure_round(struct bench_drafts *bench, int round, wane_error *error) {
    double sum[MODES] = {0};
    long tokens = 0;
    for (int prompt = 0; prompt < bench->work.count; prompt++) {
        progress_show(round < 0 ? "warming up" : "measuring",
                      (round + 1 + (double)prompt / bench->work.count) / (bench->rounds + 1));
        int result = measure_prompt(bench, prompt, round + 1 + prompt, sum, &tokens, error);
        if (result != WANE_OK) return result;
        if (round >= 0) compare(bench);
    }
    for (int mode = 0; mode < MODES && round >= 0; mode++)
        bench->ms[mode][round] = tokens > 0 ? sum[mode] / (double)tokens : 0;
    return WANE_OK;
}

static int measure(struct bench_drafts *bench, wane_error *error) {
    int result = measure_round(bench, -1, error);
    wane_model_get_draft_state(bench->work.model, &bench->before);
    for (int round = 0; round < bench->rounds && result == WANE_OK; round++)
        result = measure_round(bench, round, error);
    wane_model_get_draft_state(bench->work.model, &bench->after);
    progress_clear();
    return result;
}

/* ---- results ------------------------------------------------------------------------------------------------------- */

struct results {
    double ms[MODES];
    uint64_t proposed, accepted;
};

static struct results results_of(struct bench_drafts *bench) {
    struct results r = {0};
    for (int mode = 0; mode < MODES; mode++) r.ms[mode] = bench_median(bench->ms[mode], bench->rounds);
    for (int i = 0; i < WANE_DRAFT_SOURCES; i++) {
        r.proposed += bench->after.proposed[i] - bench->before.proposed[i];
        r.accepted += bench->after.accepted[i] - bench->before.accepted[i];
    }
    return r;
}

static json_t *prompts_json(const struct bench_drafts *bench) {
    json_t *list = json_array();
    for (int i = 0; i < bench->work.count; i++) {
        const struct one_prompt *p = &bench->prompt[i];
        double each = p->tokens > 0 ? (double)p->tokens : 1;
        json_array_append_new(list,
                              json_pack("{s:s, s:o, s:o, s:o, s:o}", "kind",
                                        bench->kinds != NULL ? bench->kinds[i] : "file", "base_ms",
                                        json_ms(p->ms[BASE] / each), "head_ms", json_ms(p->ms[PLAIN] / each),
                                        "wane_ms", json_ms(p->ms[WANE] / each), "tokens",
                                        json_integer((json_int_t)p->tokens / bench->rounds)));
    }
    return list;
}

static json_t *sources_json(const struct bench_drafts *bench) {
    json_t *all = json_object();
    for (int i = 0; i < WANE_DRAFT_SOURCES; i++)
        json_object_set_new(all, wane_draft_source_name(i),
                            json_pack("{s:I, s:I}", "proposed",
                                      (json_int_t)(bench->after.proposed[i] - bench->before.proposed[i]),
                                      "accepted",
                                      (json_int_t)(bench->after.accepted[i] - bench->before.accepted[i])));
    return all;
}

/* What calls of several rows took, by their rows. */
static json_t *blocks_json(const struct bench_drafts *bench) {
    json_t *all = json_object();
    char rows[16];
    for (int i = 1; i <= WANE_DRAFT_BLOCK_MOST; i++) {
        if (!(bench->after.block_ms[i] > 0)) continue;
        snprintf(rows, sizeof rows, "%d", i);
        json_object_set_new(all, rows, json_ms(bench->after.block_ms[i]));
    }
    return all;
}

static void print_json(struct bench_drafts *bench) {
    const wane_model_facts *facts = wane_model_get_facts(bench->work.model);
    struct results r = results_of(bench);
    json_t *all =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:i, s:i, s:i, s:o}", "bench", "draft", "wane",
                  wane_version(), "engine", wane_engine_version(), "model", facts->name, "description",
                  facts->description, "threads", facts->threads, "sampler",
                  setting_text(bench->settings, SET_SAMPLER), "rounds", bench->rounds, "prompts",
                  bench->work.count, "most_tokens", bench->work.steps, "load", json_ms(bench->load));
    json_object_set_new(all, "base_ms", json_ms(r.ms[BASE]));
    json_object_set_new(all, "head_ms", json_ms(r.ms[PLAIN]));
    json_object_set_new(all, "wane_ms", json_ms(r.ms[WANE]));
    json_object_set_new(all, "gain", json_ms(r.ms[WANE] > 0 ? r.ms[BASE] / r.ms[WANE] : 0));
    json_object_set_new(all, "draft_gain", json_ms(r.ms[WANE] > 0 ? r.ms[PLAIN] / r.ms[WANE] : 0));
    json_object_set_new(all, "divergent", json_integer(bench->divergent));
    json_object_set_new(all, "tokens", json_integer(bench->tokens));
    json_object_set_new(all, "proposed", json_integer((json_int_t)r.proposed));
    json_object_set_new(all, "accepted", json_integer((json_int_t)r.accepted));
    json_object_set_new(all, "blocks",
                        json_integer((json_int_t)(bench->after.blocks - bench->before.blocks)));
    json_object_set_new(all, "rehearsals", json_integer((json_int_t)bench->after.rehearsals));
    json_object_set_new(all, "differing", json_integer((json_int_t)bench->after.differing));
    json_object_set_new(all, "sources", sources_json(bench));
    json_object_set_new(all, "block_ms", blocks_json(bench));
    json_object_set_new(all, "by_prompt", prompts_json(bench));
    out_json(all, false);
}

static void print_text(struct bench_drafts *bench) {
    const wane_model_facts *facts = wane_model_get_facts(bench->work.model);
    struct results r = results_of(bench);
    out_format("%s (%s), %d threads, %s, up to %d tokens, %d rounds\n\n", facts->name, facts->description,
               facts->threads, setting_text(bench->settings, SET_SAMPLER), bench->work.steps, bench->rounds);
    out_format("dense head      %9.3f ms a token\ncertified head  %9.3f ms a token\n", r.ms[BASE],
               r.ms[PLAIN]);
    out_format("drafts as well  %9.3f ms a token\n\n", r.ms[WANE]);
    out_format("gain            %9.3f   of it by drafts %.3f\n", r.ms[BASE] / r.ms[WANE],
               r.ms[PLAIN] / r.ms[WANE]);
    out_format("accepted        %9llu of %llu drafted tokens\n", (unsigned long long)r.accepted,
               (unsigned long long)r.proposed);
    out_format("rehearsed       %9llu blocks, %llu of them differing\n",
               (unsigned long long)bench->after.rehearsals, (unsigned long long)bench->after.differing);
    out_format("divergent       %9ld of %d replies, %ld tokens\n\n", bench->divergent,
               2 * bench->work.count * bench->rounds, bench->tokens);
    for (int i = 0; i < bench->work.count && bench->kinds != NULL; i++) {
        const struct one_prompt *p = &bench->prompt[i];
        if (p->tokens == 0) continue;
        out_format("  %-10s %9.3f  %9.3f  %9.3f\n", bench->kinds[i], p->ms[BASE] / (double)p->tokens,
                   p->ms[PLAIN] / (double)p->tokens, p->ms[WANE] / (double)p->tokens);
    }
}

/* ---- the command --------------------------------------------------------------------------------------------------- */

static int run(struct bench_drafts *bench, wane_model *model, char **texts, int count) {
    wane_error error = {0};
    for (int mode = 0; mode < MODES; mode++) {
        bench->ms[mode] = text_alloc((size_t)bench->rounds * sizeof(double));
        bench->reply[mode].ids = text_alloc((size_t)bench->work.steps * sizeof(int32_t));
    }
    bench->prompt = text_alloc((size_t)count * sizeof *bench->prompt);
    memset(bench->prompt, 0, (size_t)count * sizeof *bench->prompt);
    int result = bench_work_open(&bench->work, model, texts, count, count, bench->work.steps, &error);
    bench_set_sampler(&bench->work.sampling, setting_text(bench->settings, SET_SAMPLER));
    bench->work.sampling.seed = bench->seed;
    if (result == WANE_OK) result = measure(bench, &error);
    int code = result == WANE_OK ? EXIT_FINE : cli_fail_wane(&error);
    if (code == EXIT_FINE && setting_on(bench->settings, SET_JSON))
        print_json(bench);
    else if (code == EXIT_FINE)
        print_text(bench);
    if (code == EXIT_FINE && bench->divergent > 0)
        code = cli_fail(EXIT_FAILED, "the tokens are not the dense loop's");
    bench_work_close(&bench->work);
    for (int mode = 0; mode < MODES; mode++) {
        free(bench->ms[mode]);
        free(bench->reply[mode].ids);
    }
    free(bench->prompt);
    return code;
}

/* The built-in prompts as an array of texts, and their kinds beside them. */
static char **built_in(const struct bench_prompt *prompts, int count, const char ***kinds) {
    char **texts = text_alloc((size_t)count * sizeof *texts);
    *kinds = text_alloc((size_t)count * sizeof **kinds);
    for (int i = 0; i < count; i++) {
        texts[i] = text_copy(prompts[i].text);
        (*kinds)[i] = prompts[i].kind;
    }
    return texts;
}

static int with_prompts(struct bench_drafts *bench, char **texts, int count) {
    wane_model *model = NULL;
    struct model_wish wish = {.sequences = 1,
                              .decodes = true,
                              .drafts = true,
                              .certified = true,
                              .shadow = -1, /* a checked token is the dense one: it would hide a difference */
                              .least_context = bench->work.steps + 1024};
    int code = model_open(bench->settings, &wish, &model);
    if (code != EXIT_FINE) return code;
    wane_head_state head;
    wane_model_get_head_state(model, &head);
    bench->head = head.certified ? WANE_HEAD_CERTIFIED : WANE_HEAD_DENSE;
    code = run(bench, model, texts, count);
    wane_model_free(model);
    return code;
}

int bench_draft(const struct settings *settings) {
    struct bench_drafts bench = {.settings = settings,
                                 .rounds = setting_int(settings, SET_ROUNDS),
                                 .seed = 20260202,
                                 .work = {.steps = setting_int(settings, SET_TOKENS)}};
    if (settings->value[SET_TOKENS].source == FROM_DEFAULT) bench.work.steps = TOKENS;
    const char *name = setting_text(settings, SET_PROMPTS), **kinds = NULL;
    char **texts;
    int count;
    if (strcmp(setting_text(settings, SET_DRAFT), "off") == 0)
        return cli_usage("bench", "wane bench draft measures drafts; --draft off leaves nothing to measure");
    if (name == NULL)
        texts = built_in(bench_copies, count = bench_copy_count, &kinds);
    else if (strcmp(name, "novel") == 0)
        texts = built_in(bench_novel, count = bench_novel_count, &kinds);
    else
        texts = lines_read(name, &count);
    if (texts == NULL) return EXIT_FAILED;
    bench.kinds = kinds;
    interrupt_catch();
    bench.load = bench_load();
    int code = count > 0 ? with_prompts(&bench, texts, count) : EXIT_FAILED;
    lines_free(texts, count);
    free(kinds);
    return code;
}
