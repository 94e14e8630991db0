/*
 * settings.h - everything that can be set, once: option, environment variable, key of the file, range.
 *
 * A setting's value comes from the strongest source that names it: option, environment, file, default.
 * One table (settings.c) feeds the parser, the help, the manual's check and the completion. Nothing here
 * knows the engine or prints; a complaint is a sentence that the caller shows.
 */
#ifndef WANE_CLI_SETTINGS_H
#define WANE_CLI_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum setting_id {
    /* model */
    SET_MODEL,
    SET_OFFLINE,
    SET_BACKENDS,
    /* engine */
    SET_THREADS,
    SET_BATCH_THREADS,
    SET_CONTEXT,
    SET_BATCH,
    SET_GPU_LAYERS,
    SET_KV_TYPE_K,
    SET_KV_TYPE_V,
    SET_FLASH_ATTENTION,
    SET_MMAP,
    SET_MLOCK,
    SET_HEAD,
    SET_HEAD_SIGMAS,
    SET_HEAD_KERNEL,
    SET_STATISTICS,
    SET_SHADOW,
    SET_REPACK,
    SET_DRAFT,
    SET_DRAFT_MAX,
    SET_DRAFT_PRACTICE,
    SET_MEMO,
    SET_MEMO_FILE,
    SET_MEMO_SAVE,
    /* sampling */
    SET_TEMPERATURE,
    SET_TOP_K,
    SET_TOP_P,
    SET_MIN_P,
    SET_REPEAT_PENALTY,
    SET_PRESENCE_PENALTY,
    SET_FREQUENCY_PENALTY,
    SET_PENALTY_WINDOW,
    SET_SEED,
    SET_MAX_TOKENS,
    SET_STOP,
    /* chat */
    SET_PROMPT,
    SET_SYSTEM,
    SET_HISTORY,
    SET_STATS,
    SET_SESSION,
    SET_CONVERSATION,
    SET_PREFILL,
    /* server */
    SET_HOST,
    SET_PORT,
    SET_KEY_FILE,
    SET_OPEN,
    SET_SLOTS,
    SET_QUEUE,
    SET_WINDOW,
    SET_BATCH_REQUESTS,
    SET_PROMPT_CHUNK,
    SET_PROMPT_SHARE,
    SET_PREFIX_REUSE,
    SET_DEADLINE,
    SET_PING,
    SET_GRACE,
    SET_MAX_CONNECTIONS,
    SET_MAX_BODY,
    SET_DEFAULT_MAX_TOKENS,
    SET_LOG_LEVEL,
    SET_READY_FILE,
    SET_WATCHDOG,
    /* alerts */
    SET_ALERT_URL,
    SET_ALERT_SECRET,
    SET_ALERT_COMMAND,
    SET_ALERT_ATTEMPTS,
    SET_ALERT_TIMEOUT,
    SET_ALERT_RETRY,
    SET_BREAKER_DIVERGENCES,
    SET_BREAKER_RELOADS,
    /* text */
    SET_PREPARE,
    SET_REQUEST_PREPARE,
    /* quality */
    SET_MODE,
    SET_REQUEST_MODES,
    SET_CLAMP,
    SET_DIALOGUE_SLOPE,
    SET_DIALOGUE_SCALE,
    SET_DIALOGUE_FLOOR,
    SET_TOKEN_VOTE,
    SET_RULES,
    SET_HOLD,
    SET_ANSWERS,
    SET_FINAL_VALUE,
    SET_GATE,
    SET_ODDS_BASE,
    SET_ODDS_ENTROPY,
    SET_ODDS_DOCUMENTS,
    SET_DOCUMENTS,
    SET_DOUBT_BUDGET,
    SET_DOUBT_ALLOWANCE,
    SET_DOUBT_VOTES,
    SET_REVIVAL_AFTER,
    SET_REVIVAL_TOP,
    SET_FORCED_ABOVE,
    SET_FORCED_EVERY,
    SET_BREAKER_WAKES,
    SET_BREAKER_SECONDS,
    SET_BREAKER_TEMPERATURE,
    SET_BREAKER_COMMAND,
    SET_GOVERNOR,
    SET_PROFILE,
    SET_AB_GOVERNOR,
    SET_STABILITY,
    SET_FUSE,
    SET_FUSE_WINDOW,
    SET_FUSE_LIMIT,
    SET_ENTROPIES,
    SET_FALLBACK,
    SET_CONSISTENCY,
    /* table */
    SET_TABLE_FILE,
    SET_TABLE_KEY,
    SET_TABLE_MEANING,
    SET_SIGN_KEY,
    SET_OUT,
    SET_HOTTEST,
    SET_REQUESTS,
    SET_TENANTS,
    SET_ONCE,
    SET_EVERY,
    SET_MIN_NEW,
    /* trace */
    SET_RECORD,
    SET_RECORD_OUT,
    SET_KIND,
    SET_REDACT,
    SET_ALL_LOGITS,
    SET_COMPRESS,
    SET_TRACE_FILE_SIZE,
    SET_TRACE_FILE_AGE,
    SET_TRACE_FILES,
    SET_TRACE_QUEUE,
    SET_LINES,
    /* looking for faults */
    SET_URL,
    SET_AGAINST,
    SET_SIDE_A,
    SET_SIDE_B,
    SET_TOLERANCE,
    /* cost */
    SET_MACHINE_PRICE,
    SET_WATTS,
    SET_POWER_PRICE,
    SET_NETWORK_PRICE,
    SET_TOKEN_BYTES,
    SET_UTILISATION,
    SET_CURRENCY,
    SET_CSV,
    /* tokens */
    SET_IDS,
    SET_COUNT,
    SET_CONTROL,
    SET_CHAT,
    SET_BOS,
    /* gate */
    SET_HTML,
    SET_TRACES,
    SET_NOTE,
    /* tuning the governor */
    SET_TUNE_DATA,
    SET_TUNE_DOMAIN,
    SET_TUNE_PLOT,
    SET_TUNE_TOKENS,
    SET_TUNE_HELD_OUT,
    SET_TUNE_SIGNAL,
    SET_TUNE_DRAWS,
    /* domains and feedback */
    SET_CLASSIFIER,
    SET_SSP_DOMAIN,
    SET_DOMAIN_DATA,
    SET_DOMAIN_TEST,
    SET_FEEDBACK,
    SET_FEEDBACK_TEXT,
    SET_FEEDBACK_SIZE,
    SET_FEEDBACK_KEEP,
    SET_REWARD,
    SET_REWARD_CHOICE,
    /* rollout */
    SET_ROLLOUT,
    SET_ROLLOUT_FEATURES,
    SET_ROLLOUT_SHARE,
    SET_ROLLOUT_USERS,
    SET_ROLLOUT_LINES,
    SET_ROLLOUT_HOLD,
    SET_ROLLOUT_REQUESTS,
    SET_ROLLOUT_HIT_RATE,
    SET_ROLLOUT_DIVERGENCE,
    SET_ROLLOUT_CONSISTENCY,
    SET_ROLLOUT_DROP,
    SET_ROLLOUT_WAIT,
    SET_ROLLOUT_AUTO,
    SET_ROLLOUT_ANEW,
    SET_ROLLOUT_URL,
    SET_ROLLOUT_KEY,
    /* audit */
    SET_AUDIT,
    SET_AUDIT_KEY,
    SET_AUDIT_FAILURE,
    SET_AUDIT_TEXT,
    SET_AUDIT_LINES,
    SET_AUDIT_FOLLOW,
    SET_AUDIT_SINCE,
    SET_AUDIT_REQUEST,
    SET_AUDIT_OF_KEY,
    SET_AUDIT_TABLE,
    SET_AUDIT_EVENT,
    SET_AUDIT_FORMAT,
    SET_AUDIT_HEAD,
    /* building tables */
    SET_LOG_FILE,
    SET_VOCAB_SIZE,
    SET_TABLE_WINDOW,
    SET_DEPTH,
    SET_SAMPLES,
    SET_MIN_STABILITY,
    SET_MIN_SHARE,
    SET_MIN_SEEN,
    SET_FOLLOW,
    SET_MAX_ENTRIES,
    SET_OUTPUT,
    SET_REPORT,
    SET_PHRASES,
    SET_PARTIAL,
    SET_SWEEP,
    SET_STAMP,
    SET_BUILD_MEMORY,
    SET_TEMPORARY,
    SET_RAY,
    SET_RAY_WORK,
    SET_RAY_SHARD,
    SET_RAY_TASKS,
    SET_RAY_FAN_IN,
    /* bench */
    SET_TOKENS,
    SET_ROUNDS,
    SET_STREAMS,
    SET_SAMPLER,
    SET_ROWS,
    SET_BODY,
    SET_EACH,
    SET_SPREAD,
    SET_LENGTHS,
    SET_LONG,
    SET_PROMPTS,
    SET_PROTOCOL_REQUESTS,
    SET_PROMPT_TOKENS,
    SET_RESULT,
    SET_STATE,
    SET_BAR,
    SET_SIDES,
    SET_ITEMS,
    SET_REPLIES,
    SET_QUESTIONS,
    SET_TASKS,
    SET_JUDGE,
    SET_BENCH_TEMPERATURE,
    SET_BENCH_SEED,
    /* under other programs */
    SET_EXEC_ROWS,
    SET_EXEC_SHARE,
    SET_EXEC_SHADOW,
    SET_EXEC_BUILD,
    SET_EXEC_STATS,
    SET_EXEC_QUIET,
    /* output */
    SET_JSON,
    SET_JSON_STREAM,
    SET_XRAY,
    SET_TABLE,
    SET_WORDS,
    SET_VERBOSE,
    SET_CONFIG,
    SET_HELP,
    SETTING_COUNT
};

