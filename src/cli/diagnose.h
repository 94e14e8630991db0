/*
 * diagnose.h - two runs of a prompt, as they were seen, and the first of four layers where they part. The comparison is a function of
 * what was seen, so that tests make up what they like.
 */
#ifndef WANE_CLI_DIAGNOSE_H
#define WANE_CLI_DIAGNOSE_H

#include "wane.h"

#include <stdbool.h>

/* One token of a reply, with the candidates that it was chosen from. */
struct seen {
    wane_look look; /* `best` points to the list below */
    wane_candidate best[WANE_LOOK_BEST];
};

/* One run. Everything belongs to it. */
struct side {
    char *options;   /* as given */
    char name[1024]; /* of the model, as it was asked for */
    char model[200], digest[33];
    int vocab_size;
    wane_tokens prompt;
    struct seen *seen;
    int count;
    wane_look_end end; /* its strings are those below */
    char kv_type_k[24], kv_type_v[24], settings[400];
    char table[1024]; /* its file; "": none */
    bool argmax;
};
void side_free(struct side *side);

enum layer_id { LAYER_TOKENS, LAYER_LOGITS, LAYER_CHOICE, LAYER_KV, LAYERS, LAYER_NONE = -1 };
enum layer_state { LAYER_SAME, LAYER_PARTED, LAYER_UNKNOWN };

struct parting {
    enum layer_state state[LAYERS];
    int first; /* enum layer_id */
    /* Tokens: the place in the prompt; -1 stands for an end. */
    int token_at;
    int32_t token_a, token_b;
    /* Logits: positions of the reply that were compared, and the largest difference. */
    int positions;
    int logit_at; /* position */
    int32_t logit_token;
    float logit_a, logit_b;
    double difference;
    int strangers; /* candidates that only one side has among its best */
    /* Choice: the place in the reply; -1 stands for the end. */
    int choice_at;
    int32_t choice_a, choice_b;
    bool best_part; /* the sides' own best tokens differ there, so that the logits explain it */
    /* KV: what differs. */
    bool kv_length, kv_types, kv_settings, kv_bytes, kv_content;
};

/* Logits that are no further apart than `tolerance` are the same. */
void diagnose_compare(const struct side *a, const struct side *b, double tolerance, struct parting *parting);
/* "tokens", "logits", "choice", "kv"; "none". */
const char *layer_id_name(int layer);

#endif
