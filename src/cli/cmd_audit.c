/* cmd_audit.c - `wane audit`: the newest records, one of them, all of them, whether they are what was written, and the next log. */
#include "cli.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Between two looks of --follow. */
#define LOOK_NS 250000000

/* ---- times --------------------------------------------------------------------------------------------------------- */

/* "2026-11-30T07:00:00.123Z" */
static const char *date(int64_t ms, char out[32]) {
    time_t seconds = (time_t)(ms / 1000);
    struct tm parts;
    if (ms < 0 || gmtime_r(&seconds, &parts) == NULL) return "?";
    size_t used = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(out + used, 32 - used, ".%03dZ", (int)(ms % 1000));
    return out;
}

/* "15m" ago. */
static bool read_ago(const char *text, int64_t *ms) {
    static const char units[] = "smhd";
    static const int64_t seconds[] = {1, 60, 3600, 86400};
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 9 || text[digits] == '\0' || text[digits + 1] != '\0') return false;
    const char *unit = strchr(units, text[digits]);
    if (unit == NULL) return false;
    *ms = ((int64_t)time(NULL) - strtoll(text, NULL, 10) * seconds[unit - units]) * 1000;
    return true;
}

/* A day, or a second of it, UTC. */
static bool read_date(const char *text, int64_t *ms) {
    struct tm parts = {0};
    const char *rest = strptime(text, "%Y-%m-%d", &parts);
    if (rest == NULL) return false;
    if (*rest != '\0' && ((rest = strptime(rest, "T%H:%M:%S", &parts)) == NULL || strcmp(rest, "Z") != 0))
        return false;
    *ms = (int64_t)timegm(&parts) * 1000;
    return true;
}

/* ---- a record as text ---------------------------------------------------------------------------------------------- */

static json_t *value_json(const wane_audit_record *r, int field) {
    const wane_audit_value *v = &r->field[field];
    if (v->type == WANE_AUDIT_NUMBER) return json_integer(v->number);
    if (v->type != WANE_AUDIT_STRING) return json_null();
    json_t *inner = wane_audit_field_is_json(field) ? json_loadb(v->text, v->size, 0, NULL) : NULL;
    return inner != NULL ? inner : json_text(v->text, v->size);
}

static json_t *record_json(const wane_audit_record *r) {
    char when[32];
    json_t *object = json_object();
    for (int i = 0; i < WANE_AUDIT_FIELDS; i++) {
        if (r->field[i].type == WANE_AUDIT_NONE) continue;
        if (i == WANE_AUDIT_AT && r->field[i].type == WANE_AUDIT_NUMBER)
            json_object_set_new(object, "time", json_string(date(r->field[i].number, when)));
        else
            json_object_set_new(object, wane_audit_field_name(i), value_json(r, i));
    }
    json_object_set_new(object, "before", json_string(r->before));
    json_object_set_new(object, "hash", json_string(r->hash));
    return object;
}

static const char *text_of(const wane_audit_record *r, int field) {
    return r->field[field].type == WANE_AUDIT_STRING ? r->field[field].text : NULL;
}

static long long number_of(const wane_audit_record *r, int field) {
    return r->field[field].type == WANE_AUDIT_NUMBER ? (long long)r->field[field].number : 0;
}

/* What is in a file may be anything: control characters do not reach a terminal. */
static bool out_plain(const char *text, size_t size) {
    bool fine = true;
    for (size_t at = 0; at < size && fine;) {
        size_t run = at;
        while (run < size && ((unsigned char)text[run] >= 0x20 || text[run] == '\t') && text[run] != 0x7f)
            run++;
        fine = out_text(text + at, run - at);
        if (run < size) fine = out_text(" ", 1) && fine;
        at = run + 1;
    }
    return fine;
}

static void put_word(const wane_audit_record *r, int field, const char *before) {
    if (r->field[field].type != WANE_AUDIT_STRING) return;
    out_format(" %s", before);
    out_plain(r->field[field].text, r->field[field].size);
}

static void put_number(const wane_audit_record *r, int field, const char *name) {
    if (r->field[field].type == WANE_AUDIT_NUMBER) out_format(" %s=%lld", name, number_of(r, field));
}

