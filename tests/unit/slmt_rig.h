/* slmt_rig.h - tables made up for tests: any number of entries with positions and continuations, the same every time. */
#ifndef WANE_TEST_SLMT_RIG_H
#define WANE_TEST_SLMT_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/rng.h"
#include "sample/order.h"
#include "table/lookup.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rig {
    struct wane__slmt_content content;
    struct wane__slmt_entry *entry;
    struct wane__slmt_position *position;
    struct wane__slmt_continuation *continuation;
    int32_t *token;
    char folder[64], path[96];
};

static inline uint32_t rig_random(uint64_t a, uint64_t b) {
    return (uint32_t)(wane__random_bits(a, b) >> 32);
}

static inline void rig_sort(struct wane__candidate *top, int count) {
    for (int i = 1; i < count; i++)
        for (int k = i; k > 0 && wane__better(top[k], top[k - 1]); k--) {
            struct wane__candidate kept = top[k];
            top[k] = top[k - 1];
            top[k - 1] = kept;
        }
}

/* `count` different tokens with falling logits. */
static inline void rig_top(uint64_t seed, int count, struct wane__candidate *top) {
    uint32_t first = rig_random(seed, 1) % 40000;
    for (int i = 0; i < count; i++)
        top[i] = (struct wane__candidate){(int32_t)(first + 7 * (uint32_t)i),
                                          (float)(rig_random(seed, 10 + (uint64_t)i) % 100000) / 4000.0f};
    rig_sort(top, count);
}

static int rig_compare(const void *left, const void *right) {
    const struct wane__slmt_key *a = &((const struct wane__slmt_entry *)left)->key,
                                *b = &((const struct wane__slmt_entry *)right)->key;
    if (a->window != b->window) return a->window < b->window ? -1 : 1;
    return a->ten < b->ten ? -1 : a->ten > b->ten;
}

/* Every fifth entry is of a long context; every third has as many positions as fit, half of them with other tokens. */
static inline void rig_init(struct rig *rig, uint32_t entries, uint32_t positions, uint32_t continuations) {
    *rig = (struct rig){0};
    rig->entry = calloc(entries + 1, sizeof *rig->entry);
    rig->position = calloc(positions + 1, sizeof *rig->position);
    rig->continuation = calloc(continuations + 1, sizeof *rig->continuation);
    rig->token = calloc(8 * (size_t)continuations + 1, sizeof *rig->token);
    assert_true(rig->entry && rig->position && rig->continuation && rig->token);
    for (uint32_t i = 0; i < entries; i++) {
        struct wane__slmt_entry *e = &rig->entry[i];
        int32_t window[3] = {(int32_t)i, (int32_t)(i % 100), 5};
        e->key.window = wane__context_window(i % 2, window + 3, 3);
        e->key.ten = i % 5 == 4 ? rig_random(77, i) | 1 : 0;
        e->seen = i + 1;
        e->stability = 0.999f + (float)(i % 10) * 1e-4f;
        e->agreement = (float)(i % 101) / 100;
        e->mass = 0.5f;
        e->kinds = (uint8_t)(i % 15 + 1);
        e->top_count = (uint8_t)(i % 7 == 0 ? 1 + i % 5 : 5);
        rig_top(i, e->top_count, e->top);
    }
    qsort(rig->entry, entries, sizeof *rig->entry, rig_compare);
    for (uint32_t i = 0; i < positions; i++) {
        struct wane__slmt_position *p = &rig->position[i];
        p->entry = (uint32_t)((uint64_t)i * entries / positions);
        const struct wane__slmt_entry *e = &rig->entry[p->entry];
        bool fresh = i == 0 || p[-1].entry != p->entry;
        p->index = fresh ? rig_random(5, i) % 3 : p[-1].index + i % 2; /* now and then twice in one place */
        p->context = fresh || p->index != p[-1].index ? rig_random(6, i) / 2 : p[-1].context + 1;
        p->top_count = e->top_count;
        memcpy(p->top, e->top, sizeof p->top);
        if (i % 4 == 3) rig_top(p->entry + 1000000u, p->top_count, p->top);
        for (int k = 0; k < p->top_count; k++) p->top[k].logit += 0.25f;
        if (i % 4 == 1) { /* the same tokens in another order */
            p->top[p->top_count - 1].logit = 30;
            rig_sort(p->top, p->top_count);
        }
    }
    for (uint32_t i = 0; i < continuations; i++) {
        struct wane__slmt_continuation *c = &rig->continuation[i];
        c->entry = (uint32_t)((uint64_t)i * entries / continuations);
        c->count = (uint16_t)(1 + i % 8);
        c->acceptance = i % 3 == 0 ? NAN : 0.75f;
        c->token = rig->token + 8 * (size_t)i;
        for (int k = 0; k < 8; k++)
            rig->token[8 * (size_t)i + (size_t)k] = (int32_t)(rig_random(9, 8u * i + (uint32_t)k) % 49152);
    }
    rig->content = (struct wane__slmt_content){
        .origin = {.version = 1,
                   .model = "0123456789abcdef0123456789abcdef",
                   .tokenizer = "fedcba9876543210fedcba9876543210",
                   .vocab_size = 49152},
        .window = 3,
        .depth = 5,
        .min_stability = 0.999f,
        .min_share = 0.95f,
        .entry = rig->entry,
        .entry_count = entries,
        .position = rig->position,
        .position_count = positions,
        .continuation = rig->continuation,
        .continuation_count = continuations,
        .phrases = "phrases",
        .phrases_size = 7,
    };
    strcpy(rig->folder, "/tmp/wane-slmt-XXXXXX");
    assert_non_null(mkdtemp(rig->folder));
    snprintf(rig->path, sizeof rig->path, "%s/t.slmt", rig->folder);
}

static inline void rig_free(struct rig *rig) {
    static const char *const names[] = {"t.slmt", "t.slmt.sig", "key", "key.pub", "other", "other.pub"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", rig->folder, names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(rig->folder), 0); /* no temporary file was left behind */
    free(rig->entry);
    free(rig->position);
    free(rig->continuation);
    free(rig->token);
}

static inline void rig_write(const struct rig *rig) {
    wane_error error = {0};
    if (wane__slmt_write(rig->path, &rig->content, &error) != WANE_OK) fail_msg("%s", error.text);
}

/* Bytes into a file in place, as cp does. */
static inline void rig_overwrite(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* The file's bytes; wane__free them. */
static inline unsigned char *rig_image(const struct rig *rig, size_t *size) {
    unsigned char *image;
    wane_error error = {0};
    if (wane__slmt_build(&rig->content, &image, size, &error) != WANE_OK) fail_msg("%s", error.text);
    return image;
}

static inline void rig_parse(const unsigned char *image, size_t size, struct wane__slmt *table) {
    wane_error error = {0};
    *table = (struct wane__slmt){0};
    if (wane__slmt_parse("t", image, size, NULL, table, &error) != WANE_OK) fail_msg("%s", error.text);
}

#endif
