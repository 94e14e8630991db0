/* test_probe_keys.c - rings of keys, cosines and their moments: against a slow reference, and whatever happens to a sequence. */
#include "core/rng.h"
#include "governor/keys.h"
#include "probe_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static float noise(uint64_t seed, int i) {
    return (float)(2 * wane__random_unit(seed, (uint64_t)i) - 1);
}

/* A key or query of position `pos`: noise, and a direction that all share. */
static void fill(float *out, int numbers, uint64_t seed, int pos, float lean) {
    for (int i = 0; i < numbers; i++) out[i] = noise(seed, pos * numbers + i) + lean * noise(77, i);
}

struct form {
    int heads, key_heads, size;
    float lean, scale;
};
static const struct form forms[] = {
    {9, 3, 64, 0.5f, 1},     {14, 2, 64, 3, 40},        {4, 1, 256, 0, 0.01f},
    {1, 1, 8, 1, 1},         {6, 3, 5, 1, 1} /* odd */, {2, 2, 128, 4, 1e15f},
    {2, 1, 2, 0.1f, 1e-12f}, {40, 2, 16, 1, 1}, /* more than go together */
};
enum { FORMS = sizeof forms / sizeof *forms, MOST = 700 };

static void check_form(const struct form *f, int count, int low) {
    size_t row = (size_t)(f->key_heads * f->size), numbers = (size_t)(f->heads * f->size);
    float *keys = malloc(row * (size_t)count * sizeof *keys), *q = malloc(numbers * sizeof *q);
    int16_t *units = malloc((numbers + (size_t)f->heads) * sizeof *units);
    struct wane__keys ring;
    assert_true(wane__keys_open(&ring, f->key_heads, f->size, MOST));
    for (int p = 0; p < count; p++) {
        fill(keys + row * (size_t)p, (int)row, 1, p, f->lean);
        for (size_t i = 0; i < row; i++) keys[row * (size_t)p + i] *= f->scale;
        wane__keys_put(&ring, p, keys + row * (size_t)p);
    }
    fill(q, (int)numbers, 2, count, f->lean / 2);
    assert_true(wane__keys_units(q, f->heads, f->size, units));
    assert_true(wane__keys_hold(&ring, low, count - 1));
    double kurtosis, spread, k, s;
    wane__keys_look(&ring, units, f->heads, low, count - 1, &kurtosis, &spread);
    naive_look(q, f->heads, keys + row * (size_t)low, f->key_heads, f->size, count - low, &k, &s);
    if (!near_enough(kurtosis, k) || !near_enough(spread, s))
        fail_msg("heads of %d, %d keys: kurtosis %.9g, not %.9g; spread %.9g, not %.9g", f->size, count - low,
                 kurtosis, k, spread, s);
    wane__keys_close(&ring);
    free(keys);
    free(q);
    free(units);
}

static void test_reference(void **state) {
    (void)state;
    static const int ranges[][2] = {{17, 0},  {20, 4},    {64, 4},  {128, 4},  {129, 4},
                                    {300, 4}, {511, 199}, {700, 4}, {700, 650}};
    for (int f = 0; f < FORMS; f++)
        for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++)
            check_form(&forms[f], ranges[r][0], ranges[r][1]);
}

/* Cosines from whole numbers: as far off as the header says, and no further. */
static void test_rounding(void **state) {
    (void)state;
    static const int sizes[] = {8, 64, 128, 256};
    const struct wane__cosine_kernels *kernels = wane__cosine_kernels();
    for (int s = 0; s < 4; s++) {
        int size = sizes[s];
        float a[256], b[256];
        int16_t ua[256], ub[256], block[256 * WANE__KEYS_BLOCK] = {0};
        double square = 0, worst = 0;
        for (int t = 0; t < 2000; t++) {
            double ab = 0, aa = 0, bb = 0;
            int32_t dots[WANE__KEYS_BLOCK];
            fill(a, size, 3, t, t % 3 == 0 ? 2 : 0);
            fill(b, size, 4, t, t % 3 == 0 ? 2 : 0);
            for (int i = 0; i < size; i++) {
                ab += (double)a[i] * (double)b[i];
                aa += (double)a[i] * (double)a[i];
                bb += (double)b[i] * (double)b[i];
            }
            wane__keys_units(a, 1, size, ua);
            wane__keys_units(b, 1, size, ub);
            for (int i = 0; i < size; i++) block[i / 2 * 2 * WANE__KEYS_BLOCK + i % 2] = ub[i];
            kernels->dots(block, 1, size / 2, ua, dots);
            double off = dots[0] / ((double)WANE__KEYS_ONE * WANE__KEYS_ONE) - ab / sqrt(aa * bb);
            square += off * off;
            if (fabs(off) > worst) worst = fabs(off);
        }
        assert_true(worst < sqrt(size) / WANE__KEYS_ONE);
        assert_true(sqrt(square / 2000) < 2e-5);
    }
}