/* One line a record: what one looks for first. */
static bool print_line(const wane_audit_record *r) {
    char when[32];
    bool table = number_of(r, WANE_AUDIT_SLMT_USED) > 0 || number_of(r, WANE_AUDIT_SLMT_TAKEN) > 0;
    out_format("%lld %s", number_of(r, WANE_AUDIT_SEQ), date(number_of(r, WANE_AUDIT_AT), when));
    put_word(r, WANE_AUDIT_EVENT, "");
    put_word(r, WANE_AUDIT_REQUEST, "");
    put_word(r, WANE_AUDIT_KEY, "key=");
    put_word(r, WANE_AUDIT_API, "");
    put_word(r, WANE_AUDIT_MODE, "mode=");
    put_word(r, WANE_AUDIT_FINISH, "");
    put_number(r, WANE_AUDIT_STATUS, "status");
    put_number(r, WANE_AUDIT_PROMPT_TOKENS, "prompt");
    put_number(r, WANE_AUDIT_REPLY_TOKENS, "reply");
    put_number(r, WANE_AUDIT_MS, "ms");
    const char *digest = text_of(r, WANE_AUDIT_TABLE);
    if (digest != NULL) {
        out_text(" table=", 7);
        out_plain(digest, strlen(digest) < 12 ? strlen(digest) : 12);
    }
    if (table) {
        put_number(r, WANE_AUDIT_SLMT_USED, "slmt_used");
        put_number(r, WANE_AUDIT_SLMT_TAKEN, "taken");
    }
    put_word(r, WANE_AUDIT_WAKES, "wakes=");
    if (number_of(r, WANE_AUDIT_SHADOW) > 0) put_number(r, WANE_AUDIT_SHADOW, "shadow");
    if (number_of(r, WANE_AUDIT_DIVERGENCES) > 0) put_number(r, WANE_AUDIT_DIVERGENCES, "divergences");
    put_number(r, WANE_AUDIT_LOST, "lost");
    put_word(r, WANE_AUDIT_DETAIL, "");
    return out_text("\n", 1);
}

static bool print_all(const wane_audit_record *r) {
    char when[32];
    for (int i = 0; i < WANE_AUDIT_FIELDS; i++) {
        const wane_audit_value *v = &r->field[i];
        if (v->type == WANE_AUDIT_NONE) continue;
        out_format("%-14s ", wane_audit_field_name(i));
        if (i == WANE_AUDIT_AT && v->type == WANE_AUDIT_NUMBER)
            out_format("%s", date(v->number, when));
        else if (v->type == WANE_AUDIT_NUMBER)
            out_format("%lld", (long long)v->number);
        else
            out_plain(v->text, v->size);
        out_text("\n", 1);
    }
    return out_format("%-14s %s\n%-14s %s\n", "before", r->before, "hash", r->hash);
}

/* RFC 4180. A field that a spreadsheet would take for a formula is text all the same: it is quoted, and nothing is added to it. */
static void put_csv(const char *text, size_t size) {
    out_text("\"", 1);
    for (size_t at = 0; at < size;) {
        const char *quote = memchr(text + at, '"', size - at);
        size_t run = quote != NULL ? (size_t)(quote - text) - at : size - at;
        out_text(text + at, run);
        if (quote != NULL) out_text("\"\"", 2);
        at += run + (quote != NULL);
    }
    out_text("\"", 1);
}

static void print_csv_names(void) {
    for (int i = 0; i < WANE_AUDIT_FIELDS; i++) out_format("%s,", wane_audit_field_name(i));
    out_format("before,hash\n");
}

static bool print_csv(const wane_audit_record *r) {
    for (int i = 0; i < WANE_AUDIT_FIELDS; i++) {
        const wane_audit_value *v = &r->field[i];
        if (v->type == WANE_AUDIT_NUMBER) out_format("%lld", (long long)v->number);
        if (v->type == WANE_AUDIT_STRING) put_csv(v->text, v->size);
        out_text(",", 1);
    }
    return out_format("%s,%s\n", r->before, r->hash);
}

/* ---- tail, show, export -------------------------------------------------------------------------------------------- */

enum form { AS_LINE, AS_ALL, AS_JSON, AS_CSV };

struct reading {
    enum form form;
    int64_t last, count;
};

static bool give(void *user, const wane_audit_record *r) {
    struct reading *reading = user;
    reading->last = number_of(r, WANE_AUDIT_SEQ);
    if (reading->count++ > 0 && reading->form == AS_ALL) out_text("\n", 1);
    bool fine = true;
    switch (reading->form) {
    case AS_LINE: fine = print_line(r); break;
    case AS_ALL: fine = print_all(r); break;
    case AS_CSV: fine = print_csv(r); break;
    case AS_JSON: fine = out_json(record_json(r), true); break;
    }
    return fine && !interrupt_seen();
}

