/*
 * model_probe.c - rings of keys for the layers that a model's probe looks at, in step with the engine's sequences; signals of rows.
 *
 * Owns all memory of a probe, made when it is opened: nothing is allocated while the engine decodes or a stage asks. Refuses to
 * guess: a row has signals only if its query came and every key that it looks at is known.
 *
 *     begin    which items have rows
 *     rows     each item's key into its sequence's ring; the query of a wanted one kept, normalised
 *     moved    the ring is cut, copied or forgotten as the sequence was
 *     signals  the query against positions max(4, pos - window + 1) … pos
 */
#include "model_probe.h"

#include "core/clock.h"
#include "core/count.h"
#include "core/error.h"
#include "core/memory.h"
#include "governor/keys.h"
#include "model.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* A wanted item of the last decode. */
struct probe_row {
    int seq, pos;
    uint32_t made; /* its ring's, then                        */
    int block;     /* whose output is kept; -1: none's so far */
};

/* One layer. */
struct probed {
    int layer;
    struct wane__layer_facts facts;
    struct wane__keys *keys; /* of each sequence                                  */
    int16_t *queries;        /* of each row: heads × 2 · pairs                    */
    bool *has_query;         /* of each row                                       */
    float *consistency;      /* of each row; NULL: nobody asked                   */
    int upper;               /* the block whose output is compared with the one before; -1: none */
};

struct wane__model_probe {
    struct wane__engine *engine;
    struct wane__probe set;
    struct probed *layer;
    int layer_count, sequences;
    const struct wane__item *items; /* of the decode under way             */
    int *row_of;                    /* of each item; -1: it is not wanted  */
    struct probe_row *row;
    int row_count;
    float *block; /* an output for each row, to compare the next one with */
    size_t bytes;
    atomic_ullong key_count, rows, missing, few, nanoseconds;
};

static void spent(struct wane__model_probe *probe, double since) {
    wane__count_more(&probe->nanoseconds, (unsigned long long)(1e9 * (wane__now() - since)));
}

/* ------------------------------------------------------------ from the engine */

static void on_begin(void *user, const struct wane__item *items, int item_count) {
    struct wane__model_probe *probe = user;
    probe->items = items;
    probe->row_count = 0;
    for (int i = 0; i < item_count; i++) {
        probe->row_of[i] = items[i].wanted ? probe->row_count : -1;
        if (!items[i].wanted) continue;
        bool held = items[i].seq < probe->sequences;
        probe->row[probe->row_count++] = (struct probe_row){
            .seq = items[i].seq,
            .pos = items[i].pos,
            .made = held ? probe->layer[0].keys[items[i].seq].made : 0,
            .block = -1,
        };
    }
    for (int l = 0; l < probe->layer_count; l++) {
        memset(probe->layer[l].has_query, 0, (size_t)probe->row_count * sizeof(bool));
        for (int r = 0; probe->layer[l].consistency != NULL && r < probe->row_count; r++)
            probe->layer[l].consistency[r] = NAN;
    }
}

static size_t query_numbers(const struct probed *p) {
    return (size_t)p->facts.heads * 2 * (size_t)p->keys->pairs;
}

static void take_attention(struct wane__model_probe *probe, const struct wane__probe_rows *rows) {
    struct probed *p = probe->layer;
    while (p->layer != rows->layer) p++; /* the engine shows what was asked for */
    for (int i = 0; i < rows->count; i++) {
        const struct wane__item *item = &probe->items[rows->first + i];
        int row = probe->row_of[rows->first + i];
        if (item->seq < probe->sequences)
            wane__keys_put(&p->keys[item->seq], item->pos, rows->k + (size_t)i * rows->k_stride);
        if (row >= 0)
            p->has_query[row] = wane__keys_units(rows->q + (size_t)i * rows->q_stride, p->facts.heads,
                                                 p->facts.size, p->queries + (size_t)row * query_numbers(p));
    }
    if (p == probe->layer) wane__count_more(&probe->key_count, (unsigned long long)rows->count);
}

static float cosine(const float *a, const float *b, int d) {
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < d; i++) {
        double x = (double)a[i], y = (double)b[i];
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    return aa > 0 && bb > 0 ? (float)(ab / sqrt(aa * bb)) : NAN;
}

