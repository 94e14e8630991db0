/*
 * measure_kv.c - how far do a KV cache's number types move the model's distribution?
 *
 *     measure_kv model.gguf TEXT-FILE [threads] [context tokens] [steps] [repack 0|1]
 *
 * A file's text is read token by token behind a context, once with keys, values and attention in 32-bit floats, then with each pair
 * of types and flash attention. For each pair: the mean and the largest Kullback-Leibler divergence from the 32-bit
 * distribution in nats, tokens whose best one is another, and the surprise of the text's own next token in nats.
 */
#include "engine_support.h"

#include "core/file.h"

#include <math.h>

static const struct pair {
    const char *k, *v;
    int flash;
} pairs[] = {{"f32", "f32", 0},  {"f16", "f16", 1},  {"f16", "f16", 0},   {"q8_0", "f16", 1},
             {"bf16", "f16", 1}, {"f16", "q8_0", 1}, {"q8_0", "q8_0", 1}, {"q4_0", "f16", 1}};
enum { PAIRS = sizeof pairs / sizeof *pairs };

struct sums {
    double divergence, largest, surprise;
    int other;
};

static double log_sum_exp(const float *logits, int vocab) {
    double most = (double)logits[argmax(logits, vocab)], sum = 0;
    for (int i = 0; i < vocab; i++) sum += exp((double)logits[i] - most);
    return most + log(sum);
}

static void compare(const float *reference, const float *logits, int vocab, int next, struct sums *s) {
    double p = log_sum_exp(reference, vocab), q = log_sum_exp(logits, vocab), kl = 0;
    for (int i = 0; i < vocab; i++) {
        double log_p = (double)reference[i] - p;
        kl += exp(log_p) * (log_p - ((double)logits[i] - q));
    }
    s->divergence += kl;
    s->largest = fmax(s->largest, kl);
    s->surprise -= (double)logits[next] - q;
    s->other += argmax(reference, vocab) != argmax(logits, vocab);
}

static void read_on(struct fixture *f, const int32_t *id, int count) {
    wane_error error = {0};
    CHECK(prefill(f, 0, id, (size_t)count, &error) == WANE_OK, "%s", error.text);
}

static void measure(const wane_model_options *options, const struct pair *pair, const char *words,
                    size_t size, int context, int steps, float **rows) {
    wane_model_options mine = *options;
    mine.kv_type_k = pair->k, mine.kv_type_v = pair->v, mine.flash_attention = pair->flash;
    struct fixture f = {0};
    if (!load_fixture(&f, &mine, NULL)) return;
    int vocab = f.engine->facts.vocab_size;
    wane_tokens text = {0};
    engine_tokens(&f, words, size, true, false, &text);
    CHECK(text.count > (size_t)(context + steps), "the text has only %zu tokens", text.count);
    bool first = !*rows;
    if (first) *rows = wane__alloc((size_t)steps * (size_t)vocab * sizeof **rows);
    if (failures == 0) read_on(&f, text.id, context);
    struct sums s = {0};
    for (int i = 0; i < steps && failures == 0; i++) {
        read_on(&f, text.id + context + i, 1);
        const float *row = f.engine->ops->logits(f.engine, 0);
        float *reference = *rows + (size_t)i * (size_t)vocab;
        if (first) memcpy(reference, row, (size_t)vocab * sizeof *row);
        compare(reference, row, vocab, text.id[context + i + 1], &s);
    }
    printf("%5s %5s flash %d  mean %.2e  largest %.2e  %3d of %d other best  surprise %.5f\n", pair->k,
           pair->v, pair->flash, s.divergence / steps, s.largest, s.other, steps, s.surprise / steps);
    fflush(stdout);
    wane_tokens_free(&text);
    free_fixture(&f);
}

int main(int count, char **arguments) {
    if (count < 3) {
        fprintf(stderr, "usage: measure_kv model.gguf TEXT-FILE [threads] [context] [steps] [repack]\n");
        return 2;
    }
    wane_model_options options;
    default_options(&options, arguments[1]);
    options.sequences = 1;
    options.context = 4096;
    options.batch = 256;
    if (count > 3) options.threads = atoi(arguments[3]);
    int context = count > 4 ? atoi(arguments[4]) : 300, steps = count > 5 ? atoi(arguments[5]) : 200;
    if (count > 6) options.repack = atoi(arguments[6]);
    char *words = NULL;
    size_t size = 0;
    wane_error error = {0};
    CHECK(wane__file_read(arguments[2], "the text", 1 << 20, &words, &size, &error) == WANE_OK, "%s",
          error.text);
    float *rows = NULL;
    for (int i = 0; i < PAIRS && failures == 0; i++)
        measure(&options, pairs + i, words, size, context, steps, &rows);
    wane__free(words);
    wane__free(rows);
    return failures ? 1 : 0;
}
