/*
 * test_probe.c - a real model's attention: signals of a text against a slow reference, and replies that a probe leaves as they are.
 *
 *     WANE_TEST_MODEL=model.gguf [WANE_TEST_THREADS=1] test_probe
 *
 * The reference is a second context of the same model, stopped at every node with these names, its rows kept as floats; cosines, moments and the
 * window are worked out from them in double. 77, skipped, without the variable.
 */
#include "engine_replies.h"
#include "engine_support.h"
#include "model.h"
#include "model_probe.h"
#include "unit/probe_rig.h"

#include <math.h>

enum { TEXT = 620, AT_ONCE = 32, LAYERS_MOST = WANE_PROBE_LAYERS, SINKS = 4, LEAST = 16 };

/* --------------------------------------------------------------- reference */

struct reference {
    int layers;
    float *q[LAYERS_MOST], *k[LAYERS_MOST], *out[LAYERS_MOST]; /* of all tokens so far */
    int heads[LAYERS_MOST], key_heads[LAYERS_MOST], size[LAYERS_MOST];
    int roped[LAYERS_MOST]; /* nodes of RoPE by these names, in all decodes */
    int first, d;           /* token that the decode under way begins with */
    bool last_whole;
};

static void keep(float **to, const struct ggml_tensor *t, size_t row, int first) {
    size_t size = ggml_nbytes(t);
    if (*to == NULL) *to = calloc(TEXT * row, sizeof **to);
    if (*to == NULL || (size_t)first * row * sizeof **to + size > TEXT * row * sizeof **to) abort();
    ggml_backend_tensor_get(t, *to + (size_t)first * row, 0, size);
}

static bool watch(struct ggml_tensor *t, bool ask, void *user) {
    struct reference *r = user;
    int layer;
    char what, end;
    bool attention = sscanf(t->name, "%ccur-%d%c", &what, &layer, &end) == 2 && (what == 'Q' || what == 'K');
    bool block = !attention && sscanf(t->name, "l_out-%d%c", &layer, &end) == 1;
    if ((!attention && !block) || layer >= r->layers) return !ask;
    if (attention && t->op != GGML_OP_ROPE) return !ask;
    if (ask) return true;
    if (block) {
        keep(&r->out[layer], t, (size_t)r->d, r->first);
        return true;
    }
    r->roped[layer]++;
    r->size[layer] = (int)t->ne[0];
    *(what == 'Q' ? &r->heads[layer] : &r->key_heads[layer]) = (int)t->ne[1];
    keep(what == 'Q' ? &r->q[layer] : &r->k[layer], t, (size_t)(t->ne[0] * t->ne[1]), r->first);
    return true;
}

/* The same tokens in the same batches, so that the floats are the same. */
static void run_reference(struct wane__llama *e, struct reference *r, const int32_t *tokens) {
    struct llama_context_params p = e->params;
    p.cb_eval = watch;
    p.cb_eval_user_data = r;
    r->layers = e->base.facts.layers;
    r->d = e->base.facts.embedding_size;
    struct llama_context *context = llama_init_from_model(e->model, p);
    CHECK(context != NULL, "no second context");
    struct llama_batch b = llama_batch_init(AT_ONCE, 0, 1);
    for (int at = 0; at < TEXT; at += AT_ONCE) {
        b.n_tokens = TEXT - at < AT_ONCE ? TEXT - at : AT_ONCE;
        r->first = at;
        for (int i = 0; i < b.n_tokens; i++) {
            b.token[i] = tokens[at + i];
            b.pos[i] = at + i;
            b.n_seq_id[i] = 1;
            b.seq_id[i][0] = 0;
            b.logits[i] = true;
        }
        CHECK(llama_decode(context, b) == 0, "at %d", at);
    }
    llama_batch_free(b);
    llama_free(context);
}

/* ------------------------------------------------------------------- a text */

struct heard {
    struct reference *r;
    struct wane__llama *e;
    int count, compared;
    double worst_kurtosis, worst_spread, worst_consistency;
    uint64_t right;
};

static int window_of(const struct wane__llama *e, int layer) {
    /* What gemma3's graph has: five layers with a window, one without. */
    bool windowed = strcmp(e->base.facts.architecture, "gemma3") == 0 && layer % 6 < 5;
    return windowed ? llama_model_n_swa(e->model) : 0;
}

