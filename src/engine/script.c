/*
 * script.c - an engine without a model: replies, delays and failures as a test wrote them down.
 *
 * It owns token sequences and nothing else. What it answers depends on the sequence alone, never on how the
 * tokens arrived, so that a test can demand identical output from every way of batching. It refuses what
 * libllama would abort on, or silently accept, so that a wrong caller is found here. It is part of the tests'
 * library only. Everything is allocated at load: a decode allocates nothing.
 */
#include "core/bytes.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/rng.h"
#include "core/tokens.h"
#include "engine/script_attention.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    VOCAB = 384,
    BOS = 256,
    END = 257,
    MARK = 258,
    FIRST_PIECE = 259,
    WIDTH = 8,     /* d: what WIDTH floats of hidden hold is listed at fill_hidden */
    WIDE = 64,     /* d of a linear head */
    HOOK_ROWS = 8, /* few, so that tests with more rows see several calls */
    MOST_SEQUENCES = 64
};

struct sequence {
    int32_t *token;
    int length;  /* accepted tokens */
    int pending; /* of the batch under way, behind `length` */
    bool dirty;  /* a decode failed: truncate comes first */
};

struct script_engine {
    struct wane__engine base; /* first */
    struct wane__script script;
    struct sequence *sequences;
    int32_t *tokens;   /* of all sequences, context a piece */
    char *text;        /* scratch: the bytes of one sequence */
    int32_t *text_end; /* scratch: where each token's bytes end */
    float *head;       /* a linear one's rows, VOCAB × WIDE */
    float *hidden, *logits;
    bool *has_logits;
    int rows;
    wane__hidden_fn hook;
    void *hook_user;
    struct wane__script_shown shown;
    atomic_bool interrupted;
    pthread_mutex_t lock; /* guards counts */
    struct wane__script_counts counts;
};

static struct script_engine *self(struct wane__engine *engine) {
    return (struct script_engine *)engine;
}

static size_t width(const struct script_engine *engine) {
    return engine->script.linear ? WIDE : WIDTH;
}

static void count_violation(struct script_engine *engine) {
    pthread_mutex_lock(&engine->lock);
    engine->counts.violations++;
    pthread_mutex_unlock(&engine->lock);
}

/* A wrong call is counted, and answered with a sentence. */
#define REFUSE(engine, error, ...) \
    (count_violation(engine), wane__fail(error, WANE_EINVAL, "script: " __VA_ARGS__))

/* ------------------------------------------------------------------ tokens */

static const struct {
    const char *name;
    int32_t token;
} controls[] = {{"<|bos|>", BOS}, {"<|end|>", END}, {"<|mark|>", MARK}};

/* Bytes of a token that is not a control token; `byte` is where a byte token's one lies. */
static const char *piece(const struct script_engine *engine, int32_t token, char *byte, size_t *size) {
    if (token < BOS) {
        *byte = (char)(unsigned char)token;
        *size = 1;
        return byte;
    }
    if (token >= FIRST_PIECE && (size_t)(token - FIRST_PIECE) < engine->script.piece_count) {
        const char *text = engine->script.pieces[token - FIRST_PIECE];
        *size = strlen(text);
        return text;
    }
    *size = 0;
    return "";
}

static int script_token_bytes(struct wane__engine *engine, int32_t token, bool control, char *buffer,
                              size_t capacity) {
    if (token < 0 || token >= VOCAB) return WANE_EINVAL;
    char byte;
    size_t size;
    const char *text = piece(self(engine), token, &byte, &size);
    for (size_t i = 0; control && i < sizeof controls / sizeof *controls; i++) {
        if (controls[i].token != token) continue;
        text = controls[i].name;
        size = strlen(text);
    }
    if (size > capacity) return WANE_EINVAL;
    if (size > 0) memcpy(buffer, text, size);
    return (int)size;
}

static bool script_is_end(struct wane__engine *engine, int32_t token) {
    (void)engine;
    return token == END;
}

/* Length of the control token's name that `text` begins with, 0 if none. */
static size_t control_at(const char *text, size_t size, int32_t *token) {
    for (size_t i = 0; i < sizeof controls / sizeof *controls; i++) {
        size_t length = strlen(controls[i].name);
        if (length > size || memcmp(text, controls[i].name, length) != 0) continue;
        *token = controls[i].token;
        return length;
    }
    return 0;
}

