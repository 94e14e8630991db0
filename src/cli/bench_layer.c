/*
 * bench_layer.c - `wane bench layer`: what the quality layer costs, and what it changes.
 *
 * One loaded model and one scheduler; the same seeded requests go through it in the modes off, legacy and wane by turns, at several
 * widths. Beside the figures stand what the method's originals claimed of theirs. Then one stream at growing lengths of context.
 */
#include "bench_clients.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LAYER_MODES = 3,
    WIDTHS_MOST = 8,
    LENGTHS_MOST = 5,
    STREAMS_MOST = 21
}; /* three answers each: at most 63 sequences */

static const int modes[LAYER_MODES] = {WANE_MODE_OFF, WANE_MODE_LEGACY, WANE_MODE_WANE};
enum { OFF, LEGACY, WANE };

struct length {
    int tokens;
    double ms[LAYER_MODES]; /* a token, median of the rounds */
};

struct layer {
    const struct settings *settings;
    struct bench_work work;
    wane_scheduler *scheduler;
    wane_quality quality[LAYER_MODES];
    int width[WIDTHS_MOST], widths;
    int rounds, each; /* requests of a round, at each width: `each` for a stream */
    struct client_cell cell[WIDTHS_MOST][LAYER_MODES];
    struct length length[LENGTHS_MOST];
    int lengths;
    double load;
    wane_correction_state corrected[LAYER_MODES]; /* counted while each mode ran */
    wane_gate_state gate;
};

/* ---- measuring ----------------------------------------------------------------------------------------------------- */

static int parse_widths(struct layer *layer, const char *text) {
    while (layer->widths < WIDTHS_MOST) {
        char *end;
        long number = strtol(text, &end, 10);
        if (end == text || number < 1 || number > STREAMS_MOST || (*end != '\0' && *end != ',')) break;
        layer->width[layer->widths++] = (int)number;
        if (*end == '\0') return EXIT_FINE;
        text = end + 1;
    }
    return cli_usage("bench",
                     "--streams is \"%.60s\"; bench layer takes up to %d numbers from 1 to %d with commas",
                     setting_text(layer->settings, SET_STREAMS), WIDTHS_MOST, STREAMS_MOST);
}

static int widest(struct layer *layer) {
    int most = 1;
    for (int i = 0; i < layer->widths; i++)
        if (layer->width[i] > most) most = layer->width[i];
    return most;
}

static void add_part(wane_correction_part *sum, const wane_correction_part *before,
                     const wane_correction_part *after) {
    sum->ran += after->ran - before->ran;
    sum->changed += after->changed - before->changed;
}

/* What was counted from `before` to `after`, added to `sum`. */
static void add_corrections(wane_correction_state *sum, const wane_correction_state *before,
                            const wane_correction_state *after) {
    sum->tokens += after->tokens - before->tokens;
    sum->changed += after->changed - before->changed;
    sum->draws += after->draws - before->draws;
    add_part(&sum->clamp, &before->clamp, &after->clamp);
    add_part(&sum->dialogue, &before->dialogue, &after->dialogue);
    add_part(&sum->vote, &before->vote, &after->vote);
    add_part(&sum->rules, &before->rules, &after->rules);
}

static int measure_cell(struct layer *layer, int w, int m, int round, wane_error *error) {
    struct client_cell *cell = &layer->cell[w][m], warm = {.request = cell->request};
    int count = layer->width[w] * layer->each;
    struct client_load load = {
        .model = layer->work.model,
        .scheduler = layer->scheduler,
        .work = &layer->work,
        .quality = m == OFF ? NULL : &layer->quality[m],
        .streams = layer->width[w],
        .spread = layer->settings->value[SET_SPREAD].real,
        .first = round < 0 ? 0 : round * count,
        .count = round < 0 ? layer->width[w] : count,
    };
    wane_correction_state before, after;
    wane_model_get_correction_state(layer->work.model, &before);
    int code = clients_run(&load, round < 0 ? &warm : cell, error);
    wane_model_get_correction_state(layer->work.model, &after);
    if (round < 0) {
        client_cell_close(&warm);
    } else {
        add_corrections(&layer->corrected[m], &before, &after);
    }
    return code;
}

