/*
 * test_domains.c - texts as lists of n-grams, linear models and their files, and the classifier that ships: that training makes its very
 * bytes again, and how often it is right.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/bytes.h"
#include "core/figures.h"
#include "core/file.h"
#include "core/memory.h"
#include "governor/linear.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define SHIPPED WANE_RULES_SOURCE "/../domains/"

static struct wane__features list_of(const char *text, size_t size) {
    struct wane__features list = {0};
    assert_int_equal(wane__features_add(&list, text, size, 1, 16, NULL), WANE_OK);
    return list;
}

static bool alike(const char *a, const char *b) {
    struct wane__features x = list_of(a, strlen(a)), y = list_of(b, strlen(b));
    bool same = x.count == y.count && (x.count == 0 || memcmp(x.at, y.at, x.count * sizeof *x.at) == 0);
    wane__features_free(&x);
    wane__features_free(&y);
    return same;
}

static double cosine(const struct wane__features *a, const struct wane__features *b) {
    double sum = 0;
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        if (a->at[i].bucket == b->at[j].bucket)
            sum += (double)a->at[i++].value * (double)b->at[j++].value;
        else if (a->at[i].bucket < b->at[j].bucket)
            i++;
        else
            j++;
    }
    return sum;
}

static void test_what_makes_no_difference(void **state) {
    (void)state;
    assert_true(alike("The Court", "the  court!"));
    assert_true(alike("caf\xc3\xa9", "CAFE\xcc\x81")); /* composed or not, large or small */
    assert_true(alike("stra\xc3\x9f"
                      "e",
                      "STRASSE"));
    assert_true(alike("in 2025", "in 1987"));
    assert_true(alike("\xe6\xb3\x95\xe9\x99\xa2", "  \xe6\xb3\x95\xe9\x99\xa2\xe3\x80\x82")); /* 法院 */
    assert_false(alike("the court", "court the"));
    assert_false(alike("\xe6\xb3\x95\xe9\x99\xa2", "\xe9\x99\xa2\xe6\xb3\x95"));
    assert_true(alike("\xff", "\xfe")); /* neither is UTF-8; both count as U+FFFD, which is no word */
}

static void test_a_list(void **state) {
    (void)state;
    static char text[3 * WANE__FEATURES_TEXT_MOST];
    struct wane__features none = list_of("", 0), blank = list_of(" .,;", 4);
    assert_true(none.count == 0 && blank.count == 0);
    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < sizeof text; i += 7) text[i] = ' ';
    struct wane__features whole = list_of(text, sizeof text);
    memset(text + WANE__FEATURES_TEXT_MOST, '.', WANE__FEATURES_TEXT_MOST); /* the middle is not looked at */
    struct wane__features other = list_of(text, sizeof text);
    assert_int_equal(whole.count, other.count);
    assert_memory_equal(whole.at, other.at, whole.count * sizeof *whole.at);
    assert_true(fabs(cosine(&whole, &whole) - 1) < 1e-4);
    /* Two parts of one text: other buckets, so that nothing adds up. */
    struct wane__features two = list_of("one word", 8), one = list_of("one word", 8);
    assert_int_equal(wane__features_add(&two, "one word", 8, 2, 16, NULL), WANE_OK);
    assert_int_equal(two.count, 2 * one.count);
    wane__features_free(&whole);
    wane__features_free(&other);
    wane__features_free(&two);
    wane__features_free(&one);
}

/* ------------------------------------------------------------------- the file */

static struct wane__linear *small(void) {
    static const char *const text[] = {"court law", "doctor pill", "bread butter"};
    struct wane__lesson lesson[3] = {0};
    struct wane__linear *model = wane__alloc_zero(1, sizeof *model);
    *model = (struct wane__linear){
        .kind = WANE__LINEAR_DOMAINS, .classes = 3, .bits = 8, .threshold = 0.4f, .seed = 3};
    memcpy(model->name, (char[3][WANE__LINEAR_NAME]){"legal", "medical", "none"}, 3 * WANE__LINEAR_NAME);
    for (int i = 0; i < 3; i++) {
        lesson[i].label = i;
        assert_int_equal(wane__features_add(&lesson[i].features, text[i], strlen(text[i]), 1, 8, NULL),
                         WANE_OK);
    }
    assert_int_equal(wane__linear_train(model, lesson, 3, NULL, NULL, NULL, NULL), WANE_OK);
    for (int i = 0; i < 3; i++) wane__features_free(&lesson[i].features);
    return model;
}

static int chosen(const struct wane__linear *model, const char *text) {
    struct wane__features list = {0};
    double share[WANE__LINEAR_CLASSES];
    assert_int_equal(wane__features_add(&list, text, strlen(text), 1, model->bits, NULL), WANE_OK);
    int best = wane__linear_choose(model, &list, share);
    wane__features_free(&list);
    return best;
}