static int script_tokenize(struct wane__engine *engine, const char *text, size_t size, unsigned flags,
                           wane_tokens *out, wane_error *error) {
    (void)engine;
    if (!wane__tokens_reserve(out, size + 1))
        return wane__fail(error, WANE_ENOMEM, "no memory for the tokens of %zu bytes", size);
    if (flags & WANE_TOKENIZE_SPECIAL) wane__tokens_add(out, BOS);
    for (size_t i = 0; i < size;) {
        int32_t token = (unsigned char)text[i];
        size_t length = flags & WANE_TOKENIZE_CONTROL ? control_at(text + i, size - i, &token) : 0;
        wane__tokens_add(out, token);
        i += length > 0 ? length : 1;
    }
    return WANE_OK;
}

static int append_turn(struct wane__engine *engine, const char *part, size_t size, bool control,
                       wane_tokens *out, struct wane__buf *text, wane_error *error) {
    if (text != NULL && !wane__buf_append(text, part, size))
        return wane__fail(error, WANE_ENOMEM, "no memory to render a conversation");
    if (out == NULL) return WANE_OK;
    return script_tokenize(engine, part, size, control ? WANE_TOKENIZE_CONTROL : 0, out, error);
}

static int script_chat(struct wane__engine *engine, const wane_message *messages, size_t count,
                       wane_tokens *out, struct wane__buf *text, wane_error *error) {
    static const char mark[] = "<|mark|>";
    bool open = true; /* the assistant's turn is still to be opened */
    int status = WANE_OK;
    for (size_t i = 0; i < count && status == WANE_OK; i++) {
        const wane_message *m = &messages[i];
        open = strcmp(m->role, "assistant") != 0;
        status = append_turn(engine, mark, sizeof mark - 1, true, out, text, error);
        if (status == WANE_OK && open)
            status = append_turn(engine, m->role, strlen(m->role), false, out, text, error);
        if (status == WANE_OK && open) status = append_turn(engine, "\n", 1, false, out, text, error);
        if (status == WANE_OK)
            status = append_turn(engine, m->content, m->content_size, false, out, text, error);
    }
    if (status == WANE_OK && open)
        status = append_turn(engine, mark, sizeof mark - 1, true, out, text, error);
    return status;
}

/* -------------------------------------------------------- what comes next */

/* Where a sequence stands: in which reply, at which step. `reply` NULL: the hash language. */
struct place {
    const struct wane__script_reply *reply;
    int step;
};

/* Fill the scratch with the text of `count` tokens; returns its size. */
static size_t sequence_text(struct script_engine *engine, const int32_t *token, int count) {
    size_t end = 0;
    for (int i = 0; i < count; i++) {
        char byte;
        size_t size;
        const char *bytes = piece(engine, token[i], &byte, &size);
        if (size > 0) memcpy(engine->text + end, bytes, size);
        end += size;
        engine->text_end[i] = (int32_t)end;
    }
    return end;
}

static struct place find_place(struct script_engine *engine, const int32_t *token, int count) {
    int start = count;
    while (start > 0 && token[start - 1] != MARK) start--;
    bool raw = start == 0;
    int searched = raw ? count : start - 1;
    size_t size = sequence_text(engine, token, searched), longest = 0;
    struct place place = {NULL, 0};
    for (size_t i = 0; i < engine->script.reply_count; i++) {
        const struct wane__script_reply *reply = &engine->script.replies[i];
        size_t length = strlen(reply->match);
        if (place.reply != NULL && length <= longest) continue;
        const char *at = memmem(engine->text, size, reply->match, length);
        if (at == NULL) continue;
        longest = length;
        place.reply = reply;
        if (!raw) {
            place.step = count - start;
            continue;
        }
        int32_t end = (int32_t)(at - engine->text) + (int32_t)length;
        int done = 0; /* tokens up to the one that completed the match */
        while (end > 0 && engine->text_end[done] < end) done++;
        place.step = count - done - (end > 0 ? 1 : 0);
    }
    return place;
}

/* The fixed language: a letter or a space from the last three tokens. */
static int32_t language(const int32_t *token, int count) {
    static const char letters[] = "etaoin shrdlu etaoin cmfwyp vbgk";
    uint64_t hash = 0;
    for (int i = count > 3 ? count - 3 : 0; i < count; i++)
        hash = wane__mix64(hash ^ (uint64_t)(uint32_t)token[i]);
    return (unsigned char)letters[hash % (sizeof letters - 1)];
}

