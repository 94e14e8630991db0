/*
 * measure_batching.c - how much the engine's own floats move when the same prompt is placed or cut differently.
 *
 *     measure_batching model.gguf [threads]
 *
 * One prompt is decoded fresh, in parts, behind other sequences, over a prefix that was kept or copied, and with its
 * last token in a mixed batch. Printed is the largest difference of a logit from the fresh one, and whether the
 * best token is the same. 0 everywhere means: neighbours and prefix reuse cannot change a reply.
 */
#include "engine_support.h"

#include <math.h>

static const char prompt_text[] =
    "What is the capital of France? Answer with one word please, and then tell a short "
    "story about it.";
/* Long, so that with the prompt it fills more than 512 cells: from there on the engine cuts attention in pieces. */
enum { OTHER_REPEATS = 4, MOST_TOKENS = 512 };

struct trial {
    struct wane__engine *engine;
    wane_tokens prompt, other;
    float *fresh;
};

static void chat_tokens(struct wane__engine *engine, const char *text, wane_tokens *out) {
    wane_message message = {"user", text, strlen(text)};
    wane_error error = {0};
    int rc = engine->ops->chat(engine, &message, 1, out, NULL, &error);
    CHECK(rc == WANE_OK, "%s", error.text);
}

/* Decode tokens from … to - 1 of a text as sequence `seq`; the last one's row is wanted. */
static void part(const struct trial *t, const wane_tokens *text, size_t from, size_t to, int seq) {
    struct wane__item items[MOST_TOKENS];
    wane_error error = {0};
    for (size_t i = from; i < to; i++)
        items[i - from] = (struct wane__item){text->id[i], (int32_t)i, seq, i + 1 == to, false, false};
    int rc = t->engine->ops->decode(t->engine, items, (int)(to - from), &error);
    CHECK(rc == WANE_OK, "%s", error.text);
}

static void clear(const struct trial *t) {
    for (int seq = 0; seq < t->engine->facts.sequences; seq++) t->engine->ops->truncate(t->engine, seq, 0);
}

static void show(const struct trial *t, const char *what, int row) {
    const float *logits = t->engine->ops->logits(t->engine, row);
    int vocab = t->engine->facts.vocab_size, best = 0, fresh_best = 0;
    float largest = 0;
    for (int i = 0; i < vocab; i++) {
        float gap = fabsf(logits[i] - t->fresh[i]);
        if (gap > largest) largest = gap;
        if (logits[i] > logits[best]) best = i;
        if (t->fresh[i] > t->fresh[fresh_best]) fresh_best = i;
    }
    printf("%-44s %10.6f   %s\n", what, (double)largest, best == fresh_best ? "same" : "DIFFERENT");
    clear(t);
}

static void mixed(const struct trial *t) {
    size_t n = t->prompt.count, m = t->other.count;
    part(t, &t->prompt, 0, n - 1, 0);
    part(t, &t->other, 0, m - 1, 1);
    struct wane__item items[2] = {{t->other.id[m - 1], (int32_t)m - 1, 1, true, false, false},
                                  {t->prompt.id[n - 1], (int32_t)n - 1, 0, true, false, false}};
    wane_error error = {0};
    CHECK(t->engine->ops->decode(t->engine, items, 2, &error) == WANE_OK, "%s", error.text);
    show(t, "last token in a mixed batch of two", 1);
}

static void run(const struct trial *t) {
    size_t n = t->prompt.count, shared = 8; /* the beginning that every chat of this model shares */
    part(t, &t->prompt, 0, n, 0);
    memcpy(t->fresh, t->engine->ops->logits(t->engine, 0),
           (size_t)t->engine->facts.vocab_size * sizeof *t->fresh);
    printf("%-44s %10s   %s\n", "placement", "difference", "best token");
    show(t, "fresh", 0);
    part(t, &t->prompt, 0, n / 2, 0);
    part(t, &t->prompt, n / 2, n, 0);
    show(t, "in two parts", 0);
    part(t, &t->prompt, 0, n - 1, 0);
    part(t, &t->prompt, n - 1, n, 0);
    show(t, "last token alone", 0);
    part(t, &t->other, 0, t->other.count, 0);
    part(t, &t->prompt, 0, n, 1);
    show(t, "behind another sequence", 0);
    for (int seq = 0; seq < 3; seq++) part(t, &t->other, 0, t->other.count, seq);
    part(t, &t->prompt, 0, n, 3);
    show(t, "behind three others", 0);
    for (int seq = 0; seq < 3; seq++) part(t, &t->other, 0, t->other.count, seq);
    part(t, &t->prompt, 0, n - 1, 3);
    part(t, &t->prompt, n - 1, n, 3);
    show(t, "behind three others, last token alone", 0);
    part(t, &t->other, 0, t->other.count, 0);
    t->engine->ops->truncate(t->engine, 0, 0);
    part(t, &t->prompt, 0, n - 4, 0);
    t->engine->ops->truncate(t->engine, 0, (int)shared);
    part(t, &t->prompt, shared, n, 0);
    show(t, "over a kept prefix", 0);
    part(t, &t->prompt, 0, n - 4, 0);
    t->engine->ops->copy(t->engine, 0, 1, (int)shared);
    part(t, &t->prompt, shared, n, 1);
    show(t, "over a copied prefix", 0);
    mixed(t);
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: measure_batching model.gguf [threads]\n");
        return 2;
    }
    wane_model_options options;
    default_options(&options, arguments[1]);
    if (count > 2) options.threads = atoi(arguments[2]);
    struct fixture f = {0};
    if (!load_fixture(&f, &options, NULL)) return 1;
    struct trial t = {.engine = f.engine};
    t.fresh = wane__alloc((size_t)f.engine->facts.vocab_size * sizeof *t.fresh);
    chat_tokens(f.engine, prompt_text, &t.prompt);
    struct wane__buf other = {0};
    for (int i = 0; i < OTHER_REPEATS; i++) wane__buf_text(&other, long_text);
    chat_tokens(f.engine, other.data, &t.other);
    wane__buf_free(&other);
    if (t.other.count > MOST_TOKENS) t.other.count = MOST_TOKENS;
    if (failures == 0) run(&t);
    wane_tokens_free(&t.prompt);
    wane_tokens_free(&t.other);
    wane__free(t.fresh);
    free_fixture(&f);
    return failures ? 1 : 0;
}
