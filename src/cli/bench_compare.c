/*
 * bench_compare.c - `wane bench compare`: two acceptance runs side by side, and which of their differences are more than the spread of
 * either. Refuses to call runs comparable that are not: what they do not have in common is printed first.
 */
#include "bench.h"
#include "protocol.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct result {
    json_t *json;
    struct protocol_series series;
};

static int read_result(const char *path, struct result *out) {
    json_error_t fault;
    char why[300];
    out->json = json_load_file(path, 0, &fault);
    if (out->json == NULL) return cli_fail(EXIT_FAILED, "cannot read the result %s: %s", path, fault.text);
    if (protocol_read_series(&out->series, out->json, why)) return EXIT_FINE;
    return cli_fail(EXIT_FAILED, "%s cannot be compared: %s", path, why);
}

static void result_close(struct result *result) {
    json_decref(result->json);
    protocol_series_free(&result->series);
}

/* Of what neither says, nothing is known to differ. */
static bool alike(const json_t *a, const json_t *b, const char *key) {
    const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
    return (x == NULL && y == NULL) || json_equal(x, y);
}

/* What must be the same for a difference to mean anything else than that. */
static json_t *unlike(const struct result *a, const struct result *b) {
    static const char *const here[] = {"wane",   "engine",  "digest",   "model",        "mode",
                                       "head",   "draft",   "requests", "streams",      "prompt_tokens",
                                       "tokens", "threads", "table",    "table_meaning"};
    static const char *const there[] = {"processor", "engine_kernels", "cpus", "frequency_governor"};
    const json_t *x = json_object_get(json_object_get(a->json, "environment"), "machine");
    const json_t *y = json_object_get(json_object_get(b->json, "environment"), "machine");
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof here / sizeof *here; i++)
        if (!alike(a->json, b->json, here[i])) json_array_append_new(list, json_string(here[i]));
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        if (!alike(x, y, there[i])) json_array_append_new(list, json_string(there[i]));
    return list;
}

/* Checks that did not pass before it ran. */
static int warnings_of(const struct result *result) {
    const json_t *one, *list = json_object_get(json_object_get(result->json, "environment"), "checks");
    size_t i;
    int count = 0;
    json_array_foreach(list, i, one) {
        const char *level = json_string_value(json_object_get(one, "level"));
        count += level != NULL && (strcmp(level, "WARNING") == 0 || strcmp(level, "CRITICAL") == 0);
    }
    return count;
}

static json_t *difference_json(const struct protocol_difference *d) {
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b}", "metric", d->name, "a", d->a, "b",
                     d->b, "difference", d->difference, "low", d->low, "high", d->high, "ratio", d->ratio,
                     "ratio_low", d->ratio_low, "ratio_high", d->ratio_high, "real", d->real);
}

static void print_text(const char *const *name, const struct result *r, const struct protocol_difference *d,
                       const json_t *other) {
    size_t i;
    const json_t *one;
    out_format("a: %s, %d requests\nb: %s, %d requests\n", name[0], r[0].series.count, name[1],
               r[1].series.count);
    json_array_foreach(other, i, one)
        out_format("%s%s", i == 0 ? "not the same: " : ", ", json_string_value(one));
    if (i > 0) out_format("\n");
    for (int k = 0; k < 2; k++)
        if (warnings_of(&r[k]) > 0)
            out_format("%c: the machine was not at its best: see its \"environment\"\n", 'a' + k);
    out_format("\n%-13s  %10s  %10s  %10s  %-23s  %s\n", "", "a", "b", "b - a", "95 %", "b / a");
    for (int k = 0; k < PROTOCOL_DIFFERENCES; k++)
        out_format("%-13s  %10.3f  %10.3f  %+10.3f  %+10.3f .. %+-10.3f  %.3f (%.3f .. %.3f)  %s\n",
                   d[k].name, d[k].a, d[k].b, d[k].difference, d[k].low, d[k].high, d[k].ratio,
                   d[k].ratio_low, d[k].ratio_high, d[k].real ? "real" : "not shown");
}

int bench_compare(const struct settings *settings) {
    if (settings->operand_count != 3)
        return cli_usage("bench", "wane bench compare needs two results of wane bench protocol --output");
    const char *name[2] = {settings->operands[1], settings->operands[2]};
    struct result r[2] = {{0}, {0}};
    struct protocol_difference d[PROTOCOL_DIFFERENCES];
    int code = read_result(name[0], &r[0]);
    if (code == EXIT_FINE) code = read_result(name[1], &r[1]);
    if (code == EXIT_FINE) {
        json_t *other = unlike(&r[0], &r[1]);
        protocol_compare(&r[0].series, &r[1].series, d);
        if (setting_on(settings, SET_JSON)) {
            json_t *list = json_array();
            for (int i = 0; i < PROTOCOL_DIFFERENCES; i++)
                json_array_append_new(list, difference_json(&d[i]));
            out_json(json_pack("{s:o, s:o, s:i, s:i, s:i, s:i, s:i, s:O, s:o}", "a",
                               json_text(name[0], strlen(name[0])), "b", json_text(name[1], strlen(name[1])),
                               "requests_a", r[0].series.count, "requests_b", r[1].series.count, "warnings_a",
                               warnings_of(&r[0]), "warnings_b", warnings_of(&r[1]), "draws", PROTOCOL_DRAWS,
                               "not_the_same", other, "metrics", list),
                     false);
        } else {
            print_text(name, r, d, other);
        }
        json_decref(other);
    }
    result_close(&r[0]);
    result_close(&r[1]);
    return code;
}
