/*
 * test_slmt.c - a table's file: what is written is what is read, always the same bytes, and nothing that is cut, altered or
 * made up is believed.
 */
#include "unit/slmt_rig.h"

#include <xxhash.h>

/* ------------------------------------------------------------------------ round trip */

static void same_top(const struct wane__candidate *a, int count, const struct wane__candidate *b,
                     int others) {
    assert_int_equal(count, others);
    for (int i = 0; i < count; i++) {
        assert_int_equal(a[i].token, b[i].token);
        assert_memory_equal(&a[i].logit, &b[i].logit, sizeof a[i].logit);
    }
}

static void check_entry(const struct rig *rig, const struct wane__slmt *table, uint32_t i) {
    const struct wane__slmt_entry *e = &rig->entry[i];
    const struct wane__slmt_slot *slot = wane__slmt_find(table, e->key);
    struct wane__candidate top[WANE__SLMT_DEPTH];
    assert_non_null(slot);
    same_top(top, wane__slmt_top(slot, top), e->top, e->top_count);
    assert_int_equal(slot->seen, e->seen);
    assert_int_equal(slot->shape >> 3, e->kinds);
    assert_true(fabs(slot->stability / 65535.0 * 2 - 1 - (double)e->stability) < 2e-5);
    assert_true(fabs(slot->agreement / 65535.0 - (double)e->agreement) < 1e-5);
    assert_true(fabs(slot->mass / 65535.0 - (double)e->mass) < 1e-5);
}

static void check_all(const struct rig *rig, const struct wane__slmt *table) {
    struct wane__candidate top[WANE__SLMT_DEPTH];
    const struct wane__slmt_content *c = &rig->content;
    for (uint32_t i = 0; i < c->entry_count; i++) check_entry(rig, table, i);
    for (uint32_t i = 0, k = 0; i < c->position_count; i++) {
        const struct wane__slmt_position *p = &rig->position[i];
        const struct wane__slmt_slot *slot = wane__slmt_find(table, rig->entry[p->entry].key);
        k = i > 0 && p[-1].entry == p->entry ? k + 1 : 0;
        assert_true(k < slot->positions);
        const struct wane__slmt_record *r = &table->record[slot->position + k];
        assert_true(r->index == p->index && r->context == p->context);
        same_top(top, wane__slmt_top_at(table, slot, r, top), p->top, p->top_count);
    }
    for (uint32_t i = 0; i < c->continuation_count; i++) {
        const struct wane__slmt_continuation *from = &rig->continuation[i];
        const struct wane__slmt_slot *slot = wane__slmt_find(table, rig->entry[from->entry].key);
        int count = 0;
        float acceptance = 0;
        const uint32_t *token =
            wane__slmt_continuation(table, (uint32_t)(slot - table->slot), &count, &acceptance);
        assert_non_null(token);
        assert_int_equal(count, from->count);
        assert_true(isnan(from->acceptance) ? isnan(acceptance) : acceptance == from->acceptance);
        for (int t = 0; t < count; t++) assert_int_equal(token[t], from->token[t]);
    }
    assert_memory_equal(table->phrases, c->phrases, c->phrases_size);
    assert_int_equal(table->header->section[WANE__SLMT_PHRASES].size, c->phrases_size);
}

static void test_what_is_written_is_read(void **unused) {
    static const uint32_t sizes[][3] = {{0, 0, 0}, {1, 0, 0},     {1, 9, 1},
                                        {2, 5, 2}, {77, 300, 20}, {5000, 9000, 700}};
    (void)unused;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct rig rig;
        struct wane__slmt table;
        wane_error error = {0};
        rig_init(&rig, sizes[i][0], sizes[i][1], sizes[i][2]);
        rig_write(&rig);
        if (wane__slmt_open(rig.path, &rig.content.origin, NULL, &table, &error) != WANE_OK)
            fail_msg("%s", error.text);
        assert_int_equal(table.header->entries, sizes[i][0]);
        assert_int_equal(table.header->positions, sizes[i][1]);
        assert_memory_equal(table.header->model, rig.content.origin.model, 32);
        check_all(&rig, &table);
        uint64_t exact;
        assert_int_equal(wane__slmt_measure(&rig.content, &exact, &error), WANE_OK);
        assert_int_equal(exact, table.size);
        assert_true(table.size <=
                    wane__slmt_size(sizes[i][0], sizes[i][1], 8 * sizes[i][2]) + 2 * WANE__SLMT_PAGE);
        wane__slmt_close(&table);
        rig_free(&rig);
    }
}

