/*
 * cmd_governor.c - `wane governor ab`: what live traffic with the governor and without it has come to, as a running server counts it.
 *
 * Owns nothing: sums and intervals are the server's, and this puts them side by side.
 */
#include "cli.h"
#include "http_get.h"
#include "json_of.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_MS = 10000, SIDES = 2 };

/* In the order of the table; how a figure is shown: times so much, with so many digits. */
static const struct {
    const char *key, *label;
    double scale;
    int digits;
} figures[] = {
    {"loops", "loops in 1,000", 1000, 1}, {"fused", "ended by the fuse in 1,000", 1000, 1},
    {"distinct-1", "distinct-1", 1, 3},   {"distinct-2", "distinct-2", 1, 3},
    {"distinct-3", "distinct-3", 1, 3},   {"rating", "rating, -1 to 1", 1, 3},
};
enum { FIGURES = sizeof figures / sizeof *figures };

static double figure_of(const json_t *side, int f, const char *which) {
    return json_number_of(json_object_get(side, figures[f].key), which);
}

static void print_number(double value, int f, const char *format, int width) {
    if (isfinite(value))
        out_format(format, width, figures[f].digits, figures[f].scale * value);
    else
        out_format("%*s", width, "-");
}

/* True: the difference is no accident. */
static bool print_figure(const json_t *all, int f) {
    static const char *const names[SIDES] = {"on", "off"};
    out_format("%-28s", figures[f].label);
    for (int s = 0; s < SIDES; s++)
        print_number(figure_of(json_object_get(all, names[s]), f, "value"), f, "%*.*f", 10);
    const json_t *difference = json_object_get(all, "difference");
    double low = figure_of(difference, f, "low"), high = figure_of(difference, f, "high");
    print_number(figure_of(difference, f, "value"), f, "%+*.*f", 12);
    if (isfinite(low) && isfinite(high))
        out_format("  (%+.*f to %+.*f)", figures[f].digits, figures[f].scale * low, figures[f].digits,
                   figures[f].scale * high);
    bool shown = low > 0 || high < 0;
    out_format("%s\n", shown ? "  *" : "");
    return shown;
}

static void print_sides(const json_t *all) {
    const json_t *on = json_object_get(all, "on"), *off = json_object_get(all, "off");
    out_format("the governor steers %.4g %% of the users: %.0f replies with %.0f tokens and %.0f ratings; "
               "without it %.0f, %.0f, %.0f\n\n",
               100 * json_number_of(all, "share"), json_number_of(on, "replies"),
               json_number_of(on, "tokens"), json_number_of(on, "ratings"), json_number_of(off, "replies"),
               json_number_of(off, "tokens"), json_number_of(off, "ratings"));
    out_format("%-28s%10s%10s%12s\n", "", "with", "without", "difference, 95 %");
    int shown = 0;
    for (int f = 0; f < FIGURES; f++) shown += print_figure(all, f);
    if (shown > 0)
        out_format("\n* not by chance: the interval does not hold 0. Of %d figures that are alike, one looks "
                   "so about every fourth time.\n",
                   FIGURES);
    else
        out_format("\nno difference is shown yet\n");
}

int command_governor(struct settings *settings) {
    const char *url = setting_text(settings, SET_URL), *key = setting_text(settings, SET_ROLLOUT_KEY);
    const char *what = settings->operand_count > 0 ? settings->operands[0] : "";
    struct http_page page;
    if (strcmp(what, "ab") != 0 || settings->operand_count > 1)
        return cli_usage("governor", "wane governor knows ab; got \"%.60s\"",
                         settings->operand_count > 1 ? settings->operands[1] : what);
    if (url == NULL) return cli_usage("governor", "wane governor ab needs --url URL, of a running server");
    if (!http_get(url, "/v1/wane/ab", key, TIMEOUT_MS, &page))
        return cli_fail(EXIT_FAILED, "%s: %s", url, page.why);
    json_t *all = page.status == 200 ? json_loadb(page.body, page.size, 0, NULL) : NULL;
    int code = EXIT_FINE;
    if (page.status != 200)
        code = server_complain(&page);
    else if (!json_is_object(json_object_get(all, "difference")))
        code = cli_fail(EXIT_FAILED, "%s: what came back compares no sides", url);
    else if (setting_on(settings, SET_JSON))
        out_json(json_incref(all), false);
    else
        print_sides(all);
    json_decref(all);
    free(page.body);
    return code;
}
