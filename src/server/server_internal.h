/* server_internal.h - the server from inside: what its HTTP threads share. All but the atomics is set at start. */
#ifndef WANE_SERVER_SERVER_INTERNAL_H
#define WANE_SERVER_SERVER_INTERNAL_H

#include "core/log.h"
#include "server/http_call.h"
#include "server/keys.h"
#include "server/metrics.h"

#include <stdatomic.h>
#include <time.h>

struct MHD_Daemon;

struct wane__domain {
    char *name;
    wane_quality quality; /* its final_value is owned */
};

struct wane_server {
    wane_model *model;
    wane_scheduler *scheduler;
    struct MHD_Daemon *daemon;
    struct wane__log log;
    uint64_t (*log_lost)(void *log_user); /* NULL: not known */
    struct wane__keys *keys;              /* NULL: none needed */
    bool keyless_admin;                   /* without keys, on this machine alone: everybody is its operator */
    struct wane__metrics metrics;
    wane_disk *disks; /* owned, with their texts */
    size_t disk_count;
    struct wane__call_defaults defaults;
    wane_quality quality;         /* of requests without a domain */
    struct wane__domain *domains; /* owned, names too */
    size_t domain_count;
    unsigned request_modes;
    unsigned prepare, request_prepare; /* 1 << WANE_PREPARE_… */
    const wane_classifier *classifier; /* NULL: none */
    int ssp_domain;                    /* WANE_SSP_DOMAIN_… */
    atomic_ullong domain_seen[WANE_DOMAINS_MOST + 1], domain_mismatch[WANE_DOMAINS_MOST + 1]; /* last: none */
    struct wane__alerts *alerts;          /* alerts.h; NULL: not opened yet */
    struct wane__ratings *ratings;        /* http_feedback.c; NULL: none are taken */
    struct wane__server_rollout *rollout; /* http_rollout.c; NULL: there is none */
    struct wane__server_audit *audit;     /* http_audit.c; NULL: no log is written */
    struct wane__ab *ab;                  /* http_ab.c; NULL: no sides are compared */
    struct wane__live *live;              /* http_live.c */
    size_t max_body;
    int max_connections;
    uint32_t ping_ms;
    int port;
    time_t created;       /* of the model's file: what the APIs call its date */
    char fingerprint[16]; /* of engine, version and model: what can change a seeded reply */
    atomic_bool stopping; /* not ready; set first of all */
    atomic_int connections;
    atomic_int replies; /* tickets under way, their last byte not yet sent */
    bool stopped;       /* by the thread that owns the server */
};

#endif
