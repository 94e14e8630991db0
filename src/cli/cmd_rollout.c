/*
 * cmd_rollout.c - `wane rollout`: a plan written, and steps taken, in the rollout's file or by the server that uses it. Both give the same
 * JSON, and one printer shows it.
 */
#include "cli.h"
#include "http_get.h"
#include "json_of.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TIMEOUT_MS = 10000 };
static const char route[] = "/v1/wane/rollout";

/* ---- a plan by settings -------------------------------------------------------------------------------------------- */

/* Numbers with commas between; false: it is no such list, or a long one. */
static bool read_users(const char *list, struct rollout_plan *plan) {
    plan->wish.users = plan->users;
    plan->wish.user_count = 0;
    if (strcmp(list, "none") == 0 || list[0] == '\0') return true;
    for (const char *at = list;; at++) {
        char *end;
        if (plan->wish.user_count == 8 || *at < '0' || *at > '9') return false;
        double share = strtod(at, &end);
        if (!(share > 0 && share <= 1) || (*end != ',' && *end != '\0')) return false;
        plan->users[plan->wish.user_count++] = share;
        if (*end == '\0') return true;
        at = end;
    }
}

static bool read_lines(const char *list, struct rollout_plan *plan) {
    if (strcmp(list, "none") == 0 || list[0] == '\0') return true;
    plan->text = text_copy(list);
    plan->wish.lines = plan->lines;
    for (char *at = plan->text; at != NULL;) {
        char *comma = strchr(at, ',');
        if (comma != NULL) *comma++ = '\0';
        if (plan->wish.line_count == 8 || at[0] == '\0') return false;
        plan->lines[plan->wish.line_count++] = at;
        at = comma;
    }
    return true;
}

int rollout_from(const struct settings *settings, struct rollout_plan *plan) {
    const char *features = setting_text(settings, SET_ROLLOUT_FEATURES),
               *users = setting_text(settings, SET_ROLLOUT_USERS),
               *lines = setting_text(settings, SET_ROLLOUT_LINES);
    wane_error error = {0};
    *plan = (struct rollout_plan){0};
    wane_rollout_wish *wish = &plan->wish;
    wane_rollout_wish_init(wish);
    wish->share = settings->value[SET_ROLLOUT_SHARE].real;
    wish->hold = setting_int(settings, SET_ROLLOUT_HOLD);
    wish->requests = (uint64_t)settings->value[SET_ROLLOUT_REQUESTS].integer;
    wish->wait = setting_int(settings, SET_ROLLOUT_WAIT);
    wish->manual = !setting_on(settings, SET_ROLLOUT_AUTO);
    double hit_rate = settings->value[SET_ROLLOUT_HIT_RATE].real,
           drop = settings->value[SET_ROLLOUT_DROP].real,
           divergence = settings->value[SET_ROLLOUT_DIVERGENCE].real,
           consistency = settings->value[SET_ROLLOUT_CONSISTENCY].real;
    wish->hit_rate = hit_rate == 0 ? (double)NAN : hit_rate; /* what holds always is none */
    wish->divergence = divergence >= 1 ? (double)NAN : divergence;
    wish->consistency = consistency == 0 ? (double)NAN : consistency;
    wish->consistency_drop = drop >= 1 ? (double)NAN : drop;
    if (features != NULL && wane_features_from(features, &wish->features, &error) != WANE_OK)
        return cli_fail(EXIT_USAGE, "--rollout-features: %s", error.text);
    if (!read_users(users, plan))
        return cli_fail(
            EXIT_USAGE,
            "--rollout-users is \"%.60s\"; it takes up to 8 shares above 0 and at most 1, with commas "
            "between, or none",
            users);
    if (!read_lines(lines, plan))
        return cli_fail(EXIT_USAGE,
                        "--rollout-lines is \"%.60s\"; it takes up to 8 names with commas between, or none",
                        lines);
    return EXIT_FINE;
}

