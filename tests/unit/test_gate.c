/*
 * test_gate.c - the gate's parts by themselves: entropy and documents of a prompt, gaps and bins, net and LUT, the file, verdicts and
 * doubt, the breaker.
 */
#include "unit/gate_rig.h"

#include "core/bytes.h"
#include "gate/arbiter.h"
#include "gate/breaker.h"
#include "gate/dtg.h"

#include <math.h>
#include <pthread.h>
#include <xxhash.h>

/* --------------------------------------------------------------- threshold */

static double entropy_of(const int32_t *tokens, size_t count) {
    double bits = -1;
    assert_int_equal(wane__gate_entropy(tokens, count, &bits, NULL), WANE_OK);
    return bits;
}

static void test_entropy(void **state) {
    (void)state;
    int32_t equal[9] = {5, 5, 5, 5, 5, 5, 5, 5, 5}, eight[16], mixed[4] = {1, 2, 1, 1};
    for (int i = 0; i < 16; i++) eight[i] = (i * 5) % 8;
    assert_true(entropy_of(NULL, 0) == 0);
    assert_true(entropy_of(equal, 9) == 0);
    assert_true(fabs(entropy_of(eight, 16) - 3) < 1e-12);
    assert_true(fabs(entropy_of(mixed, 4) - (2 - 0.75 * log2(3))) < 1e-12);
}

static void test_tau(void **state) {
    (void)state;
    wane_quality q;
    wane_quality_init(&q);
    assert_true(fabsf(wane__gate_tau(&q, 0, 0) - 0.62f) < 1e-6f);
    assert_true(fabsf(wane__gate_tau(&q, 7, 3) - (0.62f + 0.18f * 3)) < 1e-6f);
    assert_true(fabsf(wane__gate_tau(&q, 7, 4) - (0.62f + 0.18f * 3 + 0.15f)) < 1e-6f);
}

static void test_documents(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int count;
    } cases[] = {
        {"", 0},
        {"Why is the sky blue?", 0},
        {"<document>a</document>\n<document>b</document>", 2},
        {"<documents><document "
         "index=\"1\"><source>x</source><document_content>a</document_content></document>"
         "<DOCUMENT index=\"2\"><source>y</source></DOCUMENT></documents>",
         2},
        {"<doc\nid=1>a<doc\tid=2>b<doc>c", 3},
        {"x <document", 0},
        {"Document 1: a\nb\nDocument 2: c\n", 2},
        {"## Source #1\na\n\n## Source #2\n[Doc 3] b", 3},
        {"  (Passage 1)\n**Passage 2**\n_Passage 3_", 3},
        {"documents 1\ndocumentary 2\nThe document 3", 0},
        {"文档1：甲\n文档二：乙\n资料 3", 3},
        {"文档很多", 0},
        {"one\n\n---\n\ntwo\n\n====\n\nthree\n", 3},
        {"\n\n---\nonly\n\n---\n", 1},
        {"A heading\n---\ntext\n\nAnother\n=====\n", 0}, /* underlined, not set apart */
        {"- - -\n\n--\n\n-=-\n", 0},
        {"a\r\n\r\n***\r\n\r\nb", 2},
        {"Document 1\n\n---\nDocument 2\n\n---\nDocument 3\n\n---\nx\n", 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int count = wane__gate_documents(cases[i].text, strlen(cases[i].text));
        if (count != cases[i].count)
            fail_msg("case %zu has %d documents, wanted %d", i, count, cases[i].count);
    }
}

/* ---------------------------------------------------------- gaps and bins */

static void test_bins(void **state) {
    (void)state;
    assert_int_equal(wane__gate_bin(0), 0);
    assert_int_equal(wane__gate_bin(-1), 0);
    assert_int_equal(wane__gate_bin((double)NAN), 0);
    assert_int_equal(wane__gate_bin(1), 31);
    assert_int_equal(wane__gate_bin(2), 31);
    assert_int_equal(wane__gate_bin(0.5), 31);
    assert_int_equal(wane__gate_bin(0.49), 30);
    assert_int_equal(wane__gate_bin(1e-300), 0);
    for (uint32_t bin = 1; bin < WANE__GATE_BINS; bin++) {
        double edge = wane__gate_edge(bin);
        assert_int_equal(wane__gate_bin(edge * (1 + 1e-15)), bin);
        assert_int_equal(wane__gate_bin(edge * (1 - 1e-15)), bin - 1);
    }
}

