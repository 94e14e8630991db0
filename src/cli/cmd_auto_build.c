/*
 * cmd_auto_build.c - `wane auto-build`: watches a folder of traces, and keeps a table that was built from it and replayed.
 *
 *     traces ─► enough that is new? ─► hold out the newest ─► build beside the table ─► replay those ─► sign ─► put in its place
 *                     └─ no: wait           └─ fails: the table that is there stays ─┘
 *
 * A table takes the other's place only when the tokens of requests that it was not built from are the same with it. Its signature goes first: whoever reads
 * in between finds an old table with another signature, refuses that, and looks again when the table is there.
 */
#include "table_build.h"
#include "text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAMPLE 16 /* requests, where --requests leaves it open */

struct rounds {
    const struct settings *settings;
    const char *folder, *output, *key;
    char *fresh, *fresh_signature, *signature; /* names */
    wane_model *model;
    uint64_t built; /* token records in the traces, when a build was last tried */
    wane_table_requests held_out;
};

enum outcome { WAITING, IN_PLACE, LEFT_OUT, GAVE_UP };
static const char *const outcome_names[] = {"waiting", "in place", "left out", "failed"};

static bool goes_on(void *user, const char *what, double share) {
    (void)user;
    progress_show(what, share);
    return !interrupt_seen();
}

/* A line of the log: when, and what happened. */
static void tell(char *text) {
    char when[32] = "";
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc) != NULL) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    progress_clear();
    cli_say("%s %s", when, text);
    free(text);
}

/* ------------------------------------------------------------------------ steps */

static int count_records(const struct rounds *r, uint64_t *tokens, wane_error *error) {
    wane_trace_stats stats;
    int status = wane_trace_count(&r->folder, 1, false, NULL, goes_on, NULL, &stats, error);
    *tokens = stats.tokens;
    return status;
}

static void replay_options(const struct rounds *r, wane_table_replay_options *options) {
    wane_table_replay_options_init(options);
    options->logs = &r->folder;
    options->log_count = 1;
    options->tenants = (const char *const *)r->settings->value[SET_TENANTS].list;
    options->tenant_count = (int)r->settings->value[SET_TENANTS].list_count;
    options->alone = !setting_on(r->settings, SET_PREFIX_REUSE);
    options->progress = goes_on;
}

/* The newest requests: the nearest there is to those that will come. */
static int hold_out(struct rounds *r, wane_error *error) {
    wane_table_replay_options options;
    const struct setting_value *asked = &r->settings->value[SET_REQUESTS];
    uint64_t most = asked->source == FROM_DEFAULT ? SAMPLE : (uint64_t)asked->integer;
    replay_options(r, &options);
    wane_table_requests_free(&r->held_out);
    return wane_table_newest(r->model, &options, most > 0 ? most : UINT64_MAX, &r->held_out, error);
}

static int build(const struct rounds *r, wane_table_report *report, wane_error *error) {
    wane_table_build_options options;
    table_options_from(r->settings, &options);
    options.logs = &r->folder;
    options.log_count = 1;
    options.output = r->fresh;
    options.partial = false;
    options.held_out = &r->held_out;
    int status = wane_table_build_options_of(&options, r->model, error);
    return status == WANE_OK ? wane_table_build(&options, report, error) : status;
}

static int replay(const struct rounds *r, wane_table_replay_report *report, wane_error *error) {
    wane_table_replay_options options;
    wane_table_use use;
    wane_table_use_init(&use);
    use.path = r->fresh;
    use.poll_ms = 0;
    replay_options(r, &options);
    options.use = &use;
    options.only = &r->held_out;
    return wane_table_replay(r->model, &options, report, error);
}

/* Signed or not, into its place. False after a complaint. */
static bool put_in(const struct rounds *r) {
    wane_error error = {0};
    if (r->key != NULL && wane_table_sign(r->key, r->fresh, &error) != WANE_OK) {
        tell(text_format("the table could not be signed: %s", error.text));
        return false;
    }
    /* A signature of another table is none: without a key it goes. */
    bool done = r->key != NULL ? rename(r->fresh_signature, r->signature) == 0
                               : remove(r->signature) == 0 || errno == ENOENT;
    if (done) done = rename(r->fresh, r->output) == 0;
    if (!done) tell(text_format("the table could not be put in its place: %s", strerror(errno)));
    return done;
}

/* ------------------------------------------------------------------------ rounds */

static enum outcome failed(const char *what, int status, const wane_error *error) {
    if (status != WANE_ECANCELLED) tell(text_format("%s failed: %s", what, error->text));
    return GAVE_UP;
}