int rollout_check(const struct settings *settings) {
    const char *path = setting_text(settings, SET_ROLLOUT);
    struct rollout_plan plan;
    wane_error error = {0};
    char *json = NULL;
    int code = rollout_from(settings, &plan);
    if (code == EXIT_FINE && path != NULL && wane_rollout_read(path, &json, &error) != WANE_OK &&
        (error.code != WANE_ENOENT || plan.wish.features == 0))
        code =
            error.code == WANE_ENOENT
                ? cli_fail(
                      EXIT_NOT_FOUND,
                      "there is no rollout's file %s; \"wane rollout plan\" makes one, or --rollout-features "
                      "says what it is to bring",
                      path)
                : cli_fail_wane(&error);
    free(json);
    free(plan.text);
    return code;
}

/* ---- shown --------------------------------------------------------------------------------------------------------- */

static void print_stage(const json_t *stage) {
    const json_t *line;
    size_t index;
    if (json_object_get(stage, "share") != NULL)
        out_format("%g %% of requests", 100 * json_number_of(stage, "share"));
    if (json_object_get(stage, "users") != NULL)
        out_format("%g %% of users", 100 * json_number_of(stage, "users"));
    if (json_object_get(stage, "all") != NULL) out_format("all requests");
    const json_t *lines = json_object_get(stage, "lines");
    if (lines != NULL) out_format("lines of business");
    json_array_foreach(lines, index, line) out_format("%s %s", index > 0 ? "," : "", json_string_value(line));
}

static void print_bar(const char *name, const json_t *bar) {
    double value = json_number_of(bar, "value"), limit = json_number_of(bar, "bar");
    if (isnan(value) && isnan(limit)) return;
    out_format("  %-17s ", name);
    if (isnan(value))
        out_format("not known");
    else
        out_format("%.4g (%.4g to %.4g)", value, json_number_of(bar, "low"), json_number_of(bar, "high"));
    if (!isnan(limit)) out_format(", bar %g", limit);
    const char *verdict = json_text_of(bar, "verdict");
    if (strcmp(verdict, "none") != 0 && strcmp(verdict, "unknown") != 0) out_format(": %s", verdict);
    out_format("\n");
}

static void print_date(double ms) {
    char when[32] = "";
    time_t seconds = (time_t)(ms / 1000);
    struct tm utc;
    if (ms > 0 && gmtime_r(&seconds, &utc) != NULL) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    if (when[0] != '\0') out_format(" since %s", when);
}

static void print_feature(const char *name, const json_t *feature) {
    const json_t *stages = json_object_get(feature, "stages"), *bar;
    const char *phase = json_text_of(feature, "phase"), *key;
    int stage = (int)json_number_of(feature, "stage");
    out_format("%-9s %s", name, phase);
    print_date(json_number_of(feature, "at"));
    if (json_text_of(feature, "why")[0] != '\0') out_format(": %s", json_text_of(feature, "why"));
    out_format("\n  stage             %d of %zu: ", stage, json_array_size(stages));
    if (stage > 0)
        print_stage(json_array_get(stages, (size_t)stage - 1));
    else
        out_format("no request");
    out_format("\n");
    if (strcmp(phase, "running") == 0)
        out_format("  so far            %.0f of %.0f s, %.0f of %.0f requests\n",
                   json_number_of(feature, "held"), json_number_of(feature, "hold"),
                   json_number_of(feature, "requests_on"), json_number_of(feature, "requests"));
    if (stage > 0)
        json_object_foreach((json_t *)(uintptr_t)json_object_get(feature, "bars"), key, bar)
            print_bar(key, bar);
    if (json_text_of(feature, "waits")[0] != '\0')
        out_format("  waits             %s\n", json_text_of(feature, "waits"));
}

/* Takes over `json`. */
static int show(const struct settings *settings, char *json) {
    json_error_t fault;
    const char *key;
    json_t *root = json != NULL ? json_loads(json, 0, &fault) : NULL, *feature;
    free(json);
    if (root == NULL) return cli_fail(EXIT_FAILED, "what came back is no rollout's state");
    if (json_is_false(json_object_get(root, "kept")))
        cli_say("it is in force, but not in the rollout's file: %s", json_text_of(root, "trouble"));
    if (setting_on(settings, SET_JSON)) {
        out_json(root, false);
        return EXIT_FINE;
    }
    json_object_foreach(json_object_get(root, "features"), key, feature) print_feature(key, feature);
    json_decref(root);
    return EXIT_FINE;
}

/* ---- by a server --------------------------------------------------------------------------------------------------- */

