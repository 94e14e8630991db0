/*
 * test_profile.c - files of thresholds: what was saved is loaded bit by bit; every field is needed, has its kind and its range, and is
 * named when it is wrong; what is unknown is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/memory.h"
#include "governor/profile.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/wane-profile-XXXXXX";

static wane_profile made(void) {
    wane_profile p;
    wane_profile_init(&p);
    snprintf(p.model, sizeof p.model, "0123456789abcdef0123456789abcdef");
    snprintf(p.domain, sizeof p.domain, "legal");
    snprintf(p.command, sizeof p.command, "wane tune --model m --data \"a b\\c\"");
    p.signal = WANE_SIGNAL_KURTOSIS;
    p.layer = 16;
    p.sign = -1;
    p.peak = -3.1000001f;
    p.low = -1.0f / 3 - 12;
    p.spread = 0.08f;
    p.jerk = 1e-30f;
    p.temp_fallback = 0.7f;
    p.stability = 1.25f;
    p.samples = 123456;
    p.auc = 0.719f;
    p.auc_low = 0.7f;
    p.auc_high = nextafterf(0.74f, 1);
    return p;
}

static json_t *json_of(const wane_profile *p) {
    struct wane__buf text = {0};
    assert_int_equal(wane__profile_write(p, &text, NULL), WANE_OK);
    json_t *json = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    wane__buf_free(&text);
    return json;
}

static int parse(const json_t *json, wane_profile *p, wane_error *error) {
    char *text = json_dumps(json, 0);
    int status = wane__profile_parse("x.json", text, strlen(text), p, error);
    free(text);
    return status;
}

/* The error names the field. */
static void refused(const json_t *json, const char *field) {
    wane_profile p;
    wane_error error = {0};
    assert_int_equal(parse(json, &p, &error), WANE_EFORMAT);
    if (strstr(error.text, field) == NULL) fail_msg("\"%s\" does not name %s", error.text, field);
    assert_non_null(strstr(error.text, "x.json"));
    assert_int_equal(p.signal, WANE_SIGNAL_NONE); /* half a profile is none */
}

static void test_there_and_back(void **unused) {
    (void)unused;
    wane_error error = {0};
    wane_profile none, p[3], back;
    wane_profile_init(&none);
    memcpy(none.model, made().model, sizeof none.model);
    p[0] = made();
    p[1] = none;
    p[2] = made();
    p[2].signal = WANE_SIGNAL_ENTROPY;
    p[2].layer = -1;
    p[2].peak = INFINITY;
    for (int i = 0; i < 3; i++) {
        if (wane_profile_save(&p[i], path, &error) != WANE_OK) fail_msg("%s", error.text);
        if (wane_profile_load(path, &back, &error) != WANE_OK) fail_msg("%s", error.text);
        struct wane__buf a = {0}, b = {0};
        assert_int_equal(wane__profile_write(&p[i], &a, NULL), WANE_OK);
        assert_int_equal(wane__profile_write(&back, &b, NULL), WANE_OK);
        assert_string_equal(a.data, b.data);
        assert_int_equal(memcmp(&p[i].peak, &back.peak, sizeof p[i].peak), 0);
        assert_int_equal(memcmp(&p[i].low, &back.low, sizeof p[i].low), 0);
        assert_int_equal(memcmp(&p[i].auc_high, &back.auc_high, sizeof p[i].auc_high), 0);
        assert_int_equal(p[i].signal, back.signal);
        assert_int_equal(p[i].layer, back.layer);
        assert_string_equal(p[i].command, back.command);
        wane__buf_free(&a);
        wane__buf_free(&b);
    }
    unlink(path);
    assert_int_equal(wane_profile_load(path, &back, &error), WANE_ENOENT);
    assert_int_equal(wane_profile_load("", &back, &error), WANE_EINVAL);
    assert_int_equal(wane_profile_save(&p[0], "/nowhere/at/all.json", &error), WANE_EIO);
}

