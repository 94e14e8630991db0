/*
 * llama_text.c - text to tokens and back, by the model's own tokenizer.
 *
 * Everything here reads constant data only, so any thread may call it while another one decodes.
 *
 * Control tokens ("<|im_end|>") have texts that anybody can type. libllama can only be told to find all of
 * them in a text, or none. A conversation needs both: those that the template wrote, and none that a user
 * wrote. wane__llama_tokenize_cut does this: where nothing suspicious is in the text (no cuts) libllama tokenises it
 * in one piece, and the result is libllama's by construction. Otherwise we find the control tokens that
 * may be found, in libllama's order (the longest text first, over the whole text), and libllama tokenises
 * what lies between them as plain text.
 *
 *     <|im_start|>user\nSay <|im_end|> now<|im_end|>\n          cuts: ^
 *     \__________/           ^cut         \________/
 *      control      plain, as typed        control
 */
#include "engine/llama_internal.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/tokens.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ markers */

static int compare_bytes(const char *a, size_t a_size, const char *b, size_t b_size) {
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    if (order != 0) return order;
    return a_size < b_size ? -1 : a_size > b_size;
}

static int compare_markers(const void *a, const void *b) {
    const struct wane__marker *x = a, *y = b;
    return compare_bytes(x->text, x->size, y->text, y->size);
}

