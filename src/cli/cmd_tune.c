/* cmd_tune.c - `wane tune`: which signal of a model says how sure it is, and with which thresholds. */
#include "text.h"
#include "tune_plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Layers that the table shows when nobody asked for all of them. */
enum { LAYERS_SHOWN = 5 };

static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *interval_json(const wane_tune_interval *i) {
    return json_pack("{s:o, s:o, s:o}", "value", number(i->value), "low", number(i->low), "high",
                     number(i->high));
}

static const char *const state_name[WANE_STATES] = {
    [WANE_STATE_NORMAL] = "NORMAL",
    [WANE_STATE_LOCKED] = "LOCKED",
    [WANE_STATE_EXPLORE] = "EXPLORE",
    [WANE_STATE_PROTECT] = "PROTECT",
};
static const int state_order[WANE_STATES] = {WANE_STATE_LOCKED, WANE_STATE_NORMAL, WANE_STATE_PROTECT,
                                             WANE_STATE_EXPLORE};

static json_t *states_json(const wane_tune_states *s) {
    json_t *by = json_object();
    for (int i = 0; i < WANE_STATES; i++)
        json_object_set_new(by, state_name[i],
                            json_pack("{s:I, s:I}", "tokens", (json_int_t)s->tokens[i], "right",
                                      (json_int_t)s->right[i]));
    return json_pack("{s:o, s:o, s:o}", "states", by, "bits", interval_json(&s->bits), "gap",
                     interval_json(&s->gap));
}

static json_t *rows_json(const wane_tune_report *r) {
    json_t *list = json_array();
    for (size_t i = 0; i < r->row_count; i++) {
        const wane_tune_row *row = &r->rows[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:o, s:i, s:I, s:I, s:o, s:o, s:o}", "signal", row->signal,
                                        "layer", row->layer >= 0 ? json_integer(row->layer) : json_null(),
                                        "sign", row->sign, "tokens", (json_int_t)row->tokens, "missing",
                                        (json_int_t)row->missing, "auc", interval_json(&row->auc), "learnt",
                                        number(row->learnt), "held_out", interval_json(&row->held)));
    }
    return list;
}

static json_t *bins_json(const wane_tune_report *r) {
    json_t *list = json_array();
    for (int i = 0; i < r->bins; i++) {
        const wane_tune_bin *b = &r->bin[i];
        json_array_append_new(list, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:I}", "from", b->from, "to",
                                              b->to, "mean", b->mean, "accuracy", b->accuracy, "low", b->low,
                                              "high", b->high, "tokens", (json_int_t)b->tokens));
    }
    return list;
}

static json_t *report_json(const wane_tune_report *r, const char *output) {
    const wane_profile *p = &r->profile;
    json_t *profile =
        json_pack("{s:s, s:s, s:s, s:o, s:i, s:o, s:o, s:f, s:f, s:f}", "model", p->model, "domain",
                  p->domain, "signal", p->signal != WANE_SIGNAL_NONE ? r->rows[r->best].signal : "none",
                  "layer", p->layer >= 0 ? json_integer(p->layer) : json_null(), "sign", p->sign,
                  "peak_kurtosis", number((double)p->peak), "low_kurtosis", number((double)p->low),
                  "spread_threshold", (double)p->spread, "jerk_threshold", (double)p->jerk, "temp_fallback",
                  (double)p->temp_fallback);
    json_t *curve = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "floor", r->floor, "ceiling", r->ceiling,
                              "middle", r->middle, "width", r->width, "knee", r->knee, "foot", r->foot);
    return json_pack(
        "{s:s?, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "file", output, "verdict", r->verdict, "profile", profile, "texts", (json_int_t)r->texts, "left_out",
        (json_int_t)r->left_out, "windows", (json_int_t)r->windows, "tokens", (json_int_t)r->tokens, "right",
        (json_int_t)r->right, "held_out_tokens", (json_int_t)r->held_tokens, "held_out_right",
        (json_int_t)r->held_right, "blocks", r->blocks, "held_out_blocks", r->held_blocks, "signals",
        rows_json(r), "curve", curve, "bins", bins_json(r), "own", states_json(&r->own), "original",
        states_json(&r->original), "better", interval_json(&r->better), "seconds", json_ms(r->seconds));
}