/* Keys that are not there: absent windows, the same window with another ten, both ends of the range. */
static void test_absent_keys(void **unused) {
    (void)unused;
    struct rig rig;
    struct wane__slmt table;
    size_t size;
    rig_init(&rig, 3000, 0, 0);
    unsigned char *image = rig_image(&rig, &size);
    rig_parse(image, size, &table);
    assert_null(wane__slmt_find(&table, (struct wane__slmt_key){0, 0}));
    assert_null(wane__slmt_find(&table, (struct wane__slmt_key){UINT64_MAX, 0}));
    assert_null(wane__slmt_find(&table, (struct wane__slmt_key){UINT64_MAX, UINT32_MAX}));
    for (uint32_t i = 0; i < 3000; i++) {
        struct wane__slmt_key key = rig.entry[i].key;
        assert_null(wane__slmt_find(&table, (struct wane__slmt_key){key.window, key.ten + 1}));
        assert_null(wane__slmt_find(&table, (struct wane__slmt_key){key.window + 1, key.ten}));
        if (key.ten != 0) assert_null(wane__slmt_find(&table, (struct wane__slmt_key){key.window, 0}));
    }
    wane__free(image);
    rig_free(&rig);
}

/* Keys as no hash gives them: all at the end of the range, and many tens under one window. */
static void test_crowded_keys(void **unused) {
    (void)unused;
    struct rig rig;
    struct wane__slmt table;
    size_t size;
    rig_init(&rig, 400, 0, 0);
    for (uint32_t i = 0; i < 400; i++) {
        rig.entry[i].key.window = i < 200 ? 7 : UINT64_MAX - 399 + i;
        rig.entry[i].key.ten = i < 200 ? i : 0;
    }
    unsigned char *image = rig_image(&rig, &size);
    rig_parse(image, size, &table);
    assert_true(table.slots > table.range + 1);
    for (uint32_t i = 0; i < 400; i++) check_entry(&rig, &table, i);
    assert_null(wane__slmt_find(&table, (struct wane__slmt_key){UINT64_MAX - 400, 0}));
    assert_null(wane__slmt_find(&table, (struct wane__slmt_key){7, 200}));
    wane__free(image);
    rig_free(&rig);
}

static void test_reproducible_and_bounded(void **unused) {
    (void)unused;
    struct rig rig;
    size_t size, again_size;
    rig_init(&rig, 50000, 140000, 10000);
    unsigned char *image = rig_image(&rig, &size), *again = rig_image(&rig, &again_size);
    assert_int_equal(size, again_size);
    assert_memory_equal(image, again, size);
    assert_true(size <= 12 * 1000 * 1000);
    assert_true(wane__slmt_size(50000, 0, 0) <= 5500000);
    struct wane__slmt table;
    rig_parse(image, size, &table);
    check_all(&rig, &table);
    wane__free(image);
    wane__free(again);
    rig_free(&rig);
}

/* ------------------------------------------------------------------- what a writer refuses */

static void refused(const struct rig *rig, const char *word) {
    wane_error error = {0};
    assert_int_equal(wane__slmt_write(rig->path, &rig->content, &error), WANE_EINVAL);
    if (strstr(error.text, word) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.text, word);
    assert_int_not_equal(access(rig->path, F_OK), 0);
}

#define REFUSED(change, word)      \
    do {                           \
        struct rig rig;            \
        rig_init(&rig, 20, 40, 5); \
        change;                    \
        refused(&rig, word);       \
        rig_free(&rig);            \
    } while (0)

