/*
 * alert_board.h - what is wrong right now, by name: who finds it raises it, who sees it over clears it, everybody can look.
 *
 *     raise ─► first: raised, counted, logged, told ─► again: only its reason is brought up to date
 *     clear ─► cleared, logged, told
 *     break ─► raised anew whatever it was, and whoever takes things back is called (a rollout that steps back)
 *
 * Knows no server, no model and no hook: listeners are functions. Thread-safe. Listeners are called under the board's lock, one
 * change after the other, so that they see them in order: they must not wait, and must not call the board. The function for
 * breaks is called without a lock, on whatever thread it was, and may.
 */
#ifndef WANE_OPS_ALERT_BOARD_H
#define WANE_OPS_ALERT_BOARD_H

#include "core/buf.h"
#include "core/log.h"

enum wane__alert {
    WANE__ALERT_GATE_BREAKER = 0, /* too many wakes: temperatures are down            */
    WANE__ALERT_HEAD,             /* the certified head parted from the dense one     */
    WANE__ALERT_TABLE,            /* a table's record parted from the model           */
    WANE__ALERT_DRAFT,            /* a block parted from single tokens                */
    WANE__ALERT_MEMO,             /* a repeated token parted from the body's          */
    WANE__ALERT_RELOAD,           /* a table's file cannot be taken in                */
    WANE__ALERT_STUCK,            /* an engine call does not return                   */
    WANE__ALERT_AUDIT,            /* the audit log cannot be written                  */
    WANE__ALERT_ROLLOUT,          /* a rollout stepped back                           */
    WANE__ALERTS
};
const char *wane__alert_name(enum wane__alert alert);

/* One condition as it is. */
struct wane__alert_view {
    bool raised;
    uint64_t count;     /* times that it was raised; never falls   */
    int64_t raised_at;  /* ms since 1970 of the last time; 0: never */
    int64_t changed_at; /* of the last change of its state          */
    char reason
        [500]; /* a sentence: why it is raised, or why it is not any more; ""; valid UTF-8, no control characters */
};

/* A change, as listeners see it; theirs until they return. */
struct wane__alert_change {
    enum wane__alert alert;
    uint64_t sequence; /* 1, 2, … over all conditions of this board */
    struct wane__alert_view view;
};
typedef void (*wane__alert_fn)(void *user, const struct wane__alert_change *change);
/* `feature`: "head", "table", "draft", "memo", "gate". */
typedef void (*wane__break_fn)(void *user, const char *feature, const char *reason);

struct wane__board;

/* `date` gives ms since 1970; NULL: the clock. `log` may be NULL; it outlives the board. */
int wane__board_new(struct wane__log *log, int64_t (*date)(void *user), void *user,
                    struct wane__board **board, wane_error *error);
void wane__board_free(struct wane__board *board);
/* Before anything is raised; at most WANE__BOARD_LISTENERS. */
#define WANE__BOARD_LISTENERS 4
bool wane__board_listen(struct wane__board *board, wane__alert_fn fn, void *user);
/* What steps back when a feature breaks. May be set at any time; NULL: nothing. */
void wane__board_on_break(struct wane__board *board, wane__break_fn fn, void *user);

/* All of these accept a board that is NULL, and then do nothing. True: its state changed. */
bool wane__board_raise(struct wane__board *board, enum wane__alert alert, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool wane__board_clear(struct wane__board *board, enum wane__alert alert, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A feature was switched off for good: raised, counted and told even where it is raised already; then the break function. */
void wane__board_break(struct wane__board *board, enum wane__alert alert, const char *feature,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

void wane__board_view(struct wane__board *board, enum wane__alert alert, struct wane__alert_view *view);

/* "2026-11-30T10:00:00.123Z" */
void wane__alert_date(int64_t ms, char out[32]);
/*
 * A change as JSON, for hooks: docs/alerts.md has the schema. `facts` are of the process. False without memory. It holds nothing but
 * what it is given.
 */
struct wane__alert_facts {
    const char *host, *model, *version, *instance;
    int port;
};
bool wane__alert_body(const struct wane__alert_change *change, const struct wane__alert_facts *facts,
                      struct wane__buf *out);

#endif
