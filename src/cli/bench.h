/* bench.h - what `wane bench` measures: the engine's loop and wane's, or two heads, on the same prompts. */
#ifndef WANE_CLI_BENCH_H
#define WANE_CLI_BENCH_H

#include "cli.h"

struct bench_prompt {
    const char *kind;
    const char *text; /* a user's message */
};
extern const struct bench_prompt bench_prompts[];
extern const int bench_prompt_count;
/* Of drafts: text that repeats what was there before, and text that does not. */
extern const struct bench_prompt bench_copies[], bench_novel[];
extern const int bench_copy_count, bench_novel_count;

/* The prompts, rendered and tokenised: `count` of them, the built-in ones over again. */
struct bench_work {
    wane_model *model;
    wane_tokens *prompts;
    int count;
    int steps;              /* tokens timed for each prompt */
    wane_sampling sampling; /* greedy at first; stream i draws with seed + i */
};

/* One side's measurement of one set of prompts. */
struct bench_run {
    double ms;    /* for `steps` tokens in each stream                */
    int32_t *ids; /* streams × steps, stream-major: the tokens, as drawn */
};

/* `texts` (may be NULL: the built-in ones) has `text_count` of them. */
int bench_work_open(struct bench_work *work, wane_model *model, char *const *texts, int text_count, int count,
                    int steps, wane_error *error);
void bench_work_close(struct bench_work *work);
/* A prompt of so many tokens: those of the work over and over. Its `id` is free()d. */
void bench_long_prompt(const struct bench_work *work, int tokens, wane_tokens *prompt);

/* Streams `first` … `first + streams - 1` of the work through the engine's own loop. `run->ids` has room. */
int bench_engine(const struct bench_work *work, int first, int streams, struct bench_run *run,
                 wane_error *error);
/* One stream through a session, several through a scheduler. */
int bench_wane(const struct bench_work *work, int first, int streams, struct bench_run *run,
               wane_error *error);

/* As --sampler names it: greedy leaves it as it is. */
void bench_set_sampler(wane_sampling *sampling, const char *name);

/* A reply to its end, or to `steps` tokens. */
struct bench_reply {
    double ms, whole_ms; /* from its first token on; with its prompt */
    int32_t *ids;        /* room for `steps` */
    int count;
};
/* Prompt `prompt` of the work, drawn with the work's seed + `prompt`. */
int bench_reply(const struct bench_work *work, int prompt, bool no_memo, struct bench_reply *reply,
                wane_error *error);
bool bench_same_reply(const struct bench_reply *a, const struct bench_reply *b);

/* Dense head, certified head, body alone: cmd_bench calls it for `wane bench head`. */
int bench_head(const struct settings *settings);
/* Dense head, certified head, drafts as well: cmd_bench calls it for `wane bench draft`. */
int bench_draft(const struct settings *settings);
/* The plain loop, and the same requests from the memo: cmd_bench calls it for `wane bench memo`. */
int bench_memo(const struct settings *settings);
/* The same requests in the modes off, legacy and wane: cmd_bench calls it for `wane bench layer`. */
int bench_layer(const struct settings *settings);
/* The acceptance run, and two of them side by side: `wane bench protocol`, `wane bench compare`. */
int bench_protocol(const struct settings *settings);
int bench_compare(const struct settings *settings);
/* Two sides of the governor: diversity, loops, right answers. */
int bench_governor(const struct settings *settings);
/* Says so when the machine is busy; returns its load. */
double bench_load(void);

/* Sorts `values` and gives the middle. */
double bench_median(double *values, int count);

#endif