/* Which commands take a setting. */
enum {
    FOR_RUN = 1 << 0,
    FOR_SERVE = 1 << 1,
    FOR_MODEL = 1 << 2,
    FOR_TOKENIZE = 1 << 3,
    FOR_BENCH = 1 << 4,
    FOR_CONFIG = 1 << 5,
    FOR_VERSION = 1 << 6,
    FOR_HELP = 1 << 7,
    FOR_HEAD = 1 << 8,
    FOR_TABLE = 1 << 9,
    FOR_KEY = 1 << 10,
    FOR_RECORD = 1 << 11,
    FOR_TRACE = 1 << 12,
    FOR_AUTO_BUILD = 1 << 13,
    FOR_GATE = 1 << 14,
    FOR_TRAIN = 1 << 15,
    FOR_SESSION = 1 << 16,
    FOR_TUNE = 1 << 17,
    FOR_CLASSIFY = 1 << 18,
    FOR_FEEDBACK = 1 << 19,
    FOR_PREPARE = 1 << 20,
    FOR_AUDIT = 1 << 21,
    FOR_ROLLOUT = 1 << 22,
    FOR_GOVERNOR = 1 << 23,
    FOR_DOCTOR = 1 << 24,
    FOR_DIAGNOSE = 1 << 25,
    FOR_COST = 1 << 26,
    FOR_EXEC = 1 << 27,
    FOR_ALL = (1 << 28) - 1
};

