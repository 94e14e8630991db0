/* test_table_build.c - tables from made-up traces: against the long way, in any order, in shards, under little memory. */
#include "table_rig.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>

static const struct rig small = {.vocab = 1009,
                                 .requests = 60,
                                 .length = 40,
                                 .templates = 6,
                                 .variation = 0.1,
                                 .noise = 0.3,
                                 .start = 6,
                                 .seed = 1};

static wane_table_build_options defaults(void) {
    wane_table_build_options set;
    wane_table_build_options_init(&set);
    return set;
}

/* A build of the first `count` records, done: free it. `report` may be NULL. */
static struct wane__build *built(const struct rig *rig, const wane_table_build_options *set,
                                 const struct wane__trace_token *all, size_t count,
                                 struct wane__slmt_content *content, wane_table_report *report) {
    struct wane__build *build = rig_build(rig, set);
    wane_error error = {0};
    rig_read(build, all, NULL, 0, count);
    if (wane__build_table(build, content, report, &error) != WANE_OK) fail_msg("%s", error.text);
    return build;
}

/* -------------------------------------------------------------------- the long way */

struct reference {
    struct wane__slmt_key key;
    size_t first; /* a record of it */
    int seen, top0_drawn;
    double stability, share;
};

static double cosine(const struct wane__trace_token *a, const struct wane__trace_token *b) {
    double dot = 0, aa = 0, bb = 0;
    for (int i = 0; i < a->top_count; i++) {
        aa += (double)a->top[i].logit * (double)a->top[i].logit;
        for (int j = 0; j < b->top_count; j++)
            if (a->top[i].token == b->top[j].token) dot += (double)a->top[i].logit * (double)b->top[j].logit;
    }
    for (int j = 0; j < b->top_count; j++) bb += (double)b->top[j].logit * (double)b->top[j].logit;
    return dot / sqrt(aa * bb);
}

static uint64_t window_of(const struct wane__trace_token *t) {
    return wane__context_window(t->tenant, t->last + t->last_count, 3);
}

/* All pairs of one window. */
static void refer(const struct wane__trace_token *all, size_t count, uint64_t window, double least,
                  struct reference *out) {
    size_t *of = wane__alloc(count * sizeof *of), n = 0;
    for (size_t i = 0; i < count; i++)
        if (window_of(&all[i]) == window) of[n++] = i;
    *out = (struct reference){.first = of[0], .seen = (int)n};
    double agree = 0;
    for (size_t i = 0; i < n; i++) {
        double mine = 0;
        for (size_t j = 0; j < n; j++)
            if (i != j) mine += cosine(&all[of[i]], &all[of[j]]);
        out->stability += mine / (double)n / (double)(n - 1);
        agree += mine / (double)(n - 1) >= least;
    }
    out->share = agree / (double)n;
    wane__free(of);
}

/* Every stable window is an entry with the numbers that all pairs give; every entry is there for a reason. */
static void test_against_all_pairs(void **state) {
    (void)state;
    for (int round = 0; round < 3; round++) {
        struct rig rig = small;
        rig.noise = (double[]){0, 0.8, 3}[round];
        size_t count;
        struct wane__trace_token *all = rig_make(&rig, &count);
        wane_table_build_options set = defaults();
        struct wane__slmt_content content;
        wane_table_report report;
        struct wane__build *build = built(&rig, &set, all, count, &content, &report);
        uint32_t stable = 0, at = 0, checked = 0;
        for (uint32_t i = 0; i < content.entry_count; i++) {
            const struct wane__slmt_entry *e = &content.entry[i];
            struct reference want;
            refer(all, count, e->key.window, (double)set.min_stability, &want);
            assert_int_equal(e->seen, want.seen);
            assert_true(e->seen == 1 || fabs((double)e->stability - want.stability) < 1e-6);
            bool is = want.seen > 1 && want.stability >= 0.999 && want.share >= 0.95;
            stable += is;
            while (at < content.position_count && content.position[at].entry < i) at++;
            bool placed = at < content.position_count && content.position[at].entry == i;
            assert_true(is || placed || build->pick[i].next_drawn >= 0.5 * want.seen);
            assert_true(!is || placed);
            checked++;
        }
        assert_int_equal(stable, report.stable);
        assert_true(checked > 100 && (round > 0 || stable > 100));
        wane__build_free(build);
        wane__free(all);
    }
}