static int measure_widths(struct layer *layer, wane_error *error) {
    int code = WANE_OK;
    for (int w = 0; w < layer->widths && code == WANE_OK; w++) {
        for (int round = -1; round < layer->rounds && code == WANE_OK; round++) {
            for (int i = 0; i < LAYER_MODES && code == WANE_OK; i++) {
                char what[80];
                int m = (i + round + 1) % LAYER_MODES;
                snprintf(what, sizeof what, "%d stream%s, %s", layer->width[w],
                         layer->width[w] > 1 ? "s" : "", wane_mode_name(modes[m]));
                progress_show(what, (w + (round + 1 + (double)i / LAYER_MODES) / (layer->rounds + 1)) /
                                        layer->widths);
                code = measure_cell(layer, w, m, round, error);
            }
        }
    }
    progress_clear();
    return code;
}

/* One stream behind a context of about so many tokens: the built-in prompts over and over. */
static int measure_length(struct layer *layer, struct length *length, wane_error *error) {
    struct client_cell cell = {.request = text_alloc(sizeof *cell.request)};
    struct bench_work long_work = layer->work;
    wane_tokens prompt = {0};
    double ms[LAYER_MODES][16];
    int rounds = layer->rounds < 16 ? layer->rounds : 16, code = WANE_OK;
    bench_long_prompt(&layer->work, length->tokens, &prompt);
    long_work.prompts = &prompt;
    long_work.count = 1;
    for (int round = -1; round < rounds && code == WANE_OK; round++) {
        for (int i = 0; i < LAYER_MODES && code == WANE_OK; i++) {
            int m = (i + round + 1) % LAYER_MODES;
            struct client_load load = {.model = layer->work.model,
                                       .scheduler = layer->scheduler,
                                       .work = &long_work,
                                       .quality = m == OFF ? NULL : &layer->quality[m],
                                       .streams = 1,
                                       .count = 1};
            cell.gap_ms.count = 0;
            code = clients_run(&load, &cell, error);
            if (round >= 0) ms[m][round] = numbers_quantile(&cell.gap_ms, 0.5);
        }
    }
    for (int m = 0; m < LAYER_MODES && code == WANE_OK; m++) length->ms[m] = bench_median(ms[m], rounds);
    free(prompt.id);
    client_cell_free(&cell, 1);
    return code;
}

/* ---- results ------------------------------------------------------------------------------------------------------- */

/* Of all widths together. */
struct sum {
    uint64_t decoded, delivered, requests, votes, changed;
};

static struct sum sum_of(struct layer *layer, int m) {
    struct sum sum = {0};
    for (int w = 0; w < layer->widths; w++) {
        const struct client_cell *cell = &layer->cell[w][m];
        sum.decoded += cell->decoded;
        sum.delivered += cell->delivered;
        sum.requests += cell->requests;
        sum.votes += cell->votes;
        sum.changed += cell->votes_changed;
    }
    return sum;
}

static double share(uint64_t part, uint64_t whole) {
    return whole > 0 ? (double)part / (double)whole : 0;
}

/* Requests whose text that stands is the same in both modes. */
static double agreement(struct layer *layer, int a, int b) {
    uint64_t same = 0, all = 0;
    for (int w = 0; w < layer->widths; w++) {
        int count = layer->width[w] * layer->each * layer->rounds;
        for (int i = 0; i < count; i++) {
            const struct client_request *x = &layer->cell[w][a].request[i],
                                        *y = &layer->cell[w][b].request[i];
            if (x->text == NULL || y->text == NULL) continue;
            all++;
            same += x->text_size == y->text_size && memcmp(x->text, y->text, x->text_size) == 0;
        }
    }
    return share(same, all);
}

/* Time a token, as two quantities: of a reply (the mean of its gaps), and of single gaps. */
enum per { PER_REPLY, PER_GAP };

static struct numbers *times_of(struct client_cell *cell, enum per per) {
    return per == PER_REPLY ? &cell->tpot_ms : &cell->gap_ms;
}

/*
 * How many streams wane carries where its slowest twentieth of replies, or gaps, is as slow as legacy's at `streams`: between two widths the
 * 95th percentile is taken to grow in a straight line of the logarithms. Below the narrowest or beyond the widest: that one.
 */
static double streams_at(struct layer *layer, int m, enum per per, double p95) {
    double before_ms = 0, before = 0;
    for (int w = 0; w < layer->widths; w++) {
        double ms = numbers_quantile(times_of(&layer->cell[w][m], per), 0.95);
        double streams = layer->width[w];
        if (ms >= p95) {
            if (w == 0 || ms <= before_ms) return streams;
            return before * pow(streams / before, log(p95 / before_ms) / log(ms / before_ms));
        }
        before_ms = ms;
        before = streams;
    }
    return before;
}