static void test_writer_refuses(void **unused) {
    (void)unused;
    REFUSED(rig.content.origin.model[3] = 'G', "hexadecimal");
    REFUSED(rig.content.origin.tokenizer[31] = '\0', "hexadecimal");
    REFUSED(rig.content.origin.vocab_size = 0, "vocabulary");
    REFUSED(rig.content.origin.vocab_size = (1 << 24) + 1, "vocabulary");
    REFUSED(rig.content.window = 0, "window");
    REFUSED(rig.content.window = 11, "window");
    REFUSED(rig.content.depth = 6, "depth");
    REFUSED(rig.content.min_share = NAN, "bounds");
    REFUSED(rig.entry[4].key = rig.entry[3].key, "entry 4 does not come after");
    REFUSED(rig.entry[4].top_count = 0, "entry 4 has none");
    REFUSED(rig.entry[4].top_count = 6, "entry 4 has none or too many");
    REFUSED(rig.content.depth = 4, "too many candidates");
    REFUSED(rig.entry[2].top[0].logit = INFINITY, "entry 2 has a logit");
    REFUSED(rig.entry[2].top[1].logit = NAN, "entry 2 has a logit");
    REFUSED(rig.entry[2].top[0].logit = -100, "best first");
    REFUSED(rig.entry[2].top[0].token = -1, "outside the vocabulary");
    REFUSED(rig.entry[2].top[0].token = 49152, "outside the vocabulary");
    REFUSED(rig.entry[2].top[1].token = rig.entry[2].top[0].token, "twice");
    REFUSED(rig.entry[2].stability = 1.5f, "out of range");
    REFUSED(rig.entry[2].agreement = NAN, "out of range");
    REFUSED(rig.entry[2].mass = -0.1f, "out of range");
    REFUSED(rig.entry[2].kinds = 16, "kind");
    REFUSED(rig.position[7].entry = 20, "belongs to no entry");
    REFUSED(rig.position[8].entry = 0, "does not come after");
    REFUSED(rig.position[9] = rig.position[8], "does not come after");
    REFUSED(rig.position[5].top[0].token = 49152, "outside the vocabulary");
    REFUSED(rig.continuation[1].entry = 20, "belongs to no entry");
    REFUSED(rig.continuation[1].entry = 0, "does not come after");
    REFUSED(rig.continuation[1].count = 0, "1 to 64");
    REFUSED(rig.continuation[1].count = 65, "1 to 64");
    REFUSED(rig.continuation[1].acceptance = 2, "acceptance");
    REFUSED(rig.token[9] = -5, "outside the vocabulary");
}

static void test_failed_write_leaves_the_old_file(void **unused) {
    (void)unused;
    struct rig rig;
    struct wane__slmt table;
    wane_error error = {0};
    rig_init(&rig, 20, 40, 5);
    rig_write(&rig);
    rig.entry[2].kinds = 99;
    assert_int_equal(wane__slmt_write(rig.path, &rig.content, &error), WANE_EINVAL);
    assert_int_equal(wane__slmt_write("/nonexistent/folder/t.slmt", &rig.content, &error), WANE_EINVAL);
    rig.entry[2].kinds = 1;
    assert_int_equal(wane__slmt_write("/nonexistent/folder/t.slmt", &rig.content, &error), WANE_EIO);
    assert_non_null(strstr(error.text, "/nonexistent/folder/t.slmt"));
    assert_int_equal(wane__slmt_open(rig.path, NULL, NULL, &table, &error), WANE_OK);
    wane__slmt_close(&table);
    rig_free(&rig);
}

/* ------------------------------------------------------------------- what a reader refuses */

static int try_parse(const unsigned char *image, size_t size, wane_error *error) {
    struct wane__slmt table = {0};
    *error = (wane_error){0};
    int status = wane__slmt_parse("t.slmt", image, size, NULL, &table, error);
    if (status != WANE_OK) {
        assert_int_equal(error->code, status);
        assert_true(strlen(error->text) > 20 && strstr(error->text, "t.slmt") == error->text);
    }
    return status;
}

static void test_cut_anywhere(void **unused) {
    (void)unused;
    struct rig rig;
    size_t size;
    wane_error error;
    rig_init(&rig, 30, 60, 9);
    unsigned char *image = rig_image(&rig, &size);
    for (size_t cut = 0; cut < size; cut++) {
        unsigned char *exact = wane__alloc(cut); /* so that a sanitizer sees a read behind it */
        memcpy(exact, image, cut);
        assert_int_equal(try_parse(exact, cut, &error), WANE_EFORMAT);
        assert_non_null(strstr(error.text, cut < 8 ? "not a table" : "cut short"));
        wane__free(exact);
    }
    /* Through the file as well, at each section and around it. */
    struct wane__slmt table;
    const struct wane__slmt_header *h = (const void *)image;
    for (int s = 0; s < WANE__SLMT_SECTIONS; s++)
        for (int d = -1; d <= 1; d++) {
            rig_overwrite(rig.path, image, (size_t)((int64_t)h->section[s].offset + d));
            assert_int_equal(wane__slmt_open(rig.path, NULL, NULL, &table, &error), WANE_EFORMAT);
            assert_non_null(strstr(error.text, "cut short"));
        }
    unsigned char *longer = calloc(size + 4096, 1);
    memcpy(longer, image, size);
    rig_overwrite(rig.path, longer, size + 1);
    assert_int_equal(wane__slmt_open(rig.path, NULL, NULL, &table, &error), WANE_EFORMAT);
    assert_non_null(strstr(error.text, "too long"));
    free(longer);
    wane__free(image);
    rig_free(&rig);
}

