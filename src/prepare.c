/*
 * prepare.c - text preparation as the public function has it: which steps, on which parts of a text, until nothing changes.
 *
 * Owns the order of the steps and what a code fence is. Refuses to touch what stands between fences: there every byte may count.
 */
#include "prepare.h"

#include "core/error.h"
#include "core/memory.h"

#include <limits.h>
#include <string.h>
#include <unicode/utf8.h>

/*
 * One pass is mostly enough. What a step takes away can bring to light what another one, or a fence, hid: with so many passes all
 * that people write has come to rest.
 */
enum { PASSES_MOST = 16 };

static const char *const names[WANE_PREPARE_STEPS] = {"invisible", "nfc", "tables", "nouns", "segments"};

const char *wane_prepare_name(int step) {
    return step >= 0 && step < WANE_PREPARE_STEPS ? names[step] : "?";
}

static int find(const char *word, size_t size) {
    for (int i = 0; i < WANE_PREPARE_STEPS; i++)
        if (strlen(names[i]) == size && memcmp(names[i], word, size) == 0) return i;
    return -1;
}

int wane_prepare_from(const char *list, unsigned *steps, wane_error *error) {
    wane__clear(error);
    *steps = 0;
    if (strcmp(list, "none") == 0 || list[0] == '\0') return WANE_OK;
    if (strcmp(list, "all") == 0) {
        *steps = WANE_PREPARE_ALL;
        return WANE_OK;
    }
    for (const char *at = list;;) {
        size_t size = strcspn(at, ",");
        while (size > 0 && at[0] == ' ') at++, size--;
        size_t length = size;
        while (length > 0 && at[length - 1] == ' ') length--;
        int step = find(at, length);
        if (step < 0) {
            *steps = 0;
            return wane__fail(
                error, WANE_EINVAL,
                "\"%.*s\" is not a step of text preparation; it must be none, all, or some of invisible, "
                "nfc, tables, nouns and segments with commas between",
                length > 40 ? 40 : (int)length, at);
        }
        *steps |= 1u << step;
        if (at[size] == '\0') return WANE_OK;
        at += size + 1;
    }
}

/* ------------------------------------------------------------------ code fences */

/* The fence that is open: its sign and how many of it; count 0: none is. */
struct fence {
    char sign;
    size_t count;
};

/* A line of at least three ` or ~ opens one; one of as many, with nothing behind, closes it. As CommonMark has it. */
static bool is_fence(const char *at, const char *end, struct fence *fence) {
    int indent = 0;
    while (at < end && *at == ' ' && indent < 3) at++, indent++;
    if (at == end || (*at != '`' && *at != '~')) return false;
    char sign = *at;
    size_t count = 0;
    while (at < end && *at == sign) at++, count++;
    if (fence->count > 0) {
        while (at < end && (*at == ' ' || *at == '\t' || *at == '\r')) at++;
        if (at < end || sign != fence->sign || count < fence->count) return false;
        fence->count = 0;
        return true;
    }
    if (count < 3 || (sign == '`' && memchr(at, '`', (size_t)(end - at)) != NULL)) return false;
    *fence = (struct fence){sign, count};
    return true;
}

/* Run a step over what stands outside of fences; the rest goes through as it is. `out` may be NULL: the step only counts. */
static int outside(wane__prepare_step *step, struct wane__prepare *prepare, const char *text, size_t size,
                   struct wane__buf *out, wane_error *error) {
    const char *end = text + size, *from = text;
    struct fence fence = {0};
    int code = WANE_OK;
    for (const char *at = text; at < end && code == WANE_OK;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop != NULL ? stop + 1 : end;
        bool was_open = fence.count > 0;
        if (is_fence(at, stop > at && stop[-1] == '\n' ? stop - 1 : stop, &fence) || was_open) {
            if (at > from) code = step(prepare, from, (size_t)(at - from), out, error);
            if (out != NULL) wane__buf_append(out, at, (size_t)(stop - at));
            from = stop;
        }
        at = stop;
    }
    if (code == WANE_OK && end > from) code = step(prepare, from, (size_t)(end - from), out, error);
    if (code == WANE_OK && out != NULL && out->failed)
        code = wane__fail(error, WANE_ENOMEM, "No memory for a text of %zu bytes.", size);
    return code;
}

/* ------------------------------------------------------------------ passes */

/* The text as it stands, and the one that a step makes of it. */
struct texts {
    struct wane__buf now, next;
};

static int run(wane__prepare_step *step, struct wane__prepare *prepare, struct texts *texts,
               wane_error *error) {
    wane__buf_clear(&texts->next);
    int code = outside(step, prepare, texts->now.data, texts->now.size, &texts->next, error);
    struct wane__buf old = texts->now;
    texts->now = texts->next;
    texts->next = old;
    if (code == WANE_OK && !wane__buf_append(&texts->now, "", 0)) /* terminated, also when empty */
        code = wane__fail(error, WANE_ENOMEM, "No memory for a text.");
    return code;
}