/* -------------------------------------------------------------------- the same bytes */

/* Takes a build and frees it. */
static void check_same(const unsigned char *a, size_t a_size, struct wane__build *build,
                       wane_table_report *report) {
    size_t b_size;
    unsigned char *b = rig_image(build, &b_size, report);
    assert_int_equal(a_size, b_size);
    assert_memory_equal(a, b, a_size);
    wane__free(b);
}

/* A build whose sorts hold next to nothing. */
static struct wane__build *tight(const struct rig *rig, const wane_table_build_options *set) {
    struct wane__build *build = rig_build(rig, set);
    wane__sorter_free(build->samples);
    assert_int_equal(wane__sorter_new(NULL, 1 << 20, &build->samples, NULL), WANE_OK);
    build->memory = 4 << 20;
    return build;
}

static void shard_name(char *name, size_t size, int shard) {
    snprintf(name, size, "/tmp/wane-shard-%d-%d", (int)getpid(), shard);
}

/* Built in shards, from files. */
static struct wane__build *sharded(const struct rig *rig, const wane_table_build_options *set,
                                   const struct wane__trace_token *all, const uint32_t *order, size_t count,
                                   int shards) {
    char name[64];
    for (int i = 0; i < shards; i++) {
        struct wane__build *part = rig_build(rig, set);
        rig_read(part, all, order, count * (size_t)i / (size_t)shards,
                 count * (size_t)(i + 1) / (size_t)shards);
        shard_name(name, sizeof name, i);
        assert_int_equal(wane__build_partial(part, name, NULL), WANE_OK);
        wane__build_free(part);
    }
    struct wane__build *build = rig_build(rig, set);
    for (int i = shards - 1; i >= 0; i--) {
        wane_error error = {0};
        shard_name(name, sizeof name, i);
        if (wane__build_read_partial(build, name, &error) != WANE_OK) fail_msg("%s", error.text);
        unlink(name);
    }
    return build;
}

static void test_same_bytes(void **state) {
    (void)state;
    for (int round = 0; round < 4; round++) {
        size_t count, size;
        struct wane__trace_token *all = rig_make(&small, &count);
        wane_table_build_options set = defaults();
        set.phrases = round == 1;
        set.samples = round == 2 ? 300 : 0;
        set.min_seen = round == 3 ? 1 : 2;
        set.max_entries = round == 3 ? 150 : 50000;
        wane_table_report report, again;
        struct wane__build *build = rig_build(&small, &set);
        rig_read(build, all, NULL, 0, count);
        unsigned char *image = rig_image(build, &size, &report);
        uint32_t *order = rig_shuffle(count, (uint64_t)round);

        build = rig_build(&small, &set);
        rig_read(build, all, order, 0, count);
        check_same(image, size, build, &again);

        build = tight(&small, &set);
        rig_read(build, all, order, 0, count);
        check_same(image, size, build, &again);
        assert_true(again.spilled > 0);

        check_same(image, size, sharded(&small, &set, all, order, count, 8), &again);
        report.spilled = again.spilled = 0;
        report.seconds = again.seconds = 0;
        if (isnan(report.phrase_auc) && isnan(again.phrase_auc)) report.phrase_auc = again.phrase_auc = 0;
        assert_memory_equal(&report, &again, sizeof report);
        wane__free(order);
        wane__free(image);
        wane__free(all);
    }
}

struct line {
    uint8_t bytes[24];
};

static int by_bytes(const void *a, const void *b) {
    return memcmp(a, b, sizeof(struct line));
}

