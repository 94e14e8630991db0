/*
 * test_table_holder.c - the table in use: exchanged under its readers, kept when a bad file takes its name, off when its own
 * file is written into; signatures of what is used.
 */
#include "unit/slmt_rig.h"

#include "core/clock.h"
#include "table/holder.h"
#include "table/sign.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

static void shift_all(struct rig *rig, float by) {
    for (uint32_t i = 0; i < rig->content.entry_count; i++)
        for (int k = 0; k < rig->entry[i].top_count; k++) rig->entry[i].top[k].logit += by;
}

static struct wane__table *open_table(const struct rig *rig, const unsigned char *key, int poll_ms) {
    struct wane__table *table;
    wane_error error = {0};
    struct wane__table_options options = {.path = rig->path,
                                          .origin = &rig->content.origin,
                                          .key = key,
                                          .poll_ms = poll_ms};
    if (wane__table_new(&options, &table, &error) != WANE_OK) fail_msg("%s", error.text);
    return table;
}

static struct wane__table_state state_of(struct wane__table *table) {
    struct wane__table_state state;
    wane__table_get_state(table, &state);
    return state;
}

static void test_open_fails_in_words(void **unused) {
    (void)unused;
    struct rig rig;
    struct wane__table *table;
    wane_error error = {0};
    rig_init(&rig, 20, 0, 0);
    struct wane__table_options options = {.path = rig.path};
    assert_int_equal(wane__table_new(&options, &table, &error), WANE_ENOENT);
    assert_null(table);
    rig_overwrite(rig.path, "nonsense", 8);
    assert_int_equal(wane__table_new(&options, &table, &error), WANE_EFORMAT);
    rig_free(&rig);
}

static void test_reload_exchanges(void **unused) {
    (void)unused;
    struct rig rig;
    wane_error error = {0};
    rig_init(&rig, 20, 10, 0);
    rig_write(&rig);
    struct wane__table *table = open_table(&rig, NULL, 0);
    const struct wane__slmt *old = wane__table_take(table);
    float before = wane__slmt_find(old, rig.entry[0].key)->logit[0];
    shift_all(&rig, 1);
    rig_write(&rig);
    assert_int_equal(wane__table_reload(table, &error), WANE_OK);
    const struct wane__slmt *fresh = wane__table_take(table);
    assert_ptr_not_equal(old, fresh);
    assert_true(wane__slmt_find(fresh, rig.entry[0].key)->logit[0] == before + 1);
    assert_true(wane__slmt_find(old, rig.entry[0].key)->logit[0] == before); /* its readers may finish */
    assert_int_equal(state_of(table).reloads, 1);
    assert_string_equal(state_of(table).digest, fresh->digest);
    wane__table_give(old);
    wane__table_free(table); /* and a snapshot outlives its holder */
    assert_non_null(wane__slmt_find(fresh, rig.entry[0].key));
    wane__table_give(fresh);
    wane__table_give(NULL);
    rig_free(&rig);
}

/* Another file under the name, and a bad one: the table in use is as good as before. */
static void test_bad_replacement_is_left_out(void **unused) {
    (void)unused;
    struct rig rig;
    char beside[128];
    wane_error error = {0};
    rig_init(&rig, 20, 10, 0);
    rig_write(&rig);
    struct wane__table *table = open_table(&rig, NULL, 0);
    snprintf(beside, sizeof beside, "%s/other", rig.folder);
    rig_overwrite(beside, "WANESLMT", 8);
    assert_int_equal(rename(beside, rig.path), 0);
    assert_true(wane__table_look(table));
    assert_false(wane__table_look(table)); /* the same bad file is not tried again */
    assert_int_equal(wane__table_reload(table, &error), WANE_EFORMAT);
    assert_non_null(strstr(error.text, "stays in use"));
    assert_non_null(strstr(error.text, "cut short"));
    struct wane__table_state state = state_of(table);
    assert_true(state.on && state.failures == 2 && state.reloads == 0);
    const struct wane__slmt *taken = wane__table_take(table);
    assert_non_null(taken);
    wane__table_give(taken);
    /* Removed: nothing to load, nothing lost. */
    unlink(rig.path);
    assert_false(wane__table_look(table));
    assert_int_equal(wane__table_reload(table, &error), WANE_ENOENT);
    assert_true(state_of(table).on);
    rig_write(&rig);
    assert_true(wane__table_look(table));
    assert_int_equal(state_of(table).reloads, 1);
    assert_string_equal(state_of(table).reason, "");
    wane__table_free(table);
    rig_free(&rig);
}

