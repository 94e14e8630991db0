/*
 * cmd_bench.c - `wane bench decode`: rounds, medians, and what is printed of them.
 *
 * A round measures every set of prompts on both sides, by turns: the side that begins changes from set to set and
 * from round to round, so that a machine that warms up or slows down favours neither. A first round is not counted.
 * What is divided is wane's time by the engine's for one stream, and wane's throughput by the engine's for several.
 */
#include "bench.h"
#include "report.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STREAMS_MOST = 64, KINDS_MOST = 16 };

/* One width: how many streams, its rounds, and where the two sides part. */
struct width {
    int streams;
    int sets;                    /* of prompts, measured in each round */
    double *engine_ms, *wane_ms; /* a token of each stream, by round   */
    bool differs;
    int differs_stream, differs_at; /* the first difference of ids        */
    int32_t differs_engine, differs_wane;
};

struct bench {
    const struct settings *settings;
    struct bench_work work;
    struct width width[KINDS_MOST];
    int widths, rounds, steps;
    double load; /* of the machine, before */
    int32_t *engine_ids, *wane_ids;
};

/* "1", "1,4", "both". */
static bool parse_streams(struct bench *bench, const char *text) {
    if (strcmp(text, "both") == 0) text = "1,4";
    while (bench->widths < KINDS_MOST) {
        char *end;
        long number = strtol(text, &end, 10);
        if (end == text || number < 1 || number > STREAMS_MOST) return false;
        bench->width[bench->widths++].streams = (int)number;
        if (*end == '\0') return true;
        if (*end != ',') return false;
        text = end + 1;
    }
    return false;
}

static int widest(const struct bench *bench) {
    int most = 1;
    for (int i = 0; i < bench->widths; i++)
        if (bench->width[i].streams > most) most = bench->width[i].streams;
    return most;
}

static void compare(const struct bench *bench, struct width *width, int first) {
    size_t count = (size_t)width->streams * (size_t)bench->steps;
    for (size_t i = 0; i < count && !width->differs; i++) {
        if (bench->engine_ids[i] == bench->wane_ids[i]) continue;
        width->differs = true;
        width->differs_stream = first + (int)(i / (size_t)bench->steps);
        width->differs_at = (int)(i % (size_t)bench->steps);
        width->differs_engine = bench->engine_ids[i];
        width->differs_wane = bench->wane_ids[i];
    }
}

/* Both sides on one set of prompts; adds to the sums. */
static int measure_set(struct bench *bench, struct width *width, int set, bool wane_first, double *engine_ms,
                       double *wane_ms, wane_error *error) {
    int first = width->streams == 1 ? set : 0;
    struct bench_run engine = {.ids = bench->engine_ids}, wane = {.ids = bench->wane_ids};
    for (int turn = 0; turn < 2; turn++) {
        bool now_wane = (turn == 0) == wane_first;
        int result = now_wane ? bench_wane(&bench->work, first, width->streams, &wane, error)
                              : bench_engine(&bench->work, first, width->streams, &engine, error);
        if (result != WANE_OK) return result;
        if (interrupt_seen()) {
            *error = (wane_error){.code = WANE_ECANCELLED};
            return WANE_ECANCELLED;
        }
    }
    *engine_ms += engine.ms;
    *wane_ms += wane.ms;
    compare(bench, width, first);
    return WANE_OK;
}

/* Round -1 warms up: weights, caches and threads, for which one set will do. */
static int measure_round(struct bench *bench, int width_index, int round, wane_error *error) {
    struct width *width = &bench->width[width_index];
    double engine_ms = 0, wane_ms = 0;
    int parts = bench->widths * (bench->rounds + 1);
    for (int set = 0; set < width->sets; set++) {
        char what[80];
        double share = (width_index * (bench->rounds + 1) + round + 1 + (double)set / width->sets) / parts;
        if (round < 0)
            snprintf(what, sizeof what, "%d stream%s: warming up", width->streams,
                     width->streams > 1 ? "s" : "");
        else
            snprintf(what, sizeof what, "%d stream%s: round %d of %d", width->streams,
                     width->streams > 1 ? "s" : "", round + 1, bench->rounds);
        progress_show(what, share);
        bool wane_first = (round + set) % 2 != 0;
        int result = measure_set(bench, width, set, wane_first, &engine_ms, &wane_ms, error);
        if (result != WANE_OK || round < 0) return result;
    }
    width->engine_ms[round] = engine_ms / width->sets / bench->steps;
    width->wane_ms[round] = wane_ms / width->sets / bench->steps;
    return WANE_OK;
}

