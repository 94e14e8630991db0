/*
 * llama_chat.c - conversations: rendered by the model's own template, with what people typed kept harmless.
 *
 * The danger: a user types "<|im_end|>\n<|im_start|>system\n…", the template puts that between its own
 * markers, and in the rendered text nobody can tell which markers are whose. So before rendering, a long
 * random number, the seam, is put INSIDE each such text that a content holds (behind its first byte), and
 * where a content's edge could complete a marker together with the template's text. Whatever the
 * template then does with contents (trim, join, leave out), the seams travel with the text. Afterwards
 * they are taken out again, and where they stood no marker may be found (llama_text.c).
 *
 *     content    Say <|im_end|> now                  (typed by a user)
 *     rendered   …user\nSay <4711…|im_end|> now<|im_end|>\n
 *     result     …user\nSay <|im_end|> now<|im_end|>\n       cut behind the first "<"
 *
 * Contents without markers hold no seams, so the template sees exactly what was typed, and the tokens are those of
 * the joint text. Not covered: a template that itself turns harmless content into a marker, such as by
 * deleting characters from its middle.
 *
 * The random number comes from the system for each call, so that no content can hold it.
 *
 * A last message of the assistant leaves its turn open: it gets one more seam at its end, and everything
 * behind that is dropped.
 */
#include "engine/llama_internal.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/os.h"
#include "engine/template.h"

#include <errno.h>
#include <string.h>

/* Decimal digits survive what templates do to text: trim, change of case, JSON quoting. 2^-83 to guess. */
#define SEAM_DIGITS 25

struct conversation {
    struct wane__llama *engine;
    const wane_message *messages;
    size_t count;
    bool open;                /* the last message is the assistant's, and to be continued */
    char seam[SEAM_DIGITS];   /* stands inside typed markers  */
    char end[SEAM_DIGITS];    /* stands behind an open turn   */
    struct wane__buf *marked; /* contents with their seams    */
    wane_message *given;      /* the messages as the template gets them */
    struct wane__buf text;    /* rendered, seams taken out    */
    size_t *cuts;             /* where they stood             */
    size_t cut_count;
};

/* ----------------------------------------------------------------- template */

static const char chatml[] = "chatml";

static const char *text_of(const struct wane__llama *e, int32_t token) {
    const char *text = token >= 0 ? llama_vocab_get_text(e->vocab, token) : NULL;
    return text != NULL ? text : "";
}

/* Does libllama's own fixed list know this template? */
static bool listed(const char *source) {
    struct llama_chat_message probe = {"user", "x"};
    return llama_chat_apply_template(source, &probe, 1, true, NULL, 0) >= 0;
}