static void test_a_file(void **state) {
    (void)state;
    struct wane__linear *model = small(), *again = NULL;
    uint8_t *bytes, *copy;
    size_t size;
    wane_error error = {0};
    assert_int_equal(chosen(model, "the law of the court"), 0);
    assert_int_equal(chosen(model, "a pill from the doctor"), 1);
    assert_int_equal(chosen(model, "butter on bread"), -1); /* sure, but of none */
    assert_int_equal(wane__linear_save(model, &bytes, &size, NULL), WANE_OK);
    assert_int_equal(wane__linear_parse("x", WANE__LINEAR_DOMAINS, bytes, size, &again, &error), WANE_OK);
    assert_memory_equal(model->weight, again->weight, 3 << 8);
    assert_string_equal(again->name[1], "medical");
    wane__linear_free(again);
    assert_int_equal(wane__linear_parse("x", WANE__LINEAR_REWARD, bytes, size, &again, &error), WANE_EFORMAT);
    assert_non_null(strstr(error.text, "no reward model"));
    copy = wane__alloc(size);
    for (size_t i = 0; i < size; i += i < 160 ? 1 : 37) { /* a flipped bit anywhere */
        memcpy(copy, bytes, size);
        copy[i] ^= 4;
        assert_int_equal(wane__linear_parse("x", WANE__LINEAR_DOMAINS, copy, size, &again, &error),
                         WANE_EFORMAT);
        assert_null(again);
    }
    for (size_t i = 0; i < size; i += i < 160 ? 1 : 37) /* cut anywhere */
        assert_int_equal(wane__linear_parse("x", WANE__LINEAR_DOMAINS, bytes, i, &again, &error),
                         WANE_EFORMAT);
    wane__free(copy);
    wane__free(bytes);
    wane__linear_free(model);
}

static bool stop_at_once(void *user, const char *what, double share) {
    (void)user, (void)what, (void)share;
    return false;
}

static void test_training_can_be_stopped(void **state) {
    (void)state;
    const char *data = SHIPPED "seed.jsonl";
    wane_domains_train_options o;
    wane_error error = {0};
    wane_domains_train_options_init(&o);
    o.data = &data;
    o.data_count = 1;
    o.progress = stop_at_once;
    assert_int_equal(wane_domains_train(&o, NULL, &error), WANE_ECANCELLED);
}

/* ------------------------------------------------------------------- what ships */

static void test_what_ships_is_what_training_makes(void **state) {
    (void)state;
    const char *data = SHIPPED "seed.jsonl";
    char path[] = "/tmp/wane-domains-XXXXXX";
    char *made, *shipped;
    size_t made_size, shipped_size;
    wane_domains_train_options o;
    wane_domains_report r;
    wane_error error = {0};
    close(mkstemp(path));
    wane_domains_train_options_init(&o);
    o.data = &data;
    o.data_count = 1;
    o.held_out = SHIPPED "held-out.jsonl";
    o.output = path;
    if (wane_domains_train(&o, &r, &error) != WANE_OK) fail_msg("%s", error.text);
    assert_int_equal(wane__file_read(path, "it", 1 << 20, &made, &made_size, &error), WANE_OK);
    assert_int_equal(wane__file_read(SHIPPED "domains.linear", "it", 1 << 20, &shipped, &shipped_size,
                                     &error),
                     WANE_OK);
    assert_int_equal(made_size, shipped_size);
    assert_memory_equal(made, shipped, made_size);
    assert_int_equal(made_size, r.bytes);
    assert_int_equal(r.domains, 5);
    assert_true(r.texts >= 800 && r.held_texts == 220);
    /* What docs/domains.md says, give or take nothing: it is the same everywhere. */
    print_message("held out: %llu of %llu right\n", (unsigned long long)r.all.right,
                  (unsigned long long)r.all.all);
    assert_true(r.all.low > 0.7 && r.taken.low > 0.75);
    unlink(path);
    wane__free(made);
    wane__free(shipped);
}

