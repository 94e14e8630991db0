/*
 * script_attention.c - what the scripted engine's queries, keys and block outputs are: numbers made from layer, token and position.
 *
 * Keys and queries of one layer lean towards a common direction, as a model's do, some tokens more than others, so that their
 * cosines are spread neither evenly nor all alike. Part of the tests' library only.
 */
#include "engine/script_attention.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/rng.h"

#include <math.h>

static float unit_of(uint64_t hash) {
    return (float)(int32_t)(hash >> 40) * 0x1p-23f - 1.0f;
}

static void fill(uint64_t what, int layer, int32_t token, int pos, int heads, int size, float lean,
                 float *out) {
    uint64_t base = wane__mix64(wane__mix64((uint64_t)(uint32_t)token << 32 | (uint64_t)(uint32_t)pos) ^
                                (what << 8 | (uint64_t)layer));
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < size; i++) {
            float common = unit_of(wane__mix64((uint64_t)layer * 1000 + (uint64_t)i));
            *out++ = lean * common + unit_of(wane__mix64(base + (uint64_t)(h * size + i)));
        }
}

void wane__script_query(const struct wane__script_attention *a, int layer, int32_t token, int pos,
                        float *out) {
    fill(1, layer, token, pos, a->heads, a->size, 1.5f, out);
}

void wane__script_key(const struct wane__script_attention *a, int layer, int32_t token, int pos, float *out) {
    fill(2, layer, token, pos, a->key_heads, a->size, token % 7 == 0 ? 3.0f : 0.5f, out);
    if (a->nan_token != 0 && token == a->nan_token) out[a->size] = NAN;
}

void wane__script_output(int layer, int32_t token, int pos, int d, float *out) {
    fill(3, layer, token, pos, 1, d, 0, out);
    for (int i = 0; i < d; i++) out[i] += 2 * unit_of(wane__mix64((uint64_t)(uint32_t)token + (uint64_t)i));
}

/* ------------------------------------------------------------------- probe */

static size_t row_size(const struct wane__script_shown *shown) {
    int row = shown->how.heads * shown->how.size;
    int longest = row > shown->d ? row : shown->d;
    return (size_t)longest + (size_t)shown->how.strides;
}

bool wane__script_shown_open(struct wane__script_shown *shown, const struct wane__script *script, int batch,
                             int d) {
    *shown = (struct wane__script_shown){.how = script->attention, .d = d, .recurrent = script->recurrent};
    struct wane__script_attention *a = &shown->how;
    if (a->heads == 0) a->heads = 4;
    if (a->key_heads == 0) a->key_heads = 2;
    if (a->size == 0) a->size = 8;
    for (int i = 0; i < 32; i++) shown->window[i] = -a->window;
    for (int i = 0; i < 2; i++)
        shown->rows[i] = wane__alloc_zero((size_t)batch * row_size(shown), sizeof(float));
    return shown->rows[0] != NULL && shown->rows[1] != NULL;
}

void wane__script_shown_close(struct wane__script_shown *shown) {
    wane__free(shown->rows[0]);
    wane__free(shown->rows[1]);
}

void wane__script_shown_facts(const struct wane__script_shown *shown, int layer,
                              struct wane__layer_facts *facts) {
    const struct wane__script_attention *a = &shown->how;
    *facts = (struct wane__layer_facts){0};
    if (shown->recurrent)
        facts->reason = "script: it is recurrent";
    else if (layer >= a->layers || (a->hidden >> layer & 1) != 0)
        facts->reason = "script: it is hidden";
    if (facts->reason != NULL) return;
    *facts = (struct wane__layer_facts){.heads = a->heads,
                                        .key_heads = a->key_heads,
                                        .size = a->size,
                                        .window = shown->window[layer & 31]};
}

int wane__script_shown_set(struct wane__script_shown *shown, const struct wane__probe *probe,
                           wane_error *error) {
    shown->probe = (struct wane__probe){0};
    for (int i = 0; probe != NULL && i < probe->layer_count; i++) {
        struct wane__layer_facts facts;
        wane__script_shown_facts(shown, probe->layer[i], &facts);
        if (facts.reason != NULL)
            return wane__fail(error, WANE_EUNSUPPORTED, "script: layer %d cannot be probed: %s",
                              probe->layer[i], facts.reason);
    }
    if (probe != NULL) shown->probe = *probe;
    return WANE_OK;
}

/* A window is not known before a token makes a difference, as with a real engine. */
static void learn_windows(struct wane__script_shown *shown, const struct wane__item *items, int count) {
    for (int i = 0; i < shown->probe.layer_count; i++)
        for (int j = 0; j < count; j++) {
            int layer = shown->probe.layer[i], *window = &shown->window[layer & 31];
            if (*window < 0 && items[j].pos >= -*window)
                *window = (shown->how.windowed >> layer & 1) != 0 ? -*window : 0;
        }
}

static void show_attention(struct wane__script_shown *shown, int layer, const struct wane__item *items,
                           int first, int count) {
    size_t size = row_size(shown);
    struct wane__probe_rows rows = {.layer = layer, .first = first, .count = count};
    for (int i = 0; i < count; i++) {
        const struct wane__item *item = &items[first + i];
        wane__script_query(&shown->how, layer, item->token, item->pos, shown->rows[0] + (size_t)i * size);
        wane__script_key(&shown->how, layer, item->token, item->pos, shown->rows[1] + (size_t)i * size);
    }
    rows.q = shown->rows[0];
    rows.k = shown->rows[1];
    rows.q_stride = rows.k_stride = size;
    shown->probe.calls->rows(shown->probe.user, &rows);
}

/* As with a real engine, the last block runs for wanted items alone. */
static void show_block(struct wane__script_shown *shown, int layer, const struct wane__item *items, int first,
                       int count, int wanted_before) {
    size_t size = row_size(shown);
    bool last = layer + 1 == shown->how.layers;
    struct wane__probe_rows rows = {.layer = layer,
                                    .first = last ? wanted_before : first,
                                    .out = shown->rows[0],
                                    .out_stride = size,
                                    .wanted = last};
    for (int i = first; i < first + count; i++)
        if (!last || items[i].wanted)
            wane__script_output(layer, items[i].token, items[i].pos, shown->d,
                                shown->rows[0] + (size_t)rows.count++ * size);
    if (rows.count > 0) shown->probe.calls->rows(shown->probe.user, &rows);
}

static void show_part(struct wane__script_shown *shown, const struct wane__item *items, int first, int count,
                      int wanted_before) {
    const struct wane__probe *p = &shown->probe;
    for (int layer = 0, l = 0, b = 0; layer < shown->how.layers; layer++) {
        if (l < p->layer_count && p->layer[l] == layer) {
            l++;
            show_attention(shown, layer, items, first, count);
        }
        if (b < p->block_count && p->block[b] == layer) {
            b++;
            show_block(shown, layer, items, first, count, wanted_before);
        }
    }
}

void wane__script_shown_batch(struct wane__script_shown *shown, const struct wane__item *items, int count) {
    if (shown->probe.layer_count == 0) return;
    int part = shown->how.part > 0 ? shown->how.part : count, wanted = 0;
    learn_windows(shown, items, count);
    shown->probe.calls->begin(shown->probe.user, items, count);
    for (int first = 0; first < count; first += part) {
        int some = part < count - first ? part : count - first;
        show_part(shown, items, first, some, wanted);
        for (int i = first; i < first + some; i++) wanted += items[i].wanted;
    }
}
