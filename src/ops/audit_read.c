/*
 * audit_read.c - a log as its readers have it: records by a filter, and the verdict on its chain.
 *
 * Believes nothing: the form is compared word by word, bounds are SQLite's own, and what cannot be read is a finding, not a crash. Reading works
 * beside a server that writes, and where the folder may not be written.
 */
#include "core/error.h"
#include "core/memory.h"
#include "ops/audit.h"

#include <errno.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_MS = 2000, PROGRESS_EVERY = 4096 };
/* So many numbers are tried to say whose place a record stands in. */
#define TRIED_MOST INT64_C(1000000)

void wane_audit_filter_init(wane_audit_filter *filter) {
    *filter = (wane_audit_filter){.size = sizeof *filter, .since = INT64_MIN};
}

void wane_audit_check_init(wane_audit_check *check) {
    *check = (wane_audit_check){.size = sizeof *check};
}

/* ------------------------------------------------------------------- open */

/* A path as a file: name, in which some characters mean something. */
static char *as_name(const char *path, const char *behind) {
    size_t room = 3 * strlen(path) + strlen(behind) + 6, used = 5;
    char *name = wane__alloc(room);
    if (name == NULL) return NULL;
    memcpy(name, "file:", 5);
    for (const char *c = path; *c != '\0'; c++) {
        if (*c == '%' || *c == '?' || *c == '#')
            used += (size_t)snprintf(name + used, room - used, "%%%02x", (unsigned char)*c);
        else
            name[used++] = *c;
    }
    snprintf(name + used, room - used, "%s", behind);
    return name;
}