static struct wane__candidate list[WANE__GATE_OVER];

static void make_list(uint64_t seed, int count) {
    double steep = wane__random_unit(seed, 1000) * 2;
    float logit = 20;
    for (int i = 0; i < count; i++) {
        list[i] = (struct wane__candidate){i, logit};
        logit -= (float)(steep * wane__random_unit(seed, (uint64_t)i));
    }
}

/* What a few candidates decide is what all of them say; it is decided often, and not always. */
static void test_early(void **state) {
    (void)state;
    int decided = 0, open = 0;
    for (uint64_t seed = 0; seed < 4000; seed++) {
        struct wane__gate_view whole, part;
        make_list(seed, WANE__GATE_OVER);
        assert_true(wane__gate_look(list, WANE__GATE_OVER, false, 1, &whole));
        for (int count = 1; count < WANE__GATE_OVER; count += 1 + (int)(seed % 7)) {
            if (!wane__gate_look(list, count, false, 1, &part)) {
                open++;
                continue;
            }
            decided++;
            assert_true(count >= WANE__GATE_BEST);
            assert_int_equal(part.pattern, whole.pattern);
        }
    }
    assert_true(decided > 1000 && open > 1000);
}

static void test_shares(void **state) {
    (void)state;
    struct wane__gate_view view;
    struct wane__candidate two[2] = {{7, 3}, {9, 3}};
    assert_true(wane__gate_look(two, 2, true, 1, &view));
    assert_true(view.share[0] == 0.5 && view.share[1] == 0.5 && view.share[2] == 0);
    assert_int_equal(wane__gate_bin_of(view.pattern, 0), 0);
    assert_int_equal(wane__gate_bin_of(view.pattern, 1), 31);
    assert_int_equal(wane__gate_bin_of(view.pattern, 2), 0);
    make_list(3, WANE__GATE_OVER);
    assert_true(wane__gate_look(list, WANE__GATE_OVER, false, 1, &view));
    double sum = 0;
    for (int i = 0; i < WANE__GATE_OVER; i++) sum += exp((double)list[i].logit - (double)list[0].logit);
    for (int i = 0; i < WANE__GATE_BEST; i++)
        assert_true(fabs(view.share[i] - exp((double)list[i].logit - (double)list[0].logit) / sum) < 1e-12);
    double before = view.share[0];
    assert_true(wane__gate_look(list, WANE__GATE_OVER, false, 0.5, &view)); /* hot: flatter */
    assert_true(view.share[0] < before);
}

/* ------------------------------------------------------------ net and LUT */

/* Bit for bit on everything that was seen; nothing else is found. */
static void test_lut(void **state) {
    (void)state;
    enum { MANY = 20000 };
    static uint32_t pattern[MANY];
    static struct wane__gate_net net;
    struct wane__gate_lut lut;
    gate_random(&net, 5);
    size_t count = gate_patterns(pattern, MANY, 9), at = 0;
    assert_int_equal(wane__gate_lut_make(&lut, &net, pattern, count, NULL), WANE_OK);
    for (uint32_t p = 0; p < WANE__GATE_PATTERNS; p++) {
        float odds = 0, own = wane__gate_run(&net, p);
        bool found = wane__gate_lut_find(&lut, p, &odds);
        assert_int_equal(found, at < count && pattern[at] == p);
        at += found;
        if (found) assert_memory_equal(&odds, &own, sizeof odds);
    }
    assert_int_equal(at, count);
    wane__gate_lut_free(&lut);
}

static void test_net(void **state) {
    (void)state;
    static struct wane__gate_net net;
    gate_random(&net, 11);
    for (uint32_t p = 0; p < 5000; p++) {
        uint32_t pattern = (uint32_t)(wane__random_bits(1, p) % WANE__GATE_PATTERNS);
        double odds = (double)net.out_bias;
        for (int h = 0; h < WANE__GATE_HIDDEN; h++) {
            double sum = (double)net.bias[h];
            for (int g = 0; g < 4; g++) sum += (double)net.in[32 * g + (int)wane__gate_bin_of(pattern, g)][h];
            odds += (double)net.out[h] * (sum > 0 ? sum : 0);
        }
        assert_true(fabs(odds - (double)wane__gate_run(&net, pattern)) < 1e-4);
    }
    gate_line(&net, -1, 0.25f);
    assert_true(wane__gate_run(&net, 20u << 15) == 4);
}

