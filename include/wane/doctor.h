/*
 * doctor.h - facts for whoever asks what is wrong with a machine, a model or a file that belongs to it: the public functions behind
 * `wane doctor`. They judge nothing and change nothing. Part of wane.h.
 */
#ifndef WANE_DOCTOR_H
#define WANE_DOCTOR_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- the machine */

/*
 * What is known of the machine, and of what this process may have of it. A number that is not known is NAN (real), -1 (whole) or
 * UINT64_MAX (bytes), a text "". Limits that are not set are WANE_UNLIMITED.
 */
#define WANE_UNKNOWN   UINT64_MAX
#define WANE_UNLIMITED (UINT64_MAX - 1)

typedef struct wane_machine {
    char system[200];    /* "Linux 6.1.0 x86_64"                                                     */
    char processor[200]; /* as it names itself                                                       */
    char features[300];  /* of its features those that kernels ask for, with blanks between          */
    char kernels[200];   /* the engine's plug-in for this processor, once a model has been loaded    */
    int cpus;            /* logical ones that are online                                             */
    int allowed;         /* of them, those that this process may run on                              */
    int cores;           /* that it can keep busy: see wane_model_options.threads                    */
    double quota;        /* CPUs that the control group allows; NAN: no limit, or not known          */
    char governor[40];   /* how its frequency is chosen: "performance", "powersave", …               */
    double mhz, mhz_most;
    double load[3];  /* of the last 1, 5 and 15 minutes                                              */
    double busy;     /* CPUs that others kept busy while it was looked at                            */
    double steal;    /* share of CPU time that a hypervisor gave to others meanwhile                 */
    double pressure; /* share of the last 10 s in which something waited for a CPU                   */
    uint64_t memory, memory_free;      /* bytes; free: what could be had without swapping           */
    uint64_t group_memory, group_used; /* what the control group allows and uses                    */
    uint64_t shared, shared_free;      /* shared memory, /dev/shm                                   */
    uint64_t lock_most, files_most, space_most; /* limits: locked memory, open files, address space  */
    int64_t date_ms;   /* since 1970                                                                   */
    bool monotonic;    /* the clock for durations goes forward                                         */
    int synchronised;  /* the date is kept right by a time server: 1, 0; -1: not known                */
    double date_error; /* seconds that it may be wrong by, as the kernel says                        */
} wane_machine;

/*
 * Look at the machine for `sample_ms` (0: what needs time, `busy` and `steal`, stays unknown). `root` stands before /proc, /sys and
 * /dev: NULL or "" for the machine's own, a folder for tests. Never fails: what cannot be read is not known.
 */
WANE_API void wane_machine_look(const char *root, int sample_ms, wane_machine *machine);

typedef struct wane_place {
    char folder[1024]; /* the one that was looked at: `path`, or the nearest above it that exists */
    bool exists;       /* `path` itself does                                                      */
    bool writable;     /* this user may write there                                               */
    bool read_only;    /* the file system is mounted so                                           */
    uint64_t bytes, free_bytes, free_files;
} wane_place;

/* Where `path`, a file or a folder, is or would be. WANE_EIO: nothing is known of it. */
WANE_API int wane_place_look(const char *path, wane_place *place, wane_error *error);

/* ---------------------------------------------------------------- tokenizers */

/* Digest of a model's tokens' bytes, 32 hex digits: what tables and traces name a tokenizer by. */
WANE_API int wane_model_tokenizer(wane_model *model, char hex[33], wane_error *error);

enum { WANE_TOKENIZER_SHOWN = 8 };

/* Where two tokenizers part. Both models may be loaded with vocab_only. */
typedef struct wane_tokenizer_parting {
    int vocab_a, vocab_b;
    int tokens; /* ids that both have, whose bytes differ                                           */
    int32_t token[WANE_TOKENIZER_SHOWN]; /* the first of them                                       */
    int characters;                      /* that become other ids, of those that were tried         */
    int tried;
    uint32_t character[WANE_TOKENIZER_SHOWN]; /* the first of them                                  */
} wane_tokenizer_parting;

WANE_API int wane_tokenizers_compare(wane_model *a, wane_model *b, wane_tokenizer_parting *parting,
                                     wane_error *error);
/*
 * The same of one: characters that do not come back when they are made tokens and text again (`characters`, `character`, `tried`).
 * Byte-level tokenizers have none.
 */
WANE_API int wane_tokenizer_check(wane_model *model, wane_tokenizer_parting *parting, wane_error *error);

#ifdef __cplusplus
}
#endif

#endif