/* In one block, in many runs; with prefixes of all kinds, with a few, with one: each record once, in order. */
static void test_sort_of_many(void **state) {
    (void)state;
    enum { MANY = 30000 };
    struct line *all = calloc(MANY, sizeof *all);
    for (int kind = 0; kind < 4; kind++) {
        for (int runs = 0; runs < 2; runs++) {
            struct wane__sorter *sorter;
            const uint8_t *bytes;
            size_t size;
            wane_error error = {0};
            assert_int_equal(wane__sorter_new(NULL, runs == 0 ? 4 << 20 : 1 << 20, &sorter, &error), WANE_OK);
            for (int i = 0; i < MANY; i++) {
                uint64_t bits = wane__mix64((uint64_t)i);
                uint64_t prefix = kind == 0 ? bits : kind == 1 ? bits % 7 << 60 : kind == 2 ? 0 : bits >> 20;
                wane__put_big(all[i].bytes, prefix, 8);
                wane__put_big(all[i].bytes + 8, wane__mix64(bits) % 1000, 8); /* some are the same */
                assert_int_equal(wane__sorter_add(sorter, all[i].bytes, sizeof all[i].bytes, &error),
                                 WANE_OK);
            }
            qsort(all, MANY, sizeof *all, by_bytes);
            assert_int_equal(wane__sorter_finish(sorter, &error), WANE_OK);
            assert_true((wane__sorter_spilled(sorter) > 0) == (runs == 1));
            for (int i = 0; i < MANY; i++) {
                assert_int_equal(wane__sorter_next(sorter, &bytes, &size, &error), 1);
                assert_int_equal(size, sizeof all[i].bytes);
                assert_memory_equal(bytes, all[i].bytes, size);
            }
            assert_int_equal(wane__sorter_next(sorter, &bytes, &size, &error), 0);
            wane__sorter_free(sorter);
        }
    }
    free(all);
}

/* -------------------------------------------------------------------- bounds */

static void test_samples_of_a_kind(void **state) {
    (void)state;
    size_t count;
    struct wane__trace_token *all = rig_make(&small, &count);
    for (size_t i = 0; i < count; i++) all[i].kind = i % 50 == 0 ? WANE__KIND_CODE : WANE__KIND_SINGLE;
    wane_table_build_options set = defaults();
    set.samples = 500;
    struct wane__slmt_content content;
    wane_table_report report;
    struct wane__build *build = built(&small, &set, all, count, &content, &report);
    assert_int_equal(report.used[WANE__KIND_SINGLE], 500);
    assert_int_equal(report.used[WANE__KIND_CODE], report.kinds[WANE__KIND_CODE]);
    assert_int_equal(report.kinds[WANE__KIND_SINGLE] + report.kinds[WANE__KIND_CODE], count);
    wane__build_free(build);
    wane__free(all);
}

/* The same record over and over has one hash: all of it or nothing, never more than are wanted. */
static void test_samples_with_equal_hashes(void **state) {
    (void)state;
    struct wane__strata strata = {.limit = 10};
    uint64_t bound[WANE__KINDS];
    bool none[WANE__KINDS];
    int status;
    for (int i = 0; i < 8; i++) wane__strata_add(&strata, WANE__KIND_CODE, (uint64_t)i, &status);
    for (int i = 0; i < 30; i++) wane__strata_add(&strata, WANE__KIND_CODE, 100, &status);
    for (int i = 0; i < 30; i++) wane__strata_add(&strata, WANE__KIND_MULTI, 7, &status);
    wane__strata_bounds(&strata, bound, none);
    assert_int_equal(bound[WANE__KIND_CODE], 7);
    assert_true(none[WANE__KIND_MULTI] && !none[WANE__KIND_CODE] && !none[WANE__KIND_SINGLE]);
    wane__strata_free(&strata);
}

/* Entries: the most useful ones, and no more than were asked for; the file within its bound. */
static void test_caps(void **state) {
    (void)state;
    struct rig rig = small;
    rig.requests = 400;
    size_t count, size;
    struct wane__trace_token *all = rig_make(&rig, &count);
    wane_table_build_options set = defaults();
    struct wane__build *build = rig_build(&rig, &set), *capped;
    struct wane__slmt_content content;
    rig_read(build, all, NULL, 0, count);
    assert_int_equal(wane__build_table(build, &content, NULL, NULL), WANE_OK);
    set.max_entries = 77;
    capped = built(&rig, &set, all, count, &content, NULL);
    assert_int_equal(content.entry_count, 77);
    for (uint32_t i = 0, in = 0; i < build->picks; i++) {
        uint32_t better = 0;
        for (uint32_t k = 0; k < build->picks; k++)
            better += wane__pick_worse(&build->pick[i], &build->pick[k]);
        in += wane__build_find(capped, build->pick[i].entry.key) != NULL;
        assert_int_equal(wane__build_find(capped, build->pick[i].entry.key) != NULL, better < 77);
        if (i + 1 == build->picks) assert_int_equal(in, 77);
    }
    wane__build_free(build);
    wane__build_free(capped);
    /* All records are places of their own, in the file as long as there is room: a megabyte at least. */
    set.min_seen = 1;
    set.max_entries = 4000;
    rig.noise = 0;
    build = rig_build(&rig, &set);
    wane__free(all);
    rig.requests = 2000;
    all = rig_make(&rig, &count);
    rig_read(build, all, NULL, 0, count);
    wane_table_report report;
    unsigned char *image = rig_image(build, &size, &report);
    assert_int_equal(size, report.bytes);
    assert_true(size <= 1 << 20 && size > 900000);
    wane__free(image);
    wane__free(all);
}

