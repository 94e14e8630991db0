/*
 * measure_engine.c - what a token costs in the engine, and what our hold on the graph adds.
 *
 *     measure_engine model.gguf [threads [rounds]]
 *
 * All variants run in turn, a short stretch each, many rounds, so that a slow moment of the machine hits
 * all of them; the medians are printed. docs/engine.md has the results and what was decided from them.
 */
#include "engine_support.h"

enum { STEPS = 16, MOST_ROUNDS = 200, VARIANTS = 8 };

static bool run_dense(void *user, const float *hidden, int first, int rows, int d) {
    (void)user, (void)hidden, (void)first, (void)rows, (void)d;
    return true;
}

static bool skip_dense(void *user, const float *hidden, int first, int rows, int d) {
    (void)user, (void)hidden, (void)first, (void)rows, (void)d;
    return false;
}

struct variant {
    const char *name;
    wane__hidden_fn hook;
    int poll; /* of a standing thread pool; -1: the engine's own threads */
};

static const struct variant variants[VARIANTS] = {
    {"own threads, no hook", NULL, -1},
    {"own threads, hook, dense", run_dense, -1},
    {"own threads, head skipped", skip_dense, -1},
    {"pool, poll 0, no hook", NULL, 0},
    {"pool, poll 0, hook, dense", run_dense, 0},
    {"pool, poll 0, head skipped", skip_dense, 0},
    {"pool, poll 50, no hook", NULL, 50},
    {"pool, poll 100, no hook", NULL, 100},
};

static int compare(const void *a, const void *b) {
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

/* Milliseconds a token of STEPS single-token decodes at positions 32 and on. */
static double stretch(struct fixture *f, const struct variant *v) {
    wane_error error = {0};
    int32_t id[32];
    for (int i = 0; i < 32; i++) id[i] = 100 + 11 * i;
    f->engine->ops->set_hook(f->engine, NULL, NULL);
    wane__llama_attach_pool(f->llama, v->poll, NULL);
    f->engine->ops->truncate(f->engine, 0, 0);
    if (prefill(f, 0, id, 32, &error) != WANE_OK) abort();
    f->engine->ops->set_hook(f->engine, v->hook, NULL);
    double start = 0;
    for (int i = 0; i < STEPS + 2; i++) { /* two to settle */
        if (i == 2) start = wane__now();
        struct wane__item item = {.token = 500 + 3 * i, .pos = f->llama->length[0], .seq = 0, .wanted = true};
        if (f->engine->ops->decode(f->engine, &item, 1, &error) != WANE_OK) abort();
    }
    return (wane__now() - start) * 1e3 / (double)STEPS;
}

int main(int count, char **words) {
    if (count < 2) {
        fprintf(stderr, "usage: measure_engine model.gguf [threads [rounds]]\n");
        return 2;
    }
    wane_model_options o;
    struct fixture f = {0};
    static double times[VARIANTS][MOST_ROUNDS], reference_ms[MOST_ROUNDS];
    default_options(&o, words[1]);
    if (count > 2) o.threads = atoi(words[2]);
    int rounds = count > 3 ? atoi(words[3]) : 15;
    if (rounds < 1 || rounds > MOST_ROUNDS || !load_fixture(&f, &o, NULL)) return 1;
    wane_error error = {0};
    wane_tokens prompt = {0};
    int32_t out[STEPS];
    void *reference = NULL;
    engine_tokens(&f, long_text, 120, true, false, &prompt);
    if (f.engine->ops->reference_new(f.engine, 1, &reference, &error) != WANE_OK) return 1;
    for (int r = 0; r < rounds; r++) {
        double ms = 0;
        for (int v = 0; v < VARIANTS; v++) times[v][r] = stretch(&f, &variants[v]);
        f.engine->ops->reference_run(reference, &prompt, STEPS, out, &ms, &error);
        reference_ms[r] = ms / (double)STEPS;
    }
    printf("%s, %d threads, %d rounds of %d tokens: ms a token, median (and quickest)\n",
           f.engine->facts.name, f.engine->facts.threads, rounds, STEPS);
    for (int v = 0; v < VARIANTS; v++) {
        double middle = median(times[v], rounds); /* sorts */
        printf("  %-30s %8.2f  (%.2f)\n", variants[v].name, middle, times[v][0]);
    }
    double middle = median(reference_ms, rounds);
    printf("  %-30s %8.2f  (%.2f)\n", "reference, with its sampler", middle, reference_ms[0]);
    f.engine->ops->reference_free(reference);
    wane_tokens_free(&prompt);
    free_fixture(&f);
    return 0;
}
