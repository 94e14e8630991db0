/*
 * diagnose.c - where two runs part, from what was seen of them. Owns what a side holds. Refuses to compare what has no common
 * ground: behind another prompt, or behind the first other token, rows are of other contexts.
 */
#include "diagnose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void side_free(struct side *side) {
    free(side->options);
    free(side->seen);
    wane_tokens_free(&side->prompt);
    *side = (struct side){0};
}

const char *layer_id_name(int layer) {
    static const char *const names[LAYERS] = {"tokens", "logits", "choice", "kv"};
    return layer >= 0 && layer < LAYERS ? names[layer] : "none";
}

static void compare_tokens(const wane_tokens *a, const wane_tokens *b, struct parting *p) {
    size_t n = 0;
    while (n < a->count && n < b->count && a->id[n] == b->id[n]) n++;
    bool same = n == a->count && n == b->count;
    p->state[LAYER_TOKENS] = same ? LAYER_SAME : LAYER_PARTED;
    if (same) return;
    p->token_at = (int)n;
    p->token_a = n < a->count ? a->id[n] : -1;
    p->token_b = n < b->count ? b->id[n] : -1;
}

static void compare_choices(const struct side *a, const struct side *b, struct parting *p) {
    int n = 0;
    while (n < a->count && n < b->count && a->seen[n].look.token == b->seen[n].look.token) n++;
    p->choice_at = n;
    bool same = n == a->count && n == b->count;
    p->state[LAYER_CHOICE] = same ? LAYER_SAME : LAYER_PARTED;
    if (same) return;
    p->choice_a = n < a->count ? a->seen[n].look.token : -1;
    p->choice_b = n < b->count ? b->seen[n].look.token : -1;
    if (n < a->count && n < b->count && a->seen[n].look.best_count > 0 && b->seen[n].look.best_count > 0)
        p->best_part = a->seen[n].best[0].token != b->seen[n].best[0].token;
}

static const wane_candidate *find(const struct seen *seen, int32_t token) {
    for (int i = 0; i < seen->look.best_count; i++)
        if (seen->best[i].token == token) return &seen->best[i];
    return NULL;
}

/* NaN on one side alone is as far apart as can be. */
static double distance(float a, float b) {
    if (isnan(a) && isnan(b)) return 0;
    double d = fabs((double)a - (double)b);
    return isnan(d) ? (double)INFINITY : d;
}

static void compare_row(const struct seen *a, const struct seen *b, int at, struct parting *p) {
    int common = 0;
    for (int i = 0; i < a->look.best_count; i++) {
        const wane_candidate *left = &a->best[i], *right = find(b, left->token);
        if (right == NULL) continue;
        common++;
        double d = distance(left->logit, right->logit);
        if (!(d > p->difference)) continue;
        p->difference = d;
        p->logit_at = at;
        p->logit_token = left->token;
        p->logit_a = left->logit;
        p->logit_b = right->logit;
    }
    p->strangers += a->look.best_count + b->look.best_count - 2 * common;
}

/* Up to the first other token, that one's row included: all of one context. */
static void compare_logits(const struct side *a, const struct side *b, double tolerance, struct parting *p) {
    p->logit_at = -1;
    for (int i = 0; i <= p->choice_at && i < a->count && i < b->count; i++) {
        if (a->seen[i].look.best_count == 0 || b->seen[i].look.best_count == 0) continue;
        compare_row(&a->seen[i], &b->seen[i], i, p);
        p->positions++;
    }
    /* A candidate behind the last of 64 differs by less than what is seen, but where rows are the same there is none. */
    bool parted = p->difference > tolerance || (p->strangers > 0 && !(tolerance > 0));
    p->state[LAYER_LOGITS] = p->positions == 0 ? LAYER_UNKNOWN : parted ? LAYER_PARTED : LAYER_SAME;
}

static void compare_kv(const struct side *a, const struct side *b, struct parting *p) {
    const wane_look_end *x = &a->end, *y = &b->end;
    p->kv_length = x->held != y->held;
    p->kv_types = strcmp(x->kv_type_k, y->kv_type_k) != 0 || strcmp(x->kv_type_v, y->kv_type_v) != 0;
    p->kv_settings = strcmp(x->settings, y->settings) != 0;
    bool both = x->state_bytes > 0 && y->state_bytes > 0;
    p->kv_bytes = both && x->state_bytes != y->state_bytes;
    p->kv_content = both && x->state_bytes == y->state_bytes && x->state_hash != y->state_hash;
    bool parted = p->kv_length || p->kv_types || p->kv_settings || p->kv_bytes || p->kv_content;
    p->state[LAYER_KV] = parted ? LAYER_PARTED : LAYER_SAME;
}

void diagnose_compare(const struct side *a, const struct side *b, double tolerance, struct parting *parting) {
    struct parting *p = parting;
    *p = (struct parting){
        .first = LAYER_NONE, .token_a = -1, .token_b = -1, .choice_a = -1, .choice_b = -1, .logit_at = -1};
    compare_tokens(&a->prompt, &b->prompt, p);
    if (p->state[LAYER_TOKENS] == LAYER_SAME) {
        compare_choices(a, b, p);
        compare_logits(a, b, tolerance, p);
    } else {
        p->state[LAYER_LOGITS] = p->state[LAYER_CHOICE] = LAYER_UNKNOWN;
    }
    compare_kv(a, b, p);
    for (int i = LAYERS - 1; i >= 0; i--)
        if (p->state[i] == LAYER_PARTED) p->first = i;
}
