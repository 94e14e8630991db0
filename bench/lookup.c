/*
 * lookup.c - what a lookup in a table costs, hot and cold.
 *
 *     build/tests/bench_lookup [entries [positions]]      50000, and 6 of every second entry, where they are not given
 *
 * Hot: 64 keys over and over. Cool: one lookup after a walk over 12 MB, which leaves nothing of the table in a core's own
 * caches, nor its pages' addresses. Cold: after 256 MB, which leaves nothing anywhere: what a token of a large model
 * does. Medians of 400, less what reading the clock costs. "line" reads one number of a key's slot and nothing else: what
 * the memory takes. "entry" is a lookup that ends with the slot's five candidates, "position" goes on to the record of
 * this context, "absent" is a key that is not there. The key is made beforehand; "key" is what that costs.
 */
#include "table/lookup.h"
#include "core/clock.h"
#include "core/memory.h"
#include "core/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOT_KEYS = 64, HOT_ROUNDS = 40000, COLD = 400, COOL_WALK = 12 << 20, COLD_WALK = 256 << 20 };

static void *must(void *memory) {
    if (memory == NULL) {
        perror("bench");
        exit(1);
    }
    return memory;
}

static int compare(const void *left, const void *right) {
    uint64_t a = ((const struct wane__slmt_entry *)left)->key.window,
             b = ((const struct wane__slmt_entry *)right)->key.window;
    return a < b ? -1 : a > b;
}

static void fill(struct wane__slmt_content *content, struct wane__slmt_entry *entry,
                 struct wane__slmt_position *position, uint32_t each) {
    for (uint32_t i = 0; i < content->entry_count; i++) {
        int32_t window[3] = {(int32_t)i, 17, 4};
        entry[i] = (struct wane__slmt_entry){.key = {wane__context_window(1, window + 3, 3), 0},
                                             .seen = 2,
                                             .top_count = 5};
        for (int k = 0; k < 5; k++)
            entry[i].top[k] = (struct wane__candidate){k + (int)(i % 1000), 9.0f - (float)k};
    }
    qsort(entry, content->entry_count, sizeof *entry, compare);
    for (uint32_t i = 0; i < content->position_count; i++) {
        position[i] = (struct wane__slmt_position){.entry = 2 * (i / each),
                                                   .index = i % each * 7,
                                                   .context = 5,
                                                   .top_count = 5};
        memcpy(position[i].top, entry[2 * (i / each)].top, sizeof position[i].top);
    }
}

static void open_table(uint32_t entries, uint32_t each, struct wane__slmt_entry *entry,
                       struct wane__slmt *table) {
    struct wane__slmt_position *position = must(calloc((size_t)(entries / 2) * each + 1, sizeof *position));
    struct wane__slmt_content content = {
        .origin = {1, "00000000000000000000000000000000", "00000000000000000000000000000000", 50000},
        .window = 3,
        .depth = 5,
        .entry = entry,
        .entry_count = entries,
        .position = position,
        .position_count = entries / 2 * each,
    };
    char path[] = "/tmp/bench-lookup-XXXXXX";
    wane_error error = {0};
    fill(&content, entry, position, each);
    int fd = mkstemp(path);
    if (fd < 0 || wane__slmt_write(path, &content, &error) != WANE_OK ||
        wane__slmt_open(path, NULL, NULL, table, &error) != WANE_OK) {
        fprintf(stderr, "bench: %s\n", error.text);
        exit(1);
    }
    close(fd);
    unlink(path);
    free(position);
}

struct question {
    struct wane__slmt_key key;
    uint32_t index, context;
    const volatile struct wane__slmt_slot *line; /* not NULL: read only this */
};

static volatile float sink;

static void ask(const struct wane__slmt *table, const struct question *q) {
    struct wane__slmt_hit hit;
    if (q->line != NULL)
        sink = q->line->logit[0];
    else if (wane__slmt_lookup(table, q->key, q->index, q->context, &hit))
        sink = hit.top[0].logit;
}