/* 24 bits of a hash, in [-1, 1) */
static float unit_of(uint64_t hash) {
    return (float)(int32_t)(hash >> 40) * 0x1p-23f - 1.0f;
}

/* A linear head's row: fixed numbers, so that the rows are nearly orthogonal. */
static float weight_of(int32_t token, int j) {
    return unit_of(wane__mix64((uint64_t)(uint32_t)token << 8 | (uint64_t)j));
}

/*
 * A row of hidden, from which the logits follow: [0] the favoured token, [1] the index of the reply whose own
 * logits are used, or -1, [2] the step, [3 …] a hash of the whole sequence, so that rows of
 * different sequences differ.
 */
static void fill_hidden(struct script_engine *engine, const int32_t *token, int count, float *hidden) {
    struct place place = find_place(engine, token, count);
    int32_t favoured = END;
    if (place.reply == NULL)
        favoured = language(token, count);
    else if (place.step >= 0 && (size_t)place.step < place.reply->count)
        favoured = place.reply->tokens[place.step];
    bool own = place.reply != NULL && place.reply->logits != NULL;
    hidden[0] = (float)favoured;
    hidden[1] = own ? (float)(place.reply - engine->script.replies) : -1.0f;
    hidden[2] = (float)place.step;
    uint64_t hash = 0;
    for (int i = 0; i < count; i++) hash = wane__mix64(hash ^ (uint64_t)(uint32_t)token[i]);
    for (int i = 3; i < WIDTH; i++) {
        hash = wane__mix64(hash);
        hidden[i] = unit_of(hash);
    }
    /* Along the favoured token's row, and a little in every direction. */
    for (int j = 0; engine->script.linear && j < WIDE; j++) {
        hash = wane__mix64(hash);
        hidden[j] = engine->script.peak * weight_of(favoured, j) * (3.0f / WIDE) + 0.2f * unit_of(hash);
    }
}

static float logit_of(const struct script_engine *engine, const float *hidden, int32_t token) {
    if (engine->script.linear) {
        float sum = 0;
        const float *row = engine->head + (size_t)token * WIDE;
        for (int j = 0; j < WIDE; j++) sum += row[j] * hidden[j];
        return sum;
    }
    if (hidden[1] >= 0) return engine->script.replies[(size_t)hidden[1]].logits[token];
    int distance = abs(token - (int32_t)hidden[0]);
    return engine->script.peak - (float)distance;
}

static size_t script_rescore_size(struct wane__engine *engine) {
    return width(self(engine)) * sizeof(float);
}

static int script_rescore_prepare(struct wane__engine *engine, const float *hidden, void *prepared) {
    memcpy(prepared, hidden, script_rescore_size(engine));
    return WANE_OK;
}

static int script_rescore_seen(struct wane__engine *engine, const void *prepared, float *out) {
    memcpy(out, prepared, script_rescore_size(engine));
    return WANE_OK;
}

static int script_rescore_prepared(struct wane__engine *engine, const void *prepared, const int32_t *ids,
                                   int count, float *logits) {
    for (int i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= VOCAB) return WANE_EINVAL;
        logits[i] = logit_of(self(engine), prepared, ids[i]);
        if (self(engine)->script.rescore_lies) logits[i] = -logits[i];
    }
    return WANE_OK;
}

static int script_rescore(struct wane__engine *engine, const float *hidden, const int32_t *ids, int count,
                          float *logits) {
    return script_rescore_prepared(engine, hidden, ids, count, logits);
}

static int script_head_rows(struct wane__engine *engine, int first, int count, float *out) {
    if (!self(engine)->script.linear) return WANE_EUNSUPPORTED;
    if (first < 0 || count < 0 || count > VOCAB - first) return WANE_EINVAL;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < WIDE; j++) *out++ = weight_of(first + i, j);
    return WANE_OK;
}

/* ------------------------------------------------------------------ decode */

