/*
 * trace_hold.c - owns the records of requests that have not ended, and what redaction makes of them.
 *
 *     text      p r o m p t │ r e p l y     of all tokens, joined: a secret may lie across any border
 *     match         ══════════
 *     tokens     p0 p1 p2 p3 r0 r1 r2 …     those that a match touches are secret
 *
 * The request is written with its secret tokens replaced. A token's record is written when neither it nor one of the last
 * tokens before it is secret; its name of all tokens before it is computed anew, of the replaced ones. A request with a hole
 * cannot be searched, and is not written at all.
 */
#include "table/trace_hold.h"

#include "core/bytes.h"
#include "core/error.h"
#include "core/memory.h"

#include <string.h>

enum { HELD_MOST = 1024, TOKEN_TEXT = 4096 };

struct held {
    char id[WANE__TRACE_ID_MOST + 1];
    struct wane__buf records; /* as in the queue, each padded; the request first */
    int tokens;
    bool broken; /* a record is missing; nothing is kept any more */
    uint64_t stamp;
};

struct wane__trace_hold {
    struct wane__redact *redact;
    int (*token_bytes)(void *user, int32_t token, char *buffer, size_t capacity);
    void *user;
    size_t bytes_most, bytes;
    struct held *held[HELD_MOST];
    int count;
    uint64_t stamp;
    /* Scratch of one request. */
    wane_tokens tokens; /* prompt and reply */
    struct wane__buf text;
    size_t *offset; /* of each token's text; one more for the end */
    bool *secret;
    size_t room;
};

void wane__trace_view(const struct wane__trace_mark *mark, struct wane__trace_view *view) {
    const char *at = (const char *)(mark + 1), *end = (const char *)mark + mark->size;
    view->all = NULL;
    view->all_count = 0;
    if (mark->type == WANE__TRACE_REQUEST) {
        struct wane__trace_request *r = &view->request;
        memcpy(r, at, sizeof *r);
        at += sizeof *r;
        r->sampling.bias = (const void *)at;
        at += r->sampling.bias_count * sizeof *r->sampling.bias;
        r->prompt = (const void *)at;
        at += r->prompt_count * sizeof *r->prompt;
        for (int i = 0; i < r->stop_count; i++) {
            r->stops[i] = at;
            at += strlen(at) + 1;
        }
    } else if (mark->type == WANE__TRACE_TOKEN) {
        memcpy(&view->all_count, at, sizeof view->all_count);
        at += sizeof view->all_count;
        size_t size = (size_t)(end - at) - view->all_count * sizeof *view->all;
        memcpy(&view->token, at, size);
        if (view->all_count > 0) view->all = (const void *)(at + size);
    } else if (mark->type == WANE__TRACE_VOTE) {
        memcpy(&view->vote, at, sizeof view->vote);
    } else {
        memcpy(&view->end, at, sizeof view->end);
    }
}

int wane__trace_hold_new(const char *pattern_path,
                         int (*token_bytes)(void *user, int32_t token, char *buffer, size_t capacity),
                         void *user, size_t bytes_most, struct wane__trace_hold **hold, wane_error *error) {
    *hold = NULL;
    struct wane__trace_hold *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for redaction.");
    made->token_bytes = token_bytes;
    made->user = user;
    made->bytes_most = bytes_most;
    int code = wane__redact_load(pattern_path, &made->redact, error);
    if (code != WANE_OK) {
        wane__trace_hold_free(made);
        return code;
    }
    *hold = made;
    return WANE_OK;
}

static void forget(struct wane__trace_hold *h, int index) {
    struct held *held = h->held[index];
    h->bytes -= held->records.size;
    wane__buf_free(&held->records);
    wane__free(held);
    h->held[index] = h->held[--h->count];
}

void wane__trace_hold_free(struct wane__trace_hold *h) {
    if (h == NULL) return;
    while (h->count > 0) forget(h, h->count - 1);
    wane__redact_free(h->redact);
    wane_tokens_free(&h->tokens);
    wane__buf_free(&h->text);
    wane__free(h->offset);
    wane__free(h->secret);
    wane__free(h);
}

size_t wane__trace_hold_bytes(const struct wane__trace_hold *h) {
    return h->bytes;
}

/* ------------------------------------------------------------------ taking in */

/* From here on nothing of it is kept. */
static void break_off(struct wane__trace_hold *h, struct held *held, wane_recorder_state *counts) {
    if (held->broken) return;
    counts->dropped_requests += held->records.size > 0;
    counts->dropped_tokens += (uint64_t)held->tokens;
    h->bytes -= held->records.size;
    wane__buf_free(&held->records);
    held->broken = true;
}

