/*
 * doctor.h - what `wane doctor` finds: one check a line, each with what to do next. The judgements on facts are functions of their
 * own, so that tests judge machines that nobody has; `wane bench protocol` records the same checks before it measures.
 */
#ifndef WANE_CLI_DOCTOR_H
#define WANE_CLI_DOCTOR_H

#include "wane.h"

#include <jansson.h>
#include <stdbool.h>

struct settings;

enum check_level { CHECK_SKIPPED, CHECK_PASSED, CHECK_WARNING, CHECK_CRITICAL };

struct check {
    const char *name; /* in capitals */
    enum check_level level;
    char *text; /* what was found */
    char *next; /* what to do, "" where nothing is */
};

struct checkup {
    struct check *list;
    int count;
};

/* "PASSED", "WARNING", "CRITICAL", "SKIPPED". */
const char *check_level_name(enum check_level level);
/* Add a line. `next` may be NULL. */
void checkup_add(struct checkup *checkup, const char *name, enum check_level level, const char *next,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));
void checkup_free(struct checkup *checkup);
enum check_level checkup_worst(const struct checkup *checkup);
/* 0 when all passed or were skipped, 1 after a warning, 2 after something critical. */
int checkup_code(const struct checkup *checkup);
json_t *checkup_json(const struct checkup *checkup);

/* ---- judgements on facts alone -------------------------------------------------------------------------------------- */

/* What is wanted of the machine. */
struct doctor_wish {
    int threads;          /* 0: one a core */
    int connections;      /* at most, of a server */
    bool lock;            /* the weights are to stay in memory */
    uint64_t model_bytes; /* 0: not known */
    const char *kernel;   /* of the certified head; NULL: not known */
    int64_t built_ms;     /* when this program was made; 0: not known */
};

void doctor_cpu(struct checkup *checkup, const wane_machine *m, const struct doctor_wish *wish);
void doctor_threads(struct checkup *checkup, const wane_machine *m, const struct doctor_wish *wish);
void doctor_memory(struct checkup *checkup, const wane_machine *m, const struct doctor_wish *wish);
void doctor_clock(struct checkup *checkup, const wane_machine *m, const struct doctor_wish *wish);
void doctor_load(struct checkup *checkup, const wane_machine *m);
/* What a running server's /metrics say; `ready` is the status of its /ready, `said` that answer. */
void doctor_metrics(struct checkup *checkup, const char *url, int ready, const char *said,
                    const char *metrics);
/* What it answers to /v1/wane/alerts: one line, with every alert that is raised and why. */
void doctor_alerts(struct checkup *checkup, const char *answer);
json_t *machine_json(const wane_machine *m);

/* ---- looks --------------------------------------------------------------------------------------------------------------- */

/* Load the model and check it and its files; the wish's model_bytes and kernel are filled. */
void doctor_model(struct checkup *checkup, const struct settings *settings, struct doctor_wish *wish);
void doctor_ports(struct checkup *checkup, const struct settings *settings);
void doctor_disk(struct checkup *checkup, const struct settings *settings);
void doctor_server(struct checkup *checkup, const struct settings *settings);
/* Of this program's file, milliseconds since 1970; 0: not known. */
int64_t doctor_built_ms(void);

#endif