static void times_json(json_t *cell, const char *name, struct numbers *ms) {
    static const struct {
        const char *name;
        double p;
    } quantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}};
    char key[32];
    for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++) {
        snprintf(key, sizeof key, "%s_%s_ms", name, quantiles[i].name);
        json_object_set_new(cell, key, json_ms(numbers_quantile(ms, quantiles[i].p)));
    }
    snprintf(key, sizeof key, "%s_deviation_ms", name);
    json_object_set_new(cell, key, json_ms(numbers_deviation(ms)));
}

static json_t *cell_json(struct layer *layer, int w, int m) {
    struct client_cell *cell = &layer->cell[w][m];
    json_t *all = json_pack("{s:s, s:i, s:o, s:o, s:o, s:o}", "mode", wane_mode_name(modes[m]), "requests",
                            (int)cell->requests, "qps", json_ms((double)cell->requests / cell->seconds),
                            "ttft_ms", json_ms(numbers_quantile(&cell->first_ms, 0.5)), "whole_ms",
                            json_ms(numbers_quantile(&cell->whole_ms, 0.5)), "decoded_per_delivered",
                            json_ms(share(cell->decoded, cell->delivered)));
    json_object_set_new(all, "whole_deviation_ms", json_ms(numbers_deviation(&cell->whole_ms)));
    times_json(all, "tpot", &cell->tpot_ms);
    times_json(all, "itl", &cell->gap_ms);
    return all;
}

static json_t *part_json(const wane_correction_part *part) {
    return json_pack("{s:I, s:I}", "ran", (json_int_t)part->ran, "changed", (json_int_t)part->changed);
}

static json_t *mode_json(struct layer *layer, int m) {
    struct sum sum = sum_of(layer, m);
    const wane_correction_state *c = &layer->corrected[m];
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "mode",
                     wane_mode_name(modes[m]), "requests", (json_int_t)sum.requests, "tokens",
                     (json_int_t)sum.delivered, "votes", (json_int_t)sum.votes, "votes_changed",
                     (json_int_t)sum.changed, "decoded_per_delivered",
                     json_ms(share(sum.decoded, sum.delivered)), "corrected_tokens", (json_int_t)c->tokens,
                     "changed_tokens", (json_int_t)c->changed, "draws", (json_int_t)c->draws, "clamp",
                     part_json(&c->clamp), "dialogue", part_json(&c->dialogue), "vote", part_json(&c->vote),
                     "rules", part_json(&c->rules));
}

/* What the originals said of theirs, and what was seen here at the same comparison: wane against legacy. */
struct claim {
    const char *what, *claimed;
    double seen;
};

enum { CLAIMS = 9 };

static double more(double wane, double legacy) {
    return 100 * (wane / legacy - 1);
}

static int claims_of(struct layer *layer, struct claim out[CLAIMS]) {
    int w = 0;
    for (int i = 0; i < layer->widths; i++)
        if (layer->width[i] <= 4) w = i;
    struct client_cell *l = &layer->cell[w][LEGACY], *x = &layer->cell[w][WANE];
    struct sum wane = sum_of(layer, WANE);
    double carried[2];
    for (enum per per = PER_REPLY; per <= PER_GAP; per++)
        carried[per] = streams_at(layer, WANE, per, numbers_quantile(times_of(l, per), 0.95));
    out[0] =
        (struct claim){"streams at equal p95 of replies", "+37 %", more(carried[PER_REPLY], layer->width[w])};
    out[1] = (struct claim){"streams at equal p95 of gaps", "+37 %", more(carried[PER_GAP], layer->width[w])};
    out[2] = (struct claim){"ms a token, median", "-29 to -37 ms of 41.7",
                            numbers_quantile(&x->tpot_ms, 0.5) - numbers_quantile(&l->tpot_ms, 0.5)};
    out[3] = (struct claim){"requests a second", "+11 to +25.8 %",
                            more((double)x->requests / x->seconds, (double)l->requests / l->seconds)};
    out[4] = (struct claim){"deviation of replies' ms a token", "-38.7 %",
                            more(numbers_deviation(&x->tpot_ms), numbers_deviation(&l->tpot_ms))};
    out[5] = (struct claim){"deviation of gaps", "-38.7 %",
                            more(numbers_deviation(&x->gap_ms), numbers_deviation(&l->gap_ms))};
    out[6] = (struct claim){"deviation of whole answers", "-38.7 %",
                            more(numbers_deviation(&x->whole_ms), numbers_deviation(&l->whole_ms))};
    out[7] = (struct claim){"whole answer", "-24.1 %",
                            more(numbers_quantile(&x->whole_ms, 0.5), numbers_quantile(&l->whole_ms, 0.5))};
    out[8] = (struct claim){"requests with a wake", "at most 3.7 %", 100 * share(wane.votes, wane.requests)};
    return layer->width[w];
}