static void test_kernels_agree(void **state) {
    (void)state;
    int16_t blocks[9 * 33 * 2 * WANE__KEYS_BLOCK], query[66];
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        blocks[i] = (int16_t)(noise(5, (int)i) * 4000);
    for (int i = 0; i < 66; i++) query[i] = (int16_t)(noise(6, i) * 4000);
    const struct wane__cosine_kernels *other;
    for (int k = 1; (other = wane__cosine_kernels_at(k)) != NULL; k++)
        for (int count = 1; count <= 9; count++)
            for (int pairs = 1; pairs <= 33; pairs += 4) {
                int32_t a[72], b[72];
                struct wane__powers x, y;
                wane__cosines_plain.dots(blocks, count, pairs, query, a);
                other->dots(blocks, count, pairs, query, b);
                assert_memory_equal(a, b, (size_t)count * 8 * sizeof *a);
                for (int n = 1; n <= count * 8; n += 5) {
                    wane__cosines_plain.powers(a, n, &x);
                    other->powers(a, n, &y);
                    assert_memory_equal(&x, &y, sizeof x);
                }
            }
}

/* However a list is cut up, its moments are the same, also far from zero and nearly all equal. */
static void test_powers_join(void **state) {
    (void)state;
    static const double widths[] = {1e-3, 1e-2, 0.3};
    for (int w = 0; w < 3; w++) {
        enum { N = 1000 };
        int32_t dots[N];
        double mean = 0, m2 = 0, m3 = 0, m4 = 0, one = (double)WANE__KEYS_ONE * WANE__KEYS_ONE;
        for (int i = 0; i < N; i++) dots[i] = (int32_t)(one * (0.6 + widths[w] * (double)noise(8, i)));
        for (int i = 0; i < N; i++) mean += dots[i] / one / N;
        for (int i = 0; i < N; i++) {
            double d = dots[i] / one - mean;
            m2 += d * d;
            m3 += d * d * d;
            m4 += d * d * d * d;
        }
        for (int cut = 1; cut <= WANE__KEYS_CHUNK; cut += 9) {
            struct wane__powers all = {0}, some;
            for (int i = 0; i < N; i += cut) {
                wane__cosine_kernels()->powers(dots + i, N - i < cut ? N - i : cut, &some);
                wane__powers_add(&all, &some);
            }
            assert_true(all.count == N);
            assert_true(fabs(all.mean - mean) < 1e-6);
            assert_true(fabs(all.m2 - m2) < 1e-3 * m2);
            assert_true(fabs(all.m4 - m4) < 1e-3 * m4);
            assert_true(fabs(all.m3 - m3) < 1e-3 * pow(m2 / N, 1.5) * N);
        }
    }
}

static void test_nothing_to_say(void **state) {
    (void)state;
    struct wane__keys ring;
    float key[8] = {1, 0, 0, 0, 0, 0, 0, 0}, q[8] = {3, 4, 0, 0, 0, 0, 0, 0};
    int16_t units[8];
    double kurtosis, spread;
    assert_true(wane__keys_open(&ring, 1, 8, 100));
    for (int p = 0; p < 100; p++) wane__keys_put(&ring, p, key);
    assert_true(wane__keys_units(q, 1, 8, units));
    wane__keys_look(&ring, units, 1, 0, 99, &kurtosis, &spread);
    assert_true(isnan(kurtosis)); /* all the same */
    assert_true(spread < 1e-6);
    /* A key without length points nowhere: a cosine of 0, and no division by it. */
    memset(key, 0, sizeof key);
    wane__keys_put(&ring, 100, key);
    assert_true(wane__keys_hold(&ring, 4, 100));
    wane__keys_look(&ring, units, 1, 4, 100, &kurtosis, &spread);
    assert_true(isfinite(kurtosis) && spread > 0.01);
    q[3] = NAN;
    assert_false(wane__keys_units(q, 1, 8, units));
    q[3] = INFINITY;
    assert_false(wane__keys_units(q, 1, 8, units));
    for (int i = 0; i < 8; i++) assert_int_equal(units[i], 0);
    wane__keys_close(&ring);
    assert_false(wane__keys_open(&ring, 1, 1 << 20, 100));
    wane__keys_close(&ring);
}