/* Every field of the file: gone, of another kind, too small, too large. */
static void test_every_field(void **unused) {
    (void)unused;
    wane_profile p = made(), back;
    json_t *whole = json_of(&p);
    assert_int_equal(parse(whole, &back, NULL), WANE_OK);
    for (int inner = 0; inner < 2; inner++) {
        const char *key;
        json_t *value, *part = inner ? json_object_get(whole, "evidence") : whole;
        json_object_foreach(part, key, value) {
            json_t *copy = json_deep_copy(whole);
            json_t *at = inner ? json_object_get(copy, "evidence") : copy;
            json_object_del(at, key);
            refused(copy, key);
            json_object_set_new(at, key, json_true());
            refused(copy, key);
            if (json_is_number(value)) {
                json_object_set_new(at, key, json_real(-1e35));
                refused(copy, key);
                json_object_set_new(at, key, json_real(1e35));
                refused(copy, key);
            }
            json_decref(copy);
        }
        json_t *copy = json_deep_copy(whole);
        json_object_set_new(inner ? json_object_get(copy, "evidence") : copy, "peak_kurtosys",
                            json_integer(1));
        refused(copy, "peak_kurtosys");
        json_decref(copy);
    }
    json_decref(whole);
}

static void test_what_belongs_together(void **unused) {
    (void)unused;
    const struct {
        const char *field, *value, *says;
    } wrong[] = {
        {"model", "\"0123\"", "model"},
        {"model", "\"0123456789ABCDEF0123456789abcdef\"", "model"},
        {"domain", "\"Legal\"", "domain"},
        {"domain", "\"a-domain-whose-name-is-longer-than-31-bytes\"", "domain"},
        {"signal", "\"surprise\"", "kurtosis, entropy or margin"},
        {"signal", "\"entropy\"", "layer"},
        {"layer", "null", "layer"},
        {"layer", "1.5", "layer"},
        {"sign", "0", "sign"},
        {"peak_kurtosis", "-13", "low_kurtosis"},
        {"locked_tokens", "0", "locked_tokens"},
        {"locked_temperature", "null", "locked_temperature"},
        {"stability", "0", "stability"},
        {"wane_profile", "2", "version"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        wane_profile p = made();
        json_t *json = json_of(&p);
        json_object_set_new(json, wrong[i].field, json_loads(wrong[i].value, JSON_DECODE_ANY, NULL));
        refused(json, wrong[i].says);
        json_decref(json);
    }
    const char *const texts[] = {
        "", "[]", "{}", "{\"wane_profile\":1}", "{\"wane_profile\":1,\"wane_profile\":1}", "null"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        wane_profile p;
        wane_error error = {0};
        assert_int_equal(wane__profile_parse("x", texts[i], strlen(texts[i]), &p, &error), WANE_EFORMAT);
        assert_true(error.text[0] != '\0');
    }
}

static void test_check(void **unused) {
    (void)unused;
    wane_error error = {0};
    wane_profile p = made();
    assert_int_equal(wane_profile_check(&p, &error), WANE_OK);
    p.peak = NAN;
    assert_int_equal(wane_profile_check(&p, &error), WANE_EINVAL);
    assert_non_null(strstr(error.text, "peak_kurtosis"));
    assert_int_equal(wane_profile_save(&p, path, &error), WANE_EINVAL);
    p = made();
    p.auc_low = 0.9f;
    assert_int_equal(wane_profile_check(&p, &error), WANE_EINVAL);
    p = made();
    memset(p.command, 'x', sizeof p.command);
    assert_int_equal(wane_profile_check(&p, &error), WANE_EINVAL);
    assert_non_null(strstr(error.text, "command"));
    p = made();
    p.domain[0] = (char)0xff;
    assert_int_equal(wane_profile_check(&p, &error), WANE_EINVAL);
    p = made();
    p.size--;
    assert_int_equal(wane_profile_check(&p, &error), WANE_EINVAL);
    assert_int_equal(wane_profile_check(NULL, &error), WANE_EINVAL);
}

static void test_names(void **unused) {
    (void)unused;
    for (int i = 0; i < WANE_SIGNALS; i++) assert_int_equal(wane_signal_from(wane_signal_name(i)), i);
    assert_int_equal(wane_signal_from("?"), -1);
    assert_string_equal(wane_signal_name(WANE_SIGNALS), "?");
    assert_string_equal(wane_state_name(WANE_STATE_PROTECT), "protect");
    assert_string_equal(wane_state_name(-1), "?");
    for (int i = 0; i < WANE_FUSES; i++) assert_int_equal(wane_fuse_from(wane_fuse_name(i)), i);
    for (int i = 0; i < WANE_FALLBACKS; i++) assert_int_equal(wane_fallback_from(wane_fallback_name(i)), i);
    assert_int_equal(wane_fuse_from("on"), -1);
    assert_string_equal(wane_fallback_name(9), "?");
}

int main(void) {
    int file = mkstemp(path);
    if (file < 0) return 1;
    close(file);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_every_field),
        cmocka_unit_test(test_what_belongs_together),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_names),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