/* The tokens that libllama matches only in trusted text, and ends of turn of whatever kind. */
static bool is_marker(const struct llama_vocab *vocab, int32_t token, enum llama_token_attr attr) {
    if (attr & (LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) return true;
    return (attr & LLAMA_TOKEN_ATTR_USER_DEFINED) && llama_vocab_is_eog(vocab, token);
}

static bool add_marker(struct wane__markers *m, const char *text, int32_t token, enum llama_token_attr attr) {
    size_t size = strlen(text);
    if (size == 0 || size > 4096) return true;
    if ((m->count & (m->count + 1)) == 0) { /* grow at 0, 1, 3, 7, … */
        struct wane__marker *more = wane__resize(m->sorted, 2 * m->count + 1, sizeof *more);
        if (more == NULL) return false;
        m->sorted = more;
    }
    struct wane__marker *marker = &m->sorted[m->count++];
    *marker = (struct wane__marker){.text = text, .size = (uint32_t)size, .token = token};
    marker->strip_left = attr & LLAMA_TOKEN_ATTR_LSTRIP;
    marker->strip_right = attr & LLAMA_TOKEN_ATTR_RSTRIP;
    marker->user_defined = attr & LLAMA_TOKEN_ATTR_USER_DEFINED;
    m->any_user_defined = m->any_user_defined || marker->user_defined;
    m->first[(unsigned char)text[0]] = true;
    m->last[(unsigned char)text[size - 1]] = true;
    if (size > m->longest) m->longest = (uint32_t)size;
    return true;
}

int wane__llama_markers_open(struct wane__llama *e, wane_error *error) {
    for (int32_t token = 0; token < e->base.facts.vocab_size; token++) {
        enum llama_token_attr attr = llama_vocab_get_attr(e->vocab, token);
        const char *text = is_marker(e->vocab, token, attr) ? llama_vocab_get_text(e->vocab, token) : NULL;
        if (text != NULL && !add_marker(&e->markers, text, token, attr)) {
            return wane__fail(error, WANE_ENOMEM, "No memory for the model's control tokens.");
        }
    }
    if (e->markers.count > 1)
        qsort(e->markers.sorted, e->markers.count, sizeof *e->markers.sorted, compare_markers);
    return WANE_OK;
}

void wane__llama_markers_close(struct wane__markers *markers) {
    wane__free(markers->sorted);
    *markers = (struct wane__markers){0};
}

static const struct wane__marker *find_marker(const struct wane__markers *m, const char *text, size_t size) {
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct wane__marker *candidate = &m->sorted[middle];
        int order = compare_bytes(candidate->text, candidate->size, text, size);
        if (order == 0) return candidate;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const struct wane__marker *wane__llama_marker_at(const struct wane__markers *m, const char *text,
                                                 size_t size) {
    if (size == 0 || !m->first[(unsigned char)text[0]]) return NULL;
    for (size_t n = size < m->longest ? size : m->longest; n > 0; n--) {
        if (!m->last[(unsigned char)text[n - 1]]) continue;
        const struct wane__marker *found = find_marker(m, text, n);
        if (found != NULL) return found;
    }
    return NULL;
}

/* ----------------------------------------------------------------- tokenise */

/* One call to the tokenizer, appended to `out`. */
static int piece(const struct wane__llama *e, const char *text, size_t size, bool control, wane_tokens *out,
                 wane_error *error) {
    if (size == 0) return WANE_OK;
    if (size > INT32_MAX - 64) return wane__fail(error, WANE_EINVAL, "%zu bytes are too long a text.", size);
    char why[200] = "it gave no reason";
    /* Enough for nearly any text; and more than a thousand, so that no "so many are needed" reads as "threw". */
    size_t room = size / 2 + 1024;
    for (int attempt = 0; attempt < 2; attempt++) {
        if (!wane__tokens_reserve(out, room))
            return wane__fail(error, WANE_ENOMEM, "No memory for %zu tokens.", room);
        int32_t n = wane__guard_tokenize(e->vocab, text, (int32_t)size, out->id + out->count, (int32_t)room,
                                         false, control, why, sizeof why);
        if (n >= 0) {
            out->count += (size_t)n;
            return WANE_OK;
        }
        if (n == INT32_MIN || n == WANE__GUARD_THREW) break;
        room = (size_t) - (int64_t)n;
    }
    return wane__fail(error, WANE_EENGINE, "The tokenizer failed on a text of %zu bytes: %s.", size, why);
}

/* BOS once: before what was appended at `start`, unless the text brought its own. */
static int add_bos(const struct wane__llama *e, size_t start, wane_tokens *out, wane_error *error) {
    int32_t bos = e->base.facts.bos;
    if (bos < 0 || !llama_vocab_get_add_bos(e->vocab)) return WANE_OK;
    if (out->count > start && out->id[start] == bos) return WANE_OK;
    if (!wane__tokens_add(out, bos)) return wane__fail(error, WANE_ENOMEM, "No memory for tokens.");
    memmove(out->id + start + 1, out->id + start, (out->count - 1 - start) * sizeof *out->id);
    out->id[start] = bos;
    return WANE_OK;
}

int wane__llama_tokenize(struct wane__engine *engine, const char *text, size_t size, unsigned flags,
                         wane_tokens *out, wane_error *error) {
    struct wane__llama *e = wane__llama_of(engine);
    if (text == NULL && size > 0) return wane__fail(error, WANE_EINVAL, "No text was given.");
    size_t start = out->count;
    struct wane__llama_words words;
    wane__llama_words_enter(&words, e->base.log);
    int rc = piece(e, text, size, flags & WANE_TOKENIZE_CONTROL, out, error);
    if (rc == WANE_OK && (flags & WANE_TOKENIZE_SPECIAL)) rc = add_bos(e, start, out, error);
    wane__llama_words_leave(&words);
    if (rc != WANE_OK) out->count = start;
    return rc;
}

int wane__llama_token_bytes(struct wane__engine *engine, int32_t token, bool control, char *buffer,
                            size_t capacity) {
    struct wane__llama *e = wane__llama_of(engine);
    if (token < 0 || token >= e->base.facts.vocab_size) return WANE_EINVAL;
    char nothing[1];
    int32_t room = capacity > INT32_MAX ? INT32_MAX : (int32_t)capacity;
    int32_t n = llama_token_to_piece(e->vocab, token, buffer != NULL ? buffer : nothing,
                                     buffer != NULL ? room : 0, 0, control);
    return n < 0 ? WANE_EINVAL : n;
}

bool wane__llama_is_end(struct wane__engine *engine, int32_t token) {
    struct wane__llama *e = wane__llama_of(engine);
    return token >= 0 && token < e->base.facts.vocab_size && llama_vocab_is_eog(e->vocab, token);
}

/* --------------------------------------------------------------- with cuts */

struct found {
    size_t at;
    const struct wane__marker *marker;
};

struct finder {
    struct found *list;
    size_t count, capacity;
};

static bool crosses(const size_t *cuts, size_t cut_count, size_t begin, size_t end) {
    size_t low = 0, high = cut_count; /* the first cut behind `begin` */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (cuts[middle] <= begin)
            low = middle + 1;
        else
            high = middle;
    }
    return low < cut_count && cuts[low] < end;
}

static bool add_found(struct finder *f, size_t at, const struct wane__marker *marker) {
    if (f->count == f->capacity) {
        size_t capacity = f->capacity > 0 ? 2 * f->capacity : 32;
        struct found *more = wane__resize(f->list, capacity, sizeof *more);
        if (more == NULL) return false;
        f->list = more;
        f->capacity = capacity;
    }
    f->list[f->count++] = (struct found){.at = at, .marker = marker};
    return true;
}

static int by_length(const void *a, const void *b) {
    const struct found *x = a, *y = b;
    if (x->marker->size != y->marker->size) return x->marker->size > y->marker->size ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static int by_place(const void *a, const void *b) {
    const struct found *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* All occurrences of all markers that cross no cut; several may start at one place. */
static bool find_all(const struct wane__markers *m, const char *text, size_t size, const size_t *cuts,
                     size_t cut_count, struct finder *f) {
    for (size_t i = 0; i < size; i++) {
        size_t most = size - i;
        for (;;) {
            const struct wane__marker *marker = wane__llama_marker_at(m, text + i, most);
            if (marker == NULL) break;
            /* One byte cannot be cut: such a marker is never control in text that has cuts. */
            bool whole = marker->size > 1 && !crosses(cuts, cut_count, i, i + marker->size);
            if (whole && !add_found(f, i, marker)) return false;
            most = marker->size - 1;
        }
    }
    return true;
}

/* Keep the longest where they overlap, in order of place. `taken` has a byte for each of the text's. */
static void keep_longest(struct finder *f, unsigned char *taken) {
    size_t kept = 0;
    if (f->count > 1) qsort(f->list, f->count, sizeof *f->list, by_length);
    for (size_t i = 0; i < f->count; i++) {
        struct found hit = f->list[i];
        if (memchr(taken + hit.at, 1, hit.marker->size) != NULL) continue;
        memset(taken + hit.at, 1, hit.marker->size);
        f->list[kept++] = hit;
    }
    f->count = kept;
    if (f->count > 1) qsort(f->list, f->count, sizeof *f->list, by_place);
}

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Does a user-defined marker stand across `cut`? libllama would find it even in plain text. */
static bool cuts_user_defined(const struct wane__markers *m, const char *text, size_t begin, size_t end,
                              size_t cut) {
    size_t first = cut - begin < m->longest ? begin : cut - m->longest + 1;
    for (size_t i = first; i < cut; i++) {
        const struct wane__marker *marker = NULL;
        for (size_t most = end - i; (marker = wane__llama_marker_at(m, text + i, most)) != NULL;
             most = marker->size - 1) {
            if (marker->user_defined && i + marker->size > cut) return true;
        }
    }
    return false;
}

/* Plain text in one piece, except where only a real cut keeps libllama from finding a user-defined marker. */
static int plain(const struct wane__llama *e, const char *text, size_t begin, size_t end, const size_t *cuts,
                 size_t cut_count, wane_tokens *out, wane_error *error) {
    for (size_t i = 0; e->markers.any_user_defined && i < cut_count; i++) {
        if (cuts[i] <= begin || cuts[i] >= end) continue;
        if (!cuts_user_defined(&e->markers, text, begin, end, cuts[i])) continue;
        int rc = piece(e, text + begin, cuts[i] - begin, false, out, error);
        if (rc != WANE_OK) return rc;
        begin = cuts[i];
    }
    return piece(e, text + begin, end - begin, false, out, error);
}

static int emit(const struct wane__llama *e, const char *text, size_t size, const struct finder *f,
                const size_t *cuts, size_t cut_count, wane_tokens *out, wane_error *error) {
    size_t begin = 0;
    for (size_t i = 0; i <= f->count; i++) {
        const struct wane__marker *marker = i < f->count ? f->list[i].marker : NULL;
        size_t end = marker != NULL ? f->list[i].at : size;
        if (marker != NULL && marker->strip_left) {
            while (end > begin && is_space(text[end - 1])) end--;
        }
        int rc = plain(e, text, begin, end > begin ? end : begin, cuts, cut_count, out, error);
        if (rc != WANE_OK) return rc;
        if (marker == NULL) break;
        if (!wane__tokens_add(out, marker->token))
            return wane__fail(error, WANE_ENOMEM, "No memory for tokens.");
        begin = f->list[i].at + marker->size;
        size_t stop = i + 1 < f->count ? f->list[i + 1].at : size;
        while (marker->strip_right && begin < stop && is_space(text[begin])) begin++;
    }
    return WANE_OK;
}

static int with_cuts(const struct wane__llama *e, const char *text, size_t size, const size_t *cuts,
                     size_t cut_count, wane_tokens *out, wane_error *error) {
    struct finder f = {0};
    unsigned char *taken = wane__alloc_zero(size, 1);
    int rc = WANE_ENOMEM;
    if (taken != NULL && find_all(&e->markers, text, size, cuts, cut_count, &f)) {
        keep_longest(&f, taken);
        rc = emit(e, text, size, &f, cuts, cut_count, out, error);
    } else {
        wane__fail(error, rc, "No memory to tokenise %zu bytes.", size);
    }
    wane__free(f.list);
    wane__free(taken);
    return rc;
}

int wane__llama_tokenize_cut(struct wane__llama *e, const char *text, size_t size, const size_t *cuts,
                             size_t cut_count, wane_tokens *out, wane_error *error) {
    size_t start = out->count;
    struct wane__llama_words words;
    wane__llama_words_enter(&words, e->base.log);
    int rc = cut_count == 0 ? piece(e, text, size, true, out, error)
                            : with_cuts(e, text, size, cuts, cut_count, out, error);
    if (rc == WANE_OK) rc = add_bos(e, start, out, error);
    wane__llama_words_leave(&words);
    if (rc != WANE_OK) out->count = start;
    return rc;
}
