/* other.c - see other.h: a context is a number, and a decode adds to it. */
#include "other.h"

const char *llama_version(void) {
    return "99.0.0";
}

struct llama_context *llama_init_from_model(struct llama_model *model, struct other_params params) {
    static int count;
    (void)model;
    count = (int)params.first[29] + params.last;
    return (struct llama_context *)(void *)&count;
}

int llama_decode(struct llama_context *context, struct other_batch batch) {
    return *(int *)(void *)context += batch.count + (int)batch.more[3];
}
