/*
 * gate_file.c - a gate's bytes; gate.h has the form. Refuses whatever is not whole, weights that are no numbers that training gives, and
 * a machine that adds floats to other bits than the maker's.
 *
 *      0  "WANEGATE"      32  seed            80  AUC, ECE, coverage, doubles
 *      8  version         40  votes          104  patterns
 *     12  gaps  2         48  positions      108  bytes of the patterns
 *     14  bins  2         56  kept           112  bytes of the note
 *     16  hidden 2        64  tokens         116  reserved, 0
 *     18  candidates 2    72  vocabulary     120  XXH3-64 of the patterns' odds
 *     20  allowance, float                   128  model, tokenizer: 32 letters each
 *     24  reserved, 0     76  reserved, 0
 */
#include "core/buf.h"
#include "core/bytes.h"
#include "core/error.h"
#include "core/file.h"
#include "core/memory.h"
#include "gate/gate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { HEAD = 192, WEIGHTS = sizeof(struct wane__gate_net) / sizeof(float), NET = 4 * WEIGHTS, TAIL = 8 };
static const char magic[8] = {'W', 'A', 'N', 'E', 'G', 'A', 'T', 'E'};
/* No weight that training gives comes near it; a sum of so many stays a number. */
static const float weight_most = 1e6f;

/* -------------------------------------------------------------------- making */

int wane__gate_new(const struct wane__gate_made *made, const struct wane__gate_net *net,
                   const uint32_t *pattern, size_t count, struct wane__gate **gate, wane_error *error) {
    struct wane__gate *g = wane__alloc_zero(1, sizeof *g);
    *gate = NULL;
    if (g == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a gate.");
    g->made = *made;
    g->net = *net;
    int status = wane__gate_lut_make(&g->lut, net, pattern, count, error);
    if (status != WANE_OK) {
        wane__gate_free(g);
        return status;
    }
    *gate = g;
    return WANE_OK;
}

void wane__gate_free(struct wane__gate *gate) {
    if (gate == NULL) return;
    wane__gate_lut_free(&gate->lut);
    wane__free(gate);
}

static int ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The patterns of a LUT in order; wane__free them. */
static uint32_t *patterns_of(const struct wane__gate_lut *lut) {
    uint32_t *pattern = wane__alloc((lut->count + 1) * sizeof *pattern);
    size_t slots = (size_t)1 << (32 - lut->shift), n = 0;
    if (pattern == NULL) return NULL;
    for (size_t i = 0; i < slots; i++)
        if (lut->slot[i].pattern != WANE__GATE_PATTERNS) pattern[n++] = lut->slot[i].pattern;
    qsort(pattern, n, sizeof *pattern, ascending);
    return pattern;
}

static uint64_t sum_of_odds(const struct wane__gate_net *net, const uint32_t *pattern, size_t count) {
    uint64_t sum = XXH3_64bits("", 0);
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[4];
        wane__put_float(bytes, wane__gate_run(net, pattern[i]));
        sum = XXH3_64bits_withSeed(bytes, sizeof bytes, sum);
    }
    return sum;
}

/* -------------------------------------------------------------------- writing */

static void put_head(uint8_t *head, const struct wane__gate *gate, uint32_t list_size, uint64_t sum) {
    const struct wane__gate_made *m = &gate->made;
    memcpy(head, magic, sizeof magic);
    wane__put(head + 8, WANE__GATE_VERSION, 4);
    wane__put(head + 12, WANE__GATE_GAPS, 2);
    wane__put(head + 14, WANE__GATE_BINS, 2);
    wane__put(head + 16, WANE__GATE_HIDDEN, 2);
    wane__put(head + 18, WANE__GATE_OVER, 2);
    wane__put_float(head + 20, m->allowance);
    wane__put(head + 32, m->seed, 8);
    wane__put(head + 40, m->votes, 8);
    wane__put(head + 48, m->positions, 8);
    wane__put(head + 56, m->kept, 8);
    wane__put(head + 64, m->tokens, 8);
    wane__put(head + 72, (uint64_t)m->vocab_size, 4);
    wane__put_double(head + 80, m->auc);
    wane__put_double(head + 88, m->ece);
    wane__put_double(head + 96, m->coverage);
    wane__put(head + 104, gate->lut.count, 4);
    wane__put(head + 108, list_size, 4);
    wane__put(head + 112, strlen(m->note), 4);
    wane__put(head + 120, sum, 8);
    memcpy(head + 128, m->model, 32);
    memcpy(head + 160, m->tokenizer, 32);
}