/* Check a batch and lay its tokens behind their sequences. */
static int take_items(struct script_engine *engine, const struct wane__item *items, int count,
                      wane_error *error) {
    if (count < 1 || count > engine->base.batch)
        return REFUSE(engine, error, "a batch of %d items, 1 to %d are allowed", count, engine->base.batch);
    for (int i = 0; i < count; i++) {
        const struct wane__item *item = &items[i];
        if (item->seq < 0 || item->seq >= engine->base.facts.sequences)
            return REFUSE(engine, error, "item %d: sequence %d, there are %d", i, item->seq,
                          engine->base.facts.sequences);
        if (item->token < 0 || item->token >= VOCAB)
            return REFUSE(engine, error, "item %d: token %d, there are %d", i, item->token, VOCAB);
        struct sequence *sequence = &engine->sequences[item->seq];
        if (sequence->dirty)
            return REFUSE(engine, error, "item %d: sequence %d was not truncated after a failed decode", i,
                          item->seq);
        int expected = sequence->length + sequence->pending;
        if (item->pos != expected)
            return REFUSE(engine, error, "item %d: sequence %d goes on at position %d, not %d", i, item->seq,
                          expected, item->pos);
        if (item->pos >= engine->base.facts.context)
            return REFUSE(engine, error, "item %d: position %d is past the context of %d", i, item->pos,
                          engine->base.facts.context);
        sequence->token[item->pos] = item->token;
        sequence->pending++;
    }
    return WANE_OK;
}

static bool touched(const struct script_engine *engine, int seq) {
    return engine->sequences[seq].pending > 0;
}

/* Give the batch up: lengths stay, the touched sequences need a truncate. */
static void drop_items(struct script_engine *engine, bool dirty) {
    for (int s = 0; s < engine->base.facts.sequences; s++) {
        if (dirty && touched(engine, s)) engine->sequences[s].dirty = true;
        engine->sequences[s].pending = 0;
    }
}

static int64_t delay_of(struct script_engine *engine, const struct wane__item *items, int count) {
    int64_t prompt = 0, reply = 0; /* microseconds */
    int per_token = engine->script.prompt_delay_ms;
    for (int i = 0; i < count; i++)
        if (items[i].wanted) prompt += engine->script.row_delay_us;
    for (int i = 0; i < count; i++)
        if (!items[i].wanted) prompt += per_token < 0 ? -(int64_t)per_token : (int64_t)per_token * 1000;
    for (int s = 0; s < engine->base.facts.sequences; s++) {
        if (!touched(engine, s)) continue;
        const struct sequence *sequence = &engine->sequences[s];
        struct place place = find_place(engine, sequence->token, sequence->length + sequence->pending);
        if (place.reply != NULL && (int64_t)place.reply->delay_ms * 1000 > reply)
            reply = (int64_t)place.reply->delay_ms * 1000;
    }
    return prompt + reply;
}

/* Sleep in slices of a millisecond; false when interrupted. */
static bool sleep_through(struct script_engine *engine, int64_t microseconds) {
    double until = wane__now() + 1e-6 * (double)microseconds;
    for (;;) {
        if (atomic_load(&engine->interrupted)) return false;
        double left = until - wane__now();
        if (microseconds == 0 || left <= 0) return true;
        struct timespec slice = {0, left < 1e-3 ? (long)(left * 1e9) : 1000000L};
        nanosleep(&slice, NULL);
    }
}

/* The rows' hidden and, where the hook lets the head run, logits. WANE_EENGINE where the script says so. */
static int run_rows(struct script_engine *engine, const struct wane__item *items, int count,
                    wane_error *error) {
    int rows = 0;
    for (int i = 0; i < count; i++) {
        if (!items[i].wanted) continue;
        const int32_t *token = engine->sequences[items[i].seq].token;
        struct place place = find_place(engine, token, items[i].pos + 1);
        if (place.reply != NULL && place.reply->fail_at >= 0 && place.step == place.reply->fail_at)
            return wane__fail(error, WANE_EENGINE, "script: decode failed at step %d, as written",
                              place.step);
        float *hidden = engine->hidden + (size_t)rows * width(engine);
        fill_hidden(engine, token, items[i].pos + 1, hidden);
        bool block = (i > 0 && items[i - 1].seq == items[i].seq && items[i - 1].wanted) ||
                     (i + 1 < count && items[i + 1].seq == items[i].seq);
        if (engine->script.blurred && block) hidden[width(engine) - 1] *= 1.0f + 0x1p-20f;
        rows++;
    }
    for (int first = 0; first < rows; first += HOOK_ROWS) {
        int some = rows - first < HOOK_ROWS ? rows - first : HOOK_ROWS;
        const float *hidden = engine->hidden + (size_t)first * width(engine);
        bool dense =
            engine->hook == NULL || engine->hook(engine->hook_user, hidden, first, some, (int)width(engine));
        for (int row = first; row < first + some; row++) {
            engine->has_logits[row] = dense;
            for (int32_t t = 0; dense && t < VOCAB; t++)
                engine->logits[(size_t)row * VOCAB + (size_t)t] =
                    logit_of(engine, engine->hidden + (size_t)row * width(engine), t);
        }
    }
    engine->rows = rows;
    return WANE_OK;
}

