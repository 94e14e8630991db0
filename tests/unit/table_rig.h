/*
 * table_rig.h - made-up traces: requests that fill templates, with logits that depend on the last three tokens and, a little, on
 * everything before.
 */
#ifndef WANE_TESTS_TABLE_RIG_H
#define WANE_TESTS_TABLE_RIG_H

#include "core/memory.h"
#include "core/rng.h"
#include "sample/order.h"
#include "table/build_internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct rig {
    int vocab, requests, length;
    int templates;    /* different beginnings */
    double variation; /* share of tokens that a request has of its own */
    double noise;     /* how much of a logit depends on the whole context */
    int start;        /* tokens before the reply */
    uint64_t seed;
    uint64_t tenant; /* 0: 1 */
};

static inline struct wane__trace_origin rig_origin(const struct rig *rig) {
    struct wane__trace_origin origin = {.version = WANE__TRACE_VERSION, .vocab_size = rig->vocab};
    memset(origin.model, 'a', 32);
    memset(origin.tokenizer, 'b', 32);
    return origin;
}

static inline uint64_t rig_tenant(const struct rig *rig) {
    return rig->tenant != 0 ? rig->tenant : 1;
}

/* Token i of request r, those before the reply included. */
static inline int32_t rig_token(const struct rig *rig, int r, int i) {
    uint64_t what = wane__random_bits(rig->seed, (uint64_t)r) % (uint64_t)rig->templates;
    uint64_t source = what * 1000003 + (uint64_t)i;
    if (wane__random_unit(rig->seed + 1, (uint64_t)(r * 100000 + i)) < rig->variation)
        source = (uint64_t)r * 77777777 + (uint64_t)i;
    return (int32_t)(wane__mix64(source) % (uint64_t)rig->vocab);
}

static inline void rig_logits(const struct rig *rig, struct wane__trace_token *t) {
    uint64_t window = wane__context_window(rig_tenant(rig), t->last + t->last_count, 3);
    int count = WANE__TRACE_TOP < rig->vocab ? WANE__TRACE_TOP : rig->vocab;
    for (int i = 0; i < count; i++) {
        t->top[i].token = (int32_t)((wane__mix64(window) % (uint64_t)rig->vocab + (uint64_t)(i * 7)) %
                                    (uint64_t)rig->vocab);
        double own = wane__random_unit(t->before.low, (uint64_t)i) - 0.5;
        t->top[i].logit =
            (float)(20 - 0.4 * i + 0.2 * wane__random_unit(window, (uint64_t)i) + rig->noise * own);
    }
    t->top_count = count;
    for (int i = 1; i < count; i++) { /* a few places at most */
        struct wane__candidate moved = t->top[i];
        int j = i;
        for (; j > 0 && wane__better(moved, t->top[j - 1]); j--) t->top[j] = t->top[j - 1];
        t->top[j] = moved;
    }
}

/* All records, request by request; `count` gets their number. vocab must be prime to 7 for tokens to differ. */
static inline struct wane__trace_token *rig_make(const struct rig *rig, size_t *count) {
    struct wane__trace_token *all = wane__alloc_zero((size_t)(rig->requests * rig->length), sizeof *all);
    assert_non_null(all);
    *count = 0;
    for (int r = 0; r < rig->requests; r++) {
        struct wane__context_name name = wane__context_begin(rig_tenant(rig));
        int32_t line[WANE__TEN] = {0};
        int had = 0;
        for (int i = 0; i < rig->start + rig->length; i++) {
            int32_t token = rig_token(rig, r, i);
            if (i >= rig->start) {
                struct wane__trace_token *t = &all[(*count)++];
                snprintf(t->request, sizeof t->request, "request-%d", r);
                t->kind = (enum wane__kind)(r % WANE__KINDS);
                t->tenant = rig_tenant(rig);
                t->before = name;
                t->position = i;
                t->index = i - rig->start;
                t->last_count = had;
                memcpy(t->last, line, sizeof line);
                t->token = token;
                t->log_sum = NAN;
                rig_logits(rig, t);
            }
            name = wane__context_add(name, token);
            if (had == WANE__TEN)
                memmove(line, line + 1, (WANE__TEN - 1) * sizeof *line);
            else
                had++;
            line[had - 1] = token;
        }
    }
    return all;
}

struct rig_source {
    const struct wane__trace_token *all;
    const uint32_t *order; /* NULL: as they are */
    size_t at, end;
};

static inline int rig_next(void *user, struct wane__trace_token *record, wane_error *error) {
    struct rig_source *source = user;
    (void)error;
    if (source->at == source->end) return 0;
    *record = source->all[source->order != NULL ? source->order[source->at] : source->at];
    source->at++;
    return 1;
}

static inline uint32_t *rig_shuffle(size_t count, uint64_t seed) {
    uint32_t *order = wane__alloc(count * sizeof *order);
    for (size_t i = 0; i < count; i++) order[i] = (uint32_t)i;
    for (size_t i = count; i > 1; i--) {
        size_t j = (size_t)(wane__random_bits(seed, i) % i);
        uint32_t moved = order[i - 1];
        order[i - 1] = order[j];
        order[j] = moved;
    }
    return order;
}

static inline struct wane__build *rig_build(const struct rig *rig, const wane_table_build_options *set) {
    struct wane__build_options options = {.origin = rig_origin(rig), .set = *set};
    struct wane__build *build;
    wane_error error = {0};
    if (wane__build_new(&options, &build, &error) != WANE_OK) fail_msg("%s", error.text);
    return build;
}

static inline void rig_read(struct wane__build *build, const struct wane__trace_token *all,
                            const uint32_t *order, size_t from, size_t to) {
    struct rig_source state = {all, order, from, to};
    struct wane__build_source source = {.next = rig_next, .user = &state};
    wane_error error = {0};
    if (wane__build_read(build, &source, &error) != WANE_OK) fail_msg("%s", error.text);
}

/* The table's file in memory. Frees the build. */
static inline unsigned char *rig_image(struct wane__build *build, size_t *size, wane_table_report *report) {
    struct wane__slmt_content content;
    unsigned char *image = NULL;
    wane_error error = {0};
    if (wane__build_table(build, &content, report, &error) != WANE_OK) fail_msg("%s", error.text);
    if (wane__slmt_build(&content, &image, size, &error) != WANE_OK) fail_msg("%s", error.text);
    wane__build_free(build);
    return image;
}

#endif
