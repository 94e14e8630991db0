/*
 * measure_blocks.c - do several tokens of one sequence, decoded in one block, give the floats that they give one by one?
 *
 *     measure_blocks model.gguf [threads] [context tokens] [flash -1|0|1] [K type] [V type] [repack 0|1] [widest]
 *
 * A context is filled, then 48 greedy tokens are decoded one by one; then the same tokens again in blocks of several
 * widths. For each width: rows whose logits are the single ones bit for bit, the largest difference, rows whose best token
 * is another one, and milliseconds a block. Drafts may be verified in blocks wherever all rows are equal.
 */
#include "engine_support.h"

#include <math.h>

enum { TOKENS = 48, MOST_CONTEXT = 3000 };

static const int widths[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48};
enum { WIDTHS = sizeof widths / sizeof *widths };

struct trial {
    struct wane__engine *engine;
    wane_tokens context; /* prompt, then the tokens under test */
    int prompt;
    float *single; /* TOKENS × V */
};

static void decode(const struct trial *t, int from, int count, bool all) {
    static struct wane__item items[4096];
    wane_error error = {0};
    for (int i = 0; i < count; i++)
        items[i] =
            (struct wane__item){t->context.id[from + i], from + i, 0, all || i + 1 == count, false, false};
    int rc = t->engine->ops->decode(t->engine, items, count, &error);
    CHECK(rc == WANE_OK, "%s", error.text);
}

static void singles(struct trial *t) {
    int vocab = t->engine->facts.vocab_size;
    for (int done = 0; done < t->prompt;) {
        int some = t->prompt - done < 256 ? t->prompt - done : 256;
        decode(t, done, some, false);
        done += some;
    }
    for (int i = 0; i < TOKENS && failures == 0; i++) {
        int32_t next = argmax(t->engine->ops->logits(t->engine, 0), vocab);
        t->context.id[t->prompt + i] = next;
        decode(t, t->prompt + i, 1, true);
        memcpy(t->single + (size_t)i * (size_t)vocab, t->engine->ops->logits(t->engine, 0),
               (size_t)vocab * sizeof(float));
    }
}

static void blocks(const struct trial *t, int width) {
    int vocab = t->engine->facts.vocab_size, equal = 0, other = 0, rows = 0, calls = 0;
    float largest = 0;
    double spent = 0;
    t->engine->ops->truncate(t->engine, 0, t->prompt);
    for (int from = 0; from + width <= TOKENS; from += width) {
        double began = wane__now();
        decode(t, t->prompt + from, width, true);
        spent += wane__now() - began;
        calls++;
        for (int row = 0; row < width; row++, rows++) {
            const float *block = t->engine->ops->logits(t->engine, row);
            const float *one = t->single + (size_t)(from + row) * (size_t)vocab;
            bool same = memcmp(block, one, (size_t)vocab * sizeof *one) == 0;
            equal += same;
            other += argmax(block, vocab) != argmax(one, vocab);
            for (int i = 0; !same && i < vocab; i++) largest = fmaxf(largest, fabsf(block[i] - one[i]));
        }
    }
    printf("%5d  %4d of %4d rows equal  %10.6f largest  %3d other best  %8.2f ms a block, %6.2f a token\n",
           width, equal, rows, (double)largest, other, 1e3 * spent / calls, 1e3 * spent / calls / width);
    fflush(stdout);
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr,
                "usage: measure_blocks model.gguf [threads] [context] [flash] [K] [V] [repack] [widest]\n");
        return 2;
    }
    wane_model_options options;
    default_options(&options, arguments[1]);
    options.sequences = 1;
    options.context = 4096;
    if (count > 2) options.threads = atoi(arguments[2]);
    int context = count > 3 ? atoi(arguments[3]) : 100;
    if (count > 4) options.flash_attention = atoi(arguments[4]);
    if (count > 5) options.kv_type_k = arguments[5];
    if (count > 6) options.kv_type_v = arguments[6];
    if (count > 7) options.repack = atoi(arguments[7]);
    int widest = count > 8 ? atoi(arguments[8]) : TOKENS;
    struct fixture f = {0};
    if (!load_fixture(&f, &options, NULL)) return 1;
    struct trial t = {.engine = f.engine};
    struct wane__buf text = {0};
    while (t.context.count < (size_t)context + TOKENS && t.context.count < MOST_CONTEXT) {
        wane__buf_text(&text, long_text);
        engine_tokens(&f, text.data, text.size, true, false, &t.context);
    }
    t.prompt = context < MOST_CONTEXT - TOKENS ? context : MOST_CONTEXT - TOKENS;
    t.single = wane__alloc((size_t)TOKENS * (size_t)f.engine->facts.vocab_size * sizeof *t.single);
    if (failures == 0) singles(&t);
    for (int i = 0; i < WIDTHS && widths[i] <= widest && failures == 0; i++) blocks(&t, widths[i]);
    wane__buf_free(&text);
    wane_tokens_free(&t.context);
    wane__free(t.single);
    free_fixture(&f);
    return failures ? 1 : 0;
}