static enum outcome build_and_replay(struct rounds *r, wane_table_report *report,
                                     wane_table_replay_report *shown) {
    wane_error error = {0};
    int status = hold_out(r, &error);
    if (status != WANE_OK) return failed("choosing requests for the replay", status, &error);
    status = build(r, report, &error);
    if (status != WANE_OK) return failed("building", status, &error);
    tell(text_format("built %" PRIu32 " entries, %" PRIu32 " positions, %" PRIu32
                     " continuations, %.2f MB, without the newest %zu requests; replaying those",
                     report->entries, report->positions, report->continuations, (double)report->bytes / 1e6,
                     r->held_out.count));
    status = replay(r, shown, &error);
    if (status != WANE_OK) return failed("replaying", status, &error);
    if (shown->divergent > 0) {
        tell(text_format("left out: of %" PRIu64 " requests %" PRIu64
                         " have other tokens with the table, the first is %s",
                         shown->requests, shown->divergent, shown->first_divergent));
        return LEFT_OUT;
    }
    if (!put_in(r)) return GAVE_UP;
    tell(text_format("in place: %s%s; %" PRIu64 " requests replayed, %" PRIu64
                     " tokens the same, %.0f ms saved",
                     r->output, r->key != NULL ? ", signed" : "", shown->requests, shown->tokens,
                     shown->ms_without - shown->ms_with));
    return IN_PLACE;
}

static enum outcome round_of(struct rounds *r) {
    wane_error error = {0};
    uint64_t tokens = 0, least = (uint64_t)r->settings->value[SET_MIN_NEW].integer;
    int status = count_records(r, &tokens, &error);
    if (status != WANE_OK) return failed("reading the traces", status, &error);
    uint64_t fresh = tokens > r->built ? tokens - r->built : tokens < r->built ? tokens : 0;
    wane_table_report *report = text_alloc(sizeof *report);
    wane_table_replay_report shown = {.agreement = 1};
    enum outcome outcome = WAITING;
    memset(report, 0, sizeof *report);
    if (fresh >= least) {
        tell(text_format("%" PRIu64 " token records, %" PRIu64 " of them new: building", tokens, fresh));
        r->built = tokens;
        outcome = build_and_replay(r, report, &shown);
        if (outcome != IN_PLACE) {
            remove(r->fresh);
            remove(r->fresh_signature);
        }
    } else if (setting_on(r->settings, SET_ONCE)) {
        tell(text_format("%" PRIu64 " token records are new, %" PRIu64 " are needed: nothing to do", fresh,
                         least));
    }
    progress_clear();
    if (setting_on(r->settings, SET_JSON) && (outcome != WAITING || setting_on(r->settings, SET_ONCE)))
        out_json(json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "outcome", outcome_names[outcome],
                           "records", (json_int_t)tokens, "new", (json_int_t)fresh, "held_out",
                           (json_int_t)report->held_out, "entries", (json_int_t)report->entries, "requests",
                           (json_int_t)shown.requests, "divergent", (json_int_t)shown.divergent, "agreement",
                           shown.agreement, "ms_saved", shown.ms_without - shown.ms_with),
                 true);
    free(report);
    return outcome;
}

static int watch(struct rounds *r) {
    double every = 1e3 * (double)r->settings->value[SET_EVERY].integer;
    for (;;) {
        enum outcome outcome = round_of(r);
        if (interrupt_seen()) return EXIT_INTERRUPTED;
        if (setting_on(r->settings, SET_ONCE))
            return outcome == LEFT_OUT || outcome == GAVE_UP ? EXIT_FAILED : EXIT_FINE;
        for (double until = now_ms() + every; now_ms() < until && !interrupt_seen();)
            nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
        if (interrupt_seen()) return EXIT_INTERRUPTED;
    }
}

int command_auto_build(struct settings *settings) {
    struct rounds r = {.settings = settings,
                       .output = setting_text(settings, SET_OUTPUT),
                       .key = setting_text(settings, SET_SIGN_KEY)};
    if (settings->operand_count != 1)
        return cli_usage("auto-build", "wane auto-build needs one folder of traces");
    if (r.output == NULL)
        return cli_usage("auto-build", "wane auto-build needs --output FILE, the table that it keeps");
    r.folder = settings->operands[0];
    r.fresh = text_format("%s.new", r.output);
    r.fresh_signature = text_format("%s.new.sig", r.output);
    r.signature = text_format("%s.sig", r.output);
    interrupt_catch();
    int code =
        model_open(settings, &(struct model_wish){.sequences = 1, .decodes = true, .drafts = true}, &r.model);
    if (code == EXIT_FINE) code = watch(&r);
    wane_model_free(r.model);
    wane_table_requests_free(&r.held_out);
    free(r.fresh);
    free(r.fresh_signature);
    free(r.signature);
    return code;
}
