/*
 * test_model_probe.c - signals of rows on the scripted engine, against a slow reference: prefix reuse, truncation, copies, windows, several
 * sequences, batches in parts, failures, sessions; and where a key is missing, NAN and a count, never a number.
 */
#include "core/memory.h"
#include "model.h"
#include "model_probe.h"
#include "probe_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { CONTEXT = 300, SINKS = 4, LEAST = 16 };

static const struct wane__script plain = {.context = CONTEXT, .attention = {.layers = 4}};

struct rig {
    wane_model *model;
    struct wane__engine *engine;
    struct wane__script_attention how;
    int d;
    struct wane__model_probe *probe;
    int32_t token[4][CONTEXT]; /* what each sequence holds */
};

static void open_rig(struct rig *r, const struct wane__script *script, const int *layers, int count) {
    wane_error error = {0};
    *r = (struct rig){.how = script->attention};
    if (r->how.heads == 0) r->how.heads = 4;
    if (r->how.key_heads == 0) r->how.key_heads = 2;
    if (r->how.size == 0) r->how.size = 8;
    assert_int_equal(wane__script_load(script, NULL, &r->engine, &error), WANE_OK);
    assert_int_equal(wane__model_wrap(r->engine, NULL, NULL, &r->model, &error), WANE_OK);
    r->d = r->engine->facts.embedding_size;
    if (count == 0) return;
    struct wane__probe_options options = {.layers = layers, .layer_count = count, .consistency = true};
    assert_int_equal(wane__model_probe_set(r->model, &options, &error), WANE_OK);
    r->probe = r->model->rows.probe;
}

static void close_rig(struct rig *r) {
    struct wane__script_counts counts;
    wane__script_get_counts(r->engine, &counts);
    assert_int_equal(counts.violations, 0);
    wane_model_free(r->model);
}

static int32_t token_of(uint64_t seed, int pos) {
    return (int32_t)((seed * 31 + (uint64_t)pos * 17 + (uint64_t)(pos / 5)) % 250);
}

static struct wane__item item(struct rig *r, int seq, int pos, uint64_t seed, bool wanted) {
    r->token[seq][pos] = token_of(seed, pos);
    return (struct wane__item){.token = r->token[seq][pos], .pos = pos, .seq = seq, .wanted = wanted};
}

static int try_feed(struct rig *r, int seq, int from, int to, uint64_t seed, bool all) {
    struct wane__item items[64];
    int result = WANE_OK;
    for (int p = from; p < to && result == WANE_OK;) {
        int n = 0;
        for (; n < 64 && p < to; p++) items[n++] = item(r, seq, p, seed, all || p + 1 == to);
        result = r->engine->ops->decode(r->engine, items, n, NULL);
    }
    return result;
}

static void feed(struct rig *r, int seq, int from, int to, uint64_t seed) {
    assert_int_equal(try_feed(r, seq, from, to, seed, false), WANE_OK);
}

