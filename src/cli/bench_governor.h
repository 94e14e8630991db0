/* bench_governor.h - what `wane bench governor` asks two sides, what they said, and what is made of it. */
#ifndef WANE_CLI_BENCH_GOVERNOR_H
#define WANE_CLI_BENCH_GOVERNOR_H

#include "bench.h"

enum { GOVERNOR_SIDES = 2 };
enum { GOVERNOR_TEXT, GOVERNOR_QUESTIONS, GOVERNOR_TASKS, GOVERNOR_SETS };

struct governor_reply {
    bool done, loops, right;
    char *text; /* of the set TEXT alone: the others need none */
};

struct governor_item {
    int set, group; /* group: of TEXT, which prompt */
    char *name;     /* unique: set, number, reply   */
    char *prompt;
    char *wanted; /* of QUESTIONS a pattern, of TASKS the task's line; NULL: nothing */
    uint64_t seed;
    struct governor_reply reply[GOVERNOR_SIDES];
};

struct governor_side {
    const char *name, *profile; /* profile: its path; NULL: the one that ships */
    wane_quality quality;
};

struct governor_bench {
    const struct settings *settings;
    struct domains domains;
    struct governor_side side[GOVERNOR_SIDES];
    struct governor_item *item;
    int count, groups;
    int replies, streams; /* to each prompt of TEXT; at once */
    double temperature;
    uint64_t seed;
    const char *judge; /* NULL: there are no tasks */
    char *model;       /* its name, for the report */
};

/* Read what is asked, in the seed's order. Complains; returns an exit code. */
int governor_items(struct governor_bench *bench);
/*
 * Ask what is not answered yet. Replies are lines of `path` (NULL: nowhere); what it holds already is taken from there. Complains; returns an
 * exit code.
 */
int governor_run(struct governor_bench *bench, wane_model *model, const char *path);
/* What the replies say, to standard output. */
int governor_report(const struct governor_bench *bench);

#endif