static void test_flip_anywhere(void **unused) {
    (void)unused;
    struct rig rig;
    size_t size;
    wane_error error;
    rig_init(&rig, 30, 60, 9);
    unsigned char *image = rig_image(&rig, &size);
    assert_int_equal(try_parse(image, size, &error), WANE_OK);
    for (size_t at = 0; at < size; at++) {
        image[at] ^= (unsigned char)(1u << at % 8);
        assert_int_equal(try_parse(image, size, &error), WANE_EFORMAT);
        image[at] ^= (unsigned char)(1u << at % 8);
    }
    wane__free(image);
    rig_free(&rig);
}

static void test_not_a_file(void **unused) {
    (void)unused;
    struct rig rig;
    struct wane__slmt table;
    wane_error error = {0};
    rig_init(&rig, 1, 0, 0);
    assert_int_equal(wane__slmt_open(rig.path, NULL, NULL, &table, &error), WANE_ENOENT);
    assert_int_equal(wane__slmt_open(rig.folder, NULL, NULL, &table, &error), WANE_EFORMAT);
    assert_int_equal(wane__slmt_open("/dev/zero", NULL, NULL, &table, &error), WANE_EFORMAT);
    rig_overwrite(rig.path, "", 0);
    assert_int_equal(wane__slmt_open(rig.path, NULL, NULL, &table, &error), WANE_EFORMAT);
    rig_overwrite(rig.path, "GGUF....................", 20);
    assert_int_equal(wane__slmt_open(rig.path, NULL, NULL, &table, &error), WANE_EFORMAT);
    rig_free(&rig);
}

static void test_other_origins(void **unused) {
    (void)unused;
    struct rig rig;
    struct wane__slmt table;
    wane_error error = {0};
    rig_init(&rig, 10, 0, 0);
    rig_write(&rig);
    struct wane__trace_origin other = rig.content.origin;
    other.model[0] = 'f';
    assert_int_equal(wane__slmt_open(rig.path, &other, NULL, &table, &error), WANE_EUNSUPPORTED);
    assert_non_null(strstr(error.text, "another model"));
    other = rig.content.origin;
    other.tokenizer[31] = '1';
    assert_int_equal(wane__slmt_open(rig.path, &other, NULL, &table, &error), WANE_EUNSUPPORTED);
    assert_non_null(strstr(error.text, "another tokenizer"));
    other = rig.content.origin;
    other.vocab_size++;
    assert_int_equal(wane__slmt_open(rig.path, &other, NULL, &table, &error), WANE_EUNSUPPORTED);
    rig_free(&rig);
}