static int filter_from(const struct settings *settings, wane_audit_filter *filter) {
    const char *since = setting_text(settings, SET_AUDIT_SINCE);
    wane_audit_filter_init(filter);
    filter->request = setting_text(settings, SET_AUDIT_REQUEST);
    filter->key = setting_text(settings, SET_AUDIT_OF_KEY);
    filter->table = setting_text(settings, SET_AUDIT_TABLE);
    filter->event = setting_text(settings, SET_AUDIT_EVENT);
    if (since == NULL || read_ago(since, &filter->since) || read_date(since, &filter->since))
        return EXIT_FINE;
    return cli_usage(
        "audit",
        "--since is \"%.40s\"; it must be a date, 2026-11-30, with a time, 2026-11-30T08:15:00Z, or so "
        "long ago, 90s, 15m, 12h, 7d",
        since);
}

static int read_log(const char *path, const wane_audit_filter *filter, struct reading *reading) {
    wane_error error = {0};
    int result = wane_audit_read(path, filter, give, reading, &error);
    if (result == WANE_ECANCELLED) return interrupt_seen() ? EXIT_INTERRUPTED : EXIT_FINE;
    return result == WANE_OK ? EXIT_FINE : cli_fail_wane(&error);
}

static int follow(const char *path, wane_audit_filter *filter, struct reading *reading) {
    int code = EXIT_FINE;
    filter->last = 0;
    while (code == EXIT_FINE && !interrupt_seen() && out_flush()) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
        if (reading->last > filter->after) filter->after = reading->last;
        if (!interrupt_seen()) code = read_log(path, filter, reading);
    }
    return interrupt_seen() ? EXIT_INTERRUPTED : code;
}

/* Where nothing fits, what comes from the end on is followed all the same. */
static bool note_end(void *user, const wane_audit_record *r) {
    *(int64_t *)user = number_of(r, WANE_AUDIT_SEQ);
    return true;
}

static int tail(const struct settings *settings, const char *path) {
    struct reading reading = {.form = setting_on(settings, SET_JSON) ? AS_JSON : AS_LINE};
    wane_audit_filter filter, end;
    int code = filter_from(settings, &filter);
    if (code != EXIT_FINE) return code;
    filter.last = setting_int(settings, SET_AUDIT_LINES);
    bool follows = setting_on(settings, SET_AUDIT_FOLLOW);
    wane_audit_filter_init(&end);
    end.last = 1;
    if (follows && wane_audit_read(path, &end, note_end, &reading.last, NULL) != WANE_OK) reading.last = 0;
    int64_t last = reading.last;
    code = read_log(path, &filter, &reading);
    if (reading.last < last) reading.last = last;
    return follows && code == EXIT_FINE ? follow(path, &filter, &reading) : code;
}

static int export_log(const struct settings *settings, const char *path) {
    bool csv = strcmp(setting_text(settings, SET_AUDIT_FORMAT), "csv") == 0;
    struct reading reading = {.form = csv ? AS_CSV : AS_JSON};
    wane_audit_filter filter;
    int code = filter_from(settings, &filter);
    if (code != EXIT_FINE) return code;
    if (csv && setting_on(settings, SET_JSON))
        return cli_usage("audit", "--json and --format csv contradict each other");
    if (csv) print_csv_names();
    return read_log(path, &filter, &reading);
}

/* A record by its number, or those of a request or reply. */
static int show(const struct settings *settings, const char *what, const char *path) {
    struct reading reading = {.form = setting_on(settings, SET_JSON) ? AS_JSON : AS_ALL};
    wane_audit_filter filter;
    size_t digits = strspn(what, "0123456789");
    wane_audit_filter_init(&filter);
    if (digits > 0 && digits < 19 && what[digits] == '\0') {
        filter.after = strtoll(what, NULL, 10) - 1;
        filter.only = filter.after + 1;
    } else {
        filter.request = what;
    }
    int code = read_log(path, &filter, &reading);
    if (code == EXIT_FINE && reading.count == 0)
        return cli_fail(EXIT_NOT_FOUND, "the audit log %s has no record \"%.100s\"", path, what);
    return code;
}

/* ---- verify -------------------------------------------------------------------------------------------------------- */

static json_t *verdict_json(const wane_audit_verdict *v, const char *const *paths) {
    char since[32], until[32];
    bool any = v->records > 0, whole = v->fault == WANE_AUDIT_WHOLE;
    return json_pack(
        "{s:b, s:s, s:o, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:b, s:b, s:o, s:o}", "whole",
        whole, "fault", wane_audit_fault_name(v->fault), "record",
        v->record > 0 ? json_integer(v->record) : json_null(), "file", paths[v->file], "what",
        whole ? json_null() : json_text(v->what, strlen(v->what)), "records", (json_int_t)v->records,
        "requests", (json_int_t)v->requests, "gaps", (json_int_t)v->gaps, "gaps_unknown",
        (json_int_t)v->gaps_unknown, "lost", (json_int_t)v->lost, "first", (json_int_t)v->first, "last",
        (json_int_t)v->last, "from", any ? json_string(date(v->since, since)) : json_null(), "to",
        any ? json_string(date(v->until, until)) : json_null(), "keyed", v->keyed, "ended", v->ended,
        "before", any ? json_string(v->before) : json_null(), "head",
        any ? json_string(v->head) : json_null());
}

