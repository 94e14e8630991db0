/*
 * features.c - what can be left out of a reply: names, and a model's switches.
 *
 * Owns no decision: requests, breakers and rollouts decide, and the stages of a token's way look (wane__reply_has).
 */
#include "core/error.h"
#include "model.h"

#include <string.h>

static const char *const names[WANE_FEATURES] = {"head", "table", "draft", "memo", "gate", "governor"};

const char *wane_feature_name(int feature) {
    return feature >= 0 && feature < WANE_FEATURES ? names[feature] : "?";
}

static int feature_of(const char *name, size_t size) {
    for (int i = 0; i < WANE_FEATURES; i++)
        if (strlen(names[i]) == size && memcmp(names[i], name, size) == 0) return i;
    return -1;
}

int wane_feature_from(const char *name) {
    return name != NULL ? feature_of(name, strlen(name)) : -1;
}

int wane_features_from(const char *list, unsigned *features, wane_error *error) {
    wane__clear(error);
    *features = 0;
    if (strcmp(list, "all") == 0) *features = WANE_FEATURES_ALL;
    if (*features != 0 || list[0] == '\0') return WANE_OK;
    for (const char *at = list;; at++) {
        size_t size = strcspn(at, ",");
        int feature = feature_of(at, size);
        if (feature < 0) {
            *features = 0;
            return wane__fail(error, WANE_EINVAL,
                              "\"%.*s\" is no feature; they are head, table, draft, memo, gate and governor.",
                              (int)(size < 60 ? size : 60), at);
        }
        *features |= 1u << feature;
        at += size;
        if (*at == '\0') return WANE_OK;
    }
}

unsigned wane_model_switch_off(wane_model *model, unsigned features) {
    return atomic_fetch_or(&model->rows.switched_off, features & WANE_FEATURES_ALL);
}

unsigned wane_model_switch_on(wane_model *model, unsigned features) {
    return atomic_fetch_and(&model->rows.switched_off, ~features);
}

unsigned wane_model_switched_off(const wane_model *model) {
    return atomic_load(&model->rows.switched_off);
}

unsigned wane__model_lacks(const wane_model *model) {
    static const int watched[WANE_WATCHED] = {[WANE_WATCHED_HEAD] = WANE_FEATURE_HEAD,
                                              [WANE_WATCHED_TABLE] = WANE_FEATURE_TABLE,
                                              [WANE_WATCHED_DRAFT] = WANE_FEATURE_DRAFT,
                                              [WANE_WATCHED_MEMO] = WANE_FEATURE_MEMO};
    unsigned off = wane_model_switched_off(model);
    for (int i = 0; i < WANE_WATCHED; i++)
        if (wane__divergence_is_off(&model->rows.watch[i])) off |= 1u << watched[i];
    return off;
}