/* ------------------------------------------------------------------- file */

static const char digest[] = "00112233445566778899aabbccddeeff";

static uint8_t *make_file(size_t patterns, size_t *size) {
    static uint32_t pattern[3000];
    static struct wane__gate_net net;
    struct wane__gate_made made = gate_made(digest, digest);
    made.allowance = 0.25f;
    uint8_t *bytes = NULL;
    gate_random(&net, 3);
    size_t count = gate_patterns(pattern, patterns, 4);
    struct wane__gate *gate = gate_of(&made, &net, pattern, count);
    assert_int_equal(wane__gate_save(gate, &bytes, size, NULL), WANE_OK);
    wane__gate_free(gate);
    return bytes;
}

static int parse(const uint8_t *bytes, size_t size, wane_error *error) {
    struct wane__gate *gate = NULL;
    *error = (wane_error){0};
    int status = wane__gate_parse("x", bytes, size, &gate, error);
    assert_true((status == WANE_OK) == (gate != NULL));
    assert_true(status == WANE_OK || error->text[0] != '\0');
    wane__gate_free(gate);
    return status;
}

static void test_file(void **state) {
    (void)state;
    static const size_t patterns[] = {0, 1, 3000};
    for (size_t i = 0; i < 3; i++) {
        size_t size, again_size;
        uint8_t *bytes = make_file(patterns[i], &size), *again = NULL;
        struct wane__gate *gate = NULL;
        wane_error error = {0};
        if (wane__gate_parse("x", bytes, size, &gate, &error) != WANE_OK) fail_msg("%s", error.text);
        assert_string_equal(gate->made.model, digest);
        assert_string_equal(gate->made.note, "made up");
        assert_true(gate->made.votes == 10 && gate->made.auc == 0.9 && gate->made.vocab_size == 384);
        assert_true(gate->made.allowance == 0.25f);
        assert_int_equal(wane__gate_save(gate, &again, &again_size, NULL), WANE_OK);
        assert_int_equal(size, again_size);
        assert_memory_equal(bytes, again, size);
        wane__gate_free(gate);
        wane__free(bytes);
        wane__free(again);
    }
}

/* Not one byte can be another, and none can be missing. */
static void test_file_damaged(void **state) {
    (void)state;
    size_t size;
    wane_error error;
    uint8_t *bytes = make_file(200, &size);
    for (size_t i = 0; i < size; i += i < 700 ? 1 : 61) {
        bytes[i] ^= 0x10;
        assert_int_equal(parse(bytes, size, &error), WANE_EFORMAT);
        bytes[i] ^= 0x10;
    }
    for (size_t cut = 0; cut < size; cut += cut < 700 ? 1 : 997) {
        uint8_t *shorter = malloc(cut + 1);
        memcpy(shorter, bytes, cut);
        assert_int_equal(parse(shorter, cut, &error), WANE_EFORMAT);
        free(shorter);
    }
    wane__free(bytes);
}

/* Whole by its checksum, and wrong all the same. */
static void test_file_forged(void **state) {
    (void)state;
    static const struct {
        size_t at;
        uint64_t value;
        int bytes;
        const char *says;
    } cases[] = {
        {8, 2, 4, "form 2"},
        {12, 5, 2, "other sizes"},
        {18, 64, 2, "other sizes"},
        {20, 0x7fc00000, 4, "allowance"}, /* not a number */
        {20, 0x3f800001, 4, "allowance"}, /* above 1 */
        {20, 0xb0000000, 4, "allowance"}, /* below 0 */
        {72, 0, 4, "vocabulary"},
        {104, 3, 4, "patterns"},
        {104, UINT32_MAX, 4, "more patterns than there are"},
        {108, UINT32_MAX, 4, "parts do not fill it"},
        {112, 5000, 4, "parts do not fill it"},
        {120, 1, 8, "this machine's odds"},
        {128, 'X', 1, "of which model"},
        {160, 0, 1, "of which model"},
        {194, 0, 1, "a zero in it"},
        {199, 0xffffff, 3, "not in order"},
    };
    size_t size;
    wane_error error;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t *bytes = make_file(2, &size);
        wane__put(bytes + cases[i].at, cases[i].value, cases[i].bytes);
        wane__put(bytes + size - 8, XXH3_64bits(bytes, size - 8), 8);
        assert_int_equal(parse(bytes, size, &error), WANE_EFORMAT);
        if (strstr(error.text, cases[i].says) == NULL) fail_msg("case %zu: %s", i, error.text);
        wane__free(bytes);
    }
    static const float weights[] = {NAN, INFINITY, 2e6f};
    for (size_t i = 0; i < 3; i++) {
        uint8_t *bytes = make_file(2, &size);
        wane__put_float(bytes + size - 12, weights[i]);
        wane__put(bytes + size - 8, XXH3_64bits(bytes, size - 8), 8);
        assert_int_equal(parse(bytes, size, &error), WANE_EFORMAT);
        assert_non_null(strstr(error.text, "weight"));
        wane__free(bytes);
    }
}