static double cosine(const float *a, const float *b, int d) {
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < d; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

static void compare(struct heard *h, int layer, int pos, const wane_signals *s) {
    const struct reference *r = h->r;
    int window = window_of(h->e, layer), low = SINKS, size = r->size[layer];
    if (window > 0 && pos - window + 1 > low) low = pos - window + 1;
    size_t key_row = (size_t)(r->key_heads[layer] * size), q_row = (size_t)(r->heads[layer] * size);
    double kurtosis, spread;
    naive_look(r->q[layer] + (size_t)pos * q_row, r->heads[layer], r->k[layer] + (size_t)low * key_row,
               r->key_heads[layer], size, pos - low + 1, &kurtosis, &spread);
    double off = fabs((double)s->kurtosis / kurtosis - 1), off_spread = fabs((double)s->spread / spread - 1);
    CHECK(off < 0.01 && off_spread < 0.005, "layer %d, token %d: kurtosis %g, not %g; spread %g, not %g",
          layer, pos, (double)s->kurtosis, kurtosis, (double)s->spread, spread);
    if (off > h->worst_kurtosis) h->worst_kurtosis = off;
    if (off_spread > h->worst_spread) h->worst_spread = off_spread;
    int upper = layer > 0 ? layer : 1;
    size_t at = (size_t)pos * (size_t)r->d;
    double c = cosine(r->out[upper - 1] + at, r->out[upper] + at, r->d);
    double off_c = fabs((double)s->consistency - c);
    CHECK(off_c < 1e-4, "layer %d, token %d: consistency %g, not %g", layer, pos, (double)s->consistency, c);
    if (off_c > h->worst_consistency) h->worst_consistency = off_c;
    h->compared++;
}

static bool hear(void *user, const wane_probe_token *t) {
    struct heard *h = user;
    CHECK(t->index == h->count, "%d", t->index);
    CHECK(t->layer_count == h->r->layers, "%d layers", t->layer_count);
    h->count++;
    h->right += t->best == t->next;
    for (int l = 0; l < t->layer_count && failures < 20; l++) {
        bool known = t->index >= SINKS + LEAST - 1;
        CHECK((isfinite(t->signals[l].kurtosis) != 0) == known, "layer %d, token %d", l, t->index);
        /* Every 23rd, and those around the window's end. */
        if (known && (t->index % 23 == 0 || (t->index > 508 && t->index < 518)))
            compare(h, t->layers[l], t->index, &t->signals[l]);
    }
    return failures < 20;
}

static void make_text(wane_model *model, int32_t *tokens) {
    wane_tokens all = {0};
    wane_error error;
    for (unsigned flags = WANE_TOKENIZE_SPECIAL; all.count < TEXT; flags = 0) {
        char line[64];
        int n = snprintf(line, sizeof line, " Entry %zu, page %zu. ", all.count, all.count / 7);
        CHECK(wane_tokenize(model, long_text, strlen(long_text), flags, &all, &error) == WANE_OK, "%s",
              error.text);
        CHECK(wane_tokenize(model, line, (size_t)n, 0, &all, &error) == WANE_OK, "%s", error.text);
    }
    memcpy(tokens, all.id, TEXT * sizeof *tokens);
    wane_tokens_free(&all);
}

static void test_text(wane_model *model, const int32_t *tokens) {
    static struct reference r;
    wane_error error = {0};
    struct heard h = {.r = &r, .e = wane__llama_of(model->engine)};
    run_reference(h.e, &r, tokens);
    int decodes = (TEXT + AT_ONCE - 1) / AT_ONCE;
    for (int l = 0; l < r.layers; l++)
        CHECK(r.roped[l] == 2 * decodes, "layer %d has %d rows of Q and K", l, r.roped[l]);
    int rc = wane_probe_text(model, tokens, TEXT, NULL, 0, hear, &h, &error);
    CHECK(rc == WANE_OK && h.count == TEXT, "%s", error.text);
    for (int l = 0; l < r.layers; l++) {
        wane_layer_facts facts;
        wane_model_layer(model, l, &facts, &error);
        CHECK(facts.window == window_of(h.e, l), "layer %d: window %d, not %d", l, facts.window,
              window_of(h.e, l));
        CHECK(!h.e->probe.layer[l].stop_first, "layer %d needs two stops", l);
        free(r.q[l]);
        free(r.k[l]);
        free(r.out[l]);
    }
    printf("%s: %d signals; off by at most %.2g of kurtosis, %.2g of spread, %.2g in consistency; %llu of %d "
           "next tokens right\n",
           wane_model_get_facts(model)->name, h.compared, h.worst_kurtosis, h.worst_spread,
           h.worst_consistency, (unsigned long long)h.right, TEXT);
}

/* ------------------------------------------------------------------ replies */

static void set(wane_model *model, int layer, bool on) {
    wane_error error = {0};
    struct wane__probe_options o = {.layers = &layer, .layer_count = on, .consistency = true};
    CHECK(wane__model_probe_set(model, &o, &error) == WANE_OK, "%s", error.text);
}

/* One sequence's logits after the prompt and a few tokens, as bits. */
static void bits(wane_model *model, const int32_t *tokens, int count, uint64_t *hash) {
    struct wane__engine *engine = model->engine;
    struct wane__item items[512];
    engine->ops->set_hook(engine, NULL, NULL);
    engine->ops->truncate(engine, 0, 0);
    for (int at = 0, step = 0; at < count; step++) {
        int some = step == 0 ? 300 : step % 5 == 0 ? 4 : 1;
        if (some > count - at) some = count - at;
        for (int i = 0; i < some; i++)
            items[i] = (struct wane__item){tokens[at + i], at + i, 0, i + 1 == some, true, false};
        CHECK(engine->ops->decode(engine, items, some, NULL) == WANE_OK, "at %d", at);
        const uint32_t *logits = (const uint32_t *)(const void *)engine->ops->logits(engine, 0);
        for (int i = 0; i < engine->facts.vocab_size; i++) *hash = (*hash ^ logits[i]) * 1099511628211u;
        at += some;
    }
    engine->ops->truncate(engine, 0, 0);
}

/* A probe changes no bit of what the model computes, at any layer, with the head ended early or not. */
static void test_harmless(wane_model *model, const int32_t *tokens) {
    uint64_t without = 1, with;
    int layers = wane_model_layers(model), probed[] = {0, 1, layers / 2, layers - 1};
    bits(model, tokens, 330, &without);
    for (int i = 0; i < 4; i++) {
        wane_probe_state state;
        set(model, probed[i], true);
        with = 1;
        bits(model, tokens, 330, &with);
        wane_model_get_probe_state(model, &state);
        CHECK(with == without, "layer %d changed the logits", probed[i]);
        CHECK(state.keys == 330 && state.missing == 0, "%llu keys", (unsigned long long)state.keys);
        set(model, 0, false);
    }
}

static void test_replies(wane_model *model) {
    enum { COUNT = 40 };
    wane_tokens prompt = {0};
    wane_generation g;
    int32_t plain[COUNT], probed[COUNT];
    wane_probe_state state;
    wane_signals s;
    wane_generation_init(&g);
    g.max_tokens = COUNT;
    g.ignore_end = g.sampling.seeded = true;
    chat_tokens(model, "Write this list again, twice:\n- apples, 3\n- pears, 4\n- plums, 5\n- figs, 6\n",
                &prompt);
    reply_alone(model, &prompt, &g, plain, COUNT);
    set(model, wane_model_layers(model) / 2, true);
    reply_alone(model, &prompt, &g, probed, COUNT);
    CHECK(memcmp(plain, probed, sizeof plain) == 0, "another reply");
    /* A session of our own: every row that is drawn from has signals, with drafts and the certified head as they are. */
    wane_session *session = NULL;
    wane_event event;
    wane_error error = {0};
    CHECK(wane_session_new(model, &session, &error) == WANE_OK, "%s", error.text);
    for (int turn = 0; turn < 2; turn++) {
        CHECK(wane_session_start(session, prompt.id, prompt.count, &g, &error) == WANE_OK, "%s", error.text);
        for (int i = 0; i < 10; i++) {
            CHECK(wane_session_next(session, &event, &error) == WANE_OK, "%s", error.text);
            wane__probe_signals(model->rows.probe, 0, 0, &s);
        }
        CHECK(isfinite(s.consistency), "turn %d: no consistency", turn);
    }
    wane_session_free(session);
    wane_model_get_probe_state(model, &state);
    CHECK(state.rows > 0, "%llu rows", (unsigned long long)state.rows);
    set(model, 0, false);
    wane_tokens_free(&prompt);
}

int main(void) {
    const char *path = getenv("WANE_TEST_MODEL");
    static int32_t tokens[TEXT];
    wane_model_options options;
    wane_model *model;
    if (path == NULL || path[0] == '\0') return 77;
    default_options(&options, path);
    options.context = 768;
    options.head = WANE_HEAD_CERTIFIED;
    options.head_sigmas = 6;
    options.draft = WANE_DRAFT_AUTO;
    options.draft_most = WANE__DRAFT_MOST;
    if (!load_model(&options, &model)) return 1;
    make_text(model, tokens);
    test_text(model, tokens);
    test_harmless(model, tokens);
    test_replies(model);
    wane_model_free(model);
    if (failures > 0) fprintf(stderr, "%d checks failed\n", failures);
    return failures == 0 ? 0 : 1;
}
