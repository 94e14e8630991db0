/*
 * audit_file.c - the log as its writer has it: opened, checked at its end, and appended to in transactions.
 *
 * WAL, so that readers never wait and a transaction is one write and one sync; synchronous FULL, so that what was committed survives a power
 * cut as well. Refuses to make a log where only a WAL of another one lies, to go on behind a record that is not in order, and to go on in a
 * log that was closed.
 */
#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "ops/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUSY_MS = 1000 };

static const char insert_sql[] =
    "INSERT INTO audit VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
_Static_assert(sizeof insert_sql == sizeof "INSERT INTO audit VALUES()" + 2 * (WANE_AUDIT_FIELDS + 2) - 1,
               "a place for each column");

/* ------------------------------------------------------------------- open */

static int64_t size_of(const char *path, const char *ending) {
    char name[4200];
    struct stat facts;
    if (snprintf(name, sizeof name, "%s%s", path, ending) >= (int)sizeof name) return -1;
    return stat(name, &facts) == 0 ? (int64_t)facts.st_size : -1;
}

/* For its owner only. What SQLite puts beside it gets the same rights. */
static int make_file(const char *path, bool make, wane_error *error) {
    struct stat facts;
    if (size_of(path, "") <= 0 && size_of(path, "-wal") > 0)
        return wane__fail(error, WANE_EFORMAT,
                          "The audit log %s is missing, but %s-wal is there: the log was moved away without "
                          "it. Bring it back, or "
                          "move both away.",
                          path, path);
    int fd = open(path, (make ? O_CREAT | O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0 && make && (errno == EACCES || errno == EROFS))
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return wane__fail(error, errno == ENOENT ? WANE_ENOENT : WANE_EIO,
                          "Cannot open the audit log %s: %s.", path, strerror(errno));
    bool plain = fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
    close(fd);
    return plain ? WANE_OK : wane__fail(error, WANE_EFORMAT, "The audit log %s is no plain file.", path);
}

static int remember_identity(struct wane__audit_file *f, wane_error *error) {
    struct stat facts;
    if (stat(f->path, &facts) != 0)
        return wane__fail(error, WANE_EIO, "Cannot look at the audit log %s: %s.", f->path, strerror(errno));
    f->device = (uint64_t)facts.st_dev;
    f->inode = (uint64_t)facts.st_ino;
    return WANE_OK;
}

static bool run(struct wane__audit_file *f, const char *sql) {
    return sqlite3_exec(f->base, sql, NULL, NULL, NULL) == SQLITE_OK;
}

/* Where the log ends; its last record must be in order. */
static int find_end(struct wane__audit_file *f, wane_error *error) {
    char sql[1024];
    sqlite3_stmt *row = NULL;
    wane_audit_value field[WANE_AUDIT_FIELDS];
    unsigned char before[WANE__AUDIT_HASH], hash[WANE__AUDIT_HASH], own[WANE__AUDIT_HASH];
    snprintf(sql, sizeof sql, "%s ORDER BY seq DESC LIMIT 1", wane__audit_select);
    int step = sqlite3_prepare_v2(f->base, sql, -1, &row, NULL);
    if (step == SQLITE_OK) step = sqlite3_step(row);
    int status = WANE_OK;
    if (step == SQLITE_DONE) {
        status = wane__fail(error, WANE_EFORMAT, "The audit log %s has no records, not even its first one.",
                            f->path);
    } else if (step != SQLITE_ROW) {
        status = wane__audit_form_failed(f->base, f->path, error);
    } else if (!wane__audit_row(row, field, before, hash) ||
               field[WANE_AUDIT_SEQ].type != WANE_AUDIT_NUMBER ||
               field[WANE_AUDIT_EVENT].type != WANE_AUDIT_STRING) {
        status =
            wane__fail(error, WANE_EFORMAT, "The last record of the audit log %s is no record.", f->path);
    } else {
        wane__audit_hash(f->key, before, field, own);
        f->seq = field[WANE_AUDIT_SEQ].number;
        memcpy(f->head, hash, sizeof f->head);
        snprintf(f->last_event, sizeof f->last_event, "%s", field[WANE_AUDIT_EVENT].text);
        if (sodium_memcmp(own, hash, sizeof own) != 0)
            status = wane__fail(error, WANE_EFORMAT,
                                "Record %lld of the audit log %s, the last one, was changed; \"wane audit "
                                "verify\" says more. Move "
                                "the log away, and begin a new one.",
                                (long long)f->seq, f->path);
    }
    sqlite3_finalize(row);
    return status;
}

static void describe_origin(struct wane__audit_file *f, const struct wane__audit_origin *origin,
                            struct wane__audit_note *note) {
    char quoted[300] = "", key[24] = "null";
    size_t used = 0;
    if (f->key->given) snprintf(key, sizeof key, "\"%s\"", f->key->name);
    /* A file's name in JSON: what would need an escape is left out. */
    for (const char *c = origin->name; c != NULL && *c != '\0' && used < sizeof quoted - 1; c++)
        if ((unsigned char)*c >= 0x20 && *c != '"' && *c != '\\') quoted[used++] = *c;
    quoted[used] = '\0';
    wane__audit_note_format(note, WANE_AUDIT_DETAIL, "{\"form\":1,\"hash\":\"blake2b-256\",\"key\":%s%s%s%s}",
                            key, origin->name != NULL ? ",\"after\":\"" : "", quoted,
                            origin->name != NULL ? "\"" : "");
}

static int begin_log(struct wane__audit_file *f, const struct wane__audit_origin *origin, wane_error *error) {
    static const struct wane__audit_origin first = {0};
    if (origin == NULL) origin = &first;
    struct wane__audit_note *note = wane__audit_note_new("open");
    if (note == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for an audit log.");
    describe_origin(f, origin, note);
    f->seq = origin->seq;
    memcpy(f->head, origin->head, sizeof f->head);
    int status = wane__audit_form_make(f->base, f->path, error);
    if (status == WANE_OK) status = wane__audit_file_append(f, note, error);
    wane__audit_note_free(note);
    return status;
}

/* A form without a first record is none: both in one transaction. */
static int make_log(struct wane__audit_file *f, const struct wane__audit_origin *origin, wane_error *error) {
    if (!run(f, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; BEGIN IMMEDIATE"))
        return wane__audit_form_failed(f->base, f->path, error);
    int status = begin_log(f, origin, error);
    if (status == WANE_OK && !run(f, "COMMIT")) status = wane__audit_form_failed(f->base, f->path, error);
    if (status != WANE_OK && sqlite3_get_autocommit(f->base) == 0) run(f, "ROLLBACK");
    snprintf(f->last_event, sizeof f->last_event, "open");
    return status;
}

static int open_base(struct wane__audit_file *f, bool make, const struct wane__audit_origin *origin,
                     wane_error *error) {
    bool fresh = false;
    char guard[64];
    if (sqlite3_open_v2(f->path, &f->base, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        return wane__audit_form_failed(f->base, f->path, error);
    wane__audit_form_defend(f->base);
    sqlite3_busy_timeout(f->base, BUSY_MS);
    int status = wane__audit_form_check(f->base, f->path, &fresh, guard, error);
    if (status != WANE_OK) return status;
    if (fresh && !make)
        return wane__fail(error, WANE_EFORMAT, "The file %s is empty, and no audit log.", f->path);
    if (fresh) return make_log(f, origin, error);
    if (guard[0] != '\0')
        return wane__fail(error, WANE_EFORMAT,
                          "The audit log %s lacks the trigger %s, which keeps records from being changed: "
                          "somebody took it away. "
                          "Move the log away, and begin a new one.",
                          f->path, guard);
    status = wane__audit_form_key(f->base, f->path, f->key, error);
    if (status == WANE_OK) status = find_end(f, error);
    if (status == WANE_OK && !run(f, "PRAGMA synchronous=FULL; PRAGMA journal_size_limit=4194304"))
        status = wane__audit_form_failed(f->base, f->path, error);
    return status;
}

int wane__audit_file_open(const char *path, const struct wane__audit_key *key, bool make,
                          const struct wane__audit_origin *origin, struct wane__audit_file **file,
                          wane_error *error) {
    *file = NULL;
    int status = make_file(path, make, error);
    if (status != WANE_OK) return status;
    struct wane__audit_file *f = wane__alloc_zero(1, sizeof *f);
    if (f == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for an audit log.");
    f->key = key;
    f->path = wane__copy_string(path);
    if (f->path == NULL) status = wane__fail(error, WANE_ENOMEM, "No memory for an audit log.");
    if (status == WANE_OK) status = open_base(f, make, origin, error);
    if (status == WANE_OK) status = remember_identity(f, error);
    if (status == WANE_OK)
        *file = f;
    else
        wane__audit_file_close(f);
    return status;
}

void wane__audit_file_close(struct wane__audit_file *f) {
    if (f == NULL) return;
    sqlite3_finalize(f->insert);
    sqlite3_close(f->base);
    wane__free(f->path);
    wane__free(f);
}

/* ------------------------------------------------------------------- append */

static void values_of(const struct wane__audit_note *note, wane_audit_value field[WANE_AUDIT_FIELDS]) {
    for (int i = 0; i < WANE_AUDIT_FIELDS; i++) {
        bool text = note->field[i].type == WANE_AUDIT_STRING;
        field[i] = (wane_audit_value){.type = note->field[i].type,
                                      .number = note->field[i].number,
                                      .text = text ? note->text.data + note->field[i].at : NULL,
                                      .size = note->field[i].size};
    }
}

static bool insert(struct wane__audit_file *f, const wane_audit_value field[WANE_AUDIT_FIELDS],
                   const unsigned char hash[WANE__AUDIT_HASH]) {
    sqlite3_stmt *s = f->insert;
    for (int i = 0; i < WANE_AUDIT_FIELDS; i++) {
        const wane_audit_value *v = &field[i];
        if (v->type == WANE_AUDIT_NUMBER)
            sqlite3_bind_int64(s, i + 1, v->number);
        else if (v->type == WANE_AUDIT_STRING)
            sqlite3_bind_text(s, i + 1, v->text, (int)v->size, SQLITE_STATIC);
        else
            sqlite3_bind_null(s, i + 1);
    }
    sqlite3_bind_blob(s, WANE_AUDIT_FIELDS + 1, f->head, WANE__AUDIT_HASH, SQLITE_STATIC);
    sqlite3_bind_blob(s, WANE_AUDIT_FIELDS + 2, hash, WANE__AUDIT_HASH, SQLITE_STATIC);
    bool fine = sqlite3_step(s) == SQLITE_DONE;
    fine = sqlite3_reset(s) == SQLITE_OK && fine;
    sqlite3_clear_bindings(s);
    return fine;
}

/* Within a transaction: each note behind the one before. */
static bool append_notes(struct wane__audit_file *f, struct wane__audit_note *notes) {
    unsigned char hash[WANE__AUDIT_HASH];
    wane_audit_value field[WANE_AUDIT_FIELDS];
    bool fine = true;
    for (struct wane__audit_note *note = notes; note != NULL && fine; note = note->next) {
        if (note->field[WANE_AUDIT_AT].type == WANE_AUDIT_NONE)
            wane__audit_note_number(note, WANE_AUDIT_AT, wane__date_ms());
        wane__audit_note_number(note, WANE_AUDIT_SEQ, f->seq + 1);
        values_of(note, field);
        wane__audit_hash(f->key, f->head, field, hash);
        fine = insert(f, field, hash);
        if (!fine) break;
        f->seq++;
        memcpy(f->head, hash, sizeof hash);
    }
    return fine;
}

/* Is the file under the name the one that is open? A log that was moved away takes no more records: nobody would find them. */
static int check_place(const struct wane__audit_file *f, wane_error *error) {
    struct stat facts;
    if (f->inode == 0 || (stat(f->path, &facts) == 0 && (uint64_t)facts.st_dev == f->device &&
                          (uint64_t)facts.st_ino == f->inode))
        return WANE_OK;
    return wane__fail(
        error, WANE_EIO,
        "The audit log %s was moved or removed while it was in use; bring it back, or start the server anew.",
        f->path);
}

/* Did anybody else append meanwhile? Their records would not be in our chain. */
static int check_end(struct wane__audit_file *f, wane_error *error) {
    sqlite3_stmt *row = NULL;
    int64_t last = 0;
    bool fine = sqlite3_prepare_v2(f->base, "SELECT max(seq) FROM audit", -1, &row, NULL) == SQLITE_OK &&
                sqlite3_step(row) == SQLITE_ROW;
    bool none = fine && sqlite3_column_type(row, 0) == SQLITE_NULL;
    if (fine) last = sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    if (!fine) return wane__audit_form_failed(f->base, f->path, error);
    if (none && f->last_event[0] == '\0') return WANE_OK; /* its first record is on its way */
    if (!none && last == f->seq) return WANE_OK;
    return wane__fail(error, WANE_EFORMAT,
                      "The audit log %s ends with record %lld, and not with %lld, which was written last: "
                      "somebody else wrote to it.",
                      f->path, (long long)last, (long long)f->seq);
}

int wane__audit_file_append(struct wane__audit_file *f, struct wane__audit_note *notes, wane_error *error) {
    int64_t seq = f->seq;
    unsigned char head[WANE__AUDIT_HASH];
    memcpy(head, f->head, sizeof head);
    bool inside = sqlite3_get_autocommit(f->base) == 0;
    int status = check_place(f, error);
    if (status != WANE_OK) return status;
    if (!inside && !run(f, "BEGIN IMMEDIATE")) return wane__audit_form_failed(f->base, f->path, error);
    status = check_end(f, error);
    if (status == WANE_OK && f->insert == NULL &&
        sqlite3_prepare_v2(f->base, insert_sql, -1, &f->insert, NULL) != SQLITE_OK)
        status = wane__audit_form_failed(f->base, f->path, error);
    if (status == WANE_OK && (!append_notes(f, notes) || (!inside && !run(f, "COMMIT"))))
        status = wane__audit_form_failed(f->base, f->path, error);
    if (status == WANE_OK) return WANE_OK;
    if (!inside && sqlite3_get_autocommit(f->base) == 0) run(f, "ROLLBACK");
    f->seq = seq;
    memcpy(f->head, head, sizeof head);
    return status;
}

bool wane__audit_file_tally(struct wane__audit_file *f, int64_t start, uint64_t *records, uint64_t *lost) {
    sqlite3_stmt *row = NULL;
    bool fine =
        sqlite3_prepare_v2(f->base,
                           "SELECT count(*) FILTER (WHERE event <> 'gap'), coalesce(sum(lost), 0) FROM audit"
                           " WHERE seq > ?",
                           -1, &row, NULL) == SQLITE_OK;
    fine = fine && sqlite3_bind_int64(row, 1, start) == SQLITE_OK && sqlite3_step(row) == SQLITE_ROW;
    if (fine) {
        *records = (uint64_t)sqlite3_column_int64(row, 0);
        *lost = (uint64_t)sqlite3_column_int64(row, 1);
    }
    sqlite3_finalize(row);
    return fine;
}
