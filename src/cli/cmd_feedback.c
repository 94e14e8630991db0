/* cmd_feedback.c - `wane feedback`: what a pool of ratings holds; `wane train reward`, which learns from it; and a server's --reward. */
#include "cli.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static json_t *text_or_null(const char *text) {
    return text != NULL ? json_text(text, strlen(text)) : json_null();
}

/* "2026-11-30T07:00:00.123Z" */
static const char *date(int64_t ms, char out[32]) {
    time_t seconds = (time_t)(ms / 1000);
    struct tm parts;
    if (gmtime_r(&seconds, &parts) == NULL) return "?";
    size_t used = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(out + used, 32 - used, ".%03dZ", (int)(ms % 1000));
    return out;
}

/* ---- export, stats ------------------------------------------------------------------------------------------------- */

static bool export_one(void *user, const wane_feedback_entry *e) {
    char when[32];
    (void)user;
    json_t *object =
        json_pack("{s:I, s:s, s:o, s:o, s:o, s:o, s:f, s:o}", "id", (json_int_t)e->id, "time",
                  date(e->at, when), "response_id", text_or_null(e->response), "tenant",
                  text_or_null(e->tenant), "key", text_or_null(e->key), "model", text_or_null(e->model),
                  "rating", e->rating, "comment", text_or_null(e->comment));
    if (e->reply != NULL) {
        json_object_set_new(object, "prompt", text_or_null(e->prompt));
        json_object_set_new(object, "reply", text_or_null(e->reply));
    }
    return out_json(object, true) && !interrupt_seen();
}

static void print_stats(const wane_feedback_stats *s, const char *path) {
    char first[32] = "-", last[32] = "-";
    out_format("file       %s, %.1f KB\nratings    %llu, of %llu replies\n", path, (double)s->bytes / 1e3,
               (unsigned long long)s->entries, (unsigned long long)s->responses);
    out_format("up         %llu\ndown       %llu\nneutral    %llu\n", (unsigned long long)s->up,
               (unsigned long long)s->down, (unsigned long long)s->neutral);
    if (!isnan(s->mean)) out_format("mean       %.3f\n", s->mean);
    out_format("comments   %llu\ntexts      %llu\n", (unsigned long long)s->comments,
               (unsigned long long)s->texts);
    if (s->entries > 0)
        out_format("from       %s\nto         %s\n", date(s->first, first), date(s->last, last));
}

static json_t *stats_json(const wane_feedback_stats *s, const char *path) {
    char first[32], last[32];
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:o, s:o}", "file", path, "bytes",
                     (json_int_t)s->bytes, "ratings", (json_int_t)s->entries, "replies",
                     (json_int_t)s->responses, "up", (json_int_t)s->up, "down", (json_int_t)s->down,
                     "neutral", (json_int_t)s->neutral, "mean", json_known(s->mean), "comments",
                     (json_int_t)s->comments, "texts", (json_int_t)s->texts, "from",
                     s->entries > 0 ? json_string(date(s->first, first)) : json_null(), "to",
                     s->entries > 0 ? json_string(date(s->last, last)) : json_null());
}

int command_feedback(struct settings *settings) {
    const char *what = settings->operand_count > 0 ? settings->operands[0] : "";
    bool exports = strcmp(what, "export") == 0;
    if (!exports && strcmp(what, "stats") != 0)
        return cli_usage("feedback", "wane feedback knows export and stats; got \"%.60s\"", what);
    if (settings->operand_count != 2)
        return cli_usage("feedback", "wane feedback %s needs one file, as wane serve --feedback writes it",
                         what);
    const char *path = settings->operands[1];
    wane_feedback_stats stats;
    wane_error error = {0};
    interrupt_catch();
    int result = exports ? wane_feedback_read(path, export_one, NULL, &error)
                         : wane_feedback_get_stats(path, &stats, &error);
    if (result == WANE_ECANCELLED) return interrupt_seen() ? EXIT_INTERRUPTED : EXIT_FINE;
    if (result != WANE_OK) return cli_fail_wane(&error);
    if (exports) return EXIT_FINE;
    if (setting_on(settings, SET_JSON))
        out_json(stats_json(&stats, path), false);
    else
        print_stats(&stats, path);
    return EXIT_FINE;
}

/* ---- train reward -------------------------------------------------------------------------------------------------- */

static json_t *report_json(const void *report, const char *output) {
    const wane_reward_report *r = report;
    return json_pack("{s:s?, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:I, s:I, s:o}", "file", output,
                     "ratings", (json_int_t)r->entries, "usable", (json_int_t)r->usable, "up",
                     (json_int_t)r->up, "down", (json_int_t)r->down, "learned", (json_int_t)r->learned,
                     "held_out", (json_int_t)r->held, "auc", json_known(r->auc), "auc_low",
                     json_known(r->low), "auc_high", json_known(r->high), "weights", (json_int_t)r->weights,
                     "bytes", (json_int_t)r->bytes, "seconds", json_ms(r->seconds));
}

static void print_report(const void *report, const char *output) {
    const wane_reward_report *r = report;
    out_format("ratings    %llu; %llu replies have a text and an opinion: %llu up, %llu down\n",
               (unsigned long long)r->entries, (unsigned long long)r->usable, (unsigned long long)r->up,
               (unsigned long long)r->down);
    out_format("learned    from %llu\nheld out   %llu, of which %llu up\n", (unsigned long long)r->learned,
               (unsigned long long)r->held, (unsigned long long)r->held_up);
    if (isnan(r->auc))
        out_format("AUC        not known: too few were held out\n");
    else
        out_format("AUC        %.3f  (95 %%: %.3f to %.3f)%s\n", r->auc, r->low, r->high,
                   r->low > 0.5 ? "" : "; no better than chance can be excluded");
    if (output != NULL)
        out_format("file       %s, %.1f KB, %llu weights\n", output, (double)r->bytes / 1e3,
                   (unsigned long long)r->weights);
}

int train_reward(const struct settings *settings) {
    const char *pool = setting_text(settings, SET_FEEDBACK);
    if (pool == NULL)
        return cli_usage("train",
                         "wane train reward needs --feedback FILE, as wane serve --feedback writes it");
    wane_reward_train_options options;
    wane_reward_report report;
    wane_error error = {0};
    wane_reward_train_options_init(&options);
    options.pools = &pool;
    options.pool_count = 1;
    train_begin(settings, &options.output, &options.seed, &options.progress);
    int result = wane_reward_train(&options, &report, &error);
    return train_end(settings, result, &error, &report, report_json, print_report);
}

int reward_attach(const struct settings *settings, wane_model *model) {
    const char *path = setting_text(settings, SET_REWARD);
    bool best = strcmp(setting_text(settings, SET_REWARD_CHOICE), "best") == 0;
    wane_error error = {0};
    if (path == NULL) return EXIT_FINE;
    int result = wane_model_set_reward(model, path, best ? WANE_REWARD_BEST : WANE_REWARD_TIE, &error);
    return result == WANE_OK ? EXIT_FINE : cli_fail_wane(&error);
}
