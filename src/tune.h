/* tune.h - between the model that gives signals and the statistics that judge them: rows of one token each. */
#ifndef WANE_TUNE_ROWS_H
#define WANE_TUNE_ROWS_H

#include "wane.h"

/* The columns of a row: these two, then kurtosis of each layer, then spread of each layer. */
enum { WANE__TUNE_ENTROPY = 0, WANE__TUNE_MARGIN, WANE__TUNE_KURTOSIS };

struct wane__tune_row {
    uint8_t label; /* WANE__FIT_… */
    uint8_t first; /* of a window */
    int32_t text, window;
};

struct wane__tune_rows { /* start from {0} */
    int layers;
    int layer[WANE_PROBE_LAYERS]; /* their numbers */
    struct wane__tune_row *row;
    float *value; /* count × columns */
    size_t count, room;
};

static inline int wane__tune_columns(const struct wane__tune_rows *rows) {
    return WANE__TUNE_KURTOSIS + 2 * rows->layers;
}

/* A new row, whose values are still to be set; NULL: no memory. `layers` is set before the first. */
float *wane__tune_add(struct wane__tune_rows *rows, const struct wane__tune_row *row);
void wane__tune_rows_free(struct wane__tune_rows *rows);

/*
 * Fill the report but for its model, texts, windows and seconds (tune_fit.c). WANE_EINVAL: too few labelled tokens, or all of them
 * alike; the sentence says what there is and what there should be.
 */
int wane__tune_fit(const struct wane__tune_rows *rows, const wane_tune_options *options,
                   wane_tune_report *report, wane_error *error);

#endif
