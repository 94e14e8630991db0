/*
 * wane/prepare.h - text made ready for a prompt: steps that are each switched on by name, change nothing twice, and say what they
 * changed. Part of wane.h; docs/prepare.md says for each what it does and what it leaves alone.
 */
#ifndef WANE_PREPARE_H
#define WANE_PREPARE_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In the order in which they are carried out. */
enum {
    WANE_PREPARE_INVISIBLE = 0, /* characters that cannot be seen, where they do nothing              */
    WANE_PREPARE_NFC,           /* composed characters                                                */
    WANE_PREPARE_TABLES,        /* a table's separators in one short form                             */
    WANE_PREPARE_NOUNS,         /* one sign between the nouns of a Chinese or Japanese list           */
    WANE_PREPARE_SEGMENTS,      /* [SEGMENT n] before each sentence                                   */
    WANE_PREPARE_STEPS
};
#define WANE_PREPARE_ALL ((1u << WANE_PREPARE_STEPS) - 1)

/* "invisible", "nfc", "tables", "nouns", "segments"; "?" for anything else. */
WANE_API const char *wane_prepare_name(int step);
/*
 * "nfc,tables" as bits 1 << WANE_PREPARE_…; "none" and "" are 0, "all" is all. WANE_EINVAL names the word that is no step, and the
 * steps that there are.
 */
WANE_API int wane_prepare_from(const char *list, unsigned *steps, wane_error *error);

/* What was changed, by step: characters, spots, lines, lists, sentences. Added to. */
typedef struct wane_prepared {
    uint64_t changes[WANE_PREPARE_STEPS];
} wane_prepared;

/*
 * Carry out `steps` on a text. `out` is a string that free() takes, terminated. Code fences stay as they are, byte for byte. To do
 * it again changes nothing. WANE_EFORMAT when the text is not UTF-8.
 */
WANE_API int wane_text_prepare(const char *text, size_t size, unsigned steps, char **out, size_t *out_size,
                               wane_prepared *prepared, wane_error *error);

#ifdef __cplusplus
}
#endif

#endif