/* Cut at any page while it is in use: no signal, and the table goes off until a good file is there. */
static void test_own_file_cut(void **unused) {
    (void)unused;
    struct rig rig;
    rig_init(&rig, 400, 100, 10);
    for (int cut = 0; cut < 5; cut++) {
        rig_write(&rig);
        struct wane__table *table = open_table(&rig, NULL, 0);
        const struct wane__slmt *taken = wane__table_take(table);
        assert_int_equal(truncate(rig.path, cut * 4096), 0);
        for (uint32_t i = 0; i < 400; i++) assert_non_null(wane__slmt_find(taken, rig.entry[i].key));
        assert_true(wane__table_look(table));
        for (uint32_t i = 0; i < 400; i++) assert_non_null(wane__slmt_find(taken, rig.entry[i].key));
        wane__table_give(taken);
        struct wane__table_state state = state_of(table);
        assert_false(state.on);
        assert_non_null(strstr(state.reason, "turned off"));
        assert_int_equal(state.entries, 0);
        assert_null(wane__table_take(table));
        rig_write(&rig);
        assert_true(wane__table_look(table));
        assert_true(state_of(table).on);
        wane__table_free(table);
    }
    rig_free(&rig);
}

static void wait_for(struct wane__table *table, bool on, uint64_t reloads) {
    for (double until = wane__now() + 60;;) {
        struct wane__table_state state = state_of(table);
        if (state.on == on && state.reloads >= reloads) return;
        if (wane__now() > until) fail_msg("the watcher saw nothing");
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

static void test_watcher(void **unused) {
    (void)unused;
    struct rig rig;
    rig_init(&rig, 50, 0, 0);
    rig_write(&rig);
    struct wane__table *table = open_table(&rig, NULL, 5);
    shift_all(&rig, 1);
    rig_write(&rig);
    wait_for(table, true, 1);
    assert_int_equal(truncate(rig.path, 100), 0);
    wait_for(table, false, 1);
    rig_write(&rig);
    wait_for(table, true, 2);
    wane__table_free(table);
    rig_free(&rig);
}

/* Readers look up while the table is exchanged and switched off and on: every answer is of one whole table. */
struct reading {
    struct wane__table *table;
    const struct rig *rig;
    atomic_bool stop;
    atomic_int wrong, looked;
};

static void *read_on(void *user) {
    struct reading *r = user;
    while (!atomic_load(&r->stop)) {
        const struct wane__slmt *taken = wane__table_take(r->table);
        if (taken == NULL) continue;
        float moved = 0;
        for (uint32_t i = 0; i < 50; i++) {
            struct wane__slmt_hit hit;
            bool found = wane__slmt_lookup(taken, r->rig->entry[i].key, 0, 0, &hit);
            if (i == 0 && found) moved = hit.top[0].logit;
            if (!found || hit.top[0].logit != moved) atomic_fetch_add(&r->wrong, 1);
        }
        wane__table_give(taken);
        atomic_fetch_add(&r->looked, 1);
    }
    return NULL;
}

static void test_readers_and_reloads(void **unused) {
    (void)unused;
    enum { THREADS = 3, ROUNDS = 40 };
    struct rig rig;
    wane_error error = {0};
    pthread_t thread[THREADS];
    rig_init(&rig, 50, 0, 0);
    for (uint32_t i = 0; i < 50; i++) {
        rig.entry[i].top_count = 1;
        rig.entry[i].top[0].logit = 0;
    }
    rig_write(&rig);
    struct reading reading = {.rig = &rig, .table = open_table(&rig, NULL, 1)};
    /* The readers use the keys only; logits change under the writer's hands. */
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, read_on, &reading), 0);
    for (int round = 0; round < ROUNDS; round++) {
        struct wane__slmt_entry changed[50];
        memcpy(changed, rig.entry, sizeof changed);
        for (uint32_t i = 0; i < 50; i++) changed[i].top[0].logit = (float)round + 1;
        struct wane__slmt_content content = rig.content;
        content.entry = changed;
        assert_int_equal(wane__slmt_write(rig.path, &content, &error), WANE_OK);
        if (round % 4 != 3)
            assert_int_equal(wane__table_reload(reading.table, &error), WANE_OK);
        else if (truncate(rig.path, 5000) == 0)
            wane__table_look(reading.table);
    }
    while (atomic_load(&reading.looked) == 0) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    atomic_store(&reading.stop, true);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    assert_int_equal(atomic_load(&reading.wrong), 0);
    wane__table_free(reading.table);
    rig_free(&rig);
}

/* ------------------------------------------------------------------ signatures */

struct keys {
    char path[128], public_path[128], other[128], other_public[128], signature[128];
    unsigned char key[32], other_key[32];
};

