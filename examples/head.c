/*
 * head.c - the certified head without a model: the best tokens of hidden rows, from a sketch of a matrix of floats.
 *
 *     cc examples/head.c $(pkg-config --cflags --libs wane) -lm -o head
 *     ./head
 *
 * The weights and hidden rows are made up here; an engine has its own. Hidden rows of real models lie in few directions:
 * so do these, and a sample of them tells the sketch which.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <wane.h>

enum { V = 50000, D = 512, SAMPLE = 2000, QUESTIONS = 20 };

static double uniform(void) {
    return (rand() + 0.5) / (RAND_MAX + 1.0);
}

static float gaussian(void) {
    return (float)(sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()));
}

static void make_hidden(float *hidden) {
    for (int j = 0; j < D; j++) hidden[j] = 4 * gaussian() / sqrtf(1 + (float)j / 8);
}

static int fail(const wane_error *error) {
    fprintf(stderr, "head: %s (%s)\n", error->text, wane_strerror(error->code));
    return 1;
}

int main(void) {
    float *weights = malloc(sizeof(float) * V * D), *sample = malloc(sizeof(float) * SAMPLE * D), hidden[D];
    if (weights == NULL || sample == NULL) return 1;
    for (int i = 0; i < V * D; i++) weights[i] = gaussian() / 8;
    for (int i = 0; i < SAMPLE; i++) make_hidden(sample + i * D);

    wane_error error = {0};
    wane_head *head = NULL;
    wane_head_matrix matrix;
    wane_head_options options;
    wane_head_matrix_init(&matrix);
    matrix.vocab_size = V;
    matrix.d = D;
    matrix.weights = weights;
    wane_head_options_init(&options);
    options.path = "head.sketch";
    options.rebuild = true; /* a file of another run has other weights */
    options.sample = sample;
    options.sample_rows = SAMPLE;
    if (wane_head_open(&options, &matrix, &head, &error) != WANE_OK) return fail(&error);

    for (int q = 0; q < QUESTIONS; q++) {
        wane_candidate best[3];
        int found;
        make_hidden(hidden);
        if (wane_head_scan(head, hidden, 1, &error) != WANE_OK ||
            wane_head_best(head, 0, 3, best, &found, &error) != WANE_OK)
            return fail(&error);
        printf("%6d %7.3f   %6d %7.3f   %6d %7.3f\n", best[0].token, (double)best[0].logit, best[1].token,
               (double)best[1].logit, best[2].token, (double)best[2].logit);
    }
    wane_head_work work;
    wane_head_get_work(head, &work);
    printf("computed exactly: %.0f of %d rows a question\n", (double)work.rescored / (double)work.questions,
           V);
    wane_head_free(head);
    remove(options.path);
    free(weights);
    free(sample);
    return 0;
}