static double naive_consistency(struct rig *r, int layer, int seq, int pos) {
    float a[64], b[64];
    double ab = 0, aa = 0, bb = 0;
    int upper = layer > 0 ? layer : 1;
    wane__script_output(upper - 1, r->token[seq][pos], pos, r->d, a);
    wane__script_output(upper, r->token[seq][pos], pos, r->d, b);
    for (int i = 0; i < r->d; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

/* Row `row` is that of position `pos`: its signals are what the slow way gives. */
static void check_row(struct rig *r, int at, int layer, int row, int seq, int pos) {
    static float keys[CONTEXT * 64], q[64];
    const struct wane__script_attention *a = &r->how;
    int low = SINKS;
    if ((a->windowed >> layer & 1) != 0 && pos - a->window + 1 > low) low = pos - a->window + 1;
    for (int p = low; p <= pos; p++)
        wane__script_key(a, layer, r->token[seq][p], p,
                         keys + (size_t)(p - low) * (size_t)(a->key_heads * a->size));
    wane__script_query(a, layer, r->token[seq][pos], pos, q);
    double kurtosis, spread, consistency = naive_consistency(r, layer, seq, pos);
    naive_look(q, a->heads, keys, a->key_heads, a->size, pos - low + 1, &kurtosis, &spread);
    wane_signals got = {.entropy = 1.5f, .margin = 2.5f};
    wane__probe_signals(r->probe, at, row, &got);
    if (!near_enough((double)got.kurtosis, kurtosis) || !near_enough((double)got.spread, spread) ||
        !(fabs((double)got.consistency - consistency) < 1e-5))
        fail_msg("layer %d, position %d: kurtosis %g, not %g; spread %g, not %g; consistency %g, not %g",
                 layer, pos, (double)got.kurtosis, kurtosis, (double)got.spread, spread,
                 (double)got.consistency, consistency);
    assert_true(got.entropy >= 1.5f && got.margin >= 2.5f); /* not the probe's */
}

static uint64_t missing(struct rig *r) {
    wane_probe_state state;
    wane_model_get_probe_state(r->model, &state);
    return state.missing;
}

static uint64_t few(struct rig *r) {
    wane_probe_state state;
    wane_model_get_probe_state(r->model, &state);
    return state.few;
}

/* Not known, and counted as missing. */
static void check_missing(struct rig *r, int at, int row) {
    uint64_t before = missing(r);
    wane_signals got = {.kurtosis = 1, .spread = 1};
    wane__probe_signals(r->probe, at, row, &got);
    assert_true(isnan(got.kurtosis) && isnan(got.spread));
    assert_int_equal(missing(r), before + 1);
}

static const int one[] = {2}, all[] = {0, 1, 2, 3};

static void test_rows(void **state) {
    (void)state;
    struct rig r;
    open_rig(&r, &plain, all, 4);
    for (int p = 0; p < 150; p++) {
        feed(&r, 0, p, p + 1, 1);
        for (int l = 0; l < 4 && p >= SINKS + LEAST - 1; l++) check_row(&r, l, l, 0, 0, p);
    }
    wane_probe_state probe;
    wane_model_get_probe_state(r.model, &probe);
    assert_true(probe.on && probe.layer == 0 && probe.keys == 150 && probe.missing == 0);
    assert_int_equal(probe.rows, 4 * (150 - (SINKS + LEAST - 1)));
    assert_true(probe.bytes > 0 && probe.seconds > 0);
    close_rig(&r);
}

static void test_too_few(void **state) {
    (void)state;
    struct rig r;
    open_rig(&r, &plain, one, 1);
    for (int p = 0; p < SINKS + LEAST - 1; p++) {
        wane_signals got;
        feed(&r, 0, p, p + 1, 1);
        wane__probe_signals(r.probe, 0, 0, &got);
        assert_true(isnan(got.kurtosis) && isnan(got.spread) && isfinite(got.consistency));
        assert_int_equal(few(&r), p + 1);
    }
    assert_int_equal(missing(&r), 0);
    close_rig(&r);
}

/* All rows of a block, rows of several sequences, batches in parts: the same as one by one. */
static void test_batches(void **state) {
    (void)state;
    for (int part = 0; part < 8; part += 3) {
        struct wane__script script = plain;
        struct rig r;
        script.attention.part = part;
        script.attention.strides = part;
        open_rig(&r, &script, all, 4);
        feed(&r, 0, 0, 40, 1);
        feed(&r, 1, 0, 90, 2);
        struct wane__item items[16];
        int n = 0;
        items[n++] = item(&r, 1, 90, 2, true);
        for (int p = 0; p < 3; p++) items[n++] = item(&r, 3, p, 3, false);
        for (int p = 40; p < 45; p++) items[n++] = item(&r, 0, p, 1, true);
        items[n++] = item(&r, 1, 91, 2, false);
        items[n++] = item(&r, 1, 92, 2, true);
        assert_int_equal(r.engine->ops->decode(r.engine, items, n, NULL), WANE_OK);
        for (int l = 0; l < 4; l++) {
            check_row(&r, l, l, 0, 1, 90);
            for (int i = 0; i < 5; i++) check_row(&r, l, l, 1 + i, 0, 40 + i);
            check_row(&r, l, l, 6, 1, 92);
            check_missing(&r, l, 7);
            check_missing(&r, l, -1);
        }
        check_missing(&r, 4, 0);
        close_rig(&r);
    }
}

static void test_truncate(void **state) {
    (void)state;
    struct rig r;
    open_rig(&r, &plain, one, 1);
    feed(&r, 0, 0, 100, 1);
    check_row(&r, 0, 2, 0, 0, 99);
    assert_int_equal(r.engine->ops->truncate(r.engine, 0, 60), 60);
    check_missing(&r, 0, 0); /* its sequence is not what it was */
    feed(&r, 0, 60, 61, 2);
    check_row(&r, 0, 2, 0, 0, 60);
    assert_int_equal(r.engine->ops->truncate(r.engine, 0, 0), 0);
    feed(&r, 0, 0, 70, 3);
    check_row(&r, 0, 2, 0, 0, 69);
    close_rig(&r);
}

static void test_copy(void **state) {
    (void)state;
    struct rig r;
    open_rig(&r, &plain, one, 1);
    feed(&r, 0, 0, 100, 1);
    feed(&r, 1, 0, 80, 9);
    assert_int_equal(r.engine->ops->copy(r.engine, 0, 1, 70), 70);
    check_missing(&r, 0, 0); /* the row was that of another text */
    memcpy(r.token[1], r.token[0], sizeof r.token[0]);
    feed(&r, 1, 70, 90, 2);
    check_row(&r, 0, 2, 0, 1, 89);
    feed(&r, 0, 100, 101, 1); /* and the source goes on */
    check_row(&r, 0, 2, 0, 0, 100);
    close_rig(&r);
}

/* Set behind a prefix, taken away and set again: what was decoded in between is not known, whatever the positions are. */
static void test_set_late(void **state) {
    (void)state;
    struct rig r;
    wane_error error;
    open_rig(&r, &plain, one, 0);
    feed(&r, 0, 0, 50, 1);
    struct wane__probe_options options = {.layers = one, .layer_count = 1, .consistency = true};
    assert_int_equal(wane__model_probe_set(r.model, &options, &error), WANE_OK);
    r.probe = r.model->rows.probe;
    feed(&r, 0, 50, 100, 1);
    check_missing(&r, 0, 0);
    assert_int_equal(r.engine->ops->truncate(r.engine, 0, 0), 0);
    feed(&r, 0, 0, 60, 2);
    check_row(&r, 0, 2, 0, 0, 59);
    /* From position 4 on is enough: the sinks do not count. */
    r.engine->ops->truncate(r.engine, 0, 0);
    options.layer_count = 0;
    assert_int_equal(wane__model_probe_set(r.model, &options, &error), WANE_OK);
    wane_probe_state state_off;
    wane_model_get_probe_state(r.model, &state_off);
    assert_false(state_off.on);
    feed(&r, 0, 0, SINKS, 3);
    options.layer_count = 1;
    assert_int_equal(wane__model_probe_set(r.model, &options, &error), WANE_OK);
    r.probe = r.model->rows.probe;
    feed(&r, 0, SINKS, 60, 3);
    check_row(&r, 0, 2, 0, 0, 59);
    /* Other tokens at the same positions while it is off. */
    options.layer_count = 0;
    wane__model_probe_set(r.model, &options, &error);
    r.engine->ops->truncate(r.engine, 0, 0);
    feed(&r, 0, 0, 60, 4);
    options.layer_count = 1;
    wane__model_probe_set(r.model, &options, &error);
    r.probe = r.model->rows.probe;
    feed(&r, 0, 60, 90, 4);
    check_missing(&r, 0, 0);
    close_rig(&r);
}

static void test_loaded(void **state) {
    (void)state;
    struct rig r;
    struct wane__buf buf = {0};
    wane_error error;
    open_rig(&r, &plain, one, 1);
    feed(&r, 0, 0, 60, 1);
    assert_int_equal(r.engine->ops->state_save(r.engine, 0, &buf, &error), WANE_OK);
    feed(&r, 0, 60, 100, 1);
    assert_int_equal(r.engine->ops->state_load(r.engine, 0, buf.data, buf.size, 60, &error), WANE_OK);
    check_missing(&r, 0, 0);
    feed(&r, 0, 60, 90, 5);
    check_missing(&r, 0, 0);
    r.engine->ops->truncate(r.engine, 0, 30);
    feed(&r, 0, 30, 90, 5);
    check_missing(&r, 0, 0);
    r.engine->ops->truncate(r.engine, 0, 0);
    feed(&r, 0, 0, 90, 5);
    check_row(&r, 0, 2, 0, 0, 89);
    wane__buf_free(&buf);
    close_rig(&r);
}

/* A decode that fails has shown its keys already; after the truncate that it asks for, all is in step again. */
static void test_failure(void **state) {
    (void)state;
    static const int32_t hello[] = {'H', 'i', 257};
    static const struct wane__script_reply reply = {.match = "zzz",
                                                    .tokens = hello,
                                                    .count = 3,
                                                    .fail_at = 0};
    struct wane__script script = plain;
    struct rig r;
    script.replies = &reply;
    script.reply_count = 1;
    open_rig(&r, &script, one, 1);
    feed(&r, 0, 0, 50, 1);
    struct wane__item items[3];
    for (int i = 0; i < 3; i++)
        items[i] = (struct wane__item){.token = 'z', .pos = 50 + i, .seq = 0, .wanted = i == 2};
    assert_int_equal(r.engine->ops->decode(r.engine, items, 3, NULL), WANE_EENGINE);
    assert_int_equal(r.engine->ops->truncate(r.engine, 0, 50), 50);
    feed(&r, 0, 50, 51, 1);
    check_row(&r, 0, 2, 0, 0, 50);
    r.engine->ops->interrupt(r.engine, true);
    assert_int_equal(try_feed(&r, 0, 51, 60, 1, false), WANE_ECANCELLED);
    r.engine->ops->interrupt(r.engine, false);
    r.engine->ops->truncate(r.engine, 0, 51);
    feed(&r, 0, 51, 60, 1);
    check_row(&r, 0, 2, 0, 0, 59);
    close_rig(&r);
}

static void test_window(void **state) {
    (void)state;
    struct wane__script script = plain;
    struct rig r;
    script.attention.window = 40;
    script.attention.windowed = 5; /* layers 0 and 2 */
    open_rig(&r, &script, all, 4);
    wane_layer_facts facts;
    wane_error error;
    assert_int_equal(wane_model_layer(r.model, 0, &facts, &error), WANE_OK);
    assert_true(facts.probed && facts.window == -1 && facts.heads == 4 && facts.key_heads == 2);
    for (int p = 0; p < 140; p++) {
        feed(&r, 0, p, p + 1, 1);
        for (int l = 0; l < 4 && p >= SINKS + LEAST - 1; l++) check_row(&r, l, l, 0, 0, p);
    }
    wane_model_layer(r.model, 0, &facts, &error);
    assert_int_equal(facts.window, 40);
    wane_model_layer(r.model, 1, &facts, &error);
    assert_int_equal(facts.window, 0);
    /* Behind an unknown prefix, a window fills up again; a layer that sees everything never does. */
    struct wane__buf buf = {0};
    r.engine->ops->state_save(r.engine, 0, &buf, &error);
    r.engine->ops->state_load(r.engine, 0, buf.data, buf.size, 140, &error);
    for (int p = 140; p < 200; p++) {
        feed(&r, 0, p, p + 1, 1);
        if (p >= 179) check_row(&r, 2, 2, 0, 0, p);
        if (p < 179) check_missing(&r, 2, 0);
        check_missing(&r, 1, 0);
    }
    wane__buf_free(&buf);
    close_rig(&r);
}

static void test_not_a_number(void **state) {
    (void)state;
    struct wane__script script = plain;
    struct rig r;
    script.attention.nan_token = 'N';
    open_rig(&r, &script, one, 1);
    feed(&r, 0, 0, 40, 1);
    struct wane__item bad = {.token = 'N', .pos = 40, .seq = 0, .wanted = true};
    assert_int_equal(r.engine->ops->decode(r.engine, &bad, 1, NULL), WANE_OK);
    check_missing(&r, 0, 0);
    feed(&r, 0, 41, 90, 1);
    check_missing(&r, 0, 0);
    r.engine->ops->truncate(r.engine, 0, 40);
    feed(&r, 0, 40, 90, 1);
    check_missing(&r, 0, 0); /* what was before it was given up with it */
    r.engine->ops->truncate(r.engine, 0, 0);
    feed(&r, 0, 0, 90, 1);
    check_row(&r, 0, 2, 0, 0, 89);
    close_rig(&r);
}

/* Fewer rings than sequences, and rings that are shorter than the text. */
static void test_bounds(void **state) {
    (void)state;
    struct rig r;
    wane_error error;
    open_rig(&r, &plain, one, 0);
    struct wane__probe_options options = {
        .layers = one, .layer_count = 1, .consistency = true, .positions = 100, .sequences = 1};
    assert_int_equal(wane__model_probe_set(r.model, &options, &error), WANE_OK);
    r.probe = r.model->rows.probe;
    feed(&r, 1, 0, 60, 1);
    check_missing(&r, 0, 0);
    feed(&r, 0, 0, 128, 1);
    check_row(&r, 0, 2, 0, 0, 127);
    feed(&r, 0, 128, 132, 1); /* positions 4 … 131 are 128: as many as a ring of 100 has */
    check_row(&r, 0, 2, 0, 0, 131);
    feed(&r, 0, 132, 133, 1);
    check_missing(&r, 0, 0);
    close_rig(&r);
}

static void refuse(wane_model *model, const int *layers, int count, int code, const char *words) {
    wane_error error = {0};
    struct wane__probe_options options = {.layers = layers, .layer_count = count};
    assert_int_equal(wane__model_probe_set(model, &options, &error), code);
    if (strstr(error.text, words) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.text, words);
    assert_null(model->rows.probe);
}

static void test_refused(void **state) {
    (void)state;
    static const int twice[] = {1, 1}, behind[] = {4}, below[] = {-1}, hidden[] = {0, 3};
    struct wane__script script = plain;
    struct rig r;
    script.attention.hidden = 8;
    open_rig(&r, &script, NULL, 0);
    assert_int_equal(wane_model_layers(r.model), 4);
    refuse(r.model, twice, 2, WANE_EINVAL, "ascending");
    refuse(r.model, behind, 1, WANE_EINVAL, "no layer 4; the model has 0 to 3");
    refuse(r.model, below, 1, WANE_EINVAL, "no layer -1");
    refuse(r.model, one, 65, WANE_EINVAL, "1 to 64 layers");
    refuse(r.model, hidden, 2, WANE_EUNSUPPORTED, "Layer 3 cannot be probed: script: it is hidden");
    wane_layer_facts facts;
    wane_error error;
    assert_int_equal(wane_model_layer(r.model, 3, &facts, &error), WANE_OK);
    assert_false(facts.probed);
    assert_string_equal(facts.reason, "script: it is hidden");
    assert_int_equal(wane_model_layer(r.model, 4, &facts, &error), WANE_EINVAL);
    close_rig(&r);
    script.recurrent = true;
    open_rig(&r, &script, NULL, 0);
    assert_int_equal(wane_model_layers(r.model), 0);
    refuse(r.model, one, 1, WANE_EUNSUPPORTED, "recurrent");
    close_rig(&r);
    wane_signals none;
    wane__probe_signals(NULL, 0, 0, &none);
    assert_true(isnan(none.kurtosis) && isnan(none.spread) && isnan(none.consistency));
}

/* ------------------------------------------------------------------- whole texts */

struct heard {
    struct rig *r;
    const int *layers;
    int layer_count, count, stop_at;
};

static bool hear(void *user, const wane_probe_token *t) {
    struct heard *h = user;
    assert_int_equal(t->index, h->count++);
    assert_int_equal(t->token, h->r->token[0][t->index]);
    assert_int_equal(t->layer_count, h->layer_count);
    assert_true(t->best >= 0 && t->best_share > 0.3f && t->entropy > 0 && t->margin > 0);
    assert_true(t->next < 0 ? isnan(t->next_share) != 0
                            : t->next_share >= 0 && t->next_share <= t->best_share);
    for (int l = 0; l < t->layer_count; l++) {
        const wane_signals *s = &t->signals[l];
        assert_int_equal(t->layers[l], h->layers[l]);
        assert_true(s->entropy >= t->entropy && s->margin >= t->margin && isfinite(s->consistency));
        assert_int_equal(isfinite(s->kurtosis) != 0, t->index >= SINKS + LEAST - 1);
        assert_int_equal(isfinite(s->spread) != 0, t->index >= SINKS + LEAST - 1);
    }
    return h->stop_at != t->index;
}

static void test_text(void **state) {
    (void)state;
    struct rig r;
    wane_error error = {0};
    open_rig(&r, &plain, one, 1);
    for (int p = 0; p < CONTEXT; p++) r.token[0][p] = token_of(6, p);
    struct heard h = {.r = &r, .layers = all, .layer_count = 4, .stop_at = -1};
    assert_int_equal(wane_probe_text(r.model, r.token[0], 150, NULL, 0, hear, &h, &error), WANE_OK);
    assert_int_equal(h.count, 150);
    h = (struct heard){.r = &r, .layers = one, .layer_count = 1, .stop_at = 20};
    assert_int_equal(wane_probe_text(r.model, r.token[0], 150, one, 1, hear, &h, &error), WANE_ECANCELLED);
    assert_int_equal(h.count, 21);
    h.stop_at = -1;
    assert_int_equal(wane_probe_text(r.model, r.token[0], CONTEXT + 1, one, 1, hear, &h, &error),
                     WANE_ECONTEXT);
    assert_non_null(strstr(error.text, "301"));
    assert_int_equal(wane_probe_text(r.model, r.token[0], 0, one, 1, hear, &h, &error), WANE_EINVAL);
    assert_int_equal(wane_probe_text(r.model, r.token[0], 9, one, 0, hear, &h, &error), WANE_EINVAL);
    int32_t wrong[] = {1, 100000};
    assert_int_equal(wane_probe_text(r.model, wrong, 2, one, 1, hear, &h, &error), WANE_EINVAL);
    wane_session *session = NULL;
    assert_int_equal(wane_session_new(r.model, &session, &error), WANE_OK);
    assert_int_equal(wane_probe_text(r.model, r.token[0], 9, one, 1, hear, &h, &error), WANE_EBUSY);
    wane_session_free(session);
    /* The model's own probe is there again, and works. */
    feed(&r, 0, 0, 50, 1);
    check_row(&r, 0, 2, 0, 0, 49);
    close_rig(&r);
    struct wane__script script = plain;
    script.attention.layers = 0;
    open_rig(&r, &script, NULL, 0);
    assert_int_equal(wane_probe_text(r.model, r.token[0], 9, NULL, 0, hear, &h, &error), WANE_EUNSUPPORTED);
    close_rig(&r);
}

/* A reply by a session, with the memo and drafts as they are: rows that are drawn from have signals. */
static void test_session(void **state) {
    (void)state;
    struct rig r;
    wane_session *session = NULL;
    wane_generation g;
    wane_event event;
    wane_error error = {0};
    open_rig(&r, &plain, one, 1);
    for (int p = 0; p < 60; p++) r.token[0][p] = token_of(7, p);
    wane_generation_init(&g);
    g.max_tokens = 20;
    g.ignore_end = true;
    assert_int_equal(wane_session_new(r.model, &session, &error), WANE_OK);
    for (int turn = 0; turn < 2; turn++) { /* the second one reuses the prefix */
        assert_int_equal(wane_session_start(session, r.token[0], 60, &g, &error), WANE_OK);
        int at = 60;
        while (wane_session_next(session, &event, &error) == WANE_OK && event.kind == WANE_EVENT_TEXT)
            if (at < CONTEXT) r.token[0][at++] = event.token;
        assert_int_equal(at, 80);
        check_row(&r, 0, 2, 0, 0, 78); /* of the last token that went through the body */
    }
    assert_int_equal(missing(&r), 0);
    wane_session_free(session);
    close_rig(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),         cmocka_unit_test(test_too_few), cmocka_unit_test(test_batches),
        cmocka_unit_test(test_truncate),     cmocka_unit_test(test_copy),    cmocka_unit_test(test_set_late),
        cmocka_unit_test(test_loaded),       cmocka_unit_test(test_failure), cmocka_unit_test(test_window),
        cmocka_unit_test(test_not_a_number), cmocka_unit_test(test_bounds),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_text),         cmocka_unit_test(test_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