static int measure(struct bench *bench, wane_error *error) {
    int result = WANE_OK;
    for (int i = 0; i < bench->widths; i++) {
        struct width *width = &bench->width[i];
        width->sets = width->streams == 1 ? bench_prompt_count : 1;
        width->engine_ms = text_alloc((size_t)bench->rounds * sizeof *width->engine_ms);
        width->wane_ms = text_alloc((size_t)bench->rounds * sizeof *width->wane_ms);
        for (int round = -1; round < bench->rounds && result == WANE_OK; round++)
            result = measure_round(bench, i, round, error);
    }
    progress_clear();
    return result;
}

/* ---- results ------------------------------------------------------------------------------------------------------- */

static double median_of(const double *values, int count) {
    double *copy = text_alloc((size_t)count * sizeof *copy);
    memcpy(copy, values, (size_t)count * sizeof *copy);
    double median = bench_median(copy, count);
    free(copy);
    return median;
}

static json_t *rounds_json(const double *values, int count) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(list, json_ms(values[i]));
    return list;
}

static json_t *width_json(const struct bench *bench, const struct width *width) {
    double engine = median_of(width->engine_ms, bench->rounds),
           wane = median_of(width->wane_ms, bench->rounds);
    json_t *all = json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "streams", width->streams,
                            "engine_ms", json_ms(engine), "wane_ms", json_ms(wane),
                            "engine_tokens_per_second", json_ms(1e3 * width->streams / engine),
                            "wane_tokens_per_second", json_ms(1e3 * width->streams / wane), "ratio",
                            json_ms(width->streams == 1 ? wane / engine : engine / wane), "engine_rounds_ms",
                            rounds_json(width->engine_ms, bench->rounds), "wane_rounds_ms",
                            rounds_json(width->wane_ms, bench->rounds), "identical", !width->differs);
    json_t *where = json_null();
    if (width->differs)
        where = json_pack("{s:s, s:i, s:i, s:i, s:i}", "prompt",
                          bench_prompts[width->differs_stream % bench_prompt_count].kind, "stream",
                          width->differs_stream, "position", width->differs_at, "engine",
                          width->differs_engine, "wane", width->differs_wane);
    json_object_set_new(all, "first_difference", where);
    return all;
}

static void print_json(const struct bench *bench) {
    const wane_model_facts *facts = wane_model_get_facts(bench->work.model);
    json_t *all = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:o}", "bench", "decode", "wane",
                            wane_version(), "engine", wane_engine_version(), "model", facts->name,
                            "description", facts->description, "threads", facts->threads, "tokens",
                            bench->steps, "rounds", bench->rounds, "load", json_ms(bench->load));
    json_t *list = json_array();
    for (int i = 0; i < bench->widths; i++) {
        json_t *one = width_json(bench, &bench->width[i]);
        /* One stream is the headline: its figures stand at the top, too. */
        if (bench->width[i].streams == 1) json_object_update_missing(all, one);
        json_array_append_new(list, one);
    }
    json_t *prompts = json_array();
    for (int i = 0; i < bench_prompt_count; i++)
        json_array_append_new(prompts, json_string(bench_prompts[i].kind));
    json_object_set_new(all, "prompts", prompts);
    json_object_set_new(all, "streams", list);
    out_json(all, false);
}

static void print_text(const struct bench *bench) {
    const wane_model_facts *facts = wane_model_get_facts(bench->work.model);
    out_format("%s (%s), %d threads, %d tokens, %d rounds\n\n", facts->name, facts->description,
               facts->threads, bench->steps, bench->rounds);
    out_format("%7s  %12s  %12s  %12s  %12s  %s\n", "streams", "engine ms", "wane ms", "engine t/s",
               "wane t/s", "ratio");
    for (int i = 0; i < bench->widths; i++) {
        const struct width *width = &bench->width[i];
        double engine = median_of(width->engine_ms, bench->rounds),
               wane = median_of(width->wane_ms, bench->rounds);
        double ratio = width->streams == 1 ? wane / engine : engine / wane;
        out_format("%7d  %12.3f  %12.3f  %12.1f  %12.1f  %.3f of the engine's %s\n", width->streams, engine,
                   wane, 1e3 * width->streams / engine, 1e3 * width->streams / wane, ratio,
                   width->streams == 1 ? "time" : "throughput");
    }
    for (int i = 0; i < bench->widths; i++) {
        const struct width *width = &bench->width[i];
        if (!width->differs)
            out_format("\nWith %d, the greedy tokens are identical.\n", width->streams);
        else
            out_format("\nWith %d, the greedy tokens part: prompt %s, token %d: engine %d, wane %d.\n",
                       width->streams, bench_prompts[width->differs_stream % bench_prompt_count].kind,
                       width->differs_at, width->differs_engine, width->differs_wane);
    }
}