static void put_list(struct wane__buf *list, const uint32_t *pattern, size_t count) {
    uint32_t before = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t step = pattern[i] - before;
        uint8_t bytes[4];
        size_t size = 0;
        do {
            bytes[size++] = (uint8_t)((step & 0x7f) | (step > 0x7f ? 0x80u : 0));
            step >>= 7;
        } while (step > 0);
        wane__buf_append(list, bytes, size);
        before = pattern[i];
    }
}

int wane__gate_save(const struct wane__gate *gate, uint8_t **bytes, size_t *size, wane_error *error) {
    struct wane__buf list = {0};
    uint32_t *pattern = patterns_of(&gate->lut);
    size_t note = strlen(gate->made.note);
    uint8_t *all = NULL;
    *bytes = NULL;
    if (pattern != NULL) put_list(&list, pattern, gate->lut.count);
    *size = HEAD + note + list.size + NET + TAIL;
    if (pattern != NULL && !list.failed) all = wane__alloc_zero(1, *size);
    if (all != NULL) {
        put_head(all, gate, (uint32_t)list.size, sum_of_odds(&gate->net, pattern, gate->lut.count));
        uint8_t *at = all + HEAD;
        memcpy(at, gate->made.note, note);
        at += note;
        if (list.size > 0) memcpy(at, list.data, list.size);
        at += list.size;
        for (size_t i = 0; i < WEIGHTS; i++) {
            float weight;
            memcpy(&weight, (const char *)&gate->net + i * sizeof weight, sizeof weight);
            wane__put_float(at + 4 * i, weight);
        }
        at += NET;
        wane__put(at, XXH3_64bits(all, *size - TAIL), TAIL);
    }
    wane__buf_free(&list);
    wane__free(pattern);
    *bytes = all;
    return all != NULL ? WANE_OK : wane__fail(error, WANE_ENOMEM, "No memory for a gate's file.");
}

int wane__gate_write(const struct wane__gate *gate, const char *path, wane_error *error) {
    uint8_t *bytes = NULL;
    size_t size;
    int status = wane__gate_save(gate, &bytes, &size, error);
    if (status == WANE_OK) status = wane__file_write(path, "the gate", bytes, size, 0644, error);
    wane__free(bytes);
    return status;
}

/* -------------------------------------------------------------------- reading */

struct input {
    const char *name;
    const uint8_t *bytes;
    size_t size;
    wane_error *error;
};

static int damaged(const struct input *in, const char *what) {
    return wane__fail(in->error, WANE_EFORMAT,
                      "The gate %s cannot be used: %s. \"wane train gate\" makes another one.", in->name,
                      what);
}

static int read_made(const struct input *in, struct wane__gate_made *m) {
    const uint8_t *head = in->bytes;
    m->allowance = wane__get_float(head + 20);
    m->seed = wane__get(head + 32, 8);
    m->votes = wane__get(head + 40, 8);
    m->positions = wane__get(head + 48, 8);
    m->kept = wane__get(head + 56, 8);
    m->tokens = wane__get(head + 64, 8);
    uint64_t vocab_size = wane__get(head + 72, 4), note = wane__get(head + 112, 4);
    m->auc = wane__get_share(head + 80);
    m->ece = wane__get_share(head + 88);
    m->coverage = wane__get_share(head + 96);
    if (vocab_size < 1 || vocab_size > INT32_MAX) return damaged(in, "its vocabulary has no size");
    m->vocab_size = (int)vocab_size;
    if (!(m->allowance >= 0 && m->allowance <= 1)) return damaged(in, "its allowance of doubt is no share");
    if (!wane__is_digest(head + 128) || !wane__is_digest(head + 160))
        return damaged(in, "it does not say of which model it is");
    memcpy(m->model, head + 128, 32);
    memcpy(m->tokenizer, head + 160, 32);
    memcpy(m->note, in->bytes + HEAD, (size_t)note); /* its length was checked */
    if (strlen(m->note) != note) return damaged(in, "its note has a zero in it");
    return WANE_OK;
}