static void print_verdict(const wane_audit_verdict *v) {
    char since[32], until[32];
    bool whole = v->fault == WANE_AUDIT_WHOLE;
    if (v->records > 0) {
        out_format(
            "records    %llu, numbers %lld to %lld, %s\nrequests   %llu\nfrom       %s\nto         %s\n",
            (unsigned long long)v->records, (long long)v->first, (long long)v->last,
            whole ? "all in order" : "in order", (unsigned long long)v->requests, date(v->since, since),
            date(v->until, until));
        if (strspn(v->before, "0") != 64) out_format("goes on    from %s\n", v->before);
    }
    if (v->gaps > 0)
        out_format("gaps       %llu: %llu records are missing%s\n", (unsigned long long)v->gaps,
                   (unsigned long long)v->lost,
                   v->gaps_unknown > 0 ? ", and nobody knows how many more" : "");
    out_format("chain      BLAKE2b-256, %s\n",
               v->keyed ? "keyed" : "without a key: whoever has the log can make another one");
    if (whole) out_format("ends       %s\n", v->ended ? "with a stop" : "open: a server runs, or was killed");
    if (v->records > 0) out_format("head       %s\n", v->head);
}

static int verify(const struct settings *settings, const char *const *paths, size_t count) {
    wane_audit_check check;
    wane_audit_verdict verdict;
    wane_error error = {0};
    wane_audit_check_init(&check);
    check.paths = paths;
    check.path_count = count;
    check.key_file = setting_text(settings, SET_AUDIT_KEY);
    check.head = setting_text(settings, SET_AUDIT_HEAD);
    check.progress = progress_goes_on;
    int result = wane_audit_verify(&check, &verdict, &error);
    progress_clear();
    if (result == WANE_ECANCELLED) return EXIT_INTERRUPTED;
    if (result != WANE_OK) return cli_fail_wane(&error);
    if (setting_on(settings, SET_JSON))
        out_json(verdict_json(&verdict, paths), false);
    else
        print_verdict(&verdict);
    if (verdict.fault == WANE_AUDIT_WHOLE) return EXIT_FINE;
    out_flush();
    return cli_fail(EXIT_FAILED, "%s: %s", paths[verdict.file], verdict.what);
}

/* ---- the command --------------------------------------------------------------------------------------------------- */

static int rotate(const struct settings *settings) {
    wane_error error = {0};
    if (settings->operand_count != 3)
        return cli_usage("audit", "wane audit rotate needs the log and the name of the next one");
    int result = wane_audit_rotate(settings->operands[1], settings->operands[2],
                                   setting_text(settings, SET_AUDIT_KEY), &error);
    if (result != WANE_OK) return cli_fail_wane(&error);
    cli_say("%s is closed, and goes on in %s: start the server with --audit %s", settings->operands[1],
            settings->operands[2], settings->operands[2]);
    return EXIT_FINE;
}

int command_audit(struct settings *settings) {
    const char *what = settings->operand_count > 0 ? settings->operands[0] : "";
    bool shows = strcmp(what, "show") == 0, verifies = strcmp(what, "verify") == 0;
    size_t words = shows ? 2 : 1,
           files = settings->operand_count > words ? settings->operand_count - words : 0;
    if (strcmp(what, "rotate") == 0) return rotate(settings);
    if (!shows && !verifies && strcmp(what, "tail") != 0 && strcmp(what, "export") != 0)
        return cli_usage("audit", "wane audit knows tail, show, export, verify and rotate; got \"%.60s\"",
                         what);
    if (shows && settings->operand_count < 2)
        return cli_usage("audit",
                         "wane audit show needs the number of a record, or the id of a request or reply");
    const char *configured = setting_text(settings, SET_AUDIT);
    const char *const *paths = (const char *const *)(void *)(settings->operands + words);
    if (files == 0 && configured == NULL)
        return cli_usage("audit", "wane audit %s needs a file, as wane serve --audit writes it", what);
    if (files > 1 && !verifies) return cli_usage("audit", "wane audit %s reads one file at a time", what);
    if (files == 0) paths = &configured;
    interrupt_catch();
    if (verifies) return verify(settings, paths, files > 0 ? files : 1);
    if (shows) return show(settings, settings->operands[1], paths[0]);
    return strcmp(what, "tail") == 0 ? tail(settings, paths[0]) : export_log(settings, paths[0]);
}