/* -------------------------------------------------------------------- exact repeats */

static bool position_is(const struct wane__slmt_content *content, uint32_t entry,
                        const struct wane__trace_token *t) {
    for (uint32_t i = 0; i < content->position_count; i++) {
        const struct wane__slmt_position *p = &content->position[i];
        if (p->entry != entry || p->index != (uint32_t)t->index || p->context != (uint32_t)t->before.low)
            continue;
        return p->top_count == 5 && memcmp(p->top, t->top, sizeof p->top) == 0;
    }
    return false;
}

static uint32_t repeats(const struct wane__build *build, const struct wane__slmt_content *content,
                        const struct wane__trace_token *all, size_t count) {
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) {
        const struct wane__pick *pick =
            wane__build_find(build, (struct wane__slmt_key){.window = window_of(&all[i])});
        found += pick != NULL && position_is(content, (uint32_t)(pick - build->pick), &all[i]);
    }
    return found;
}

/* Logits that differ much from context to context: no window is stable, but whole contexts repeat. */
static void test_exact_repeats(void **state) {
    (void)state;
    struct rig rig = small;
    rig.variation = 0;
    rig.noise = 20;
    size_t count;
    struct wane__trace_token *all = rig_make(&rig, &count);
    wane_table_build_options set = defaults();
    struct wane__slmt_content content;
    wane_table_report report;
    struct wane__build *build = built(&rig, &set, all, count, &content, &report);
    assert_int_equal(repeats(build, &content, all, count), count);
    uint64_t strict = 0, records = 0;
    for (int kind = 0; kind < WANE__KINDS; kind++) {
        strict += report.hits[kind].strict;
        records += report.hits[kind].records;
    }
    assert_int_equal(records, count);
    assert_int_equal(strict, count); /* each template was asked for more than twice */
    wane__build_free(build);
    /* Once each: nothing with the default, everything where one is enough. */
    size_t once = (size_t)rig.length;
    for (int least = 1; least <= 2; least++) {
        set.min_seen = least;
        build = built(&rig, &set, all, once, &content, &report);
        assert_int_equal(repeats(build, &content, all, once), least == 1 ? once : 0);
        wane__build_free(build);
    }
    wane__free(all);
}

/* The same place with other logits each time is no place to answer from. */
static void test_unstable_places(void **state) {
    (void)state;
    struct rig rig = small;
    rig.variation = 0;
    size_t count;
    struct wane__trace_token *all = rig_make(&rig, &count);
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < all[i].top_count; k++)
            all[i].top[k].token = (int32_t)((i * 64 + (size_t)k) % 1009);
    wane_table_build_options set = defaults();
    struct wane__slmt_content content;
    wane_table_report report;
    struct wane__build *build = built(&rig, &set, all, count, &content, &report);
    assert_int_equal(report.stable, 0);
    assert_int_equal(content.position_count, 0);
    wane__build_free(build);
    wane__free(all);
}

/* -------------------------------------------------------------------- hits and continuations */