static void take_block(struct wane__model_probe *probe, const struct wane__probe_rows *rows) {
    int d = probe->engine->facts.embedding_size;
    for (int i = 0; i < rows->count; i++) {
        int row = rows->wanted ? rows->first + i : probe->row_of[rows->first + i];
        if (row < 0 || row >= probe->row_count) continue;
        const float *out = rows->out + (size_t)i * rows->out_stride;
        float *before = probe->block + (size_t)row * (size_t)d;
        float c = NAN;
        bool compared = probe->row[row].block == rows->layer - 1;
        if (compared) c = cosine(before, out, d);
        for (int l = 0; l < probe->layer_count && compared; l++)
            if (probe->layer[l].upper == rows->layer) probe->layer[l].consistency[row] = c;
        memcpy(before, out, (size_t)d * sizeof *out);
        probe->row[row].block = rows->layer;
    }
}

static void on_rows(void *user, const struct wane__probe_rows *rows) {
    struct wane__model_probe *probe = user;
    double began = wane__now();
    if (rows->q != NULL)
        take_attention(probe, rows);
    else
        take_block(probe, rows);
    spent(probe, began);
}

static void on_moved(void *user, int seq, int from, int keep) {
    struct wane__model_probe *probe = user;
    if (seq >= probe->sequences) return;
    for (int l = 0; l < probe->layer_count; l++) {
        struct wane__keys *keys = probe->layer[l].keys;
        if (from == seq)
            wane__keys_cut(&keys[seq], keep);
        else
            wane__keys_become(&keys[seq], from >= 0 && from < probe->sequences ? &keys[from] : NULL, keep);
    }
}

static const struct wane__probe_calls calls = {on_begin, on_rows, on_moved};

/* ---------------------------------------------------------------- open, close */

/* A ring for each layer and sequence costs so much; as many positions as fit. */
static int positions_of(struct wane__model_probe *probe, int asked) {
    int positions = asked > 0 ? asked : probe->engine->facts.context, capacity = 0;
    size_t one = 0;
    for (int l = 0; l < probe->layer_count; l++) {
        const struct wane__layer_facts *f = &probe->layer[l].facts;
        one += wane__keys_bytes(f->key_heads, f->size, WANE__KEYS_CHUNK, &capacity);
    }
    size_t chunks = WANE__PROBE_BYTES / (one * (size_t)probe->sequences);
    if (chunks < 1) chunks = 1;
    if ((size_t)positions <= chunks * WANE__KEYS_CHUNK) return positions;
    positions = (int)chunks * WANE__KEYS_CHUNK;
    wane__log(probe->engine->log, WANE_LOG_WARN,
              "probe: keys of %d tokens a sequence are kept; beyond them there are no signals", positions);
    return positions;
}

static bool open_layer(struct wane__model_probe *probe, struct probed *p, int positions, bool consistency) {
    size_t batch = (size_t)probe->engine->batch, sequences = (size_t)probe->sequences;
    p->keys = wane__alloc_zero(sequences, sizeof *p->keys);
    if (p->keys == NULL) return false;
    for (size_t s = 0; s < sequences; s++) {
        int capacity;
        if (!wane__keys_open(&p->keys[s], p->facts.key_heads, p->facts.size, positions)) return false;
        probe->bytes += wane__keys_bytes(p->facts.key_heads, p->facts.size, positions, &capacity);
    }
    p->queries = wane__alloc_zero(batch * query_numbers(p), sizeof *p->queries);
    p->has_query = wane__alloc_zero(batch, sizeof *p->has_query);
    if (consistency) p->consistency = wane__alloc_zero(batch, sizeof *p->consistency);
    probe->bytes += batch * query_numbers(p) * sizeof *p->queries;
    return p->queries != NULL && p->has_query != NULL && (!consistency || p->consistency != NULL);
}

/* Blocks for the layers' cosines: each one's output and the one's before; of the first, and the one's behind. */
static void choose_blocks(struct wane__model_probe *probe) {
    int last = probe->engine->facts.layers - 1, at = 0;
    for (int l = 0; l < probe->layer_count; l++) {
        struct probed *p = &probe->layer[l];
        p->upper = p->layer > 0 ? p->layer : last > 0 ? 1 : -1;
        for (int b = p->upper - 1; p->upper > 0 && b <= p->upper; b++) {
            if (at > 0 && probe->set.block[at - 1] >= b) continue;
            if (at < WANE__PROBE_BLOCKS) probe->set.block[at++] = b;
        }
    }
    probe->set.block_count = at;
}