static bool same(const struct wane__buf *a, const struct wane__buf *b) {
    return a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

/* Of one pass: marks of sentences that were there, and those that were put. */
struct marks {
    uint64_t taken, put;
};

/* Marks are taken off and put on anew: so numbers are right, and a text that has them keeps them. */
static int run_segments(struct texts *texts, struct marks *marks, wane_error *error) {
    struct wane__prepare prepare = {0};
    int code = WANE_OK;
    for (int i = 0; i < PASSES_MOST && code == WANE_OK; i++) { /* a mark may have hidden a fence */
        code = run(wane__prepare_unmark, &prepare, texts, error);
        if (code == WANE_OK && same(&texts->now, &texts->next)) break;
    }
    if (code == WANE_OK)
        code = outside(wane__prepare_count, &prepare, texts->now.data, texts->now.size, NULL, error);
    if (code == WANE_OK) code = run(wane__prepare_mark, &prepare, texts, error);
    wane__prepare_close(&prepare);
    marks->put = (uint64_t)prepare.marked;
    marks->taken += prepare.changes;
    return code;
}

static int run_pass(unsigned steps, struct texts *texts, wane_prepared *did, struct marks *marks,
                    wane_error *error) {
    static wane__prepare_step *const plain[WANE_PREPARE_SEGMENTS] = {wane__prepare_invisible,
                                                                     wane__prepare_nfc, wane__prepare_tables,
                                                                     wane__prepare_nouns};
    int code = WANE_OK;
    for (int i = 0; i < WANE_PREPARE_SEGMENTS && code == WANE_OK; i++) {
        struct wane__prepare prepare = {0};
        if ((steps & 1u << i) == 0) continue;
        /* Steps between must not take marks for text. */
        if (i > WANE_PREPARE_NFC && (steps & 1u << WANE_PREPARE_SEGMENTS) != 0)
            code = run(wane__prepare_unmark, &prepare, texts, error);
        marks->taken += prepare.changes;
        prepare.changes = 0;
        if (code == WANE_OK) code = run(plain[i], &prepare, texts, error);
        did->changes[i] += prepare.changes;
    }
    if (code == WANE_OK && (steps & 1u << WANE_PREPARE_SEGMENTS) != 0)
        code = run_segments(texts, marks, error);
    return code;
}

int32_t wane__prepare_char(const char **at, const char *end) {
    UChar32 c;
    int32_t size = 0;
    U8_NEXT((const uint8_t *)*at, size, (int32_t)(end - *at), c);
    *at += size;
    return c;
}

static bool is_utf8(const char *text, size_t size) {
    for (const char *at = text, *end = text + size; at < end;)
        if (wane__prepare_char(&at, end) < 0) return false;
    return true;
}

/* Until a pass changes nothing. */
static int run_passes(unsigned steps, struct texts *texts, wane_prepared *did, wane_error *error) {
    struct wane__buf before = {0};
    int code = WANE_OK;
    for (int i = 0; i < PASSES_MOST && code == WANE_OK; i++) {
        struct marks marks = {0};
        wane__buf_clear(&before);
        wane__buf_append(&before, texts->now.data, texts->now.size);
        if (before.failed) {
            code = wane__fail(error, WANE_ENOMEM, "No memory for a text.");
            break;
        }
        code = run_pass(steps, texts, did, &marks, error);
        if (code == WANE_OK && same(&before, &texts->now)) break;
        did->changes[WANE_PREPARE_SEGMENTS] = marks.put > 0 ? marks.put : marks.taken;
    }
    wane__buf_free(&before);
    return code;
}

int wane_text_prepare(const char *text, size_t size, unsigned steps, char **out, size_t *out_size,
                      wane_prepared *prepared, wane_error *error) {
    struct texts texts = {0};
    wane_prepared did = {0};
    wane__clear(error);
    *out = NULL;
    *out_size = 0;
    if (steps & ~WANE_PREPARE_ALL) return wane__fail(error, WANE_EINVAL, "There is no such step.");
    if (size > INT_MAX / 8)
        return wane__fail(error, WANE_EINVAL, "A text of %zu bytes is too long to prepare.", size);
    if (!is_utf8(text, size)) return wane__fail(error, WANE_EFORMAT, "The text is not UTF-8.");
    wane__buf_append(&texts.now, text, size);
    int code = wane__buf_append(&texts.now, "", 0)
                   ? run_passes(steps, &texts, &did, error)
                   : wane__fail(error, WANE_ENOMEM, "No memory for a text of %zu bytes.", size);
    wane__buf_free(&texts.next);
    if (code != WANE_OK) {
        wane__buf_free(&texts.now);
        return code;
    }
    for (int i = 0; i < WANE_PREPARE_STEPS && prepared != NULL; i++) prepared->changes[i] += did.changes[i];
    *out = texts.now.data;
    *out_size = texts.now.size;
    return WANE_OK;
}
