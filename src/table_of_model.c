/*
 * table_of_model.c - what a table has to do with the model that is loaded: whose traces it is to be built of, whose file it must be. Owns nothing.
 */
#include "model_table.h"
#include "table_alone.h"

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

int wane_table_open(const char *path, wane_model *model, const char *key, wane_table **table,
                    wane_error *error) {
    struct wane__trace_origin origin;
    *table = NULL;
    int status = model != NULL ? wane__model_origin(model, &origin, error) : WANE_OK;
    if (status != WANE_OK) return status;
    return wane__table_open_at(path, model != NULL ? &origin : NULL, key, table, error);
}