/* Whoever makes a file up can make its checksums up as well: what they cannot catch, the checks must. */
static void test_made_up(void **unused) {
    (void)unused;
    struct rig rig;
    size_t size;
    wane_error error;
    rig_init(&rig, 30, 60, 9);
    unsigned char *image = rig_image(&rig, &size), *copy = wane__alloc_aligned(64, size);
    struct wane__slmt_header *h = (void *)copy;
    struct wane__slmt table;
    rig_parse(image, size, &table);
    size_t used = (size_t)(wane__slmt_find(&table, rig.entry[8].key) - table.slot), empty = 0;
    while (table.slot[empty].shape != 0) empty++;
#define MADE_UP(change)                                                                              \
    do {                                                                                             \
        memcpy(copy, image, size);                                                                   \
        struct wane__slmt_slot *slot = (void *)(copy + h->section[WANE__SLMT_ENTRIES].offset);       \
        struct wane__slmt_record *record = (void *)(copy + h->section[WANE__SLMT_POSITIONS].offset); \
        struct wane__slmt_run *run = (void *)(copy + h->section[WANE__SLMT_CONTINUATIONS].offset);   \
        uint32_t *token = (void *)(copy + h->section[WANE__SLMT_TOKENS].offset);                     \
        (void)slot, (void)record, (void)run, (void)token;                                            \
        change;                                                                                      \
        if (h->file_size == size && h->section[0].offset == 4096 && h->section[4].size < 4096)       \
            wane__slmt_seal(copy);                                                                   \
        else                                                                                         \
            h->check = XXH3_64bits(h, offsetof(struct wane__slmt_header, check));                    \
        assert_int_equal(try_parse(copy, size, &error), WANE_EFORMAT);                               \
    } while (0)
    MADE_UP(h->version = 2);
    assert_non_null(strstr(error.text, "version 2"));
    MADE_UP(h->hash = 2);
    assert_non_null(strstr(error.text, "names contexts"));
    MADE_UP(h->header_size = 100);
    MADE_UP(h->sections = 6);
    MADE_UP(h->reserved[3] = 1);
    MADE_UP(h->zeros[100] = 1);
    MADE_UP(h->vocab_size = 0);
    MADE_UP(h->vocab_size = 3);
    MADE_UP(h->model[5] = 'x');
    MADE_UP(h->window = 11);
    MADE_UP(h->depth = 4);
    MADE_UP(h->depth = 9);
    MADE_UP(h->min_share = NAN);
    MADE_UP(h->entries = 29);
    MADE_UP(h->entries = UINT32_MAX);
    MADE_UP(h->range++);
    MADE_UP(h->slots--);
    MADE_UP(h->positions--);
    MADE_UP(h->continuations = 31);
    MADE_UP(h->tokens = UINT32_MAX);
    MADE_UP(h->section[1].kind = 0);
    MADE_UP(h->section[1].record = 16);
    MADE_UP(h->section[2].size += 16);
    MADE_UP(h->file_size = UINT64_MAX);
    MADE_UP(h->section[0].offset = UINT64_MAX - 4095);
    MADE_UP(h->section[4].size = UINT64_MAX);
    MADE_UP(slot[empty].seen = 1);
    MADE_UP(slot[empty] = slot[used]);
    MADE_UP(memset(&slot[used], 0, 64));
    MADE_UP(slot[used].window ^= UINT64_C(1) << 63);
    MADE_UP(slot[used].shape &= 0xf8);
    MADE_UP(slot[used].shape |= 7);
    MADE_UP(slot[used].shape |= 0x80);
    MADE_UP(slot[used].logit[0] = INFINITY);
    MADE_UP(slot[used].logit[0] = -1000);
    MADE_UP(memset(slot[used].token, 0xff, 3));
    MADE_UP(memcpy(slot[used].token, slot[used].token + 3, 3));
    MADE_UP(slot[used].position++);
    MADE_UP(slot[used].positions++);
    MADE_UP(slot[used].positions = UINT16_MAX);
    MADE_UP(record[0].tokens = 0x7fff);
    MADE_UP(record[0].tokens |= 1u << 15);
    MADE_UP(record[0].tokens = 0x7fff & ~7u << 3);
    MADE_UP(record[0].tokens = WANE__SLMT_OWN | 5u << 28 | 0xfffffff);
    MADE_UP(record[0].tokens = WANE__SLMT_OWN | (h->tokens - 1) | 5u << 28);
    MADE_UP(record[0].tokens = WANE__SLMT_OWN);
    MADE_UP(record[0].logit[0] = NAN);
    MADE_UP(token[0] = 49152);
    MADE_UP(run[0].slot = UINT32_MAX);
    MADE_UP(run[0].slot = (uint32_t)empty);
    MADE_UP(run[1].slot = run[0].slot);
    MADE_UP(run[1].first = h->tokens + 1);
    MADE_UP(run[1].first = h->tokens);
    MADE_UP(run[1].count = 0);
    MADE_UP(run[1].count = 65);
    MADE_UP(run[1].acceptance = -1);
    wane__free(copy);
    wane__free(image);
    rig_free(&rig);
}

/* ------------------------------------------------------------------------ the vector */

/*
 * tests/vectors/slmt_small.inc: the lines of 16 bytes that are not zero, of the table that docs/slmt.md describes. To make
 * it anew after a change of the version: WANE_PRINT_VECTOR=1 build/tests/test_slmt.
 */