static void test_unsure_is_none(void **state) {
    (void)state;
    wane_classifier *c;
    wane_classification found;
    wane_error error = {0};
    static const char *const unsure[] = {"", "   ", "?!", "\xff\xff", "qwx zzv", "hello"};
    assert_int_equal(wane_classifier_open(SHIPPED "domains.linear", &c, &error), WANE_OK);
    for (size_t i = 0; i < sizeof unsure / sizeof *unsure; i++) {
        assert_int_equal(wane_classify(c, unsure[i], strlen(unsure[i]), &found, &error), WANE_OK);
        assert_string_equal(found.domain, "none");
        assert_int_equal(found.count, 5);
    }
    static const char suit[] =
        "The plaintiff sued the tenant for breach of contract and the court awarded damages.";
    assert_int_equal(wane_classify(c, suit, sizeof suit - 1, &found, &error), WANE_OK);
    assert_string_equal(found.domain, "legal");
    assert_string_equal(found.likely, "legal");
    assert_true(found.share >= found.threshold && found.threshold > 0.1);
    wane_classifier_free(c);
    assert_int_equal(wane_classifier_open("/nonexistent/x", &c, &error), WANE_ENOENT);
    assert_int_equal(wane_classifier_open(SHIPPED "seed.jsonl", &c, &error), WANE_EFORMAT);
}

/* Held-out texts are about other things: none is nearly one of those that were learned. */
static void test_held_out_texts_are_no_copies(void **state) {
    (void)state;
    static const char *const name[2] = {SHIPPED "seed.jsonl", SHIPPED "held-out.jsonl"};
    static struct wane__features list[2][1200];
    int count[2] = {0};
    double nearest = 0;
    for (int part = 0; part < 2; part++) {
        FILE *file = fopen(name[part], "r");
        char line[4096];
        assert_non_null(file);
        while (fgets(line, sizeof line, file) != NULL && count[part] < 1200) {
            json_t *object = json_loads(line, 0, NULL);
            const char *text = json_string_value(json_object_get(object, "text"));
            assert_non_null(text);
            list[part][count[part]++] = list_of(text, strlen(text));
            json_decref(object);
        }
        fclose(file);
    }
    for (int i = 0; i < count[1]; i++)
        for (int j = 0; j < count[0]; j++) {
            double near = cosine(&list[1][i], &list[0][j]);
            if (near > nearest) nearest = near;
        }
    print_message("nearest: %.2f\n", nearest);
    assert_true(nearest < 0.75);
    for (int part = 0; part < 2; part++)
        for (int i = 0; i < count[part]; i++) wane__features_free(&list[part][i]);
}

static void test_data_are_refused_in_words(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"{\"domain\":\"a\",\"text\":\"x\"}\nno\n", "line 2"},
        {"[]", "JSON object"},
        {"{\"text\":\"x\"}", "\"domain\""},
        {"{\"domain\":\"A b\",\"text\":\"x\"}", "\"domain\""},
        {"{\"domain\":\"a\"}", "\"text\""},
        {"{\"domain\":\"a\",\"text\":\"\"}", "\"text\""},
        {"{\"domain\":\"a\",\"text\":\"x\",\"language\":7}", "\"language\""},
        {"{\"domain\":\"a\",\"text\":\"x\"}\n", "two domains"},
        {"", "two domains"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[] = "/tmp/wane-domains-XXXXXX";
        const char *data = path;
        wane_domains_train_options o;
        wane_error error = {0};
        int fd = mkstemp(path);
        assert_int_equal(write(fd, cases[i].text, strlen(cases[i].text)), strlen(cases[i].text));
        close(fd);
        wane_domains_train_options_init(&o);
        o.data = &data;
        o.data_count = 1;
        assert_true(wane_domains_train(&o, NULL, &error) != WANE_OK);
        if (strstr(error.text, cases[i].says) == NULL) fail_msg("%s: %s", cases[i].text, error.text);
        unlink(path);
    }
}

static void test_figures(void **state) {
    (void)state;
    double low, high, auc;
    wane__share_interval(90, 100, &low, &high); /* Wilson's, by hand */
    assert_true(fabs(low - 0.8256) < 1e-3 && fabs(high - 0.9448) < 1e-3);
    wane__share_interval(0, 0, &low, &high);
    assert_true(isnan(low) && isnan(high));
    const double score[6] = {1, 2, 3, 3, 4, 5};
    const bool up[6] = {false, false, true, false, true, true};
    assert_true(wane__auc(score, up, 6, 1, &auc, &low, &high));
    assert_true(fabs(auc - 8.5 / 9) < 1e-9); /* one tie of nine pairs */
    assert_true(low <= auc && high >= auc);
    const bool all[2] = {true, true};
    assert_true(wane__auc(score, all, 2, 1, &auc, &low, &high) && isnan(auc));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_makes_no_difference),
        cmocka_unit_test(test_a_list),
        cmocka_unit_test(test_a_file),
        cmocka_unit_test(test_training_can_be_stopped),
        cmocka_unit_test(test_what_ships_is_what_training_makes),
        cmocka_unit_test(test_unsure_is_none),
        cmocka_unit_test(test_held_out_texts_are_no_copies),
        cmocka_unit_test(test_data_are_refused_in_words),
        cmocka_unit_test(test_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
