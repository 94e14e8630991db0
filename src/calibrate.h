/*
 * calibrate.h - what the body makes of a text: mean and covariance of the hidden rows that enter the head.
 *
 * The text (calibration.c) ships with wane: conversations of many domains, so that the rows are like those of
 * real replies. It is run through the body once a model, without the head.
 */
#ifndef WANE_CALIBRATE_H
#define WANE_CALIBRATE_H

#include "engine/engine.h"

struct wane__calibration_part {
    const char *user, *assistant;
};
extern const struct wane__calibration_part wane__calibration[];
extern const int wane__calibration_count;

struct wane__moments {
    float *mean;       /* d */
    float *covariance; /* d × d */
    int64_t rows;
};

/* A conversation to take rows from; `most` tokens of it, 0: all that the context holds. */
struct wane__calibration_text {
    const wane_message *messages;
    size_t count;
    int most;
};

/* Of the text that ships with wane. As wane__calibrate_on. */
int wane__calibrate(struct wane__engine *engine, wane_progress_fn progress, void *user, double most,
                    struct wane__moments *moments, wane_error *error);
/*
 * Uses sequence 0, which is empty before and after, and the engine's hook. `progress` (may be NULL) hears shares of 0 to
 * `most` of "head". On an error nothing is left to free.
 */
int wane__calibrate_on(struct wane__engine *engine, const struct wane__calibration_text *texts, size_t count,
                       wane_progress_fn progress, void *user, double most, struct wane__moments *moments,
                       wane_error *error);
/* Of count × d rows. */
int wane__moments_of(const float *rows, size_t count, size_t d, struct wane__moments *moments,
                     wane_error *error);
void wane__moments_free(struct wane__moments *moments);

#endif
