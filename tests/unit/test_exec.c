/* test_exec.c - what wane exec reads of programs, and what rows of logits must hold for the samplers that live. */
#include "core/elf.h"
#include "preload/samplers.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* The library's own settings come from the environment; here they are the test's. */
static struct wane__under_settings given = {.share = 1e-9};

const struct wane__under_settings *wane__under_settings(void) {
    return &given;
}

/* --------------------------------------------------------------------- programs */

static void elf_names_its_loader(void **state) {
    (void)state;
    unsigned char file[64 + 56 + 16] = "\177ELF\002\001";
    char path[32];
    file[32] = 64;      /* where its parts are listed */
    file[54] = 56;      /* bytes of each              */
    file[56] = 1;       /* how many                   */
    file[64] = 3;       /* the loader's name          */
    file[64 + 8] = 120; /* where                      */
    file[64 + 32] = 8;  /* how long                   */
    memcpy(file + 120, "/ld.so\0", 7);
    file[64 + 32] = 7;
    assert_true(wane__elf_loader(file, sizeof file, path, sizeof path));
    assert_string_equal(path, "/ld.so");
    for (size_t size = 0; size < 127; size++) assert_false(wane__elf_loader(file, size, path, sizeof path));
    assert_false(wane__elf_loader(file, sizeof file, path, 6));
    file[4] = 1; /* 32 bits */
    assert_false(wane__elf_loader(file, sizeof file, path, sizeof path));
}

static void assert_list(const char *list, const char *expected) {
    char path[64];
    bool found = wane__elf_find_llama(list, strlen(list), path, sizeof path);
    assert_int_equal(found, expected != NULL);
    if (found) assert_string_equal(path, expected);
}

static void the_list_names_libllama(void **state) {
    (void)state;
    assert_list("", NULL);
    assert_list("\tlibllama-common.so => /x/libllama-common.so (0x1)\n", NULL);
    assert_list("\tlibllama.so => not found\n", NULL);
    assert_list("\tlibc.so.6 => /lib/libc.so.6 (0x1)\n\tlibllama.so => /x/libllama.so (0x1)\n",
                "/x/libllama.so");
    assert_list("\tlibllama.v0.4.0.so => /my (own) x/libllama.v0.4.0.so (0x7f12)\n",
                "/my (own) x/libllama.v0.4.0.so");
    assert_list("\tlibllama.so.0 => /x/libllama.so.0", "/x/libllama.so.0");
}

/* --------------------------------------------------------------------- samplers */

enum { VOCAB = 50000 };
static char address[64]; /* samplers' */

static void make(int at, enum wane__sampler_kind kind, int n, double value) {
    wane__sampler_made(&address[at], &(struct wane__sampler_spec){.kind = kind, .count = n, .value = value});
}

/* A chain at 0 of the samplers 1, 2, …. */
static void chain_of(int n) {
    wane__sampler_made_chain(&address[0]);
    for (int i = 1; i <= n; i++) wane__sampler_added(&address[0], &address[i]);
}

static void forget(void) {
    for (size_t i = 0; i < sizeof address; i++) wane__sampler_freed(&address[i]);
}

static struct wane__need need(void) {
    struct wane__need need;
    wane__sampler_need(NULL, VOCAB, &need);
    return need;
}

static void nobody_lives_means_everything(void **state) {
    (void)state;
    assert_true(need().whole);
    make(1, WANE__SAMPLER_BEST, 40, 0); /* kept for later: it was never used */
    assert_true(need().whole);
    wane__sampler_applied(&address[1]);
    assert_false(need().whole);
    assert_int_equal(need().best, 40);
    forget();
    assert_true(need().whole);
}

static void a_chain_says_what_it_can_choose(void **state) {
    (void)state;
    make(1, WANE__SAMPLER_LOWER, 64, 0);
    make(2, WANE__SAMPLER_NOTHING, 0, 0);
    make(3, WANE__SAMPLER_BEST, 40, 0);
    make(4, WANE__SAMPLER_LOOK, 1, 0);
    make(5, WANE__SAMPLER_DRAW, 0, 0);
    chain_of(5);
    struct wane__need n = need();
    assert_false(n.whole);
    assert_int_equal(n.best, 104);     /* as many as the penalties can lower may be missing above */
    assert_true(n.distance <= 0);      /* behind top-k nothing else can come in */
    make(6, WANE__SAMPLER_DRAW, 0, 0); /* alone, and never used */
    assert_true(need().distance <= 0);
    wane__sampler_applied(&address[6]);
    assert_true(fabs(need().distance - 20.723) < 0.01 || need().whole);
    forget();
}

