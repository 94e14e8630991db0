/*
 * cli.h - what the commands share: exit codes, the two outputs, the terminal, models.
 *
 * What a program may read goes to standard output; what is said to people goes to standard error. Colours and
 * progress appear on a terminal only.
 */
#ifndef WANE_CLI_CLI_H
#define WANE_CLI_CLI_H

#include "settings.h"
#include "wane.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    EXIT_FINE = 0,
    EXIT_FAILED = 1,    /* it did not work                      */
    EXIT_USAGE = 2,     /* asked for in the wrong form          */
    EXIT_NOT_FOUND = 3, /* there is no such model               */
    EXIT_INTERRUPTED = 130
};

/* ---------------------------------------------------------------- commands */

struct command {
    const char *name;
    unsigned mask;                         /* FOR_… */
    const char *usage;                     /* one or more lines, without "usage: " */
    const char *summary;                   /* half a line */
    const char *description;               /* sentences for the help, each line at most 100 characters */
    const char *words;                     /* words that may follow, with a blank between; NULL: none */
    int (*run)(struct settings *settings); /* returns an exit code */
};

extern const struct command cli_commands[];
extern const int cli_command_count;
const struct command *command_find(const char *name);

int command_run(struct settings *settings);
int command_session(struct settings *settings);
int command_serve(struct settings *settings);
int command_model(struct settings *settings);
int command_tokenize(struct settings *settings);
int command_prepare(struct settings *settings);
int command_head(struct settings *settings);
int head_statistics(const struct settings *settings); /* wane head statistics */
int command_table(struct settings *settings);
int command_auto_build(struct settings *settings);
int command_key(struct settings *settings);
int command_record(struct settings *settings);
int command_trace(struct settings *settings);
int command_gate(struct settings *settings);
int command_train(struct settings *settings);
int command_tune(struct settings *settings);
int train_gate(const struct settings *settings);    /* wane train gate */
int train_domains(const struct settings *settings); /* wane train domains */
int train_reward(const struct settings *settings);  /* wane train reward */
/* What all of these share: where it goes, seed and progress; and how it went, by --json or not. */
void train_begin(const struct settings *settings, const char **output, uint64_t *seed,
                 wane_progress_fn *progress);
int train_end(const struct settings *settings, int result, const wane_error *error, const void *report,
              json_t *(*json)(const void *report, const char *output),
              void (*print)(const void *report, const char *output));
int command_classify(struct settings *settings);
int command_feedback(struct settings *settings);
int command_rollout(struct settings *settings);
int command_audit(struct settings *settings);
int command_bench(struct settings *settings);
int command_doctor(struct settings *settings);
int command_diagnose(struct settings *settings);
int command_cost(struct settings *settings);
int command_exec(struct settings *settings);
int command_config(struct settings *settings);
int command_version(struct settings *settings);
int command_help(struct settings *settings);

void help_print(const struct command *command); /* NULL: the overview */

/* ------------------------------------------------------------------ output */

/* Before anything else: descriptors 0 to 2 exist, a closed pipe is no signal, characters are UTF-8. */
void cli_start(void);
/* Empty the output; `code`, or EXIT_FAILED when it could not be written. A reader that left early is fine. */
int cli_end(int code);

/* To standard output. False once it cannot be written any more: stop then. */
bool out_text(const char *text, size_t size);
bool out_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool out_json(json_t *value, bool one_line); /* frees `value`; flushes */
bool out_flush(void);

/* "wane: …" on standard error. `cli_fail` returns the exit code that it is given. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
int cli_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for an error of the library, with the exit code that belongs to it. */
int cli_fail_wane(const wane_error *error);
/* Wrong usage: the sentence, then where the help is. */
int cli_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Is standard error a terminal that can rewrite a line? */
bool term_lively(void);
/* Escape sequences for standard error; "" where colours are not wanted. */
const char *term_dim(void);
const char *term_bold(void);
const char *term_plain(void);

/* One line that is rewritten: what and a share in 0..1 (below 0: no bar). Nothing without a terminal. */
void progress_show(const char *what, double share);
void progress_clear(void);
/* A wane_progress_fn: shows, and goes on until it is interrupted. */
bool progress_goes_on(void *user, const char *what, double share);

double now_ms(void);
/* The words that are not options, with blanks between; free it. */
char *join_operands(const struct settings *settings, size_t *size);
/* Standard input to its end; NULL after a complaint. `size` bytes, terminated. */
char *read_all_input(size_t *size);
/* The same of a file. */
char *read_all_file(const char *path, size_t *size);
/* The lines of a file that are not empty, without their ends; NULL after a complaint (also when there is none). */
char **lines_read(const char *path, int *count);
void lines_free(char **list, int count);
/* A JSON string, with U+FFFD for what is not UTF-8. */
json_t *json_text(const char *text, size_t size);
/* A token as text in quotes, its number where `model` is NULL; free it. */
char *token_quoted(const wane_model *model, int32_t token);
/* A number; null for NAN. */
json_t *json_known(double value);
/* A number with three decimals: more says nothing about a time. */
json_t *json_ms(double value);

/* ------------------------------------------------------------ interruption */