static int open_as(const char *path, const char *behind, sqlite3 **base, bool *fresh, char guard[64],
                   wane_error *error) {
    char *name = as_name(path, behind);
    if (name == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a file name.");
    int opened =
        sqlite3_open_v2(name, base, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, NULL);
    wane__free(name);
    int status = WANE_OK;
    if (opened != SQLITE_OK) {
        status = wane__audit_form_failed(*base, path, error);
    } else {
        wane__audit_form_defend(*base);
        sqlite3_busy_timeout(*base, READ_MS);
        status = wane__audit_form_check(*base, path, fresh, guard, error);
    }
    if (status == WANE_OK) return WANE_OK;
    sqlite3_close(*base);
    *base = NULL;
    return status;
}

/* Nothing waits in a WAL, so that the file alone is all there is. */
static bool is_alone(const char *path) {
    char name[4200];
    struct stat facts;
    if (snprintf(name, sizeof name, "%s-wal", path) >= (int)sizeof name) return false;
    return stat(name, &facts) != 0 || facts.st_size == 0;
}

static int open_to_read(const char *path, sqlite3 **base, char guard[64], wane_error *error) {
    struct stat facts;
    bool fresh = false;
    *base = NULL;
    guard[0] = '\0';
    if (stat(path, &facts) != 0 || access(path, R_OK) != 0)
        return wane__fail(error, errno == ENOENT ? WANE_ENOENT : WANE_EIO,
                          "Cannot open the audit log %s: %s.", path, strerror(errno));
    if (!S_ISREG(facts.st_mode))
        return wane__fail(error, WANE_EFORMAT, "The audit log %s is no plain file.", path);
    int status = open_as(path, "", base, &fresh, guard, error);
    /* In a folder that may not be written SQLite cannot put its shared memory beside the file. */
    if (status == WANE_EIO && is_alone(path))
        status = open_as(path, "?immutable=1", base, &fresh, guard, error);
    if (status == WANE_OK && fresh) {
        status = wane__fail(error, WANE_EFORMAT, "The file %s is empty, and no audit log.", path);
        sqlite3_close(*base);
        *base = NULL;
    }
    return status;
}

/* ------------------------------------------------------------------- read */

static void bind_text(sqlite3_stmt *row, int at, const char *text) {
    if (text != NULL)
        sqlite3_bind_text(row, at, text, -1, SQLITE_STATIC);
    else
        sqlite3_bind_null(row, at);
}

static int ask(sqlite3 *base, const wane_audit_filter *f, sqlite3_stmt **row) {
    static const char fits[] =
        " WHERE seq > ?1 AND at >= ?2 AND (?3 IS NULL OR request = ?3 OR reply = ?3) AND (?8 = 0 OR seq = ?8)"
        " AND (?4 IS NULL OR key = ?4) AND (?5 IS NULL OR event = ?5)"
        " AND (?6 IS NULL OR substr(slmt_table, 1, length(?6)) = ?6) ORDER BY seq";
    char sql[2048];
    /* The newest come the other way round; all of them need no sorting. */
    if (f->last > 0)
        snprintf(sql, sizeof sql, "SELECT * FROM (%s%s DESC LIMIT ?7) ORDER BY seq", wane__audit_select,
                 fits);
    else
        snprintf(sql, sizeof sql, "%s%s LIMIT ?7", wane__audit_select, fits);
    int step = sqlite3_prepare_v2(base, sql, -1, row, NULL);
    if (step != SQLITE_OK) return step;
    sqlite3_bind_int64(*row, 1, f->after);
    sqlite3_bind_int64(*row, 2, f->since);
    bind_text(*row, 3, f->request);
    bind_text(*row, 4, f->key);
    bind_text(*row, 5, f->event);
    bind_text(*row, 6, f->table);
    sqlite3_bind_int64(*row, 8, f->only);
    return sqlite3_bind_int64(*row, 7, f->last > 0 ? f->last : -1);
}

int wane_audit_read(const char *path, const wane_audit_filter *filter, wane_audit_fn give, void *user,
                    wane_error *error) {
    sqlite3 *base;
    sqlite3_stmt *row = NULL;
    char guard[64];
    wane__clear(error);
    if (filter->size != sizeof *filter)
        return wane__fail(error, WANE_EINVAL, "The filter was not set up by wane_audit_filter_init.");
    int status = open_to_read(path, &base, guard, error);
    if (status != WANE_OK) return status;
    int step = ask(base, filter, &row);
    if (step == SQLITE_OK) step = SQLITE_ROW;
    while (step == SQLITE_ROW && (step = sqlite3_step(row)) == SQLITE_ROW && status == WANE_OK) {
        wane_audit_record record;
        unsigned char before[WANE__AUDIT_HASH], hash[WANE__AUDIT_HASH];
        wane__audit_row(row, record.field, before, hash); /* shown as it is: whoever wants to know verifies */
        sodium_bin2hex(record.before, sizeof record.before, before, sizeof before);
        sodium_bin2hex(record.hash, sizeof record.hash, hash, sizeof hash);
        if (!give(user, &record)) status = wane__fail(error, WANE_ECANCELLED, "Reading was stopped.");
    }
    if (status == WANE_OK && step != SQLITE_DONE) status = wane__audit_form_failed(base, path, error);
    sqlite3_finalize(row);
    sqlite3_close(base);
    return status;
}

/* ------------------------------------------------------------------- verify */

struct walk {
    const wane_audit_check *check;
    wane_audit_verdict *v;
    struct wane__audit_key key;
    unsigned char head[WANE__AUDIT_HASH];
    char wanted[65]; /* the head that must be there; "" */
    bool found;
    int64_t next; /* number that must come; 0: the very first */
    bool any;     /* a record was read */
    double total; /* records of all files, about */
};

__attribute__((format(printf, 4, 5))) static void blame(struct walk *w, int fault, int64_t record,
                                                        const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(w->v->what, sizeof w->v->what, format, args);
    va_end(args);
    w->v->fault = fault;
    w->v->record = record;
}

/* The number with which this record's hash is right; 0: none. */
static int64_t place_of(const struct walk *w, wane_audit_value field[WANE_AUDIT_FIELDS],
                        const unsigned char before[WANE__AUDIT_HASH],
                        const unsigned char hash[WANE__AUDIT_HASH]) {
    unsigned char own[WANE__AUDIT_HASH];
    wane_audit_value *seq = &field[WANE_AUDIT_SEQ];
    int64_t stands = seq->number, found = 0;
    for (int64_t away = 1; away <= TRIED_MOST && found == 0; away++) {
        for (int side = -1; side <= 1 && found == 0; side += 2) {
            if ((side < 0 && stands <= away) || (side > 0 && stands > INT64_MAX - away)) continue;
            seq->number = stands + side * away;
            wane__audit_hash(&w->key, before, field, own);
            if (sodium_memcmp(own, hash, sizeof own) == 0) found = seq->number;
        }
        if (away > stands && away > 2 * (int64_t)w->total + 16) break;
    }
    seq->number = stands;
    return found;
}

static bool check_number(struct walk *w, int64_t seq) {
    if (!w->any || seq == w->next) return true;
    if (seq == w->next + 1)
        blame(w, WANE_AUDIT_MISSING, w->next, "Record %lld is missing.", (long long)w->next);
    else
        blame(w, WANE_AUDIT_MISSING, w->next, "Records %lld to %lld are missing.", (long long)w->next,
              (long long)seq - 1);
    return false;
}

static bool check_contents(struct walk *w, wane_audit_value field[WANE_AUDIT_FIELDS],
                           const unsigned char before[WANE__AUDIT_HASH],
                           const unsigned char hash[WANE__AUDIT_HASH]) {
    unsigned char own[WANE__AUDIT_HASH];
    int64_t seq = field[WANE_AUDIT_SEQ].number;
    wane__audit_hash(&w->key, before, field, own);
    if (sodium_memcmp(own, hash, sizeof own) == 0) return true;
    int64_t place = place_of(w, field, before, hash);
    if (place > 0)
        blame(w, WANE_AUDIT_REORDERED, seq, "Record %lld was written as record %lld.", (long long)seq,
              (long long)place);
    else
        blame(w, WANE_AUDIT_CHANGED, seq, "Record %lld was changed: its hash is not that of its contents.",
              (long long)seq);
    return false;
}

static bool check_link(struct walk *w, int64_t seq, const char *event,
                       const unsigned char before[WANE__AUDIT_HASH]) {
    if (!w->any) {
        if (strcmp(event, "open") == 0) return true;
        blame(w, WANE_AUDIT_MISSING, seq,
              "The log begins with record %lld, which is no first one: what was before it is missing.",
              (long long)seq);
        return false;
    }
    if (sodium_memcmp(before, w->head, sizeof w->head) == 0) return true;
    blame(w, WANE_AUDIT_REPLACED, seq,
          "Record %lld is chained to another record than number %lld as it stands here: that one was "
          "exchanged.",
          (long long)seq, (long long)seq - 1);
    return false;
}

static void count_record(wane_audit_verdict *v, const wane_audit_value field[WANE_AUDIT_FIELDS],
                         const unsigned char before[WANE__AUDIT_HASH],
                         const unsigned char hash[WANE__AUDIT_HASH]) {
    const char *event = field[WANE_AUDIT_EVENT].text;
    bool gap = strcmp(event, "gap") == 0;
    v->last = field[WANE_AUDIT_SEQ].number;
    v->until = field[WANE_AUDIT_AT].number;
    if (v->records++ == 0) {
        v->first = v->last;
        v->since = v->until;
        sodium_bin2hex(v->before, sizeof v->before, before, WANE__AUDIT_HASH);
    }
    sodium_bin2hex(v->head, sizeof v->head, hash, WANE__AUDIT_HASH);
    v->requests += strcmp(event, "request") == 0;
    v->gaps += gap;
    v->gaps_unknown += gap && field[WANE_AUDIT_LOST].type != WANE_AUDIT_NUMBER;
    if (gap && field[WANE_AUDIT_LOST].number > 0) v->lost += (uint64_t)field[WANE_AUDIT_LOST].number;
    v->ended = strcmp(event, "stop") == 0 || strcmp(event, "close") == 0 || strcmp(event, "open") == 0;
}

/* One record. False: that is where it ends. */
static bool see(struct walk *w, sqlite3_stmt *row) {
    wane_audit_value field[WANE_AUDIT_FIELDS];
    unsigned char before[WANE__AUDIT_HASH], hash[WANE__AUDIT_HASH];
    bool formed = wane__audit_row(row, field, before, hash);
    const wane_audit_value *seq = &field[WANE_AUDIT_SEQ], *event = &field[WANE_AUDIT_EVENT];
    if (seq->type != WANE_AUDIT_NUMBER || !check_number(w, seq->number)) {
        if (w->v->fault == WANE_AUDIT_WHOLE)
            blame(w, WANE_AUDIT_DAMAGED, w->next, "A record behind number %lld has no number.",
                  (long long)w->next - 1);
        return false;
    }
    if (!formed || event->type != WANE_AUDIT_STRING || field[WANE_AUDIT_AT].type != WANE_AUDIT_NUMBER) {
        blame(w, WANE_AUDIT_CHANGED, seq->number,
              "Record %lld was changed: it has a field of a kind that no record has.",
              (long long)seq->number);
        return false;
    }
    if (!check_contents(w, field, before, hash) || !check_link(w, seq->number, event->text, before))
        return false;
    count_record(w->v, field, before, hash);
    memcpy(w->head, hash, sizeof hash);
    w->found = w->found || strcmp(w->wanted, w->v->head) == 0;
    w->any = true;
    w->next = seq->number + 1;
    return seq->number < INT64_MAX;
}

/* AUTOINCREMENT keeps the largest number that was ever given out; whoever cuts with a plain DELETE leaves it. */
static void check_end(struct walk *w, sqlite3 *base) {
    sqlite3_stmt *row = NULL;
    int64_t given = 0;
    if (sqlite3_prepare_v2(base, "SELECT seq FROM sqlite_sequence WHERE name = 'audit'", -1, &row, NULL) ==
            SQLITE_OK &&
        sqlite3_step(row) == SQLITE_ROW)
        given = sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    if (!w->any)
        blame(w, WANE_AUDIT_CUT, given > 0 ? 1 : 0, "The log has no records, not even its first one.");
    else if (given >= w->next)
        blame(w, WANE_AUDIT_CUT, w->next, "Records %lld to %lld are missing at the end.", (long long)w->next,
              (long long)given);
}

static double count_of(const char *path) {
    sqlite3 *base;
    sqlite3_stmt *row = NULL;
    char guard[64];
    double count = 0;
    if (open_to_read(path, &base, guard, NULL) != WANE_OK) return 0;
    if (sqlite3_prepare_v2(base, "SELECT max(seq) - min(seq) + 1 FROM audit", -1, &row, NULL) == SQLITE_OK &&
        sqlite3_step(row) == SQLITE_ROW)
        count = sqlite3_column_double(row, 0);
    sqlite3_finalize(row);
    sqlite3_close(base);
    return count > 0 && count < 1e15 ? count : 0;
}

static bool goes_on(struct walk *w) {
    if (w->check->progress == NULL || w->v->records % PROGRESS_EVERY != 0) return true;
    return w->check->progress(w->check->progress_user, "verifying the audit log",
                              w->total > 0 ? (double)w->v->records / w->total : -1);
}

static int walk_file(struct walk *w, sqlite3 *base, const char *path, wane_error *error) {
    char sql[1024];
    sqlite3_stmt *row = NULL;
    snprintf(sql, sizeof sql, "%s ORDER BY seq", wane__audit_select);
    int step = sqlite3_prepare_v2(base, sql, -1, &row, NULL), status = WANE_OK;
    if (step == SQLITE_OK) step = SQLITE_ROW;
    while (step == SQLITE_ROW && (step = sqlite3_step(row)) == SQLITE_ROW) {
        if (!see(w, row)) break;
        if (goes_on(w)) continue;
        status = wane__fail(error, WANE_ECANCELLED, "The check was stopped.");
        break;
    }
    if (step != SQLITE_ROW && step != SQLITE_DONE) {
        wane_error why = {0};
        status = wane__audit_form_failed(base, path, &why);
        if (status == WANE_EFORMAT)
            blame(w, WANE_AUDIT_DAMAGED, w->any ? w->next : 1, "Record %lld cannot be read: %.300s",
                  w->any ? (long long)w->next : 1, why.text);
        status = status == WANE_EFORMAT ? WANE_OK : wane__fail(error, status, "%s", why.text);
    }
    sqlite3_finalize(row);
    if (status == WANE_OK && w->v->fault == WANE_AUDIT_WHOLE) check_end(w, base);
    return status;
}

static int verify_file(struct walk *w, size_t index, wane_error *error) {
    const char *path = w->check->paths[index];
    sqlite3 *base;
    char guard[64];
    w->v->file = index;
    int status = open_to_read(path, &base, guard, error);
    if (status != WANE_OK) return status;
    status = wane__audit_form_key(base, path, &w->key, error);
    if (status == WANE_OK) status = walk_file(w, base, path, error);
    sqlite3_close(base);
    if (status == WANE_OK && w->v->fault == WANE_AUDIT_WHOLE && guard[0] != '\0')
        blame(w, WANE_AUDIT_UNGUARDED, 0,
              "All records are in order, but the trigger %s, which keeps them from being changed, was taken "
              "away.",
              guard);
    return status;
}

static bool take_head(const char *given, char wanted[65]) {
    static const char digits[] = "0123456789abcdefABCDEF";
    if (strlen(given) != 64 || strspn(given, digits) != 64) return false;
    for (int i = 0; i < 65; i++)
        wanted[i] = given[i] >= 'A' && given[i] <= 'F' ? (char)(given[i] + 32) : given[i];
    return true;
}

int wane_audit_verify(const wane_audit_check *check, wane_audit_verdict *verdict, wane_error *error) {
    wane__clear(error);
    *verdict = (wane_audit_verdict){0};
    if (check->size != sizeof *check || check->path_count == 0)
        return wane__fail(error, WANE_EINVAL,
                          "The check was not set up by wane_audit_check_init, or names no log.");
    struct walk w = {.check = check, .v = verdict};
    if (check->head != NULL && !take_head(check->head, w.wanted))
        return wane__fail(error, WANE_EINVAL, "The head is \"%.70s\"; it must be 64 hexadecimal digits.",
                          check->head);
    int status = wane__audit_key_read(check->key_file, &w.key, error);
    verdict->keyed = w.key.given;
    for (size_t i = 0; i < check->path_count && status == WANE_OK; i++) w.total += count_of(check->paths[i]);
    for (size_t i = 0; i < check->path_count && status == WANE_OK && verdict->fault == WANE_AUDIT_WHOLE; i++)
        status = verify_file(&w, i, error);
    sodium_memzero(&w.key, sizeof w.key);
    if (status == WANE_OK && verdict->fault == WANE_AUDIT_WHOLE && w.wanted[0] != '\0' && !w.found)
        blame(&w, WANE_AUDIT_CUT, w.next,
              "No record has the hash %.16s…: the log was cut before it, or it is another log.", w.wanted);
    return status;
}
