/*
 * alerts.h - the public interface to what watches: features that switch themselves off when they part from the plain path, and
 * whom a server tells. Part of wane.h.
 *
 * docs/alerts.md has the conditions, the message and its signature.
 */
#ifndef WANE_ALERTS_H
#define WANE_ALERTS_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------- divergences */

/* What has another way to the same token, and is looked at now and then. */
enum { WANE_WATCHED_HEAD = 0, WANE_WATCHED_TABLE, WANE_WATCHED_DRAFT, WANE_WATCHED_MEMO, WANE_WATCHED };
/* "head", "table", "draft", "memo"; NULL: there is no such thing. */
WANE_API const char *wane_watched_name(int watched);

typedef struct wane_divergence_state {
    bool off;                     /* it switched itself off                                       */
    uint64_t checks, divergences; /* times that it was looked at; that it was another. Never fall  */
    uint64_t since, limit;        /* divergences since it was armed; so many switch it off; 0: none */
    char last[240];               /* the last one in words; "": none since it was armed            */
} wane_divergence_state;

/* All these are thread-safe, also while somebody stands on the model. */
WANE_API void wane_model_get_divergences(wane_model *model, int watched, wane_divergence_state *state);
/* So many divergences since it was armed switch a feature off, for each of them; default 3; 0: none ever does. */
#define WANE_DIVERGENCES_LIMIT_MOST 1000000
WANE_API int wane_model_set_divergence_limit(wane_model *model, unsigned limit, wane_error *error);
/* Switch it on again: its count begins at 0. A table is armed by another table taking its place, too. */
WANE_API int wane_model_arm(wane_model *model, int watched, wane_error *error);

/* ------------------------------------------------------------------- hooks */

struct wane_alert_options {
    size_t size;
    const char *url;             /* each change is posted there, http or https; NULL: nowhere             */
    const char *secret_file;     /* its bytes sign what is posted; NULL: unsigned                         */
    const char *command;         /* run by sh for each change; NULL: none                                 */
    const char *breaker_command; /* the same, for the gate's breaker alone, once, with its own variables   */
    int attempts;                /* 1..20, default 6                                                      */
    int timeout_ms;              /* of one attempt; 100..600000, default 10000                            */
    int retry_ms;                /* before the second attempt, doubled each time; 10..600000, default 1000 */
    int reload_failures;         /* of a table in a row that raise an alert; 1..1000, default 3           */
};

WANE_API void wane_alert_options_init(wane_alert_options *options);

#ifdef __cplusplus
}
#endif

#endif