/* Ctrl-C from here on is noted; it stops `session` while one is set. */
void interrupt_catch(void);
void interrupt_target(wane_session *session); /* NULL: none */
bool interrupt_seen(void);
void interrupt_forget(void);

/* ------------------------------------------------------------------ models */

/* The folder of fetched models; free it. */
char *models_folder(void);
/* The path of a model by name or path: fetched when allowed. NULL with *code set after a complaint. */
char *model_locate(const struct settings *settings, const char *name, int *code);
/* Run scripts/model with arguments (NULL-ended, the first is the subcommand); its standard output into *output
 * when that is not NULL. Returns its exit code, or -1 after a complaint. */
int model_helper(const char *const *arguments, char **output);

struct model_wish {
    const char *name;  /* NULL: --model */
    int sequences;     /* at once */
    int least_context; /* where --context leaves it open; 0: as the engine does */
    bool vocab_only;
    bool decodes;    /* wants the head that the settings name, else the dense one */
    bool drafts;     /* wants drafts as the settings say, else none */
    bool certified;  /* wants the certified head, whatever the settings name      */
    bool always;     /* even where the dense one is faster */
    bool rebuild;    /* its sketch, from --statistics where that is set */
    bool found;      /* the certified head where it has a sketch already; nothing is built */
    double shadow;   /* 0: --shadow; below: none */
    wane_log_fn log; /* NULL: by --verbose */
    void *log_user;
    bool (*stop)(void); /* asked while loading; NULL: interrupt_seen */
};
/* Locate and load, with progress. Returns EXIT_FINE or an exit code after a complaint. */
int model_open(const struct settings *settings, const struct model_wish *wish, wane_model **model);
/* The file of a model by name or path, where it is on this machine; NULL, and nothing said, where it is not. */
char *model_here(const char *name);
/* Load such a one. A WANE code with `error`, and nothing said. */
int model_load_here(const struct settings *settings, const struct model_wish *wish, wane_model **model,
                    wane_error *error);
/* Give the model the table that --table names, if it does. Returns EXIT_FINE or an exit code after a complaint. */
int table_attach(const struct settings *settings, wane_model *model);
/* A recorder of the model by the settings, into `folder`. Returns EXIT_FINE or an exit code after a complaint. */
int recorder_open(const struct settings *settings, wane_model *model, const char *folder,
                  wane_recorder **recorder);
/*
 * Give the model the memo that --memo and --memo-file name. Returns EXIT_FINE or an exit code after a complaint. Afterwards, when
 * nothing stands on the model any more, write its file: that complains, too.
 */
int reward_attach(const struct settings *settings,
                  wane_model *model); /* the reward model that --reward names */
int memo_attach(const struct settings *settings, wane_model *model);
int memo_save(wane_model *model);
/* Sampling by the settings; nothing in it is owned. */
/* What may change an answer, as the settings say; strings belong to the settings. */
void quality_from(const struct settings *settings, wane_quality *quality);
/* The same for each [domain.NAME] of the settings file. */
struct domains {
    wane_domain *list;
    wane_quality *quality;
    size_t count;
};
void domains_from(const struct settings *settings, struct domains *domains);
void domains_free(struct domains *domains);
/* Modes that some request may be in, as bits 1 << WANE_MODE_…: by the settings, their domains, and what keys and requests may ask. */
unsigned modes_used(const struct settings *settings);
/*
 * Give the model rules, or its gate, as the settings say, where one of `modes` uses them. `log` may be NULL. Return EXIT_FINE or an
 * exit code after a complaint.
 */
int rules_attach(const struct settings *settings, wane_model *model, unsigned modes);
int gate_attach(const struct settings *settings, wane_model *model, unsigned modes, wane_log_fn log,
                void *log_user);
/* The same of its profile, and of a probe for consistency. */
int governor_attach(const struct settings *settings, wane_model *model, unsigned modes, wane_log_fn log,
                    void *log_user);
/* Arm the breaker. */
int breaker_attach(const struct settings *settings, wane_model *model, unsigned modes);
/* The profiles of the domains' own, into the model and their settings: for somebody on whose model nothing stands yet. */
int profiles_attach(const struct settings *settings, wane_model *model, struct domains *domains,
                    wane_log_fn log, void *log_user);
/* "off,wane" as bits 1 << WANE_MODE_…; EXIT_FINE, or EXIT_USAGE after a complaint. */
int modes_from(const char *list, unsigned *modes);
/*
 * The plan that the settings make, with the lists that it points to. features 0: they name none. EXIT_FINE, or EXIT_USAGE after a
 * complaint.
 */
struct rollout_plan {
    wane_rollout_wish wish;
    double users[8];
    const char *lines[8];
    char *text; /* what lines point into; free it */
};
int rollout_from(const struct settings *settings, struct rollout_plan *plan);
/* Before a model is loaded: can a server begin with this --rollout? EXIT_FINE, or an exit code after a complaint. */
int rollout_check(const struct settings *settings);
/* The steps of a setting that lists them; EXIT_FINE, or EXIT_USAGE after a complaint. */
int prepare_from(const struct settings *settings, int id, unsigned *steps);
void sampling_from(const struct settings *settings, wane_sampling *sampling);

#endif
