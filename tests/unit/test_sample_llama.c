/*
 * test_sample_llama.c - the sampler against libllama's own chain (bias, penalties, top-k, top-p, min-p,
 * temperature): the same support and the same probabilities. The chain sums in float and cuts ties as its
 * sort left them, so a case in which its top-p stands within float's error, or in which a tie stands at rank
 * k, is passed over.
 */
#include "core/rng.h"
#include "sample/sample.h"

#include <llama.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 4000, CONTEXT = 60 };

static uint64_t state = 1;

static double unit(void) {
    return wane__random_unit(21, state++);
}

static int below(int limit) {
    return (int)(unit() * limit);
}

static float gaussian(void) {
    double u = unit() + 0x1p-54;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * unit()));
}

static void fill_settings(wane_sampling *s, int vocab, wane_bias *bias) {
    static const float top_p[] = {0.1f, 0.5f, 0.9f, 0.95f, 0.99f, 1}, min_p[] = {0, 0.01f, 0.05f, 0.5f};
    static const float temperature[] = {0, 0.3f, 0.8f, 1, 1.7f};
    static const int top_k[] = {0, 0, 1, 5, 40, 100, 10000};
    wane__sampling_defaults(s);
    s->top_k = top_k[below(7)];
    s->top_p = top_p[below(6)];
    s->min_p = min_p[below(4)];
    s->temperature = temperature[below(5)];
    s->seeded = true;
    s->seed = state;
    if (below(2)) {
        s->repeat_penalty = 0.8f + 0.5f * (float)unit();
        s->presence_penalty = (float)below(3) * 0.25f;
        s->frequency_penalty = (float)unit() * 0.4f;
        s->penalty_window = 1 + below(CONTEXT);
    }
    s->bias_count = below(2) ? 8 : 0;
    for (int i = 0; i < 8; i++) /* each token once */
        bias[i] = (wane_bias){(i * vocab + below(vocab)) / 8, i == 0 ? -INFINITY : 5 * gaussian()};
    s->bias = bias;
}

static struct llama_sampler *make_chain(const wane_sampling *s, int vocab, const int32_t *context) {
    struct llama_sampler *chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
    llama_logit_bias bias[8];
    for (size_t i = 0; i < s->bias_count; i++)
        bias[i] = (llama_logit_bias){s->bias[i].token, s->bias[i].bias};
    llama_sampler_chain_add(chain, llama_sampler_init_logit_bias(vocab, (int32_t)s->bias_count, bias));
    llama_sampler_chain_add(chain, llama_sampler_init_penalties(vocab, s->penalty_window, s->repeat_penalty,
                                                                s->frequency_penalty, s->presence_penalty));
    llama_sampler_chain_add(chain, llama_sampler_init_top_k(s->top_k));
    llama_sampler_chain_add(chain, llama_sampler_init_top_p(s->top_p, 1));
    llama_sampler_chain_add(chain, llama_sampler_init_min_p(s->min_p, 1));
    if (s->temperature > 0)
        llama_sampler_chain_add(chain, llama_sampler_init_temp(s->temperature));
    else
        llama_sampler_chain_add(chain, llama_sampler_init_greedy());
    for (int i = 0; i < CONTEXT; i++) llama_sampler_accept(chain, context[i]);
    return chain;
}

static int best_first(const void *left, const void *right) {
    const llama_token_data *a = left, *b = right;
    if (a->logit > b->logit || a->logit < b->logit) return a->logit > b->logit ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Could float's error have moved top-p's cut from one count to the other? */
static bool cut_is_close(const wane_sampling *s, const struct wane__choice *choice, size_t theirs) {
    size_t ours = (size_t)choice->candidate_count;
    if (s->top_p >= 1) return false;
    return ours + 1 == theirs || theirs + 1 == ours ||
           (ours > 1000 && fabs((double)ours - (double)theirs) < 20);
}

static bool compare_support(const wane_sampling *s, const struct wane__choice *choice,
                            llama_token_data_array *theirs) {
    size_t count = theirs->size;
    qsort(theirs->data, count, sizeof *theirs->data, best_first);
    while (count > 0 && isinf(theirs->data[count - 1].logit)) count--; /* the chain keeps what is forbidden */
    if (!choice->complete && (size_t)choice->candidate_count <= count)
        count = (size_t)choice->candidate_count;
    if (count != (size_t)choice->candidate_count) {
        assert_true(cut_is_close(s, choice, count));
        return false;
    }
    double scale = 1 / (double)s->temperature, ours_mass = 0, theirs_mass = 0; /* of the same candidates */
    const struct wane__candidate *ours = choice->candidates;
    for (size_t i = 0; i < count; i++) {
        ours_mass += exp(((double)ours[i].logit - (double)ours[0].logit) * scale);
        theirs_mass += exp((double)theirs->data[i].logit - (double)theirs->data[0].logit);
    }
    for (size_t i = 0; i < count; i++) {
        double p = exp(((double)ours[i].logit - (double)ours[0].logit) * scale) / ours_mass;
        double q = exp((double)theirs->data[i].logit - (double)theirs->data[0].logit) / theirs_mass;
        /* Division by the temperature may make two close logits equal, and then ids decide. */
        if (ours[i].token != theirs->data[i].id) assert_true(fabs(p - q) < 1e-6 * p);
        assert_true(fabs(p - q) < 1e-4 * p + 1e-12);
    }
    return true;
}

static bool compare_once(const wane_sampling *s, const float *row, int vocab, const int32_t *context) {
    static llama_token_data data[MOST];
    struct wane__sampler *sampler;
    struct wane__dense_source dense;
    struct wane__choice choice;
    bool compared = true;
    for (int t = 0; t < vocab; t++) data[t] = (llama_token_data){t, row[t], 0};
    llama_token_data_array theirs = {data, (size_t)vocab, -1, false};
    struct llama_sampler *chain = make_chain(s, vocab, context);
    llama_sampler_apply(chain, &theirs);
    assert_int_equal(wane__sampler_new(s, vocab, &sampler, NULL), WANE_OK);
    for (int i = 0; i < CONTEXT; i++) wane__sampler_accept(sampler, context[i]);
    wane__dense_source_init(&dense, row, vocab);
    assert_int_equal(wane__sampler_draw(sampler, &dense.source, 0, &choice, NULL), WANE_OK);
    if (s->temperature > 0)
        compared = compare_support(s, &choice, &theirs);
    else
        assert_int_equal(choice.token, theirs.data[theirs.selected].id);
    llama_sampler_free(chain);
    wane__sampler_free(sampler);
    return compared;
}

static void test_against_the_chain(void **unused) {
    static float row[MOST];
    wane_sampling s;
    wane_bias bias[8];
    int32_t context[CONTEXT];
    int compared = 0;
    (void)unused;
    for (int round = 0; round < 3000; round++) {
        int vocab = below(2) ? MOST : 100 + below(400);
        float spread = 0.2f + 4 * (float)unit();
        for (int t = 0; t < vocab; t++) row[t] = spread * gaussian() + 0.3f * (float)(t % 7);
        for (int i = 0; i < CONTEXT; i++) context[i] = below(below(2) ? vocab : 30);
        fill_settings(&s, vocab, bias);
        compared += compare_once(&s, row, vocab, context);
    }
    assert_true(compared > 2900);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_the_chain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