static int check_layers(struct wane__engine *engine, const struct wane__probe_options *o, wane_error *error) {
    if (engine->ops->set_probe == NULL || engine->ops->layer_facts == NULL)
        return wane__fail(error, WANE_EUNSUPPORTED, "The engine %s does not show its attention.",
                          engine->ops->name);
    if (o->layer_count < 1 || o->layer_count > WANE_PROBE_LAYERS)
        return wane__fail(error, WANE_EINVAL, "A probe looks at 1 to %d layers, not %d.", WANE_PROBE_LAYERS,
                          o->layer_count);
    for (int l = 0; l < o->layer_count; l++) {
        struct wane__layer_facts facts;
        if (o->layers[l] < 0 || o->layers[l] >= engine->facts.layers)
            return wane__fail(error, WANE_EINVAL, "There is no layer %d; the model has 0 to %d.",
                              o->layers[l], engine->facts.layers - 1);
        if (l > 0 && o->layers[l] <= o->layers[l - 1])
            return wane__fail(error, WANE_EINVAL, "Layers come in ascending order, each once: %d after %d.",
                              o->layers[l], o->layers[l - 1]);
        engine->ops->layer_facts(engine, o->layers[l], &facts);
        if (facts.reason != NULL)
            return wane__fail(error, WANE_EUNSUPPORTED, "Layer %d cannot be probed: %s.", o->layers[l],
                              facts.reason);
    }
    return WANE_OK;
}

static bool open_memory(struct wane__model_probe *probe, const struct wane__probe_options *o) {
    size_t batch = (size_t)probe->engine->batch, d = (size_t)probe->engine->facts.embedding_size;
    probe->layer = wane__alloc_zero((size_t)o->layer_count, sizeof *probe->layer);
    probe->row_of = wane__alloc_zero(batch, sizeof *probe->row_of);
    probe->row = wane__alloc_zero(batch, sizeof *probe->row);
    if (o->consistency) probe->block = wane__alloc_zero(batch * d, sizeof *probe->block);
    if (probe->layer == NULL || probe->row_of == NULL || probe->row == NULL ||
        (o->consistency && probe->block == NULL))
        return false;
    probe->layer_count = o->layer_count;
    for (int l = 0; l < o->layer_count; l++) {
        probe->layer[l] = (struct probed){.layer = o->layers[l], .upper = -1};
        probe->engine->ops->layer_facts(probe->engine, o->layers[l], &probe->layer[l].facts);
    }
    int positions = positions_of(probe, o->positions);
    for (int l = 0; l < o->layer_count; l++)
        if (!open_layer(probe, &probe->layer[l], positions, o->consistency)) return false;
    probe->bytes += batch * (sizeof *probe->row + sizeof *probe->row_of) +
                    (o->consistency ? batch * d * sizeof *probe->block : 0);
    return true;
}

static void free_memory(struct wane__model_probe *probe) {
    for (int l = 0; l < probe->layer_count; l++) {
        struct probed *p = &probe->layer[l];
        for (int s = 0; p->keys != NULL && s < probe->sequences; s++) wane__keys_close(&p->keys[s]);
        wane__free(p->keys);
        wane__free(p->queries);
        wane__free(p->has_query);
        wane__free(p->consistency);
    }
    wane__free(probe->layer);
    wane__free(probe->row_of);
    wane__free(probe->row);
    wane__free(probe->block);
    wane__free(probe);
}

int wane__probe_set(struct wane__model_probe *probe, wane_error *error) {
    for (int l = 0; l < probe->layer_count; l++)
        for (int s = 0; s < probe->sequences; s++) wane__keys_become(&probe->layer[l].keys[s], NULL, 0);
    probe->row_count = 0;
    return probe->engine->ops->set_probe(probe->engine, &probe->set, error);
}

int wane__probe_open(struct wane__engine *engine, const struct wane__probe_options *options,
                     struct wane__model_probe **probe, wane_error *error) {
    *probe = NULL;
    int result = check_layers(engine, options, error);
    if (result != WANE_OK) return result;
    struct wane__model_probe *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a probe.");
    made->engine = engine;
    made->sequences = engine->facts.sequences;
    if (options->sequences > 0 && options->sequences < made->sequences) made->sequences = options->sequences;
    if (open_memory(made, options)) {
        made->set.calls = &calls;
        made->set.user = made;
        made->set.layer_count = options->layer_count;
        memcpy(made->set.layer, options->layers, (size_t)options->layer_count * sizeof *options->layers);
        if (options->consistency) choose_blocks(made);
        result = wane__probe_set(made, error);
    } else {
        result = wane__fail(error, WANE_ENOMEM, "No memory for a probe of %d layers.", options->layer_count);
    }
    if (result == WANE_OK)
        *probe = made;
    else
        free_memory(made);
    return result;
}