static double hot(const struct wane__slmt *table, const struct question *q) {
    double best = 1;
    for (int repeat = 0; repeat < 5; repeat++) {
        double began = wane__now();
        for (int round = 0; round < HOT_ROUNDS; round++)
            for (int i = 0; i < HOT_KEYS; i++) ask(table, &q[i]);
        double one = (wane__now() - began) / HOT_ROUNDS / HOT_KEYS;
        if (one < best) best = one;
    }
    return 1e9 * best;
}

static int compare_doubles(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double cold(const struct wane__slmt *table, const struct question *q, unsigned char *walk,
                   size_t size) {
    double took[COLD], clock[COLD];
    uint64_t sum = 0;
    for (int i = 0; i < COLD; i++) {
        struct question now = q[i % HOT_KEYS];
        for (size_t at = 0; at < size; at += 64) sum += walk[at]++;
        ask(table, &q[HOT_KEYS]); /* the code is hot, and another key's lines are not this one's */
        for (int warm = 0; warm < 8; warm++) sink = (float)wane__now(); /* the clock's own lines */
        double a = wane__now(), b = wane__now();
        ask(table, &now);
        double c = wane__now();
        clock[i] = b - a;
        took[i] = c - b;
    }
    sink = (float)sum;
    qsort(took, COLD, sizeof *took, compare_doubles);
    qsort(clock, COLD, sizeof *clock, compare_doubles);
    return 1e9 * (took[COLD / 2] - clock[COLD / 2]);
}

static double key_time(void) {
    int32_t tokens[3] = {5, 6, 7};
    struct wane__slmt_key key;
    double began = wane__now();
    for (int i = 0; i < 2000000; i++) {
        tokens[i % 3] = i;
        wane__slmt_key(3, 3, tokens + 3, 3, &key);
        sink = (float)key.window;
    }
    return 1e9 * (wane__now() - began) / 2000000;
}

static void measure(const char *what, const struct wane__slmt *table, const struct question *q,
                    unsigned char *walk) {
    double h = hot(table, q), cool = cold(table, q, walk, COOL_WALK), c = cold(table, q, walk, COLD_WALK);
    printf("%-9s %6.1f ns hot  %6.0f ns cool  %6.0f ns cold\n", what, h, cool, c);
}

int main(int argc, char **argv) {
    uint32_t entries = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 50000;
    uint32_t each = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 6;
    struct wane__slmt_entry *entry = must(calloc(entries + 1, sizeof *entry));
    unsigned char *walk = must(calloc(COLD_WALK, 1));
    struct question line[HOT_KEYS + 1], plain[HOT_KEYS + 1], placed[HOT_KEYS + 1], absent[HOT_KEYS + 1];
    struct wane__slmt table;
    if (entries < 2 || each < 1) return 2;
    open_table(entries, each, entry, &table);
    for (uint32_t i = 0; i <= HOT_KEYS; i++) {
        uint32_t e = (uint32_t)(wane__random_bits(1, i) % (entries / 2)) * 2;
        plain[i] = placed[i] = absent[i] = (struct question){.key = entry[e].key, .index = 500, .context = 1};
        line[i] = (struct question){.line = wane__slmt_find(&table, entry[e].key)};
        plain[i].key = absent[i].key = entry[e + 1].key;
        placed[i].index = each > 1 ? 7 : 0;
        placed[i].context = 5;
        absent[i].key.window++;
    }
    printf("%u entries, %u positions, %.1f MB\n", entries, entries / 2 * each, (double)table.size / 1e6);
    printf("key       %6.1f ns\n", key_time());
    measure("line", &table, line, walk);
    measure("entry", &table, plain, walk);
    measure("position", &table, placed, walk);
    measure("absent", &table, absent, walk);
    wane__slmt_close(&table);
    free(entry);
    free(walk);
    return 0;
}