/* -------------------------------------------------------- verdict and doubt */

static struct wane__gate *line_gate(bool with_lut) {
    static struct wane__gate_net net;
    static uint32_t pattern[32];
    struct wane__gate_made made = gate_made(digest, digest);
    gate_line(&net, 0, 0.1f); /* odds are a tenth of the bin */
    for (uint32_t bin = 0; bin < 32; bin++) pattern[bin] = bin << 15;
    return gate_of(&made, &net, pattern, with_lut ? 32 : 0);
}

static struct wane__verdict judge(struct wane__doubt *doubt, const struct wane__gate *gate, uint32_t bin,
                                  double top, int index) {
    struct wane__verdict verdict;
    struct wane__gate_view view = {.pattern = bin << 15, .share = {top}};
    wane__doubt_judge(doubt, gate, &view, index, &verdict);
    return verdict;
}

static struct wane__doubt doubt_of(wane_quality *q, float temperature) {
    struct wane__doubt doubt;
    q->odds_base = 1;
    q->odds_entropy = 0;
    wane_sampling sampling = {.temperature = temperature, .top_k = 40};
    wane__doubt_begin(&doubt, q, &sampling, 3, 0);
    return doubt;
}

static void test_doubt(void **state) {
    (void)state;
    struct wane__gate *gate = line_gate(true);
    wane_quality q;
    for (int budget = 0; budget < 4; budget++) {
        wane_quality_init(&q);
        q.doubt_budget = budget;
        struct wane__doubt d = doubt_of(&q, 0.8f);
        assert_true(d.on && !d.wakes && d.first_reject == -1 && d.woke_at == -1);
        int rejects = 0;
        for (int i = 0; i < 20; i++) {
            bool low = i % 3 == 2;
            struct wane__verdict v = judge(&d, gate, low ? 9 : 10, 0.5, i); /* 1.0 is not below 1 */
            rejects += low;
            assert_true(v.judged && v.lut && v.reject == low && v.tau == 1);
            assert_int_equal(v.reason, low ? WANE_WAKE_DOUBT : WANE_WAKE_NONE);
            assert_int_equal(v.woke, low && rejects == budget + 1);
            assert_int_equal(d.wakes, rejects > budget);
            assert_int_equal(d.first_reject, rejects > 0 ? 2 : -1);
        }
        assert_int_equal(d.rejects, 6);
        assert_int_equal(d.woke_at, 3 * budget + 2);
        assert_int_equal(d.woke_by, WANE_WAKE_DOUBT);
    }
    wane__gate_free(gate);
}

/* What is usual is forgiven, token by token; an answer would fork where the doubt began that woke the vote. */
static void test_allowance(void **state) {
    (void)state;
    struct wane__gate *gate = line_gate(true);
    wane_quality q;
    wane_quality_init(&q);
    q.doubt_budget = 2;
    q.doubt_allowance = 0.5f;
    struct wane__doubt d = doubt_of(&q, 0.8f);
    for (int i = 0; i < 1000; i++) { /* as many as are usual */
        assert_false(judge(&d, gate, i % 2 == 0 ? 9 : 10, 0.5, i).woke);
        assert_int_equal(d.first_reject, i % 2 == 0 ? i : -1);
    }
    for (int i = 1000; i < 1007; i++) { /* two of three: 0.5, 1, 0.5, 1, 1.5, 1, 1.5 */
        assert_false(judge(&d, gate, i % 3 != 0 ? 9 : 10, 0.5, i).woke);
        assert_int_equal(d.first_reject, 1000);
    }
    assert_false(judge(&d, gate, 9, 0.5, 1007).woke); /* 2: not above */
    assert_true(judge(&d, gate, 9, 0.5, 1008).woke);
    for (int i = 1009; i < 1100; i++) assert_false(judge(&d, gate, 10, 0.5, i).reject);
    assert_true(d.wakes && d.woke_at == 1008 && d.first_reject == 1000); /* stays */
    q.doubt_allowance = 1;                                               /* nothing is ever unusual */
    d = doubt_of(&q, 0.8f);
    for (int i = 0; i < 100; i++) assert_false(judge(&d, gate, 0, 0.5, i).woke);
    q.doubt_allowance = -1; /* the gate's own */
    gate->made.allowance = 0.375f;
    d = doubt_of(&q, 0.8f);
    judge(&d, gate, 9, 0.5, 0);
    assert_true(d.allowance == 0.375f && d.level == 0.625f);
    wane__gate_free(gate);
}