static void make_keys(const struct rig *rig, struct keys *keys) {
    wane_error error = {0};
    snprintf(keys->path, sizeof keys->path, "%s/key", rig->folder);
    snprintf(keys->public_path, sizeof keys->public_path, "%s/key.pub", rig->folder);
    snprintf(keys->other, sizeof keys->other, "%s/other", rig->folder);
    snprintf(keys->other_public, sizeof keys->other_public, "%s/other.pub", rig->folder);
    snprintf(keys->signature, sizeof keys->signature, "%s.sig", rig->path);
    assert_int_equal(wane__sign_new(keys->path, &error), WANE_OK);
    assert_int_equal(wane__sign_new(keys->other, &error), WANE_OK);
    assert_int_equal(wane__sign_read_public(keys->public_path, keys->key, &error), WANE_OK);
    assert_int_equal(wane__sign_read_public(keys->other_public, keys->other_key, &error), WANE_OK);
    assert_memory_not_equal(keys->key, keys->other_key, 32);
}

static void refused(const struct rig *rig, const unsigned char *key, const char *word) {
    struct wane__slmt table;
    wane_error error = {0};
    assert_int_equal(wane__slmt_open(rig->path, NULL, key, &table, &error), WANE_EAUTH);
    if (strstr(error.text, word) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.text, word);
}

static size_t read_bytes(const char *path, char *out, size_t most) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(out, 1, most, file);
    assert_true(size < most);
    fclose(file);
    return size;
}

static void test_signatures(void **unused) {
    (void)unused;
    struct rig rig;
    struct keys keys;
    struct wane__slmt table;
    static char bytes[200000], signature[4096];
    wane_error error = {0};
    rig_init(&rig, 100, 100, 5);
    make_keys(&rig, &keys);
    rig_write(&rig);
    refused(&rig, keys.key, "not signed");
    assert_int_equal(wane__sign_file(keys.path, rig.path, &error), WANE_OK);
    assert_int_equal(wane__slmt_open(rig.path, NULL, keys.key, &table, &error), WANE_OK);
    assert_true(table.verified);
    wane__slmt_close(&table);
    refused(&rig, keys.other_key, "is signed by the key");
    /* A byte of the table, in its header, its padding, its end: whatever its checksums say. */
    size_t size = read_bytes(rig.path, bytes, sizeof bytes);
    for (size_t at = 0; at < size; at += size / 37 + 1) {
        bytes[at] ^= 4;
        rig_overwrite(rig.path, bytes, size);
        refused(&rig, keys.key, "altered");
        bytes[at] ^= 4;
    }
    rig_overwrite(rig.path, bytes, size);
    /* Every byte of the signature's file; remarks are not part of it. */
    size_t length = read_bytes(keys.signature, signature, sizeof signature);
    size_t begin = (size_t)(strchr(signature, '\n') - signature) + 1;
    for (size_t at = begin; at < length; at++) {
        signature[at] ^= 1;
        rig_overwrite(keys.signature, signature, length);
        refused(&rig, keys.key, "");
        signature[at] ^= 1;
        rig_overwrite(keys.signature, signature, at);
        if (at + 1 < length) refused(&rig, keys.key, "");
    }
    rig_overwrite(keys.signature, signature, length);
    /* Another good table under the old signature; another table's signature. */
    shift_all(&rig, 1);
    rig_write(&rig);
    refused(&rig, keys.key, "altered");
    rig_free(&rig);
}