/* ---- for people ---------------------------------------------------------------------------------------------------- */

static void print_interval(const char *format, const wane_tune_interval *i) {
    if (isnan(i->value))
        out_format("  %-24s", "cannot be said");
    else
        out_format(format, i->value, i->low, i->high);
}

static void print_row(const wane_tune_report *r, size_t at) {
    const wane_tune_row *row = &r->rows[at];
    out_format("%c %-9s", (int)at == r->best ? '>' : ' ', row->signal);
    if (row->layer >= 0)
        out_format(" %5d", row->layer);
    else
        out_format("     -");
    out_format("  %s", row->sign > 0 ? "+" : "-");
    print_interval("  %.3f  %.3f to %.3f  ", &row->auc);
    print_interval("  %.3f  %.3f to %.3f  ", &row->held);
    out_format(" %8llu %7llu\n", (unsigned long long)row->tokens, (unsigned long long)row->missing);
}

/* Is this one of the rows of its kind that told most, on the part that was chosen on? */
static bool shown(const wane_tune_report *r, size_t at) {
    int better = 0;
    for (size_t i = 0; i < r->row_count; i++)
        better +=
            strcmp(r->rows[i].signal, r->rows[at].signal) == 0 && r->rows[i].learnt > r->rows[at].learnt;
    return better < LAYERS_SHOWN || r->rows[at].layer < 0;
}

static void print_rows(const wane_tune_report *r) {
    out_format(
        "\n  signal    layer sign   AUC  95 %%               held out  95 %%            tokens missing\n");
    size_t hidden = 0;
    for (size_t i = 0; i < r->row_count; i++) {
        if (shown(r, i))
            print_row(r, i);
        else
            hidden++;
    }
    if (hidden > 0)
        out_format("  and %zu more, which told less on the part that was chosen on; --json prints all\n",
                   hidden);
}

static void print_states(const char *name, const wane_tune_states *s) {
    out_format("%-11s", name);
    for (int i = 0; i < WANE_STATES; i++) {
        int state = state_order[i];
        if (s->tokens[state] == 0) continue;
        out_format(" %s %llu tokens, %.1f %% right;", state_name[state], (unsigned long long)s->tokens[state],
                   100.0 * (double)s->right[state] / (double)s->tokens[state]);
    }
    out_format("\n           %.3f bits a token (%.3f to %.3f)", s->bits.value, s->bits.low, s->bits.high);
    if (isnan(s->gap.value))
        out_format("; LOCKED or EXPLORE never occurs\n");
    else if (isnan(s->gap.low))
        out_format("; LOCKED less EXPLORE %+.1f points, of too few tokens for an interval\n",
                   100 * s->gap.value);
    else
        out_format("; LOCKED less EXPLORE %+.1f points (%+.1f to %+.1f)\n", 100 * s->gap.value,
                   100 * s->gap.low, 100 * s->gap.high);
}

static void print_thresholds(const wane_tune_report *r) {
    const wane_profile *p = &r->profile;
    int sign = p->sign;
    out_format("\ncurve      %.3f to %.3f, middle %.4g, width %.4g; foot %.4g, knee %.4g\n", r->floor,
               r->ceiling, sign * r->middle, r->width, sign * r->foot, sign * r->knee);
    if (p->signal == WANE_SIGNAL_NONE) return;
    out_format("LOCKED     %s %.4g", sign > 0 ? "above" : "below", sign * (double)p->peak);
    if (p->spread > 0) out_format(" and with a spread below %.4g", (double)p->spread);
    out_format("\nEXPLORE    %s %.4g\n", sign > 0 ? "below" : "above", sign * (double)p->low);
    if (p->jerk > 0)
        out_format("PROTECT    third difference beyond %.4g\n", (double)p->jerk);
    else
        out_format("PROTECT    never: the third difference says nothing that the signal does not\n");
    out_format("fallback   temperature %.2f where the signal is missing\n", (double)p->temp_fallback);
}

