/*
 * table_of_model.c - whose traces a table is to be built of, said by the model itself. Owns nothing.
 */
#include "model_table.h"

#include <string.h>

int wane_table_build_options_of(wane_table_build_options *options, wane_model *model, wane_error *error) {
    struct wane__trace_origin origin;
    int status = wane__model_origin(model, &origin, error);
    if (status != WANE_OK) return status;
    options->vocab_size = origin.vocab_size;
    memcpy(options->model, origin.model, sizeof options->model);
    memcpy(options->tokenizer, origin.tokenizer, sizeof options->tokenizer);
    return WANE_OK;
}
