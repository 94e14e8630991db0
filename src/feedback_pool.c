/*
 * feedback_pool.c - ratings in an SQLite file: appended by a server's threads one at a time, read by whoever may read the file.
 *
 *     feedback(id, at, response, tenant, key, model, rating, comment, prompt, reply)      application_id "wane", user_version 1
 *
 * Bounded: when seven eighths of its pages are used, its oldest eighth is deleted; pages beyond the bound are refused by SQLite itself.
 * Owns the file's form. Refuses files of other programs, and to let anybody wait long.
 */
#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/os.h"
#include "wane.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    APPLICATION = 0x77616e65, /* "wane" */
    VERSION = 1,
    PAGE = 4096,
    LOCKED_MS = 60, /* that SQLite waits for another program, and … */
    WAIT_MS = 60,   /* … that a thread waits for another one */
    READ_MS = 2000
};
static const uint64_t bytes_least = UINT64_C(1) << 20, bytes_most = UINT64_C(1) << 40;

struct wane_feedback {
    sqlite3 *file;
    sqlite3_stmt *insert, *trim;
    char *path;
    uint64_t pages; /* at most */
    pthread_mutex_t lock;
    pthread_cond_t free;
    bool busy;
};

void wane_feedback_options_init(wane_feedback_options *options) {
    *options = (wane_feedback_options){.size = sizeof *options,
                                       .bytes_most = UINT64_C(64) << 20,
                                       .keep_seconds = 3600};
}

/* ------------------------------------------------------------------- SQLite's words */

static int complain(const char *path, int code, const char *detail, wane_error *error) {
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return wane__fail(error, WANE_EBUSY,
                          "The feedback pool %s is locked by another program; try again later.", path);
    case SQLITE_FULL: return wane__fail(error, WANE_EIO, "The feedback pool %s, or its disk, is full.", path);
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return wane__fail(error, WANE_EFORMAT, "The feedback pool %s is damaged: %s.", path, detail);
    case SQLITE_CANTOPEN:
        return wane__fail(error, WANE_EIO, "Cannot open the feedback pool %s: %s.", path, detail);
    case SQLITE_READONLY:
        return wane__fail(error, WANE_EIO, "The feedback pool %s may not be written here: %s.", path, detail);
    case SQLITE_NOMEM: return wane__fail(error, WANE_ENOMEM, "No memory for the feedback pool %s.", path);
    default: return wane__fail(error, WANE_EIO, "The feedback pool %s cannot be used: %s.", path, detail);
    }
}

static int failed(sqlite3 *file, const char *path, wane_error *error) {
    return complain(path, file != NULL ? sqlite3_errcode(file) : SQLITE_NOMEM,
                    file != NULL ? sqlite3_errmsg(file) : "", error);
}

static bool ask_number(sqlite3 *file, const char *sql, int64_t *value) {
    sqlite3_stmt *statement = NULL;
    bool fine = sqlite3_prepare_v2(file, sql, -1, &statement, NULL) == SQLITE_OK &&
                sqlite3_step(statement) == SQLITE_ROW;
    if (fine) *value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return fine;
}

/* ------------------------------------------------------------------- open */

/* For its owner only: comments, and perhaps texts, are private. What SQLite puts beside it gets the same rights. */
static int make_file(const char *path, wane_error *error) {
    struct stat facts;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0)
        return wane__fail(error, WANE_EIO, "Cannot open the feedback pool %s: %s.", path, strerror(errno));
    bool plain = fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
    close(fd);
    return plain ? WANE_OK : wane__fail(error, WANE_EFORMAT, "The feedback pool %s is no plain file.", path);
}

/* Is it a pool of this form? An empty file can become one. */
static int check_form(sqlite3 *file, const char *path, bool *fresh, wane_error *error) {
    int64_t application = 0, version = 0, tables = 0;
    if (!ask_number(file, "PRAGMA application_id", &application) ||
        !ask_number(file, "PRAGMA user_version", &version) ||
        !ask_number(file, "SELECT count(*) FROM sqlite_master", &tables))
        return failed(file, path, error);
    *fresh = application == 0 && version == 0 && tables == 0;
    if (*fresh) return WANE_OK;
    if (application != APPLICATION)
        return wane__fail(error, WANE_EFORMAT, "The file %s is a data base, but no feedback pool.", path);
    if (version != VERSION)
        return wane__fail(error, WANE_EFORMAT, "The feedback pool %s has the form %d; this wane knows %d.",
                          path, (int)version, VERSION);
    return WANE_OK;
}