static const struct {
    size_t offset;
    const char *hex;
} vector[] = {
#include "vectors/slmt_small.inc"
};

static unsigned char *small_table(size_t *size) {
    const int32_t ada[3] = {1, 2, 3}, high = 128000, next[4] = {4, 5, 6, 7};
    struct wane__slmt_entry entry[3] = {
        {.key = {wane__context_window(wane__context_tenant(""), ada + 3, 3), 0},
         .seen = 3,
         .stability = 1,
         .agreement = 1,
         .mass = 0.5f,
         .kinds = 1,
         .top_count = 2,
         .top = {{4, 12.5f}, {9, 3.25f}}},
        {.key = {wane__context_window(wane__context_tenant("ada"), ada + 3, 3), 0x8def7902},
         .seen = 1,
         .stability = 0.5f,
         .agreement = 0,
         .mass = 1,
         .kinds = 12,
         .top_count = 1,
         .top = {{70000, -1}}},
        {.key = {wane__context_window(wane__context_tenant(""), &high + 1, 1), 0},
         .seen = 2,
         .stability = -1,
         .agreement = 0.25f,
         .mass = 0,
         .kinds = 15,
         .top_count = 5,
         .top = {{1, 5}, {2, 4}, {3, 3}, {4, 2}, {131071, 2}}},
    };
    const struct wane__slmt_position position[3] = {
        {.entry = 0, .index = 0, .context = 0xc4bee7cf, .top_count = 2, .top = {{9, 8}, {4, 7}}},
        {.entry = 0, .index = 2000, .context = 1, .top_count = 1, .top = {{6, 1.5f}}},
        {.entry = 2, .index = 7, .context = 2, .top_count = 1, .top = {{3, 9}}},
    };
    const struct wane__slmt_continuation run = {.entry = 0, .count = 4, .acceptance = 0.75f, .token = next};
    struct wane__slmt_content content = {
        .origin = {1, "000102030405060708090a0b0c0d0e0f", "f0e0d0c0b0a090807060504030201000", 131072},
        .built_at = 1700000000,
        .window = 3,
        .depth = 5,
        .min_stability = 0.75f,
        .min_share = 0.5f,
        .entry = entry,
        .entry_count = 3,
        .position = position,
        .position_count = 3,
        .continuation = &run,
        .continuation_count = 1,
        .phrases = "PHR",
        .phrases_size = 3,
    };
    unsigned char *image;
    wane_error error = {0};
    if (wane__slmt_build(&content, &image, size, &error) != WANE_OK) fail_msg("%s", error.text);
    return image;
}

static void print_vector(const unsigned char *image, size_t size) {
    static const unsigned char zeros[16];
    for (size_t at = 0; at < size; at += 16) {
        if (memcmp(image + at, zeros, 16) == 0) continue;
        printf("{0x%04zx, \"", at);
        for (int i = 0; i < 16; i++) printf("%02x", image[at + (size_t)i]);
        printf("\"},\n");
    }
}

static void test_vector(void **unused) {
    (void)unused;
    size_t size;
    unsigned char *image = small_table(&size);
    if (getenv("WANE_PRINT_VECTOR") != NULL) print_vector(image, size);
    assert_int_equal(size, 6 * 4096);
    unsigned char *expected = calloc(size, 1);
    for (size_t i = 0; i < sizeof vector / sizeof *vector; i++)
        for (size_t k = 0; k < 16; k++) {
            unsigned byte;
            assert_int_equal(sscanf(vector[i].hex + 2 * k, "%2x", &byte), 1);
            expected[vector[i].offset + k] = (unsigned char)byte;
        }
    assert_memory_equal(image, expected, size);
    struct wane__slmt table;
    rig_parse(expected, size, &table);
    free(expected);
    wane__free(image);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read),
        cmocka_unit_test(test_absent_keys),
        cmocka_unit_test(test_crowded_keys),
        cmocka_unit_test(test_reproducible_and_bounded),
        cmocka_unit_test(test_writer_refuses),
        cmocka_unit_test(test_failed_write_leaves_the_old_file),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_flip_anywhere),
        cmocka_unit_test(test_not_a_file),
        cmocka_unit_test(test_other_origins),
        cmocka_unit_test(test_made_up),
        cmocka_unit_test(test_vector),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