static void print_json(struct layer *layer) {
    const wane_model_facts *facts = wane_model_get_facts(layer->work.model);
    struct claim claim[CLAIMS];
    json_t *cells = json_array(), *all_modes = json_array(), *lengths = json_array(), *claims = json_array(),
           *wakes = json_object();
    int at = claims_of(layer, claim);
    for (int w = 0; w < layer->widths; w++) {
        json_t *row = json_pack("{s:i}", "streams", layer->width[w]);
        json_t *list = json_array();
        for (int m = 0; m < LAYER_MODES; m++) json_array_append_new(list, cell_json(layer, w, m));
        json_object_set_new(row, "modes", list);
        json_array_append_new(cells, row);
    }
    for (int m = 0; m < LAYER_MODES; m++) json_array_append_new(all_modes, mode_json(layer, m));
    for (int i = 0; i < layer->lengths; i++)
        json_array_append_new(lengths, json_pack("{s:i, s:o, s:o, s:o}", "context", layer->length[i].tokens,
                                                 "off_ms", json_ms(layer->length[i].ms[OFF]), "legacy_ms",
                                                 json_ms(layer->length[i].ms[LEGACY]), "wane_ms",
                                                 json_ms(layer->length[i].ms[WANE])));
    for (int i = 0; i < CLAIMS; i++)
        json_array_append_new(claims, json_pack("{s:s, s:s, s:o}", "what", claim[i].what, "claimed",
                                                claim[i].claimed, "seen", json_ms(claim[i].seen)));
    for (int i = WANE_WAKE_NONE + 1; i < WANE_WAKES; i++)
        json_object_set_new(wakes, wane_wake_name(i), json_integer((json_int_t)layer->gate.wakes[i]));
    json_t *all =
        json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:f, s:i, s:i, s:o, s:b, s:i}", "bench", "layer",
                  "wane", wane_version(), "engine", wane_engine_version(), "model", facts->name, "threads",
                  facts->threads, "prompt_chunk", setting_int(layer->settings, SET_PROMPT_CHUNK),
                  "prompt_share", setting_int(layer->settings, SET_PROMPT_SHARE), "tokens", layer->work.steps,
                  "spread", layer->settings->value[SET_SPREAD].real, "each", layer->each, "rounds",
                  layer->rounds, "load", json_ms(layer->load), "gate", layer->gate.given, "claims_at_streams",
                  at);
    json_object_set_new(all, "streams", cells);
    json_object_set_new(all, "modes", all_modes);
    json_object_set_new(all, "wakes", wakes);
    json_object_set_new(all, "agreement",
                        json_pack("{s:o, s:o, s:o}", "wane_legacy", json_ms(agreement(layer, WANE, LEGACY)),
                                  "wane_off", json_ms(agreement(layer, WANE, OFF)), "legacy_off",
                                  json_ms(agreement(layer, LEGACY, OFF))));
    json_object_set_new(all, "lengths", lengths);
    json_object_set_new(all, "claims", claims);
    out_json(all, false);
}

static void print_times(struct numbers *ms) {
    out_format("  %8.2f  %8.2f  %8.2f  %8.2f  %9.2f\n", numbers_quantile(ms, 0.5), numbers_quantile(ms, 0.9),
               numbers_quantile(ms, 0.95), numbers_quantile(ms, 0.99), numbers_deviation(ms));
}