static void put(struct wane__keys *ring, int from, int to, uint64_t seed) {
    float key[16];
    for (int p = from; p < to; p++) {
        fill(key, 16, seed, p, 0.5f);
        wane__keys_put(ring, p, key);
    }
}

/* Does the ring hold exactly keys from … to - 1 of `seed`? */
static void check_ring(struct wane__keys *ring, int from, int to, uint64_t seed) {
    struct wane__keys fresh;
    float q[16];
    int16_t units[16];
    double a, b, c, d;
    assert_int_equal(ring->from, from);
    assert_int_equal(ring->to, to);
    assert_true(wane__keys_open(&fresh, 2, 8, 1000));
    put(&fresh, 0, to, seed);
    fill(q, 16, 9, 1, 0);
    wane__keys_units(q, 2, 8, units);
    wane__keys_look(ring, units, 2, from, to - 1, &a, &b);
    wane__keys_look(&fresh, units, 2, from, to - 1, &c, &d);
    assert_true(a <= c && a >= c && b <= d && b >= d);
    wane__keys_close(&fresh);
}

static void test_ring(void **state) {
    (void)state;
    struct wane__keys a, b;
    float nan[16] = {0};
    assert_true(wane__keys_open(&a, 2, 8, 200) && wane__keys_open(&b, 2, 8, 200));
    assert_int_equal(a.capacity, 256);
    put(&a, 0, 100, 1);
    check_ring(&a, 0, 100, 1);
    put(&a, 60, 90, 1); /* without a word: what was behind 60 is gone */
    check_ring(&a, 0, 90, 1);
    wane__keys_cut(&a, 50);
    check_ring(&a, 0, 50, 1);
    assert_false(wane__keys_hold(&a, 4, 50));
    put(&a, 70, 100, 1); /* 50 … 69 were decoded while nobody looked */
    check_ring(&a, 70, 100, 1);
    assert_false(wane__keys_hold(&a, 4, 99));
    wane__keys_cut(&a, 30); /* before all that is known */
    assert_int_equal(a.from, 30);
    assert_int_equal(a.to, 30);
    put(&a, 30, 600, 1); /* around: the last 256 are there */
    check_ring(&a, 600 - 256, 600, 1);
    wane__keys_cut(&a, 500);
    check_ring(&a, 600 - 256, 500, 1); /* what was written over does not come back */
    put(&a, 500, 520, 1);
    check_ring(&a, 600 - 256, 520, 1);

    uint32_t made = b.made;
    put(&b, 0, 10, 2);
    wane__keys_become(&b, &a, 450);
    assert_true(b.made != made);
    check_ring(&b, 600 - 256, 450, 1);
    put(&a, 100, 120, 3); /* two rings, not one */
    check_ring(&b, 600 - 256, 450, 1);
    wane__keys_become(&b, &a, 300); /* more than it holds: nothing is known */
    assert_int_equal(b.from, 300);
    assert_int_equal(b.to, 300);
    wane__keys_become(&b, NULL, 77);
    assert_int_equal(b.from, 77);
    put(&b, 77, 99, 4);
    check_ring(&b, 77, 99, 4);
    wane__keys_become(&b, NULL, 0);
    put(&b, 0, 50, 1);
    nan[9] = NAN;
    wane__keys_put(&b, 50, nan);
    assert_false(wane__keys_hold(&b, 4, 50));
    put(&b, 51, 80, 1);
    check_ring(&b, 51, 80, 1);
    wane__keys_close(&a);
    wane__keys_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),      cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_kernels_agree),  cmocka_unit_test(test_powers_join),
        cmocka_unit_test(test_nothing_to_say), cmocka_unit_test(test_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