int server_complain(const struct http_page *page) {
    json_error_t fault;
    json_t *root = json_loadb(page->body, page->size, 0, &fault);
    const char *message = json_text_of(json_object_get(root, "error"), "message");
    int code = cli_fail(page->status == 400 ? EXIT_USAGE : EXIT_FAILED, "the server says %d: %.400s",
                        page->status, message[0] != '\0' ? message : "nothing more");
    json_decref(root);
    return code;
}

static int by_server(const struct settings *settings, int action, const char *feature) {
    struct http_page page;
    const char *url = setting_text(settings, SET_ROLLOUT_URL), *key = setting_text(settings, SET_ROLLOUT_KEY);
    char *body = NULL;
    if (action >= 0 && feature != NULL)
        body = text_format("{\"do\":\"%s\",\"feature\":\"%s\"}", wane_rollout_action_name(action), feature);
    else if (action >= 0)
        body = text_format("{\"do\":\"%s\"}", wane_rollout_action_name(action));
    bool answered = http_ask(url, route, key, body, TIMEOUT_MS, &page);
    free(body);
    if (!answered) return cli_fail(EXIT_FAILED, "%s: %s", url, page.why);
    if (page.status == 200) return show(settings, page.body);
    int code = server_complain(&page);
    free(page.body);
    return code;
}

/* ---- in the file --------------------------------------------------------------------------------------------------- */

static int plan(const struct settings *settings, const char *path) {
    struct rollout_plan made;
    wane_error error = {0};
    char *given = NULL, *json = NULL;
    size_t size = 0;
    int code = rollout_from(settings, &made);
    if (settings->operand_count > 2)
        code = cli_usage("rollout", "wane rollout plan takes one PLAN at most");
    else if (code == EXIT_FINE && settings->operand_count == 2) {
        given = read_all_file(settings->operands[1], &size);
        if (given == NULL) code = EXIT_FAILED;
    } else if (code == EXIT_FINE && made.wish.features == 0) {
        code = cli_usage("rollout", "wane rollout plan needs a PLAN, or --rollout-features");
    }
    if (code == EXIT_FINE &&
        wane_rollout_plan(path, given, size, &made.wish, setting_on(settings, SET_ROLLOUT_ANEW), &json,
                          &error) != WANE_OK)
        code = cli_fail_wane(&error);
    if (code == EXIT_FINE) code = show(settings, json);
    free(given);
    free(made.text);
    return code;
}

static int in_file(const struct settings *settings, const char *path, int action, int feature) {
    wane_error error = {0};
    char *json = NULL;
    int status = action < 0 ? wane_rollout_read(path, &json, &error)
                            : wane_rollout_do(path, action, feature, &json, &error);
    return status == WANE_OK ? show(settings, json) : cli_fail_wane(&error);
}

int command_rollout(struct settings *settings) {
    const char *what = settings->operand_count > 0 ? settings->operands[0] : "";
    const char *path = setting_text(settings, SET_ROLLOUT), *url = setting_text(settings, SET_ROLLOUT_URL);
    bool plans = strcmp(what, "plan") == 0, looks = strcmp(what, "status") == 0;
    int action = wane_rollout_action_from(what), feature = -1;
    if (!plans && !looks && action < 0)
        return cli_usage("rollout",
                         "wane rollout knows plan, start, status, advance, back and abort; got \"%.60s\"",
                         what);
    if (plans && url != NULL)
        return cli_usage("rollout",
                         "a plan is written to a file: wane rollout plan takes --rollout FILE, not --url");
    if (path == NULL && url == NULL)
        return cli_usage("rollout", "wane rollout %s needs --rollout FILE%s", what,
                         plans ? "" : ", or --url URL");
    if (plans) return plan(settings, path);
    if (settings->operand_count > (looks ? 1 : 2))
        return cli_usage("rollout", "wane rollout %s takes %s", what,
                         looks ? "no words" : "one feature at most");
    const char *name = settings->operand_count > 1 ? settings->operands[1] : NULL;
    if (name != NULL && (feature = wane_feature_from(name)) < 0)
        return cli_usage("rollout",
                         "\"%.60s\" is no feature; they are head, table, draft, memo, gate and governor",
                         name);
    return url != NULL ? by_server(settings, action, name) : in_file(settings, path, action, feature);
}