static void print_widths(struct layer *layer) {
    out_format("streams  mode    requests     qps  ttft ms  whole ms  deviation  decoded\n");
    for (int w = 0; w < layer->widths; w++)
        for (int m = 0; m < LAYER_MODES; m++) {
            struct client_cell *cell = &layer->cell[w][m];
            out_format("%7d  %-6s  %8d  %6.2f  %7.0f  %8.0f  %7.2f\n", layer->width[w],
                       wane_mode_name(modes[m]), (int)cell->requests, (double)cell->requests / cell->seconds,
                       numbers_quantile(&cell->first_ms, 0.5), numbers_quantile(&cell->whole_ms, 0.5),
                       share(cell->decoded, cell->delivered));
        }
    for (enum per per = PER_REPLY; per <= PER_GAP; per++) {
        out_format("\n%s\nstreams  mode         p50       p90       p95       p99  deviation\n",
                   per == PER_REPLY ? "ms a token of a reply (TPOT)" : "ms between two tokens (ITL)");
        for (int w = 0; w < layer->widths; w++)
            for (int m = 0; m < LAYER_MODES; m++) {
                out_format("%7d  %-6s", layer->width[w], wane_mode_name(modes[m]));
                print_times(times_of(&layer->cell[w][m], per));
            }
    }
}

static void print_text(struct layer *layer) {
    const wane_model_facts *facts = wane_model_get_facts(layer->work.model);
    struct claim claim[CLAIMS];
    out_format("%s (%s), %d threads, %d tokens, %d rounds\n\n", facts->name, facts->description,
               facts->threads, layer->work.steps, layer->rounds);
    print_widths(layer);
    for (int i = 0; i < layer->lengths; i++)
        out_format("%s%6d tokens of context: off %.2f, legacy %.2f, wane %.2f ms a token\n",
                   i == 0 ? "\n" : "", layer->length[i].tokens, layer->length[i].ms[OFF],
                   layer->length[i].ms[LEGACY], layer->length[i].ms[WANE]);
    out_format("\n");
    for (int m = LEGACY; m < LAYER_MODES; m++) {
        struct sum sum = sum_of(layer, m);
        const wane_correction_state *c = &layer->corrected[m];
        out_format("%-6s  %d of %d requests voted on, another answer stood in %d; %.1f %% of tokens changed "
                   "(clamp %d, "
                   "dialogue %d, vote %d, rules %d)\n",
                   wane_mode_name(modes[m]), (int)sum.votes, (int)sum.requests, (int)sum.changed,
                   100 * share(c->changed, c->tokens), (int)c->clamp.changed, (int)c->dialogue.changed,
                   (int)c->vote.changed, (int)c->rules.changed);
    }
    out_format("wakes  ");
    for (int i = WANE_WAKE_NONE + 1; i < WANE_WAKES; i++)
        out_format(" %s %d", wane_wake_name(i), (int)layer->gate.wakes[i]);
    out_format("\nthe same answer: wane and legacy %.1f %%, wane and off %.1f %%\n",
               100 * agreement(layer, WANE, LEGACY), 100 * agreement(layer, WANE, OFF));
    int at = claims_of(layer, claim);
    out_format("\nwane against legacy at %d streams    claimed                   here\n", at);
    for (int i = 0; i < CLAIMS; i++)
        out_format("  %-32s  %-24s  %+.1f%s\n", claim[i].what, claim[i].claimed, claim[i].seen,
                   i == 2 ? " ms" : " %");
}

/* ---- the command --------------------------------------------------------------------------------------------------- */

static void close_layer(struct layer *layer) {
    wane_scheduler_free(layer->scheduler);
    for (int w = 0; w < layer->widths; w++) {
        for (int m = 0; m < LAYER_MODES; m++) {
            client_cell_free(&layer->cell[w][m], layer->width[w] * layer->each * layer->rounds);
        }
    }
    bench_work_close(&layer->work);
}

static int open_layer(struct layer *layer, wane_model *model, wane_error *error) {
    wane_scheduler_options options;
    wane_scheduler_options_init(&options);
    options.max_batch_requests = 64;
    options.no_prefix_reuse =
        true; /* a prompt that was just computed would be free, for whoever comes second */
    options.drill = true;
    options.practice_ms = setting_int(layer->settings, SET_DRAFT_PRACTICE);
    options.prompt_chunk = setting_int(layer->settings, SET_PROMPT_CHUNK);
    options.prompt_share = setting_int(layer->settings, SET_PROMPT_SHARE);
    int code = bench_work_open(&layer->work, model, NULL, 0, bench_prompt_count,
                               setting_int(layer->settings, SET_TOKENS), error);
    bench_set_sampler(&layer->work.sampling, "default");
    for (int m = 0; m < LAYER_MODES; m++) {
        quality_from(layer->settings, &layer->quality[m]);
        layer->quality[m].mode = modes[m];
    }
    for (int w = 0; w < layer->widths; w++)
        for (int m = 0; m < LAYER_MODES; m++)
            layer->cell[w][m].request = text_alloc((size_t)(layer->width[w] * layer->each * layer->rounds) *
                                                   sizeof *layer->cell[w][m].request);
    return code == WANE_OK ? wane_scheduler_new(model, &options, &layer->scheduler, error) : code;
}