static void test_off(void **state) {
    (void)state;
    wane_quality q;
    wane_quality_init(&q);
    assert_true(doubt_of(&q, 0.1f).on);
    assert_false(doubt_of(&q, 0).on); /* all answers are the same one */
    q.answers = 1;
    assert_true(doubt_of(&q, 0.8f).on); /* tokens in doubt are drawn by more votes */
    q.doubt_votes = 0;
    assert_false(doubt_of(&q, 0.8f).on);
}

/* The net instead of the LUT, far into a reply and where nothing stands out; its bits are the same. */
static void test_revival(void **state) {
    (void)state;
    struct wane__gate *gate = line_gate(true);
    wane_quality q;
    wane_quality_init(&q);
    q.doubt_budget = 0;
    struct wane__doubt d = doubt_of(&q, 0.8f);
    struct wane__verdict before = judge(&d, gate, 20, 0.3, 1023), at = judge(&d, gate, 20, 0.3, 1024),
                         high = judge(&d, gate, 20, 0.36, 2000);
    assert_true(before.lut && !before.revival && !at.lut && at.revival && high.lut && !high.revival);
    assert_memory_equal(&before.odds, &at.odds, sizeof at.odds);
    assert_false(d.wakes);
    struct wane__verdict low = judge(&d, gate, 3, 0.3, 1024);
    assert_true(low.reject && low.woke);
    assert_int_equal(d.woke_by, WANE_WAKE_REVIVAL);
    q.revival_after = 0;
    d = doubt_of(&q, 0.8f);
    assert_false(judge(&d, gate, 3, 0.3, 5000).revival);
    wane__gate_free(gate);
}

static void test_forced(void **state) {
    (void)state;
    struct wane__gate *gate = line_gate(true);
    wane_quality q;
    wane_quality_init(&q);
    struct wane__doubt cool = doubt_of(&q, 1.3f), hot = doubt_of(&q, 1.4f);
    for (int i = 0; i < 20; i++) {
        assert_false(wane__doubt_forced(&cool, i));
        assert_int_equal(wane__doubt_forced(&hot, i), i % 5 == 4);
    }
    assert_true(fabs(hot.hot_scale - 1 / (double)1.4f) < 1e-12);
    struct wane__verdict v = judge(&hot, gate, 20, 0.9, 4);
    assert_true(v.forced && !v.lut && !v.reject); /* checked, and fine: no doubt is spent */
    v = judge(&hot, gate, 2, 0.9, 9);
    assert_true(v.forced && v.reject && !v.woke);
    assert_int_equal(v.reason, WANE_WAKE_FORCED);
    assert_int_equal(hot.rejects, 1);
    q.forced_every = 0;
    hot = doubt_of(&q, 1.4f);
    assert_false(wane__doubt_forced(&hot, 4));
    wane__gate_free(gate);
}

/* ----------------------------------------------------------------- breaker */

struct alerts {
    pthread_mutex_t lock;
    int out, in, last_wakes;
};

static void alert(void *user, bool out, int wakes, double seconds) {
    struct alerts *a = user;
    (void)seconds;
    pthread_mutex_lock(&a->lock);
    a->out += out;
    a->in += !out;
    a->last_wakes = wakes;
    pthread_mutex_unlock(&a->lock);
}

static struct wane__breaker *breaker_of(int wakes, double seconds, struct alerts *alerts) {
    struct wane__breaker *b = NULL;
    pthread_mutex_init(&alerts->lock, NULL);
    assert_int_equal(wane__breaker_new(wakes, seconds, alert, alerts, &b, NULL), WANE_OK);
    return b;
}