void wane__probe_close(struct wane__model_probe *probe) {
    if (probe == NULL) return;
    probe->engine->ops->set_probe(probe->engine, NULL, NULL);
    free_memory(probe);
}

int wane__model_probe_set(wane_model *model, const struct wane__probe_options *options, wane_error *error) {
    struct wane__model_probe *made = NULL, *before = model->rows.probe;
    if (options->layer_count > 0) {
        int result = wane__probe_open(model->engine, options, &made, error);
        if (result != WANE_OK) return result;
    }
    pthread_mutex_lock(&model->rows.lock);
    model->rows.probe = made;
    pthread_mutex_unlock(&model->rows.lock);
    wane__probe_close(before);
    return made != NULL ? wane__probe_set(made, error) : WANE_OK;
}

/* -------------------------------------------------------------------- signals */

/* The window of a layer; negative while nobody knows, which matters from its position on only. */
static int window_of(struct wane__model_probe *probe, struct probed *p) {
    if (p->facts.window < 0) probe->engine->ops->layer_facts(probe->engine, p->layer, &p->facts);
    return p->facts.reason == NULL ? p->facts.window : -1;
}

/* The positions that a row looks at, sinks left out; false: not known. */
static bool range_of(struct wane__model_probe *probe, struct probed *p, int pos, int *low) {
    int window = window_of(probe, p);
    *low = WANE__KEYS_SINKS;
    if (window < 0 && pos >= -window) return false;
    if (window > 0 && pos - window + 1 > *low) *low = pos - window + 1;
    return true;
}

static void look(struct wane__model_probe *probe, struct probed *p, int row, wane_signals *out) {
    const struct probe_row *r = &probe->row[row];
    const struct wane__keys *keys = r->seq < probe->sequences ? &p->keys[r->seq] : NULL;
    int low = 0;
    if (keys == NULL || keys->made != r->made || !p->has_query[row] || !range_of(probe, p, r->pos, &low)) {
        wane__count(&probe->missing);
        return;
    }
    if (r->pos - low + 1 < WANE__KEYS_LEAST) {
        wane__count(&probe->few);
        return;
    }
    if (!wane__keys_hold(keys, low, r->pos)) {
        wane__count(&probe->missing);
        return;
    }
    double kurtosis, spread;
    wane__keys_look(keys, p->queries + (size_t)row * query_numbers(p), p->facts.heads, low, r->pos, &kurtosis,
                    &spread);
    out->kurtosis = (float)kurtosis;
    out->spread = (float)spread;
    wane__count(&probe->rows);
}

void wane__probe_signals(struct wane__model_probe *probe, int at, int row, wane_signals *out) {
    out->kurtosis = out->spread = out->consistency = NAN;
    if (probe == NULL) return;
    if (at < 0 || at >= probe->layer_count || row < 0 || row >= probe->row_count) {
        wane__count(&probe->missing);
        return;
    }
    double began = wane__now();
    struct probed *p = &probe->layer[at];
    if (p->consistency != NULL) out->consistency = p->consistency[row];
    look(probe, p, row, out);
    spent(probe, began);
}

void wane__probe_get_state(const struct wane__model_probe *probe, wane_probe_state *state) {
    *state = (wane_probe_state){.layer = -1};
    if (probe == NULL) return;
    state->on = true;
    state->layer = probe->layer[0].layer;
    state->keys = atomic_load(&probe->key_count);
    state->rows = atomic_load(&probe->rows);
    state->missing = atomic_load(&probe->missing);
    state->few = atomic_load(&probe->few);
    state->bytes = probe->bytes;
    state->seconds = 1e-9 * (double)atomic_load(&probe->nanoseconds);
}

void wane_model_get_probe_state(wane_model *model, wane_probe_state *state) {
    pthread_mutex_lock(&model->rows.lock);
    wane__probe_get_state(model->rows.probe, state);
    pthread_mutex_unlock(&model->rows.lock);
}