enum setting_type {
    TYPE_SWITCH,  /* on or off; --name and --no-name                     */
    TYPE_INTEGER, /* least … most                                        */
    TYPE_REAL,    /* least … most                                        */
    TYPE_BYTES,   /* an integer; K, M, G as endings                      */
    TYPE_SEED,    /* "random", or 0 … 2^64-1                             */
    TYPE_TEXT,    /* least … most bytes; may have several lines          */
    TYPE_WORD,    /* as TEXT, in one line                                */
    TYPE_FILE,    /* a path; as TEXT                                     */
    TYPE_CHOICE,  /* one of `choices`, words with a blank between        */
    TYPE_TEXTS,   /* may be given several times, up to `most`; escapes   */
    TYPE_FILES    /* paths; may be given several times, up to `most`     */
};

enum setting_source { FROM_DEFAULT, FROM_FILE, FROM_ENVIRONMENT, FROM_OPTION };

struct setting {
    const char *group;       /* heading in the help                                       */
    const char *option;      /* without the dashes                                        */
    char letter;             /* short option, or 0                                        */
    const char *environment; /* NULL: none                                                */
    const char *key;         /* "section.name" in the file; NULL: none                    */
    enum setting_type type;
    double least, most;
    const char *choices;
    const char *fallback; /* the default as text; NULL: not set                        */
    unsigned commands;
    const char *argument; /* what the help calls the value                             */
    const char *help;
};