static void print_report(const wane_tune_report *r, const char *output) {
    out_format("text       %llu texts in %llu windows; %llu labelled tokens, %.1f %% right\n",
               (unsigned long long)r->texts, (unsigned long long)r->windows, (unsigned long long)r->tokens,
               100.0 * (double)r->right / (double)r->tokens);
    if (r->left_out > 0)
        out_format("left out   %llu texts that their tokens do not spell\n", (unsigned long long)r->left_out);
    out_format("held out   %llu of them in %d of %d blocks\n", (unsigned long long)r->held_tokens,
               r->held_blocks, r->blocks);
    print_rows(r);
    print_thresholds(r);
    out_format("\nOn held-out text:\n");
    print_states("these", &r->own);
    if (r->best_kurtosis >= 0) {
        print_states("original", &r->original);
        out_format("difference %+.3f bits a token (%+.3f to %+.3f); the original's thresholds at layer %d\n",
                   r->better.value, r->better.low, r->better.high, r->rows[r->best_kurtosis].layer);
    }
    out_format("\n%s\n", r->verdict);
    if (output != NULL) out_format("profile    %s\n", output);
}

/* The options that the profile comes from, as somebody would type them. Free it. */
static char *command_of(const struct settings *settings) {
    static const int named[] = {SET_MODEL,         SET_TUNE_DATA,   SET_TUNE_DOMAIN, SET_TUNE_TOKENS,
                                SET_TUNE_HELD_OUT, SET_TUNE_SIGNAL, SET_TUNE_DRAWS,  SET_SEED};
    char *line = text_copy("wane tune");
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        const struct setting_value *value = &settings->value[named[i]];
        if (value->text == NULL || (value->source == FROM_DEFAULT && named[i] != SET_MODEL)) continue;
        char *more = text_format("%s --%s %s", line, settings_table[named[i]].option, value->text);
        free(line);
        line = more;
    }
    if (strlen(line) > 511) line[511] = '\0';
    line[text_utf8_prefix(line, strlen(line))] = '\0';
    return line;
}

/* ---- the command --------------------------------------------------------------------------------------------------- */

static void options_from(const struct settings *settings, wane_tune_options *o) {
    const struct setting_value *seed = &settings->value[SET_SEED];
    static const char *const signals[WANE_SIGNALS] = {"best", "kurtosis", "entropy", "margin"};
    wane_tune_options_init(o);
    o->data = setting_text(settings, SET_TUNE_DATA);
    o->domain = setting_text(settings, SET_TUNE_DOMAIN);
    o->output = setting_text(settings, SET_OUTPUT);
    o->tokens = setting_int(settings, SET_TUNE_TOKENS);
    o->replicates = setting_int(settings, SET_TUNE_DRAWS);
    o->held_out = settings->value[SET_TUNE_HELD_OUT].real;
    for (int i = 0; i < WANE_SIGNALS; i++)
        if (strcmp(setting_text(settings, SET_TUNE_SIGNAL), signals[i]) == 0) o->signal = i;
    if (seed->seeded) o->seed = seed->seed;
    o->progress = progress_goes_on;
}

static int tune_with(const struct settings *settings, wane_model *model) {
    wane_tune_options options;
    wane_tune_report report;
    wane_error error = {0};
    options_from(settings, &options);
    char *command = command_of(settings);
    options.command = command;
    int status = wane_tune(model, &options, &report, &error), code = EXIT_FINE;
    progress_clear();
    if (status != WANE_OK) {
        code = cli_fail_wane(&error);
    } else {
        const char *plot = setting_text(settings, SET_TUNE_PLOT);
        if (plot != NULL) code = tune_plot(plot, &report, wane_model_get_facts(model)->name);
        if (setting_on(settings, SET_JSON))
            out_json(report_json(&report, options.output), false);
        else
            print_report(&report, options.output);
    }
    wane_tune_report_free(&report);
    free(command);
    return code;
}

int command_tune(struct settings *settings) {
    if (settings->operand_count != 0)
        return cli_usage("tune", "wane tune takes no words; got \"%.60s\"", settings->operands[0]);
    if (setting_text(settings, SET_TUNE_DATA) == NULL)
        return cli_usage("tune", "wane tune needs --data FILE, a text or labelled JSONL");
    interrupt_catch();
    wane_model *model = NULL;
    int code = model_open(settings, &(struct model_wish){.least_context = 512}, &model);
    if (code == EXIT_FINE) code = tune_with(settings, model);
    wane_model_free(model);
    return code;
}