/* Leaving a request out really leaves it out: what only one of them did is no hit. */
static void test_hits_leave_one_out(void **state) {
    (void)state;
    struct rig rig = small;
    rig.variation = 0;
    rig.templates = 1000000; /* each request is its own */
    rig.requests = 20;
    size_t count;
    struct wane__trace_token *all = rig_make(&rig, &count);
    for (size_t i = 0; i < count; i++) { /* what is drawn is the best candidate */
        for (int k = 0; k < all[i].top_count; k++)
            if (all[i].top[k].token == all[i].token) all[i].top[k].token = all[i].top[0].token;
        all[i].top[0].token = all[i].token;
        all[i].top[0].logit = 40;
    }
    struct wane__trace_token *twice = wane__alloc(2 * count * sizeof *twice);
    memcpy(twice, all, count * sizeof *all);
    memcpy(twice + count, all, count * sizeof *all); /* under the same name */
    wane_table_build_options set = defaults();
    set.min_seen = 1;
    for (int named = 0; named < 2; named++) {
        struct wane__slmt_content content;
        wane_table_report report;
        for (size_t i = 0; i < count && named == 1; i++) strcat(twice[count + i].request, "-again");
        struct wane__build *build = built(&rig, &set, twice, 2 * count, &content, &report);
        for (int kind = 0; kind < WANE__KINDS; kind++) {
            assert_int_equal(report.hits[kind].window, named == 1 ? report.hits[kind].records : 0);
            assert_int_equal(report.hits[kind].right, report.hits[kind].window);
            assert_int_equal(report.hits[kind].strict, report.hits[kind].window);
        }
        wane__build_free(build);
    }
    wane__free(twice);
    wane__free(all);
}

/* A continuation is what replies really went on with, for at least the share that was asked for. */
static void test_continuations(void **state) {
    (void)state;
    struct rig rig = small;
    rig.templates = 2;
    rig.variation = 0.02;
    size_t count;
    struct wane__trace_token *all = rig_make(&rig, &count);
    wane_table_build_options set = defaults();
    set.follow = 0.6f;
    struct wane__slmt_content content;
    struct wane__build *build = built(&rig, &set, all, count, &content, NULL);
    uint32_t longest = 0;
    for (uint32_t c = 0; c < content.continuation_count; c++) {
        const struct wane__slmt_continuation *run = &content.continuation[c];
        double tried = 0, whole = 0;
        for (size_t i = 0; i < count; i++) {
            if (window_of(&all[i]) != content.entry[run->entry].key.window) continue;
            uint32_t n = 0;
            while (n < run->count && i + n < count && all[i + n].index == all[i].index + (int)n &&
                   all[i + n].token == run->token[n])
                n++;
            tried++;
            whole += n == run->count;
        }
        assert_true(tried >= 2 && whole >= (double)set.follow * tried);
        assert_true(isnan(run->acceptance));
        if (run->count > longest) longest = run->count;
    }
    assert_true(content.continuation_count > 50 && longest > 8);
    wane__build_free(build);
    wane__free(all);
}

/* Windows of other lengths than three name their keys and chains by themselves. */
static void test_windows(void **state) {
    (void)state;
    struct rig rig = small;
    rig.start = 12;
    size_t count;
    struct wane__trace_token *all = rig_make(&rig, &count);
    for (int window = 1; window <= WANE__WINDOW_MOST; window += 3) {
        wane_table_build_options set = defaults();
        set.window = window;
        struct wane__slmt_content content;
        struct wane__build *build = built(&rig, &set, all, count, &content, NULL);
        assert_true(content.entry_count > 0 && content.continuation_count > 0);
        for (size_t i = 0; i < count; i += 17) {
            uint32_t seen = 0;
            uint64_t mine = wane__context_window(1, all[i].last + all[i].last_count, window);
            for (size_t k = 0; k < count; k++)
                seen += wane__context_window(1, all[k].last + all[k].last_count, window) == mine;
            const struct wane__pick *pick = wane__build_find(build, (struct wane__slmt_key){.window = mine});
            if (pick != NULL) assert_int_equal(pick->entry.seen, seen);
        }
        wane__build_free(build);
    }
    wane__free(all);
}

/* -------------------------------------------------------------------- refusals */