static int find(const struct wane__trace_hold *h, const char *id) {
    int i = h->count - 1;
    while (i >= 0 && strcmp(h->held[i]->id, id) != 0) i--;
    return i;
}

/* A place for a request; the oldest gives way when there are far too many: their ends were lost. */
static struct held *begin(struct wane__trace_hold *h, const char *id, wane_recorder_state *counts) {
    if (h->count == HELD_MOST) {
        int oldest = 0;
        for (int i = 1; i < h->count; i++)
            if (h->held[i]->stamp < h->held[oldest]->stamp) oldest = i;
        break_off(h, h->held[oldest], counts);
        forget(h, oldest);
    }
    struct held *held = wane__alloc_zero(1, sizeof *held);
    if (held == NULL) return NULL;
    memcpy(held->id, id, strlen(id) + 1);
    held->stamp = ++h->stamp;
    return h->held[h->count++] = held;
}

static bool keep(struct wane__trace_hold *h, struct held *held, const struct wane__trace_mark *mark) {
    size_t size = wane__padded(mark->size);
    if (h->bytes + size > h->bytes_most || !wane__buf_reserve(&held->records, size)) return false;
    memcpy(held->records.data + held->records.size, mark, size); /* the padding lies in the queue, too */
    held->records.size += size;
    h->bytes += size;
    return true;
}

static void take_request(struct wane__trace_hold *h, const struct wane__trace_mark *mark, const char *id,
                         wane_recorder_state *counts) {
    int index = find(h, id); /* a name that was used before and lost its end */
    if (index >= 0) {
        break_off(h, h->held[index], counts);
        forget(h, index);
    }
    struct held *held = begin(h, id, counts);
    if (held != NULL && keep(h, held, mark)) return;
    counts->dropped_requests++;
    if (held != NULL) held->broken = true;
}

static void take_token(struct wane__trace_hold *h, const struct wane__trace_mark *mark,
                       const struct wane__trace_token *token, wane_recorder_state *counts) {
    int index = find(h, token->request);
    struct held *held = index >= 0 ? h->held[index] : begin(h, token->request, counts);
    if (held == NULL) {
        counts->dropped_tokens++;
        return;
    }
    /* Without its request, or behind a hole: what stands before it is not known. */
    bool follows = held->records.size > 0 && token->index == held->tokens;
    if (!held->broken && (!follows || !keep(h, held, mark))) break_off(h, held, counts);
    if (held->broken)
        counts->dropped_tokens++;
    else
        held->tokens++;
}

/* ------------------------------------------------------------------- redaction */

static bool make_room(struct wane__trace_hold *h, size_t count) {
    if (count < h->room) return true;
    size_t room = count + 1;
    size_t *offset = wane__resize(h->offset, room, sizeof *offset);
    if (offset != NULL) h->offset = offset;
    bool *secret = wane__resize(h->secret, room, sizeof *secret);
    if (secret != NULL) h->secret = secret;
    if (offset == NULL || secret == NULL) return false;
    h->room = room;
    return true;
}

static bool add_token(wane_tokens *tokens, int32_t id) {
    if (tokens->count == tokens->capacity) {
        size_t capacity = tokens->capacity ? 2 * tokens->capacity : 256;
        int32_t *more = wane__resize(tokens->id, capacity, sizeof *more);
        if (more == NULL) return false;
        tokens->id = more;
        tokens->capacity = capacity;
    }
    tokens->id[tokens->count++] = id;
    return true;
}

/* Prompt and reply as tokens. */
static bool join_tokens(struct wane__trace_hold *h, const struct held *held, struct wane__trace_view *view) {
    bool fine = true;
    h->tokens.count = 0;
    for (size_t at = 0; at < held->records.size && fine;) {
        const struct wane__trace_mark *mark = (const void *)(held->records.data + at);
        wane__trace_view(mark, view);
        if (mark->type == WANE__TRACE_TOKEN) fine = add_token(&h->tokens, view->token.token);
        for (size_t i = 0; mark->type == WANE__TRACE_REQUEST && i < view->request.prompt_count && fine; i++)
            fine = add_token(&h->tokens, view->request.prompt[i]);
        at += wane__padded(mark->size);
    }
    return fine;
}

static bool join_text(struct wane__trace_hold *h) {
    char bytes[TOKEN_TEXT];
    wane__buf_clear(&h->text);
    for (size_t i = 0; i < h->tokens.count; i++) {
        h->offset[i] = h->text.size;
        int size = h->token_bytes(h->user, h->tokens.id[i], bytes, sizeof bytes);
        if (size > 0) wane__buf_append(&h->text, bytes, (size_t)size);
    }
    wane__buf_append(&h->text, "", 0);
    h->offset[h->tokens.count] = h->text.size;
    memset(h->secret, 0, h->tokens.count * sizeof *h->secret);
    return !h->text.failed;
}

