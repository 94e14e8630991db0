/*
 * origin.h - which model something was recorded with: nothing that was made with one may be used with another.
 */
#ifndef WANE_ORIGIN_H
#define WANE_ORIGIN_H

#include "table/trace.h"

/* Digest of the model, of its tokens' bytes, and V. Reads the model's file the first time. */
int wane__model_origin(wane_model *model, struct wane__trace_origin *origin, wane_error *error);

#endif
