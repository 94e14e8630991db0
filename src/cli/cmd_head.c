/*
 * cmd_head.c - `wane head`: make a model's sketch anew, say what it is, check it against the dense head.
 */
#include "bench.h"
#include "text.h"

#include <string.h>

static const char *form(const wane_head_state *state) {
    return state->certified ? "certified" : "dense";
}

static json_t *state_json(wane_model *model, const wane_head_state *s, const char *digest) {
    const wane_model_facts *f = wane_model_get_facts(model);
    json_t *all =
        json_pack("{s:s, s:s, s:s, s:s, s:i, s:i}", "model", f->name, "digest", digest, "head", form(s),
                  "reason", s->reason, "vocab_size", f->vocab_size, "embedding_size", f->embedding_size);
    if (!s->certified) return all;
    json_t *sketch =
        json_pack("{s:s, s:s, s:f, s:f, s:I, s:I, s:b, s:f, s:f}", "path", s->path, "kernel", s->kernel,
                  "bits_level1", s->bits_level1, "bits_level2", s->bits_level2, "bytes", (json_int_t)s->bytes,
                  "statistics_rows", (json_int_t)s->statistics_rows, "built", s->built, "sigmas", s->sigmas,
                  "failure_probability", s->failure_probability);
    json_object_update(all, sketch);
    json_decref(sketch);
    return all;
}

static void print_state(wane_model *model, const wane_head_state *s, const char *digest) {
    const wane_model_facts *f = wane_model_get_facts(model);
    out_format("model         %s\ndigest        %s\n", f->name, digest);
    out_format("head          %s%s%s\n", form(s), s->reason[0] != '\0' ? ": " : "", s->reason);
    out_format("shape         %d tokens, %d wide\n", f->vocab_size, f->embedding_size);
    if (!s->certified) return;
    out_format("sketch        %s\n", s->path);
    out_format("bits          %.3g + %.3g a weight\nsize          %.1f MB\nkernel        %s\n",
               s->bits_level1, s->bits_level2, (double)s->bytes / 1e6, s->kernel);
    out_format("k             %g: misses a given token with probability %.2g\n", s->sigmas,
               s->failure_probability);
    out_format("statistics    %lld hidden rows\n", (long long)s->statistics_rows);
}

static int show(const struct settings *settings, wane_model *model) {
    wane_head_state state;
    char digest[33];
    wane_error error = {0};
    wane_model_get_head_state(model, &state);
    if (wane_model_digest(model, digest, &error) != WANE_OK) return cli_fail_wane(&error);
    if (setting_on(settings, SET_JSON))
        out_json(state_json(model, &state, digest), false);
    else
        print_state(model, &state, digest);
    return EXIT_FINE;
}

/* ---- verify -------------------------------------------------------------------------------------------------------- */

/* Every prompt with one sampler; each token is checked by the library, because --shadow is 1. */
static int decode_all(struct bench_work *work, int sampler, int32_t *ids, wane_error *error) {
    for (int i = 0; i < work->count; i++) {
        struct bench_run run = {.ids = ids};
        progress_show("checking", (sampler + (double)i / work->count) / 3);
        int result = bench_wane(work, i, 1, &run, error);
        if (result != WANE_OK) return result;
    }
    return WANE_OK;
}

static int verify(const struct settings *settings, wane_model *model) {
    static const float temperature[3] = {0, 0.8f, 0.8f};
    static const int top_k[3] = {40, 40, 0};
    static const float min_p[3] = {0.05f, 0.05f, 0};
    wane_head_state state;
    wane_error error = {0};
    wane_model_get_head_state(model, &state);
    if (!state.certified) return cli_fail(EXIT_FAILED, "there is no certified head: %s", state.reason);
    struct bench_work work;
    int steps = setting_int(settings, SET_TOKENS);
    int32_t *ids = text_alloc((size_t)steps * sizeof *ids);
    int result = bench_work_open(&work, model, NULL, 0, bench_prompt_count, steps, &error);
    for (int i = 0; i < 3 && result == WANE_OK; i++) {
        work.sampling.temperature = temperature[i];
        work.sampling.top_k = top_k[i];
        work.sampling.min_p = min_p[i];
        result = decode_all(&work, i, ids, &error);
    }
    progress_clear();
    bench_work_close(&work);
    free(ids);
    if (result != WANE_OK) return cli_fail_wane(&error);
    wane_model_get_head_state(model, &state);
    if (setting_on(settings, SET_JSON))
        out_json(json_pack("{s:s, s:i, s:i, s:I, s:I}", "model", wane_model_get_facts(model)->name, "prompts",
                           bench_prompt_count, "samplers", 3, "tokens", (json_int_t)state.shadow_checks,
                           "divergent", (json_int_t)state.divergences),
                 false);
    else
        out_format("%llu tokens of %d prompts and 3 samplers: %llu divergent\n",
                   (unsigned long long)state.shadow_checks, bench_prompt_count,
                   (unsigned long long)state.divergences);
    if (state.divergences > 0)
        return cli_fail(EXIT_FAILED,
                        "the certified head's tokens are not the dense head's; run: wane head build");
    return EXIT_FINE;
}

int command_head(struct settings *settings) {
    const char *what = settings->operand_count > 0 ? settings->operands[0] : NULL;
    if (what == NULL) return cli_usage("head", "wane head needs build, info, verify or statistics");
    bool is_build = strcmp(what, "build") == 0, is_info = strcmp(what, "info") == 0;
    bool is_verify = strcmp(what, "verify") == 0, is_statistics = strcmp(what, "statistics") == 0;
    if ((!is_build && !is_info && !is_verify && !is_statistics) || settings->operand_count > 1)
        return cli_usage("head", "wane head knows build, info, verify and statistics; got \"%.60s\"",
                         settings->operands[settings->operand_count - 1]);
    if (is_statistics) return head_statistics(settings);
    interrupt_catch();
    wane_model *model = NULL;
    struct model_wish wish = {.decodes = true,
                              .certified = true,
                              .always = is_verify,
                              .rebuild = is_build,
                              .shadow = is_verify ? 1 : -1};
    int code = model_open(settings, &wish, &model);
    if (code != EXIT_FINE) return code;
    code = is_verify ? verify(settings, model) : show(settings, model);
    wane_model_free(model);
    return code;
}