static void test_keys_are_guarded(void **unused) {
    (void)unused;
    struct rig rig;
    struct keys keys;
    struct stat facts;
    unsigned char key[32];
    wane_error error = {0};
    rig_init(&rig, 1, 0, 0);
    make_keys(&rig, &keys);
    rig_write(&rig);
    assert_int_equal(stat(keys.path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    assert_int_equal(wane__sign_new(keys.path, &error), WANE_EINVAL);
    assert_non_null(strstr(error.text, "is there already"));
    unlink(keys.path);
    assert_int_equal(wane__sign_new(keys.path, &error), WANE_EINVAL); /* its public half is */
    assert_int_equal(wane__sign_file(keys.path, rig.path, &error), WANE_ENOENT);
    assert_int_equal(wane__sign_file(keys.other_public, rig.path, &error), WANE_EAUTH); /* readable by all */
    assert_int_equal(chmod(keys.other, 0640), 0);
    assert_int_equal(wane__sign_file(keys.other, rig.path, &error), WANE_EAUTH);
    assert_non_null(strstr(error.text, "chmod 600"));
    assert_int_equal(chmod(keys.other, 0600), 0);
    assert_int_equal(wane__sign_read_public(keys.other, key, &error),
                     WANE_EFORMAT); /* a secret is no public key */
    assert_int_equal(chmod(keys.other_public, 0600), 0);
    assert_int_equal(wane__sign_file(keys.other_public, rig.path, &error), WANE_EFORMAT);
    rig_overwrite(rig.path, "no table", 8);
    assert_int_equal(wane__sign_file(keys.other, rig.path, &error), WANE_EFORMAT);
    rig_free(&rig);
}

/* Start and reload ask for the signature; a table whose signature comes later is tried again then. */
static void test_signed_reload(void **unused) {
    (void)unused;
    struct rig rig;
    struct keys keys;
    struct wane__table *table;
    wane_error error = {0};
    rig_init(&rig, 20, 0, 0);
    make_keys(&rig, &keys);
    rig_write(&rig);
    struct wane__table_options options = {.path = rig.path, .key = keys.key};
    assert_int_equal(wane__table_new(&options, &table, &error), WANE_EAUTH);
    assert_int_equal(wane__sign_file(keys.path, rig.path, &error), WANE_OK);
    table = open_table(&rig, keys.key, 0);
    assert_true(state_of(table).verified);
    shift_all(&rig, 1);
    rig_write(&rig);
    assert_true(wane__table_look(table));
    struct wane__table_state state = state_of(table);
    assert_true(state.on && state.reloads == 0); /* unsigned as yet: the old one stays */
    assert_non_null(strstr(state.reason, "altered"));
    assert_int_equal(wane__sign_file(keys.path, rig.path, &error), WANE_OK);
    assert_true(wane__table_look(table));
    assert_int_equal(state_of(table).reloads, 1);
    wane__table_free(table);
    rig_free(&rig);
}

/* Two tables take turns under the name of a signed one: what is used is always what was verified. */
struct swapping {
    const char *path;
    char beside[128];
    char good[20000], evil[20000];
    size_t good_size, evil_size;
    atomic_bool stop;
};

static void *swap_on(void *user) {
    struct swapping *s = user;
    for (unsigned i = 0; !atomic_load(&s->stop); i++) {
        const char *target = i % 2 ? s->beside : s->path; /* by renaming, and in place */
        FILE *file = fopen(target, "wb");
        if (file == NULL) continue;
        bool evil = i / 2 % 2;
        size_t size = evil ? s->evil_size : s->good_size;
        bool whole = fwrite(evil ? s->evil : s->good, 1, size, file) == size;
        if (fclose(file) == 0 && whole && i % 2) rename(s->beside, s->path);
    }
    return NULL;
}

static void test_swap_race(void **unused) {
    (void)unused;
    static struct swapping s;
    struct rig rig;
    struct keys keys;
    struct wane__slmt table;
    wane_error error = {0};
    pthread_t thread;
    rig_init(&rig, 20, 0, 0);
    make_keys(&rig, &keys);
    s.path = rig.path;
    snprintf(s.beside, sizeof s.beside, "%s/t.slmt.next", rig.folder);
    shift_all(&rig, 100);
    rig_write(&rig);
    s.evil_size = read_bytes(rig.path, s.evil, sizeof s.evil);
    shift_all(&rig, -100);
    rig_write(&rig);
    s.good_size = read_bytes(rig.path, s.good, sizeof s.good);
    assert_int_equal(wane__sign_file(keys.path, rig.path, &error), WANE_OK);
    assert_int_equal(pthread_create(&thread, NULL, swap_on, &s), 0);
    int opened = 0;
    for (int i = 0; i < 3000; i++) {
        if (wane__slmt_open(rig.path, NULL, keys.key, &table, &error) != WANE_OK) continue;
        opened++;
        assert_int_equal(table.size, s.good_size);
        assert_memory_equal(table.bytes, s.good, s.good_size);
        wane__slmt_close(&table);
    }
    atomic_store(&s.stop, true);
    pthread_join(thread, NULL);
    rig_overwrite(rig.path, s.good, s.good_size);
    assert_int_equal(wane__slmt_open(rig.path, NULL, keys.key, &table, &error), WANE_OK);
    wane__slmt_close(&table);
    unlink(s.beside);
    (void)opened; /* how often the good one was met is the scheduler's choice */
    rig_free(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_fails_in_words),
        cmocka_unit_test(test_reload_exchanges),
        cmocka_unit_test(test_bad_replacement_is_left_out),
        cmocka_unit_test(test_own_file_cut),
        cmocka_unit_test(test_watcher),
        cmocka_unit_test(test_readers_and_reloads),
        cmocka_unit_test(test_signatures),
        cmocka_unit_test(test_keys_are_guarded),
        cmocka_unit_test(test_signed_reload),
        cmocka_unit_test(test_swap_race),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