/* Other programs on the same cores make both sides slower, and not by the same factor. */
double bench_load(void) {
    double average[1];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    double load = getloadavg(average, 1) == 1 ? average[0] : 0;
    if (load > 0.5 * (double)(cores > 0 ? cores : 1))
        cli_say("the machine is busy (load %.1f on %ld cores): do not trust these figures", load, cores);
    return load;
}

static int bench_decode(struct bench *bench, wane_model *model) {
    int most = widest(bench);
    int count = most > bench_prompt_count ? most : bench_prompt_count;
    size_t ids = (size_t)most * (size_t)bench->steps;
    wane_error error = {0};
    bench->engine_ids = text_alloc(ids * sizeof *bench->engine_ids);
    bench->wane_ids = text_alloc(ids * sizeof *bench->wane_ids);
    int result = bench_work_open(&bench->work, model, NULL, 0, count, bench->steps, &error);
    if (result == WANE_OK) result = measure(bench, &error);
    int code = result == WANE_OK ? EXIT_FINE : cli_fail_wane(&error);
    if (code == EXIT_FINE && setting_on(bench->settings, SET_JSON)) print_json(bench);
    if (code == EXIT_FINE && !setting_on(bench->settings, SET_JSON)) print_text(bench);
    /* With one stream both sides run the same arithmetic: another token is a fault. */
    for (int i = 0; i < bench->widths; i++)
        if (code == EXIT_FINE && bench->width[i].streams == 1 && bench->width[i].differs)
            code = cli_fail(EXIT_FAILED, "wane's tokens are not the engine's");
    for (int i = 0; i < bench->widths; i++) {
        free(bench->width[i].engine_ms);
        free(bench->width[i].wane_ms);
    }
    bench_work_close(&bench->work);
    free(bench->engine_ids);
    free(bench->wane_ids);
    return code;
}

int command_bench(struct settings *settings) {
    static const struct {
        const char *word;
        int (*run)(const struct settings *settings);
    } parts[] = {{"head", bench_head},       {"draft", bench_draft},       {"memo", bench_memo},
                 {"layer", bench_layer},     {"governor", bench_governor}, {"protocol", bench_protocol},
                 {"compare", bench_compare}, {"report", bench_report}};
    const char *word = settings->operand_count > 0 ? settings->operands[0] : NULL;
    if (word == NULL)
        return cli_usage("bench", "wane bench needs a word: decode, head, draft, memo, layer, governor, "
                                  "protocol, compare or report");
    bool compares = strcmp(word, "compare") == 0 || strcmp(word, "report") == 0,
         decodes = strcmp(word, "decode") == 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(parts[i].word, word) == 0 && (settings->operand_count == 1 || compares))
            return parts[i].run(settings);
    if (!decodes || settings->operand_count > 1)
        return cli_usage(
            "bench",
            "wane bench knows decode, head, draft, memo, layer, governor, protocol, compare and report; "
            "got \"%.60s\"",
            settings->operands[settings->operand_count - 1]);
    struct bench bench = {.settings = settings,
                          .rounds = setting_int(settings, SET_ROUNDS),
                          .steps = setting_int(settings, SET_TOKENS)};
    if (!parse_streams(&bench, setting_text(settings, SET_STREAMS)))
        return cli_usage("bench",
                         "--streams is \"%.60s\"; it takes numbers from 1 to %d with commas, or both",
                         setting_text(settings, SET_STREAMS), STREAMS_MOST);
    interrupt_catch();
    bench.load = bench_load();
    wane_model *model = NULL;
    /* Room for the longest prompt, the tokens, and the lead of early streams; memory is a sequence's context times streams. */
    struct model_wish wish = {.sequences = widest(&bench),
                              .decodes = true,
                              .least_context = bench.steps + 640 + 16 * widest(&bench)};
    int code = model_open(settings, &wish, &model);
    if (code == EXIT_FINE) code = bench_decode(&bench, model);
    wane_model_free(model);
    return code;
}