/* Every token with a byte in it, and those without text in between. */
static void mark_secret(void *user, size_t from, size_t to) {
    struct wane__trace_hold *h = user;
    size_t low = 0, high = h->tokens.count; /* the first token that ends behind `from` */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (h->offset[middle + 1] <= from)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low; i < h->tokens.count && h->offset[i] < to; i++) h->secret[i] = true;
}

static void mark_found(void *user, size_t from, size_t to) {
    (void)from;
    (void)to;
    *(bool *)user = true;
}

/* A stop string is text, too. */
static bool hide_stops(struct wane__trace_hold *h, struct wane__trace_request *r) {
    for (int i = 0; i < r->stop_count; i++) {
        bool found = false;
        size_t size = strlen(r->stops[i]);
        wane__buf_clear(&h->text);
        if (!wane__buf_append(&h->text, r->stops[i], size)) return false;
        wane__redact_find(h->redact, h->text.data, size, mark_found, &found);
        if (found) r->stops[i] = "";
    }
    return true;
}

static bool may_be_written(const struct wane__trace_hold *h, const struct wane__trace_token *t) {
    size_t at = (size_t)t->position, back = (size_t)t->last_count;
    if (at >= h->tokens.count || back > at) return false;
    for (size_t i = at - back; i <= at; i++)
        if (h->secret[i]) return false;
    return true;
}

/* Its lines, searched; nothing was written when this is false. */
static bool write_held(struct wane__trace_hold *h, struct held *held, const struct wane__trace_end *end,
                       struct wane__buf *out, wane_recorder_state *counts) {
    struct wane__trace_view view;
    if (!join_tokens(h, held, &view) || !make_room(h, h->tokens.count) || !join_text(h)) return false;
    wane__redact_find(h->redact, h->text.data, h->text.size, mark_secret, h);
    int redacted = 0, withheld = 0;
    for (size_t i = 0; i < h->tokens.count; i++) {
        redacted += h->secret[i];
        if (h->secret[i]) h->tokens.id[i] = WANE__TRACE_REDACTED;
    }
    const struct wane__trace_mark *first = (const void *)held->records.data;
    wane__trace_view(first, &view);
    struct wane__trace_request request = view.request;
    request.prompt = h->tokens.id;
    request.redacted = redacted;
    if (!hide_stops(h, &request)) return false;
    wane__trace_put_request(out, &request);
    counts->requests++;
    counts->redacted_tokens += (uint64_t)redacted;

    struct wane__context_name before = wane__context_begin(request.tenant);
    size_t named = 0;
    for (size_t at = wane__padded(first->size); at < held->records.size;) {
        const struct wane__trace_mark *mark = (const void *)(held->records.data + at);
        wane__trace_view(mark, &view);
        at += wane__padded(mark->size);
        struct wane__trace_token *t = &view.token;
        if (!may_be_written(h, t)) {
            withheld++;
            continue;
        }
        while (named < (size_t)t->position) before = wane__context_add(before, h->tokens.id[named++]);
        t->before = before;
        wane__trace_put_token(out, t, view.all, (int)view.all_count);
        counts->tokens++;
    }
    counts->withheld_tokens += (uint64_t)withheld;
    if (end != NULL) {
        struct wane__trace_end last = *end;
        last.redacted = withheld;
        wane__trace_put_end(out, &last);
        counts->ends++;
    }
    return true;
}

void wane__trace_hold_take(struct wane__trace_hold *h, const struct wane__trace_mark *mark,
                           struct wane__buf *out, wane_recorder_state *counts) {
    struct wane__trace_view view;
    wane__trace_view(mark, &view);
    if (mark->type == WANE__TRACE_REQUEST) {
        take_request(h, mark, view.request.request, counts);
    } else if (mark->type == WANE__TRACE_TOKEN) {
        take_token(h, mark, &view.token, counts);
    } else if (mark->type == WANE__TRACE_VOTE) {
        wane__trace_put_vote(out, &view.vote);
    } else {
        int index = find(h, view.end.request);
        if (index < 0) return; /* its request was dropped, and counted */
        struct held *held = h->held[index];
        /* A reply whose last tokens are missing: half a secret may be what is left. */
        if (!held->broken && held->tokens != view.end.tokens) break_off(h, held, counts);
        if (!held->broken && !write_held(h, held, &view.end, out, counts)) break_off(h, held, counts);
        forget(h, index);
    }
}

void wane__trace_hold_finish(struct wane__trace_hold *h, struct wane__buf *out, wane_recorder_state *counts) {
    while (h->count > 0) {
        struct held *held = h->held[0];
        if (!held->broken && !write_held(h, held, NULL, out, counts)) break_off(h, held, counts);
        forget(h, 0);
    }
}
