/*
 * gate.h - a gate as a file and in memory: the net, the patterns that it was taught, and how it was made. docs/gate.md specifies the
 * file.
 *
 *     head 128 │ note │ patterns: ascending, each the difference to the one before as LEB128 │ net, floats │ XXH3-64 of all before
 *
 * The LUT's values are not in the file: they are the net's, and a checksum over them says whether this machine gets the bits that the
 * maker's got. Nothing changes a gate once it is made, so that any thread may look into it.
 */
#ifndef WANE_GATE_GATE_H
#define WANE_GATE_GATE_H

#include "gate/lch.h"

#define WANE__GATE_VERSION 1
/* Bytes of a gate's file at most: every pattern there is, and a long note. */
#define WANE__GATE_FILE_MOST ((size_t)8 << 20)
enum { WANE__GATE_NOTE_MOST = 4096 };

/* Whose it is and how it was made. */
struct wane__gate_made {
    char model[33], tokenizer[33]; /* digests, 32 hexadecimal digits */
    int vocab_size;
    uint64_t seed;
    uint64_t votes, positions, kept; /* that were used; of the positions, those that a vote left alone */
    uint64_t tokens;                 /* whose patterns were seen */
    double auc, ece, coverage;       /* on what was held out; NaN: unknown */
    float allowance; /* usual doubt: rejections a token, which three of four answers stay below; 0..1 */
    char note[WANE__GATE_NOTE_MOST + 1]; /* in words, UTF-8 */
};

struct wane__gate {
    struct wane__gate_made made;
    struct wane__gate_net net;
    struct wane__gate_lut lut;
};

/* Of a net and the patterns it was taught, ascending and different. */
int wane__gate_new(const struct wane__gate_made *made, const struct wane__gate_net *net,
                   const uint32_t *pattern, size_t count, struct wane__gate **gate, wane_error *error);
void wane__gate_free(struct wane__gate *gate);

/* Bytes of the file; wane__free them. The same gate gives the same bytes. */
int wane__gate_save(const struct wane__gate *gate, uint8_t **bytes, size_t *size, wane_error *error);
/* WANE_EFORMAT when the bytes are not a gate down to each weight; `name` is for the sentence. */
int wane__gate_parse(const char *name, const void *bytes, size_t size, struct wane__gate **gate,
                     wane_error *error);
int wane__gate_write(const struct wane__gate *gate, const char *path, wane_error *error);
int wane__gate_read(const char *path, struct wane__gate **gate, wane_error *error);

#endif