static int prepare(struct wane_feedback *p, wane_error *error) {
    static const char form[] =
        "BEGIN IMMEDIATE;"
        "CREATE TABLE IF NOT EXISTS feedback(id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL,"
        " response TEXT NOT NULL, tenant TEXT NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL,"
        " rating REAL NOT NULL, comment TEXT, prompt TEXT, reply TEXT);"
        "PRAGMA application_id=2002873957; PRAGMA user_version=1; COMMIT;";
    char pragmas[200];
    bool fresh = false;
    sqlite3_busy_timeout(p->file, READ_MS);
    snprintf(pragmas, sizeof pragmas,
             "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=64;"
             "PRAGMA journal_size_limit=1048576; PRAGMA max_page_count=%llu;",
             (unsigned long long)p->pages);
    int status = check_form(p->file, p->path, &fresh, error);
    if (status != WANE_OK) return status;
    if (sqlite3_exec(p->file, pragmas, NULL, NULL, NULL) != SQLITE_OK ||
        (fresh && sqlite3_exec(p->file, form, NULL, NULL, NULL) != SQLITE_OK) ||
        sqlite3_prepare_v2(
            p->file,
            "INSERT INTO feedback(at, response, tenant, key, model, rating, comment, prompt, reply)"
            " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
            -1, &p->insert, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(
            p->file,
            "DELETE FROM feedback WHERE id <= (SELECT id FROM feedback ORDER BY id LIMIT 1 OFFSET"
            " (SELECT count(*) / 8 FROM feedback))",
            -1, &p->trim, NULL) != SQLITE_OK)
        return failed(p->file, p->path, error);
    sqlite3_busy_timeout(p->file, LOCKED_MS);
    return WANE_OK;
}

int wane_feedback_open(const wane_feedback_options *o, wane_feedback **pool, wane_error *error) {
    wane__clear(error);
    *pool = NULL;
    if (o->size != sizeof *o || o->path == NULL || o->path[0] == '\0')
        return wane__fail(error, WANE_EINVAL, "The options of a feedback pool have no path.");
    if (o->bytes_most < bytes_least || o->bytes_most > bytes_most)
        return wane__fail(error, WANE_EINVAL,
                          "A feedback pool of %llu bytes is not allowed; it must be 1 MiB to 1 TiB.",
                          (unsigned long long)o->bytes_most);
    int status = make_file(o->path, error);
    if (status != WANE_OK) return status;
    struct wane_feedback *p = wane__alloc_zero(1, sizeof *p);
    if (p == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a feedback pool.");
    pthread_mutex_init(&p->lock, NULL);
    wane__os_cond_init(&p->free);
    p->pages = o->bytes_most / PAGE;
    p->path = wane__copy_string(o->path);
    if (p->path == NULL)
        status = wane__fail(error, WANE_ENOMEM, "No memory for a feedback pool.");
    else if (sqlite3_open_v2(o->path, &p->file, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
             SQLITE_OK)
        status = failed(p->file, o->path, error);
    else
        status = prepare(p, error);
    if (status == WANE_OK)
        *pool = p;
    else
        wane_feedback_close(p);
    return status;
}

void wane_feedback_close(wane_feedback *p) {
    if (p == NULL) return;
    sqlite3_finalize(p->insert);
    sqlite3_finalize(p->trim);
    sqlite3_close(p->file);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->free);
    wane__free(p->path);
    wane__free(p);
}

/* ------------------------------------------------------------------- append */

/* One writer at a time; nobody waits long for the others. */
static bool enter(struct wane_feedback *p) {
    double until = wane__now() + WAIT_MS / 1e3;
    pthread_mutex_lock(&p->lock);
    while (p->busy && wane__now() < until) wane__os_cond_wait(&p->free, &p->lock, until);
    bool mine = !p->busy;
    if (mine) p->busy = true;
    pthread_mutex_unlock(&p->lock);
    return mine;
}

static void leave(struct wane_feedback *p) {
    pthread_mutex_lock(&p->lock);
    p->busy = false;
    pthread_cond_signal(&p->free);
    pthread_mutex_unlock(&p->lock);
}

static void bind_text(sqlite3_stmt *statement, int at, const char *text) {
    if (text == NULL)
        sqlite3_bind_null(statement, at);
    else
        sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}

static bool crowded(struct wane_feedback *p) {
    int64_t pages = 0, unused = 0;
    return ask_number(p->file, "PRAGMA page_count", &pages) &&
           ask_number(p->file, "PRAGMA freelist_count", &unused) &&
           (uint64_t)(pages - unused) > p->pages / 8 * 7;
}

static bool run(sqlite3_stmt *statement) {
    bool fine = sqlite3_step(statement) == SQLITE_DONE;
    return sqlite3_reset(statement) == SQLITE_OK && fine;
}

static int append(struct wane_feedback *p, wane_feedback_entry *e, wane_error *error) {
    sqlite3_stmt *s = p->insert;
    e->at = wane__date_ms();
    if (sqlite3_exec(p->file, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        return failed(p->file, p->path, error);
    sqlite3_bind_int64(s, 1, e->at);
    bind_text(s, 2, e->response);
    bind_text(s, 3, e->tenant);
    bind_text(s, 4, e->key);
    bind_text(s, 5, e->model);
    sqlite3_bind_double(s, 6, e->rating);
    bind_text(s, 7, e->comment);
    bind_text(s, 8, e->prompt);
    bind_text(s, 9, e->reply);
    bool fine = (!crowded(p) || run(p->trim)) && run(s);
    sqlite3_clear_bindings(s);
    if (fine) {
        e->id = sqlite3_last_insert_rowid(p->file);
        fine = sqlite3_exec(p->file, "COMMIT", NULL, NULL, NULL) == SQLITE_OK;
    }
    if (fine) return WANE_OK;
    int status = failed(p->file, p->path, error);
    if (sqlite3_get_autocommit(p->file) == 0) sqlite3_exec(p->file, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

int wane_feedback_append(wane_feedback *p, wane_feedback_entry *entry, wane_error *error) {
    wane__clear(error);
    if (!(entry->rating >= -1 && entry->rating <= 1) || entry->response == NULL || entry->tenant == NULL ||
        entry->key == NULL || entry->model == NULL)
        return wane__fail(error, WANE_EINVAL,
                          "A rating needs a reply's id, tenant, key and model, and a number from -1 to 1.");
    if (!enter(p))
        return wane__fail(error, WANE_EBUSY,
                          "Too many ratings at once for the feedback pool %s; try again later.", p->path);
    int status = append(p, entry, error);
    leave(p);
    return status;
}

/* ------------------------------------------------------------------- reading */

static int open_to_read(const char *path, sqlite3 **file, wane_error *error) {
    bool fresh = false;
    *file = NULL;
    if (access(path, R_OK) != 0)
        return wane__fail(error, errno == ENOENT ? WANE_ENOENT : WANE_EIO,
                          "Cannot open the feedback pool %s: %s.", path, strerror(errno));
    int status = WANE_OK;
    if (sqlite3_open_v2(path, file, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        status = failed(*file, path, error);
    if (status == WANE_OK) {
        sqlite3_busy_timeout(*file, READ_MS);
        status = check_form(*file, path, &fresh, error);
    }
    if (status == WANE_OK && fresh)
        status = wane__fail(error, WANE_EFORMAT, "The file %s is empty, and no feedback pool.", path);
    if (status == WANE_OK) return status;
    sqlite3_close(*file);
    *file = NULL;
    return status;
}

static const char *text_at(sqlite3_stmt *s, int column) {
    return (const char *)sqlite3_column_text(s, column);
}

static const char *or_empty(const char *text) {
    return text != NULL ? text : "";
}

static bool give_row(sqlite3_stmt *s, wane_feedback_fn give, void *user) {
    wane_feedback_entry entry = {
        .id = sqlite3_column_int64(s, 0),
        .at = sqlite3_column_int64(s, 1),
        .response = or_empty(text_at(s, 2)),
        .tenant = or_empty(text_at(s, 3)),
        .key = or_empty(text_at(s, 4)),
        .model = or_empty(text_at(s, 5)),
        .rating = sqlite3_column_double(s, 6),
        .comment = text_at(s, 7),
        .prompt = text_at(s, 8),
        .reply = text_at(s, 9),
    };
    if (!(entry.rating >= -1 && entry.rating <= 1)) return true; /* another hand than ours wrote it */
    return give(user, &entry);
}

int wane_feedback_read(const char *path, wane_feedback_fn give, void *user, wane_error *error) {
    sqlite3 *file;
    sqlite3_stmt *s = NULL;
    wane__clear(error);
    int status = open_to_read(path, &file, error);
    if (status != WANE_OK) return status;
    int step =
        sqlite3_prepare_v2(file,
                           "SELECT id, at, response, tenant, key, model, rating, comment, prompt, reply"
                           " FROM feedback ORDER BY id",
                           -1, &s, NULL);
    if (step == SQLITE_OK) step = SQLITE_ROW;
    while (step == SQLITE_ROW && (step = sqlite3_step(s)) == SQLITE_ROW && status == WANE_OK)
        if (!give_row(s, give, user)) status = wane__fail(error, WANE_ECANCELLED, "Reading was stopped.");
    if (status == WANE_OK && step != SQLITE_DONE) status = failed(file, path, error);
    sqlite3_finalize(s);
    sqlite3_close(file);
    return status;
}

static bool count_rows(sqlite3 *file, wane_feedback_stats *s) {
    static const char all[] = "SELECT count(*), count(comment), count(reply), coalesce(min(at), 0),"
                              " coalesce(max(at), 0), count(DISTINCT response) FROM feedback";
    static const char last[] =
        "SELECT coalesce(sum(rating > 0), 0), coalesce(sum(rating < 0), 0), coalesce(sum(rating = 0), 0),"
        " avg(rating) FROM feedback WHERE id IN (SELECT max(id) FROM feedback GROUP BY response)";
    sqlite3_stmt *a = NULL, *b = NULL;
    bool fine = sqlite3_prepare_v2(file, all, -1, &a, NULL) == SQLITE_OK && sqlite3_step(a) == SQLITE_ROW &&
                sqlite3_prepare_v2(file, last, -1, &b, NULL) == SQLITE_OK && sqlite3_step(b) == SQLITE_ROW;
    if (fine) {
        s->entries = (uint64_t)sqlite3_column_int64(a, 0);
        s->comments = (uint64_t)sqlite3_column_int64(a, 1);
        s->texts = (uint64_t)sqlite3_column_int64(a, 2);
        s->first = sqlite3_column_int64(a, 3);
        s->last = sqlite3_column_int64(a, 4);
        s->responses = (uint64_t)sqlite3_column_int64(a, 5);
        s->up = (uint64_t)sqlite3_column_int64(b, 0);
        s->down = (uint64_t)sqlite3_column_int64(b, 1);
        s->neutral = (uint64_t)sqlite3_column_int64(b, 2);
        if (sqlite3_column_type(b, 3) != SQLITE_NULL) s->mean = sqlite3_column_double(b, 3);
    }
    sqlite3_finalize(a);
    sqlite3_finalize(b);
    return fine;
}

int wane_feedback_get_stats(const char *path, wane_feedback_stats *stats, wane_error *error) {
    sqlite3 *file;
    struct stat facts;
    wane__clear(error);
    *stats = (wane_feedback_stats){.mean = (double)NAN};
    int status = open_to_read(path, &file, error);
    if (status != WANE_OK) return status;
    if (!count_rows(file, stats)) status = failed(file, path, error);
    if (stat(path, &facts) == 0) stats->bytes = (uint64_t)facts.st_size;
    sqlite3_close(file);
    return status;
}