static int add_lengths(struct layer *layer, int most) {
    static const int wanted[LENGTHS_MOST] = {1024, 4096, 8192, 16384, 32768};
    int count = setting_on(layer->settings, SET_LONG)      ? LENGTHS_MOST
                : setting_on(layer->settings, SET_LENGTHS) ? LENGTHS_MOST - 2
                                                           : 0;
    for (int i = 0; i < count; i++)
        if (wanted[i] + layer->work.steps < most) layer->length[layer->lengths++].tokens = wanted[i];
    return layer->lengths;
}

/* The lengths, on the model loaded anew: a sequence's memory is as long as the longest. */
static int measure_lengths(struct layer *layer, wane_error *error) {
    int code = WANE_OK;
    for (int i = 0; i < layer->lengths && code == WANE_OK; i++) {
        char what[60];
        snprintf(what, sizeof what, "%d tokens of context", layer->length[i].tokens);
        progress_show(what, (double)i / layer->lengths);
        code = measure_length(layer, &layer->length[i], error);
    }
    progress_clear();
    return code;
}

static int open_model(struct layer *layer, int sequences, int context, wane_model **model) {
    struct model_wish wish = {.sequences = sequences,
                              .decodes = true,
                              .drafts = true,
                              .least_context = context};
    int code = model_open(layer->settings, &wish, model);
    unsigned all = 0;
    for (int m = 0; m < LAYER_MODES; m++) all |= 1u << modes[m];
    if (code == EXIT_FINE) code = rules_attach(layer->settings, *model, all);
    if (code == EXIT_FINE) code = gate_attach(layer->settings, *model, all, NULL, NULL);
    if (code == EXIT_FINE) code = governor_attach(layer->settings, *model, all, NULL, NULL);
    return code;
}

static int run_lengths(struct layer *layer) {
    wane_model *model = NULL;
    wane_error error = {0};
    struct layer part = {.settings = layer->settings, .rounds = layer->rounds, .each = 1};
    int most = layer->length[layer->lengths - 1].tokens + layer->work.steps + 64;
    int code = open_model(&part, 3, most, &model);
    if (code == EXIT_FINE) {
        int result = open_layer(&part, model, &error);
        memcpy(part.length, layer->length, sizeof part.length);
        part.lengths = layer->lengths;
        if (result == WANE_OK) result = measure_lengths(&part, &error);
        if (result != WANE_OK) code = cli_fail_wane(&error);
        memcpy(layer->length, part.length, sizeof part.length);
        close_layer(&part);
    }
    wane_model_free(model);
    return code;
}

int bench_layer(const struct settings *settings) {
    struct layer layer = {.settings = settings,
                          .rounds = setting_int(settings, SET_ROUNDS),
                          .each = setting_int(settings, SET_EACH)};
    bool given = settings->value[SET_STREAMS].source != FROM_DEFAULT;
    int code = parse_widths(&layer, given ? setting_text(settings, SET_STREAMS) : "1,4,8,16");
    if (code != EXIT_FINE) return code;
    interrupt_catch();
    layer.load = bench_load();
    wane_model *model = NULL;
    wane_error error = {0};
    code = open_model(&layer, 3 * widest(&layer), setting_int(settings, SET_TOKENS) + 640, &model);
    if (code == EXIT_FINE) {
        int result = open_layer(&layer, model, &error);
        if (result == WANE_OK) result = measure_widths(&layer, &error);
        wane_model_get_gate_state(model, &layer.gate);
        if (result != WANE_OK) code = cli_fail_wane(&error);
        if (code == EXIT_FINE && add_lengths(&layer, wane_model_get_facts(model)->trained_context) > 0)
            code = run_lengths(&layer);
        if (code == EXIT_FINE && setting_on(settings, SET_JSON)) print_json(&layer);
        if (code == EXIT_FINE && !setting_on(settings, SET_JSON)) print_text(&layer);
        close_layer(&layer);
    }
    wane_model_free(model);
    return code;
}