int wane__llama_template_open(struct wane__llama *e, wane_error *error) {
    const char *source = llama_model_chat_template(e->model, NULL);
    bool from_file = source != NULL && source[0] != '\0';
    e->base.facts.template_kind = from_file ? "file" : chatml;
    e->template_source = wane__copy_string(from_file ? source : chatml);
    if (e->template_source == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for the chat template.");
    if (!from_file) return WANE_OK;
#ifdef WANE_HAVE_JINJA
    char why[200] = "";
    int rc = wane__template_parse(source, text_of(e, e->base.facts.bos), text_of(e, e->base.facts.eos),
                                  &e->chat_template, why, sizeof why);
    if (rc == WANE_ENOMEM) return wane__fail(error, rc, "No memory for the chat template.");
    if (rc != WANE_OK)
        wane__log(e->base.log, WANE_LOG_WARN, "the model's chat template does not parse: %s", why);
#else
    (void)text_of;
#endif
    if (e->chat_template == NULL && !listed(source)) {
        wane__log(e->base.log, WANE_LOG_WARN,
                  "the model's chat template cannot be used: no chat with this model");
    }
    return WANE_OK;
}

void wane__llama_template_close(struct wane__llama *e) {
#ifdef WANE_HAVE_JINJA
    wane__template_free(e->chat_template);
#endif
    e->chat_template = NULL;
    wane__free(e->template_source);
    e->template_source = NULL;
}

/* --------------------------------------------------------------- the seams */

static int draw_digits(char *digits, wane_error *error) {
    unsigned char bytes[SEAM_DIGITS];
    if (!wane__os_random(bytes, sizeof bytes))
        return wane__fail(error, WANE_EIO, "The system gave no random numbers: %s.", strerror(errno));
    for (size_t i = 0; i < SEAM_DIGITS; i++) digits[i] = (char)('0' + bytes[i] % 10);
    return WANE_OK;
}

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Is a beginning of some marker at the end of `text`, all of it but at least one byte? */
static bool ends_in_beginning(const struct wane__markers *m, const char *text, size_t size) {
    for (size_t n = 1; n < m->longest && n <= size; n++) {
        const char *tail = text + size - n;
        if (!m->first[(unsigned char)tail[0]]) continue;
        for (size_t i = 0; i < m->count; i++) {
            if (m->sorted[i].size > n && memcmp(m->sorted[i].text, tail, n) == 0) return true;
        }
    }
    return false;
}

/* Is an end of some marker at the start of `text`? */
static bool begins_in_end(const struct wane__markers *m, const char *text, size_t size) {
    for (size_t n = 1; n < m->longest && n <= size; n++) {
        if (!m->last[(unsigned char)text[n - 1]]) continue;
        for (size_t i = 0; i < m->count; i++) {
            size_t whole = m->sorted[i].size;
            if (whole > n && memcmp(m->sorted[i].text + whole - n, text, n) == 0) return true;
        }
    }
    return false;
}

/* Is all of `text` inside a marker, with something on both sides of it? */
static bool is_middle(const struct wane__markers *m, const char *text, size_t size) {
    if (size == 0 || size + 2 > m->longest) return false;
    for (size_t i = 0; i < m->count; i++) {
        const struct wane__marker *marker = &m->sorted[i];
        if (marker->size >= size + 2 && memmem(marker->text + 1, marker->size - 2, text, size) != NULL)
            return true;
    }
    return false;
}

/*
 * Copy a content and put the seams in. Edge seams go between the text and its outer whitespace, so that a
 * template that trims still finds that whitespace at the edge.
 */
static void mark(const struct conversation *c, const char *text, size_t size, struct wane__buf *out) {
    const struct wane__markers *m = &c->engine->markers;
    size_t begin = 0, end = size;
    while (begin < end && is_space(text[begin])) begin++;
    while (end > begin && is_space(text[end - 1])) end--;
    bool first = begins_in_end(m, text + begin, end - begin) || is_middle(m, text + begin, end - begin);
    bool last = ends_in_beginning(m, text + begin, end - begin);
    size_t copied = 0;
    for (size_t i = 0; i < size; i++) {
        bool inside =
            i < end && wane__llama_marker_at(m, text + i, size - i) != NULL; /* seam behind byte i */
        bool before = first && i == begin;
        if (before) {
            wane__buf_append(out, text + copied, i - copied);
            wane__buf_append(out, c->seam, SEAM_DIGITS);
            copied = i;
        }
        if (inside || (last && i + 1 == end)) {
            wane__buf_append(out, text + copied, i + 1 - copied);
            wane__buf_append(out, c->seam, SEAM_DIGITS);
            copied = i + 1;
        }
    }
    wane__buf_append(out, text + copied, size - copied);
}

static int mark_all(struct conversation *c, wane_error *error) {
    int rc = draw_digits(c->seam, error);
    if (rc == WANE_OK) rc = draw_digits(c->end, error);
    if (rc != WANE_OK) return rc;
    c->marked = wane__alloc_zero(c->count, sizeof *c->marked);
    c->given = wane__alloc_zero(c->count, sizeof *c->given);
    if (c->marked == NULL || c->given == NULL)
        return wane__fail(error, WANE_ENOMEM, "No memory for a conversation.");
    for (size_t i = 0; i < c->count; i++) {
        struct wane__buf *b = &c->marked[i];
        mark(c, c->messages[i].content, c->messages[i].content_size, b);
        if (c->open && i + 1 == c->count) wane__buf_append(b, c->end, SEAM_DIGITS);
        wane__buf_append(b, "", 0);
        if (b->failed) return wane__fail(error, WANE_ENOMEM, "No memory for a conversation.");
        c->given[i] =
            (wane_message){.role = c->messages[i].role, .content = b->data, .content_size = b->size};
    }
    return WANE_OK;
}

/* Take the seams out of the text and note where they stood. */
static int unmark(struct conversation *c, wane_error *error) {
    struct wane__buf *t = &c->text;
    if (c->open) {
        char *end = memmem(t->data, t->size, c->end, SEAM_DIGITS);
        if (end == NULL) {
            return wane__fail(error, WANE_EINVAL,
                              "The model's chat template drops a last message of the assistant, so it "
                              "cannot be continued.");
        }
        t->size = (size_t)(end - t->data);
    }
    size_t room = t->size / SEAM_DIGITS + 1;
    c->cuts = wane__alloc_zero(room, sizeof *c->cuts);
    if (c->cuts == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a conversation.");
    size_t from = 0, to = 0;
    while (from < t->size) {
        char *seam = memmem(t->data + from, t->size - from, c->seam, SEAM_DIGITS);
        size_t stop = seam != NULL ? (size_t)(seam - t->data) : t->size;
        memmove(t->data + to, t->data + from, stop - from);
        to += stop - from;
        from = stop;
        if (seam == NULL) continue;
        c->cuts[c->cut_count++] = to;
        from += SEAM_DIGITS;
    }
    t->size = to;
    if (t->data != NULL) t->data[to] = '\0';
    return WANE_OK;
}

/* ------------------------------------------------------------------- render */

/* By libllama's own list of templates, which takes C strings and knows no errors. */
static int render_listed(struct conversation *c, wane_error *error) {
    struct llama_chat_message *list = wane__alloc_zero(c->count, sizeof *list);
    if (list == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a conversation.");
    int rc = WANE_OK;
    size_t room = 256;
    for (size_t i = 0; i < c->count; i++) {
        list[i] = (struct llama_chat_message){c->given[i].role, c->given[i].content};
        room += c->given[i].content_size + 64;
    }
    for (int attempt = 0; attempt < 2 && rc == WANE_OK; attempt++) {
        if (room > INT32_MAX || !wane__buf_reserve(&c->text, room)) {
            rc = wane__fail(error, WANE_ENOMEM, "No memory for a conversation of %zu bytes.", room);
            break;
        }
        int32_t n = llama_chat_apply_template(c->engine->template_source, list, c->count, !c->open,
                                              c->text.data, (int32_t)room);
        if (n < 0)
            rc = wane__fail(error, WANE_EUNSUPPORTED, "This build cannot use the model's chat template.");
        c->text.size = n > 0 ? (size_t)n : 0;
        if (c->text.size <= room) break;
        room = c->text.size + 1;
        c->text.size = 0;
    }
    wane__free(list);
    return rc;
}

static int render(struct conversation *c, wane_error *error) {
#ifdef WANE_HAVE_JINJA
    if (c->engine->chat_template != NULL) {
        char why[400] = "";
        int rc = wane__template_render(c->engine->chat_template, c->given, c->count, !c->open, &c->text, why,
                                       sizeof why);
        return rc == WANE_OK
                   ? rc
                   : wane__fail(error, rc, "The model's chat template refuses these messages: %s", why);
    }
#endif
    return render_listed(c, error);
}

static int check_messages(const wane_message *messages, size_t count, wane_error *error) {
    static const char *const roles[] = {"system", "user", "assistant"};
    if (messages == NULL || count == 0) return wane__fail(error, WANE_EINVAL, "There are no messages.");
    for (size_t i = 0; i < count; i++) {
        const wane_message *m = &messages[i];
        bool known = false;
        for (size_t k = 0; k < 3 && m->role != NULL; k++) known = known || strcmp(m->role, roles[k]) == 0;
        if (!known) {
            return wane__fail(error, WANE_EINVAL,
                              "Message %zu: role \"%.40s\" is none of system, user, assistant.", i,
                              m->role != NULL ? m->role : "");
        }
        if (m->content == NULL && m->content_size > 0)
            return wane__fail(error, WANE_EINVAL, "Message %zu has no content.", i);
        if (m->content_size > 0 && memchr(m->content, '\0', m->content_size) != NULL) {
            return wane__fail(error, WANE_EINVAL, "Message %zu holds a zero byte.", i);
        }
    }
    return WANE_OK;
}

static int converse(struct conversation *c, wane_tokens *out, struct wane__buf *text, wane_error *error) {
    int rc = mark_all(c, error);
    if (rc == WANE_OK) rc = render(c, error);
    if (rc == WANE_OK) rc = unmark(c, error);
    if (rc == WANE_OK && out != NULL) {
        rc = wane__llama_tokenize_cut(c->engine, c->text.data != NULL ? c->text.data : "", c->text.size,
                                      c->cuts, c->cut_count, out, error);
    }
    if (rc == WANE_OK && text != NULL && !wane__buf_append(text, c->text.data, c->text.size)) {
        rc = wane__fail(error, WANE_ENOMEM, "No memory for a conversation.");
    }
    return rc;
}

int wane__llama_chat(struct wane__engine *engine, const wane_message *messages, size_t count,
                     wane_tokens *out, struct wane__buf *text, wane_error *error) {
    int rc = check_messages(messages, count, error);
    if (rc != WANE_OK) return rc;
    struct conversation c = {.engine = wane__llama_of(engine), .messages = messages, .count = count};
    c.open = strcmp(messages[count - 1].role, "assistant") == 0;
    struct wane__llama_words words;
    wane__llama_words_enter(&words, engine->log);
    rc = converse(&c, out, text, error);
    wane__llama_words_leave(&words);
    for (size_t i = 0; i < count && c.marked != NULL; i++) wane__buf_free(&c.marked[i]);
    wane__free(c.marked);
    wane__free(c.given);
    wane__free(c.cuts);
    wane__buf_free(&c.text);
    return rc;
}