static void the_best_one_alone_is_enough(void **state) {
    (void)state;
    make(1, WANE__SAMPLER_LOWER, 8, 0);
    make(2, WANE__SAMPLER_BEST, 40, 0);
    make(3, WANE__SAMPLER_LOOK, 1, 0);
    make(4, WANE__SAMPLER_SHARE, 1, 0.05);
    make(5, WANE__SAMPLER_BEST, 1, 0); /* temperature 0 */
    make(6, WANE__SAMPLER_DRAW, 0, 0);
    chain_of(6);
    assert_false(need().whole);
    assert_int_equal(need().best, 9);
    assert_true(need().distance <= 0);
    struct wane__sampler_spec xtc = {.kind = WANE__SAMPLER_LOOK, .count = 1, .drops_best = true};
    forget();
    wane__sampler_made(&address[1], &xtc); /* may drop it: then the next ones matter */
    make(2, WANE__SAMPLER_BEST, 1, 0);
    chain_of(2);
    assert_true(need().distance > 20);
    forget();
}

static void shares_are_distances(void **state) {
    (void)state;
    make(1, WANE__SAMPLER_HEAT, 1, 2.0);
    make(2, WANE__SAMPLER_SHARE, 3, 0.05);
    make(3, WANE__SAMPLER_DRAW, 0, 0);
    chain_of(3);
    assert_true(fabs(need().distance + 2 * log(0.05)) < 1e-9); /* at temperature 2 twice as far down */
    assert_int_equal(need().best, 3);
    forget();
    make(1, WANE__SAMPLER_LOWER, 64, 0); /* the best ones may be lowered: then nobody knows what is near */
    make(2, WANE__SAMPLER_SHARE, 1, 0.05);
    chain_of(2);
    assert_true(need().whole);
    forget();
}

static void what_looks_at_everything_gets_it(void **state) {
    (void)state;
    make(1, WANE__SAMPLER_BEST, 1, 0);
    chain_of(1);
    assert_false(need().whole);
    make(2, WANE__SAMPLER_WHOLE, 0, 0); /* a grammar beside the chain counts from the start */
    assert_true(need().whole);
    wane__sampler_freed(&address[2]);
    assert_false(need().whole);
    make(3, WANE__SAMPLER_LOOK, 1, 0); /* a chain without an end leaves the choice to the program */
    wane__sampler_made_chain(&address[10]);
    wane__sampler_added(&address[10], &address[3]);
    assert_true(need().whole);
    wane__sampler_removed(&address[10], 0, &address[3]);
    assert_false(need().whole); /* an empty one chooses nothing */
    forget();
}

static void clones_are_what_they_were(void **state) {
    (void)state;
    make(1, WANE__SAMPLER_BEST, 20, 0);
    chain_of(1);
    wane__sampler_cloned(&address[0], &address[20]); /* nobody saw how */
    forget();
    make(1, WANE__SAMPLER_BEST, 20, 0);
    chain_of(1);
    wane__sampler_cloned(&address[0], &address[20]);
    wane__sampler_freed(&address[0]);
    assert_int_equal(need().best, 20);
    wane__sampler_cloned(&address[40], &address[21]); /* of one that nobody knows */
    assert_true(need().whole);
    forget();
}

static void named_tokens_are_fetched(void **state) {
    (void)state;
    struct wane__sampler_spec bias = {.kind = WANE__SAMPLER_BIAS,
                                      .count = 2,
                                      .named_count = 3,
                                      .named = {7, 9, VOCAB}};
    wane__sampler_made(&address[1], &bias);
    make(2, WANE__SAMPLER_BEST, 1, 0);
    chain_of(2);
    struct wane__need n = need();
    assert_int_equal(n.best, 3);
    assert_int_equal(n.named_count, 2); /* the third is no token */
    forget();
}

static void long_lists_are_everything(void **state) {
    (void)state;
    make(1, WANE__SAMPLER_BEST, WANE__NEED_BEST + 1, 0);
    chain_of(1);
    assert_true(need().whole);
    forget();
    make(1, WANE__SAMPLER_BEST, 1, 0);
    wane__sampler_made_chain(&address[0]);
    for (int i = 0; i < CHAIN_MOST + 1; i++) wane__sampler_added(&address[0], &address[1]);
    assert_true(need().whole);
    forget();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elf_names_its_loader),
        cmocka_unit_test(the_list_names_libllama),
        cmocka_unit_test(nobody_lives_means_everything),
        cmocka_unit_test(a_chain_says_what_it_can_choose),
        cmocka_unit_test(the_best_one_alone_is_enough),
        cmocka_unit_test(shares_are_distances),
        cmocka_unit_test(what_looks_at_everything_gets_it),
        cmocka_unit_test(clones_are_what_they_were),
        cmocka_unit_test(named_tokens_are_fetched),
        cmocka_unit_test(long_lists_are_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