static void test_settings_are_refused(void **state) {
    (void)state;
    for (int way = 0; way < 9; way++) {
        struct wane__build_options options = {.origin = rig_origin(&small), .set = defaults()};
        struct wane__build *build = NULL;
        wane_error error = {0};
        if (way == 0) options.set.window = 11;
        if (way == 1) options.set.depth = 6;
        if (way == 2) options.set.min_stability = NAN;
        if (way == 3) options.set.min_share = 1.5f;
        if (way == 4) options.set.min_seen = 0;
        if (way == 5) options.set.follow = 0;
        if (way == 6) options.set.max_entries = 0;
        if (way == 7) options.set.memory = 1 << 20;
        if (way == 8) options.set.samples = UINT64_C(1) << 40;
        assert_int_equal(wane__build_new(&options, &build, &error), WANE_EINVAL);
        assert_null(build);
        assert_true(strlen(error.text) > 20);
    }
}

static int read_bytes(const struct rig *rig, const char *name, const uint8_t *bytes, size_t size) {
    wane_table_build_options set = defaults();
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    struct wane__build *build = rig_build(rig, &set);
    wane_error error = {0};
    int status = wane__build_read_partial(build, name, &error);
    assert_int_equal(status == WANE_OK, error.text[0] == '\0');
    wane__build_free(build);
    return status;
}

/* Cut anywhere, a byte changed anywhere, longer than it says: refused, in words. Another model's: refused, too. */
static void test_partials_are_refused(void **state) {
    (void)state;
    struct rig rig = small;
    rig.requests = 2;
    size_t count;
    char name[64];
    struct wane__trace_token *all = rig_make(&rig, &count);
    wane_table_build_options set = defaults();
    struct wane__build *build = rig_build(&rig, &set);
    shard_name(name, sizeof name, 99);
    rig_read(build, all, NULL, 0, count);
    assert_int_equal(wane__build_partial(build, name, NULL), WANE_OK);
    wane__build_free(build);
    static uint8_t bytes[1 << 17];
    FILE *file = fopen(name, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(size > 20000 && size < sizeof bytes);
    assert_int_equal(read_bytes(&rig, name, bytes, size), WANE_OK);
    assert_int_equal(read_bytes(&rig, name, bytes, size + 1), WANE_EFORMAT);
    for (size_t cut = 0; cut < size; cut += 997)
        assert_int_equal(read_bytes(&rig, name, bytes, cut), WANE_EFORMAT);
    for (size_t at = 0; at < size; at += at < 208 ? 1 : 509) {
        bytes[at] ^= 1;
        assert_int_equal(read_bytes(&rig, name, bytes, size), WANE_EFORMAT);
        bytes[at] ^= 1;
    }
    rig.vocab++;
    assert_int_equal(read_bytes(&rig, name, bytes, size), WANE_EINVAL);
    unlink(name);
    wane__free(all);
}

static bool stop_at_once(void *user, const char *what, double share) {
    (void)what;
    (void)share;
    return --*(int *)user > 0;
}

/* Stopping anywhere leaves nothing behind. */
static void test_stopping(void **state) {
    (void)state;
    size_t count;
    struct wane__trace_token *all = rig_make(&small, &count);
    int asked = 0;
    for (int after = 1; after < 40; after++) {
        wane_table_build_options set = defaults();
        asked = after;
        set.phrases = true;
        set.progress = stop_at_once;
        set.progress_user = &asked;
        struct wane__build *build = rig_build(&small, &set);
        struct rig_source from = {all, NULL, 0, count};
        struct wane__build_source source = {.next = rig_next, .user = &from};
        struct wane__slmt_content content;
        int status = wane__build_read(build, &source, NULL);
        if (status == WANE_OK) status = wane__build_table(build, &content, NULL, NULL);
        wane__build_free(build);
        if (status == WANE_OK) break;
        assert_int_equal(status, WANE_ECANCELLED);
        assert_true(after < 39);
    }
    assert_true(asked > 0);
    wane__free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_all_pairs),
        cmocka_unit_test(test_same_bytes),
        cmocka_unit_test(test_sort_of_many),
        cmocka_unit_test(test_samples_of_a_kind),
        cmocka_unit_test(test_samples_with_equal_hashes),
        cmocka_unit_test(test_caps),
        cmocka_unit_test(test_exact_repeats),
        cmocka_unit_test(test_unstable_places),
        cmocka_unit_test(test_hits_leave_one_out),
        cmocka_unit_test(test_continuations),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_settings_are_refused),
        cmocka_unit_test(test_partials_are_refused),
        cmocka_unit_test(test_stopping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