static void test_breaker(void **state) {
    (void)state;
    struct alerts alerts = {0};
    struct wane__breaker *b = breaker_of(4, 100, &alerts);
    for (int i = 0; i < 4; i++) wane__breaker_wake(b, 1000 + i);
    assert_false(wane__breaker_is_out(b, 1003)); /* four are allowed */
    wane__breaker_wake(b, 1004);
    assert_true(wane__breaker_is_out(b, 1004));
    wane__breaker_wake(b, 1005);
    assert_int_equal(alerts.out, 1);
    assert_int_equal(alerts.last_wakes, 5);
    assert_int_equal(wane__breaker_recent(b, 1005), 5); /* it counts no further than that */
    assert_true(wane__breaker_is_out(b, 1102)); /* 1003, 1004, 1005 are left: more than half of four */
    assert_int_equal(alerts.in, 0);
    assert_false(wane__breaker_is_out(b, 1103)); /* two are left */
    assert_int_equal(alerts.in, 1);
    assert_int_equal(alerts.last_wakes, 2);
    wane__breaker_wake(b, 1103.5);
    wane__breaker_wake(b, 1103.6);
    assert_false(wane__breaker_is_out(b, 1103.7));
    wane__breaker_wake(b, 1103.8);
    assert_true(wane__breaker_is_out(b, 1103.9));
    assert_true(wane__breaker_is_out(b, 0)); /* a clock that goes back changes nothing */
    wane__breaker_wake(b, 5000);             /* quiet for long, unnoticed until now */
    assert_int_equal(alerts.out, 2);
    assert_int_equal(alerts.in, 2);
    assert_int_equal(wane__breaker_trips(b), 2);
    wane__breaker_free(b);
}

/* As a plain count over all wakes says, at every moment. */
static void test_breaker_window(void **state) {
    (void)state;
    enum { MANY = 3000 };
    static double when[MANY];
    struct alerts alerts = {0};
    struct wane__breaker *b = breaker_of(10, 30, &alerts);
    bool out = false;
    double now = 0;
    int times = 0;
    for (int i = 0; i < MANY; i++) {
        now += -log(1 - wane__random_unit(3, (uint64_t)i)) * (i / 300 % 2 ? 1.5 : 6);
        when[i] = now;
        int before = 0, after = 0;
        for (int j = 0; j <= i; j++) {
            before += j < i && now - when[j] < 30;
            after += now - when[j] < 30;
        }
        if (out && before <= 5) out = false;
        if (!out && after > 10) {
            out = true;
            times++;
        }
        wane__breaker_wake(b, now);
        assert_int_equal(wane__breaker_is_out(b, now), out);
    }
    assert_true(times > 3);
    assert_int_equal(wane__breaker_trips(b), times);
    assert_int_equal(alerts.out, times);
    wane__breaker_free(b);
}

static void *hammer(void *breaker) {
    for (int i = 0; i < 5000; i++) {
        wane__breaker_wake(breaker, 1 + i * 1e-6);
        wane__breaker_is_out(breaker, 1 + i * 1e-6);
    }
    return NULL;
}

static void test_breaker_threads(void **state) {
    (void)state;
    struct alerts alerts = {0};
    struct wane__breaker *b = breaker_of(50, 300, &alerts);
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, hammer, b), 0);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    assert_int_equal(alerts.out, 1);
    assert_int_equal(alerts.in, 0);
    wane__breaker_free(b);
    b = breaker_of(0, 1, &alerts); /* none */
    hammer(b);
    assert_false(wane__breaker_is_out(b, 2));
    assert_int_equal(wane__breaker_trips(b), 0);
    wane__breaker_free(b);
    assert_false(wane__breaker_is_out(NULL, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entropy),
        cmocka_unit_test(test_tau),
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_bins),
        cmocka_unit_test(test_early),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_lut),
        cmocka_unit_test(test_net),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_file_damaged),
        cmocka_unit_test(test_file_forged),
        cmocka_unit_test(test_doubt),
        cmocka_unit_test(test_allowance),
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_revival),
        cmocka_unit_test(test_forced),
        cmocka_unit_test(test_breaker),
        cmocka_unit_test(test_breaker_window),
        cmocka_unit_test(test_breaker_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