/* Accept the batch: lengths grow, counts too. */
static void keep_items(struct script_engine *engine, int count) {
    pthread_mutex_lock(&engine->lock);
    engine->counts.decodes++;
    engine->counts.items += (uint64_t)count;
    engine->counts.rows += (uint64_t)engine->rows;
    if (count > engine->counts.largest_batch) engine->counts.largest_batch = count;
    for (int s = 0; s < engine->base.facts.sequences; s++) {
        engine->sequences[s].length += engine->sequences[s].pending;
        engine->sequences[s].pending = 0;
        engine->counts.length[s] = engine->sequences[s].length;
    }
    pthread_mutex_unlock(&engine->lock);
}

static int script_decode(struct wane__engine *base, const struct wane__item *items, int count,
                         wane_error *error) {
    struct script_engine *engine = self(base);
    engine->rows = 0;
    int status = take_items(engine, items, count, error);
    if (status != WANE_OK) {
        drop_items(engine, false);
        return status;
    }
    if (!sleep_through(engine, delay_of(engine, items, count)))
        status = wane__fail(error, WANE_ECANCELLED, "script: decode was interrupted");
    if (status == WANE_OK)
        wane__script_shown_batch(&engine->shown, items, count); /* before a failure, as a body does */
    if (status == WANE_OK) status = run_rows(engine, items, count, error);
    if (status == WANE_OK) {
        keep_items(engine, count);
        return WANE_OK;
    }
    drop_items(engine, true);
    pthread_mutex_lock(&engine->lock);
    if (status == WANE_ECANCELLED)
        engine->counts.interrupted++;
    else
        engine->counts.failed++;
    pthread_mutex_unlock(&engine->lock);
    return status;
}

static float *script_logits(struct wane__engine *base, int row) {
    struct script_engine *engine = self(base);
    if (row < 0 || row >= engine->rows) {
        count_violation(engine);
        return NULL;
    }
    return engine->has_logits[row] ? engine->logits + (size_t)row * VOCAB : NULL;
}

static const float *script_hidden(struct wane__engine *base, int row) {
    struct script_engine *engine = self(base);
    if (row < 0 || row >= engine->rows) {
        count_violation(engine);
        return NULL;
    }
    return engine->hook != NULL ? engine->hidden + (size_t)row * width(engine) : NULL;
}

static int script_set_probe(struct wane__engine *engine, const struct wane__probe *probe, wane_error *error) {
    return wane__script_shown_set(&self(engine)->shown, probe, error);
}

static void script_layer_facts(struct wane__engine *engine, int layer, struct wane__layer_facts *facts) {
    wane__script_shown_facts(&self(engine)->shown, layer, facts);
}

static void script_set_hook(struct wane__engine *engine, wane__hidden_fn hook, void *user) {
    self(engine)->hook = hook;
    self(engine)->hook_user = user;
}

/* --------------------------------------------------------------- sequences */

static void set_length(struct script_engine *engine, int seq, int length) {
    engine->sequences[seq].length = length;
    engine->sequences[seq].dirty = false;
    pthread_mutex_lock(&engine->lock);
    engine->counts.length[seq] = length;
    pthread_mutex_unlock(&engine->lock);
}

static bool has_sequence(const struct script_engine *engine, int seq) {
    return seq >= 0 && seq < engine->base.facts.sequences;
}

