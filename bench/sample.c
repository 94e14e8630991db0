/*
 * sample.c - what one draw costs: nanoseconds a call of the sampler on a dense row, by vocabulary and
 * settings; plain, and with the corrections of single tokens (docs/correction.md) in both modes.
 *
 *     sample [repeats]
 *
 * Rows look like a language model's: Gaussian logits with a few that stand out; the flat ones do not.
 */
#include "sample/sample.h"
#include "core/clock.h"
#include "core/rng.h"
#include "correct/correct.h"
#include "head/row.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double gaussian(uint64_t index) {
    double u = wane__random_unit(1, 2 * index) + 0x1p-54, v = wane__random_unit(1, 2 * index + 1);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

struct setting {
    const char *name;
    int top_k;
    float top_p, min_p, temperature;
    int logprobs;
    bool flat;
};

static const struct setting settings[] = {
    {"greedy", 40, 0.95f, 0.05f, 0, -1, false},
    {"greedy, 20 logprobs", 40, 0.95f, 0.05f, 0, 20, false},
    {"top-k 40, top-p, min-p", 40, 0.95f, 0.05f, 0.8f, -1, false},
    {"top-k 1000", 1000, 1, 0, 0.8f, -1, false},
    {"top-p 0.95", 0, 0.95f, 0, 0.8f, -1, false},
    {"min-p 0.05", 0, 1, 0.05f, 0.8f, -1, false},
    {"full", 0, 1, 0, 1, -1, false},
    {"flat, top-p 0.99", 0, 0.99f, 0, 1, -1, true},
    {"flat, full", 0, 1, 0, 1, -1, true},
};

static int draw(struct wane__correction *correction, struct wane__sampler *sampler,
                struct wane__source *source, uint64_t index, struct wane__choice *choice) {
    struct wane__corrected did;
    return correction->mode == WANE_MODE_OFF
               ? wane__sampler_draw(sampler, source, index, choice, NULL)
               : wane__correction_draw(correction, sampler, source, index, choice, &did, NULL);
}

/* Nanoseconds a draw. */
static double measure(const float *row, int vocab, const struct setting *one, int mode, int repeats,
                      int *support) {
    wane_sampling s;
    wane__sampling_defaults(&s);
    s.top_k = one->top_k;
    s.top_p = one->top_p;
    s.min_p = one->min_p;
    s.temperature = one->temperature;
    s.top_logprobs = one->logprobs;
    s.seeded = true;
    struct wane__sampler *sampler;
    struct wane__dense_source dense;
    struct wane__choice choice;
    struct wane__correction correction;
    wane_quality quality;
    if (wane__sampler_new(&s, vocab, &sampler, NULL) != WANE_OK) exit(1);
    wane_quality_init(&quality);
    quality.mode = mode;
    wane__correction_init(&correction, &quality, &s, 0, 1000, NULL);
    wane__dense_source_init(&dense, row, vocab);
    double from = 0;
    for (int i = -repeats / 10 - 1; i < repeats; i++) {
        if (i == 0) from = wane__now();
        if (draw(&correction, sampler, &dense.source, (uint64_t)(i + repeats), &choice) != WANE_OK) exit(1);
    }
    double ns = (wane__now() - from) / repeats * 1e9;
    *support = choice.candidate_count;
    wane__sampler_free(sampler);
    return ns;
}

static void measure_modes(const float *row, int vocab, const struct setting *one, int repeats) {
    int support[3];
    double ns[3];
    for (int mode = WANE_MODE_OFF; mode <= WANE_MODE_WANE; mode++)
        ns[mode] = measure(row, vocab, one, mode, repeats, &support[mode]);
    printf("%7d  %-24s %10.0f ns   legacy %10.0f ns   wane %10.0f ns   (candidates %d, %d)\n", vocab,
           one->name, ns[WANE_MODE_OFF], ns[WANE_MODE_LEGACY], ns[WANE_MODE_WANE], support[0],
           support[WANE_MODE_WANE]);
}

int main(int argc, char **argv) {
    static const int vocabs[] = {49152, 262144};
    int repeats = argc > 1 ? atoi(argv[1]) : 200;
    if (repeats < 1) repeats = 1;
    float *row = malloc(262144 * sizeof *row), *flat = malloc(262144 * sizeof *flat);
    if (row == NULL || flat == NULL) return 1;
    for (int i = 0; i < 262144; i++) {
        row[i] = (float)(2.5 * gaussian((uint64_t)i));
        flat[i] = (float)(0.001 * gaussian((uint64_t)i));
    }
    for (int i = 0; i < 12; i++) row[4001 * (i + 1) % 49152] = 18 - (float)i * 0.7f;
    printf("kernels: %s\n", wane__row_kernels()->name);
    for (size_t v = 0; v < sizeof vocabs / sizeof *vocabs; v++) {
        volatile float sink = 0;
        double from = wane__now();
        for (int i = 0; i < repeats; i++) {
            float max;
            wane__row_kernels()->block_max(row, vocabs[v], vocabs[v], &max);
            sink = max;
        }
        (void)sink;
        printf("%7d  %-24s %10.0f ns\n", vocabs[v], "one reading (maximum)",
               (wane__now() - from) / repeats * 1e9);
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
            measure_modes(settings[i].flat ? flat : row, vocabs[v], &settings[i], repeats);
    }
    free(row);
    free(flat);
    return 0;
}