extern const struct setting settings_table[SETTING_COUNT];

/* Files and folders that a server writes to while it serves: in a metric's label, and in words. */
#define WRITTEN 5
extern const struct setting_written {
    int id;
    const char *what, *name;
} settings_written[WRITTEN];

struct setting_value {
    char *text; /* as given; NULL: not set */
    bool on;
    int64_t integer;
    uint64_t seed;
    bool seeded;
    double real;
    char **list;
    size_t list_count;
    enum setting_source source;
    int line; /* of the file */
};

/* A section [domain.NAME] of the file: quality settings of its own; the others are those of [quality]. */
struct settings_domain {
    char *name;
    struct settings *own; /* only settings with a key quality.…, but those that belong to the model */
};

struct settings {
    struct setting_value value[SETTING_COUNT];
    struct settings_domain *domains;
    size_t domain_count;
    char *file; /* the settings file that was read, or would have been; NULL: none */
    bool file_read;
    char **operands; /* what is not an option, in order; point into argv */
    size_t operand_count;
};

struct complaint {
    char text[900];
};

/* Every setting at its default. */
void settings_init(struct settings *settings);
void settings_free(struct settings *settings);

/*
 * Give a setting a value. A weaker source than the one that it has is left aside. False with a complaint
 * that names setting, source, value and range. `line` counts for FROM_FILE.
 */
bool settings_set(struct settings *settings, int id, const char *text, enum setting_source source, int line,
                  struct complaint *complaint);

/* May it stand in a section [domain.NAME]? */
bool setting_is_domains(int id);

/* Read a settings file's text. `name` is for complaints. */
bool settings_read_text(struct settings *settings, const char *name, const char *text, size_t size,
                        struct complaint *complaint);

/*
 * Options of a command, then the file, then the environment. With --help among the options, nothing else
 * is read. `program` and `command` are for complaints; `command` may be NULL.
 */
bool settings_load(struct settings *settings, unsigned command, const char *command_name, int argc,
                   char **argv, struct complaint *complaint);

/* "0 to 5", "on or off", "f16, f32 or …": the values a setting takes, into `out`. */
void settings_range(const struct setting *setting, char *out, size_t size);
/* "--top-k", "WANE_TOP_K" or "/x/wane.conf:3": where the value came from, into `out`. */
void settings_where(const struct settings *settings, int id, char *out, size_t size);
const char *settings_source_name(enum setting_source source);

/* Shorthands. */
static inline int setting_int(const struct settings *s, int id) {
    return (int)s->value[id].integer;
}
static inline float setting_float(const struct settings *s, int id) {
    return (float)s->value[id].real;
}
static inline bool setting_on(const struct settings *s, int id) {
    return s->value[id].on;
}
static inline const char *setting_text(const struct settings *s, int id) {
    return s->value[id].text;
}

#endif