static int script_truncate(struct wane__engine *base, int seq, int keep) {
    struct script_engine *engine = self(base);
    if (!has_sequence(engine, seq) || keep < 0 || keep > engine->sequences[seq].length) {
        count_violation(engine);
        return WANE_EINVAL;
    }
    /* Recurrent state that a failed decode has moved on is lost, whatever its length was. */
    bool whole = keep == engine->sequences[seq].length && !engine->sequences[seq].dirty;
    int kept = engine->script.recurrent && !whole ? 0 : keep;
    set_length(engine, seq, kept);
    wane__script_shown_moved(&engine->shown, seq, seq, kept);
    return kept;
}

static int script_copy(struct wane__engine *base, int from, int to, int keep) {
    struct script_engine *engine = self(base);
    if (!has_sequence(engine, from) || !has_sequence(engine, to) || from == to || keep < 0 ||
        keep > engine->sequences[from].length || engine->sequences[from].dirty) {
        count_violation(engine);
        return WANE_EINVAL;
    }
    bool whole = keep == engine->sequences[from].length;
    int kept = engine->script.recurrent && !whole ? 0 : keep;
    if (kept > 0)
        memcpy(engine->sequences[to].token, engine->sequences[from].token, (size_t)kept * sizeof(int32_t));
    set_length(engine, to, kept);
    wane__script_shown_moved(&engine->shown, to, from, kept);
    return kept;
}

/* What it answers depends on the tokens alone: they are its state. */
static int script_state_save(struct wane__engine *base, int seq, struct wane__buf *out, wane_error *error) {
    struct script_engine *engine = self(base);
    if (!has_sequence(engine, seq) || engine->sequences[seq].dirty) {
        count_violation(engine);
        return wane__fail(error, WANE_EINVAL, "script: there is no sequence %d", seq);
    }
    for (int i = 0; i < engine->sequences[seq].length; i++) {
        unsigned char bytes[4];
        wane__put(bytes, (uint32_t)engine->sequences[seq].token[i], 4);
        wane__buf_append(out, bytes, 4);
    }
    return out->failed ? wane__fail(error, WANE_ENOMEM, "script: no memory for a state") : WANE_OK;
}

static int script_state_load(struct wane__engine *base, int seq, const void *bytes, size_t size, int length,
                             wane_error *error) {
    struct script_engine *engine = self(base);
    if (!has_sequence(engine, seq) || length < 1 || length > engine->script.context) {
        count_violation(engine);
        return wane__fail(error, WANE_EINVAL, "script: there is no sequence %d of %d tokens", seq, length);
    }
    bool fine = size == 4 * (size_t)length;
    for (int i = 0; fine && i < length; i++) {
        uint64_t token = wane__get((const unsigned char *)bytes + 4 * (size_t)i, 4);
        fine = token < VOCAB;
        engine->sequences[seq].token[i] = (int32_t)token;
    }
    set_length(engine, seq, fine ? length : 0);
    wane__script_shown_moved(&engine->shown, seq, -1, fine ? length : 0);
    return fine ? WANE_OK : wane__fail(error, WANE_EFORMAT, "script: these bytes are no state.");
}

static void script_interrupt(struct wane__engine *engine, bool on) {
    atomic_store(&self(engine)->interrupted, on);
}

void wane__script_get_counts(struct wane__engine *engine, struct wane__script_counts *counts) {
    pthread_mutex_lock(&self(engine)->lock);
    *counts = self(engine)->counts;
    pthread_mutex_unlock(&self(engine)->lock);
}

/* -------------------------------------------------------------------- load */

static void script_free(struct wane__engine *base) {
    if (base == NULL) return;
    struct script_engine *engine = self(base);
    wane__free(engine->sequences);
    wane__free(engine->tokens);
    wane__free(engine->text);
    wane__free(engine->text_end);
    wane__free(engine->head);
    wane__free(engine->hidden);
    wane__free(engine->logits);
    wane__free(engine->has_logits);
    wane__script_shown_close(&engine->shown);
    pthread_mutex_destroy(&engine->lock);
    wane__free(engine);
}

static const struct wane__engine_ops script_ops = {
    .name = "script",
    .free = script_free,
    .tokenize = script_tokenize,
    .token_bytes = script_token_bytes,
    .is_end = script_is_end,
    .chat = script_chat,
    .decode = script_decode,
    .logits = script_logits,
    .hidden = script_hidden,
    .rescore = script_rescore,
    .rescore_size = script_rescore_size,
    .rescore_prepare = script_rescore_prepare,
    .rescore_prepared = script_rescore_prepared,
    .rescore_seen = script_rescore_seen,
    .head_rows = script_head_rows,
    .set_hook = script_set_hook,
    .set_probe = script_set_probe,
    .layer_facts = script_layer_facts,
    .truncate = script_truncate,
    .copy = script_copy,
    .state_save = script_state_save,
    .state_load = script_state_load,
    .interrupt = script_interrupt,
};