/* What must hold before anything else is looked at. */
static int check_form(const struct input *in) {
    const uint8_t *head = in->bytes;
    if (in->size < HEAD + NET + TAIL || memcmp(head, magic, sizeof magic) != 0)
        return damaged(in, "it is none");
    if (wane__get(head + 8, 4) != WANE__GATE_VERSION)
        return wane__fail(in->error, WANE_EFORMAT, "The gate %s has the form %u; this wane knows %d.",
                          in->name, (unsigned)wane__get(head + 8, 4), WANE__GATE_VERSION);
    if (XXH3_64bits(in->bytes, in->size - TAIL) != wane__get(in->bytes + in->size - TAIL, TAIL))
        return damaged(in, "its checksum is wrong");
    if (wane__get(head + 12, 2) != WANE__GATE_GAPS || wane__get(head + 14, 2) != WANE__GATE_BINS ||
        wane__get(head + 16, 2) != WANE__GATE_HIDDEN || wane__get(head + 18, 2) != WANE__GATE_OVER)
        return damaged(in, "its net has other sizes than this version's");
    uint64_t list = wane__get(head + 108, 4), note = wane__get(head + 112, 4);
    if (note > WANE__GATE_NOTE_MOST || list + note + HEAD + NET + TAIL != in->size)
        return damaged(in, "its parts do not fill it");
    return WANE_OK;
}

static int read_list(const struct input *in, uint32_t *pattern, size_t count) {
    size_t note = (size_t)wane__get(in->bytes + 112, 4), list = (size_t)wane__get(in->bytes + 108, 4);
    const uint8_t *at = in->bytes + HEAD + note, *end = at + list;
    uint32_t value = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t step = 0;
        int shift = 0;
        bool more = true, first = true, longer = false; /* longer than it need be: a last byte of nothing */
        while (more && at < end && shift < 28) {
            longer = !first && *at == 0;
            first = false;
            step |= (uint32_t)(*at & 0x7f) << shift;
            more = (*at++ & 0x80) != 0;
            shift += 7;
        }
        value += step;
        if (more || longer || (i > 0 && step == 0) || value >= WANE__GATE_PATTERNS)
            return damaged(in, "its patterns are not in order");
        pattern[i] = value;
    }
    return at == end ? WANE_OK : damaged(in, "there are bytes behind its patterns");
}

static int read_net(const struct input *in, struct wane__gate_net *net) {
    const uint8_t *at = in->bytes + in->size - TAIL - NET;
    for (size_t i = 0; i < WEIGHTS; i++) {
        float weight = wane__get_float(at + 4 * i);
        if (!(fabsf(weight) <= weight_most)) return damaged(in, "a weight is no number that training gives");
        memcpy((char *)net + i * sizeof weight, &weight, sizeof weight);
    }
    return WANE_OK;
}

static int read_parts(const struct input *in, struct wane__gate *draft, uint32_t *pattern, size_t count) {
    int status = read_made(in, &draft->made);
    if (status == WANE_OK) status = read_list(in, pattern, count);
    if (status == WANE_OK) status = read_net(in, &draft->net);
    if (status == WANE_OK && sum_of_odds(&draft->net, pattern, count) != wane__get(in->bytes + 120, 8))
        status = damaged(in, "this machine's odds are not those of the machine that made it");
    return status;
}

int wane__gate_parse(const char *name, const void *bytes, size_t size, struct wane__gate **gate,
                     wane_error *error) {
    struct input in = {name, bytes, size, error};
    *gate = NULL;
    int status = check_form(&in);
    if (status != WANE_OK) return status;
    size_t count = (size_t)wane__get(in.bytes + 104, 4);
    if (count > WANE__GATE_PATTERNS) return damaged(&in, "it has more patterns than there are");
    struct wane__gate *draft = wane__alloc_zero(1, sizeof *draft);
    uint32_t *pattern = wane__alloc((count + 1) * sizeof *pattern);
    if (draft != NULL && pattern != NULL) {
        status = read_parts(&in, draft, pattern, count);
        if (status == WANE_OK)
            status = wane__gate_new(&draft->made, &draft->net, pattern, count, gate, error);
    } else {
        status = wane__fail(error, WANE_ENOMEM, "No memory for a gate.");
    }
    wane__free(draft);
    wane__free(pattern);
    return status;
}

int wane__gate_read(const char *path, struct wane__gate **gate, wane_error *error) {
    char *bytes;
    size_t size;
    *gate = NULL;
    int status = wane__file_read(path, "the gate", WANE__GATE_FILE_MOST, &bytes, &size, error);
    if (status != WANE_OK) return status;
    status = wane__gate_parse(path, bytes, size, gate, error);
    wane__free(bytes);
    return status;
}