static void fill_facts(struct script_engine *engine) {
    const struct wane__script *script = &engine->script;
    engine->base.facts = (wane_model_facts){
        .name = "script",
        .path = "",
        .architecture = "script",
        .description = "scripted engine",
        .engine = "script",
        .template_kind = "file",
        .vocab_size = VOCAB,
        .embedding_size = (int)width(engine),
        .layers = script->attention.layers > 0 ? script->attention.layers : 1,
        .trained_context = script->context,
        .context = script->context,
        .sequences = script->sequences,
        .threads = 1,
        .head_tensor = "output.weight",
        .head_type = "f32",
        .head_buffer = "CPU",
        .head_plain = true,
        .rescoring_exact = true,
        .rescoring_exact_batch = !script->narrow,
        .recurrent = script->recurrent,
        .bos = BOS,
        .eos = END,
        .eot = END,
    };
    engine->base.batch = script->batch;
}

/* All memory of a decode, in the sizes that facts and batch give. */
static bool allocate(struct script_engine *engine) {
    size_t context = (size_t)engine->script.context, sequences = (size_t)engine->script.sequences;
    size_t batch = (size_t)engine->script.batch, longest = 1;
    for (size_t i = 0; i < engine->script.piece_count; i++) {
        size_t length = strlen(engine->script.pieces[i]);
        if (length > longest) longest = length;
    }
    engine->sequences = wane__alloc_zero(sequences, sizeof *engine->sequences);
    engine->tokens = wane__alloc_zero(sequences * context, sizeof *engine->tokens);
    engine->text = wane__alloc_zero(context, longest);
    engine->text_end = wane__alloc_zero(context, sizeof *engine->text_end);
    engine->head = wane__alloc_zero(engine->script.linear ? VOCAB * WIDE : 1, sizeof *engine->head);
    engine->hidden = wane__alloc_zero(batch * width(engine), sizeof *engine->hidden);
    engine->logits = wane__alloc_zero(batch * VOCAB, sizeof *engine->logits);
    engine->has_logits = wane__alloc_zero(batch, sizeof *engine->has_logits);
    if (!wane__script_shown_open(&engine->shown, &engine->script, (int)batch, (int)width(engine)) ||
        !engine->sequences || !engine->tokens || !engine->text || !engine->text_end || !engine->head ||
        !engine->hidden || !engine->logits || !engine->has_logits)
        return false;
    for (size_t s = 0; s < sequences; s++) engine->sequences[s].token = engine->tokens + s * context;
    for (int i = 0; engine->script.linear && i < VOCAB * WIDE; i++)
        engine->head[i] = weight_of(i / WIDE, i % WIDE);
    return true;
}

int wane__script_load(const struct wane__script *script, struct wane__log *log, struct wane__engine **engine,
                      wane_error *error) {
    *engine = NULL;
    if (script->load_fail != WANE_OK)
        return wane__fail(error, script->load_fail, "script: load failed, as written");
    if (script->context < 0 || script->batch < 0 || script->sequences < 0 ||
        script->sequences > MOST_SEQUENCES || script->piece_count > VOCAB - FIRST_PIECE)
        return wane__fail(error, WANE_EINVAL, "script: context, batch, sequences or pieces out of range");
    struct script_engine *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "no memory for a scripted engine");
    pthread_mutex_init(&made->lock, NULL);
    made->script = *script;
    if (script->context == 0) made->script.context = 512;
    if (script->sequences == 0) made->script.sequences = 4;
    if (script->batch == 0) made->script.batch = 64;
    if (!(script->peak < 0 || script->peak > 0)) made->script.peak = 10;
    fill_facts(made);
    made->base.ops = &script_ops;
    made->base.log = log;
    if (!allocate(made)) {
        script_free(&made->base);
        return wane__fail(error, WANE_ENOMEM, "no memory for a scripted engine");
    }
    *engine = &made->base;
    return WANE_OK;
}
