/*
 * trace_parse.c - any line as a record, by a JSON parser: every field's type and range is checked, and refused by name.
 * Fields that nobody knows here are passed over, so that later versions can add some.
 */
#include "core/error.h"
#include "core/memory.h"
#include "table/trace_text.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An object under reading; the first fault stays. */
struct fields {
    const json_t *object;
    wane_error *error;
    int code;
};

static bool wrong(struct fields *f, const char *name, const char *allowed) {
    if (f->code == WANE_OK)
        f->code = wane__fail(f->error, WANE_EFORMAT, "\"%s\" is not there or not %s", name, allowed);
    return false;
}

static bool no_memory(struct fields *f) {
    f->code = wane__fail(f->error, WANE_ENOMEM, "no memory for this line");
    return false;
}

static bool as_int(const json_t *value, int64_t low, int64_t high, int64_t *out) {
    if (!json_is_integer(value)) return false;
    *out = json_integer_value(value);
    return *out >= low && *out <= high;
}

static int get_int(struct fields *f, const char *name, int low, int high) {
    int64_t value = 0;
    if (as_int(json_object_get(f->object, name), low, high, &value)) return (int)value;
    if (f->code == WANE_OK)
        f->code = wane__fail(f->error, WANE_EFORMAT, "\"%s\" is not there or not an integer from %d to %d",
                             name, low, high);
    return low;
}

static bool get_bool(struct fields *f, const char *name) {
    const json_t *value = json_object_get(f->object, name);
    if (!json_is_boolean(value)) wrong(f, name, "true or false");
    return json_is_true(value);
}

static bool as_float(const json_t *value, float *out) {
    if (!json_is_number(value)) return false;
    *out = (float)json_number_value(value);
    return isfinite(*out);
}

static const char *get_string(struct fields *f, const char *name, size_t least, size_t most,
                              const char *allowed) {
    const json_t *value = json_object_get(f->object, name);
    size_t size = json_is_string(value) ? json_string_length(value) : SIZE_MAX;
    if (size >= least && size <= most) return json_string_value(value);
    wrong(f, name, allowed);
    return "";
}

/* `digits` hexadecimal digits, in numbers of 16. */
static void get_hex(struct fields *f, const char *name, size_t digits, uint64_t *out) {
    char allowed[40];
    snprintf(allowed, sizeof allowed, "%zu hexadecimal digits", digits);
    const char *text = get_string(f, name, digits, digits, allowed);
    if (strspn(text, "0123456789abcdefABCDEF") != strlen(text)) wrong(f, name, allowed);
    if (f->code != WANE_OK) return;
    for (size_t i = 0; i < digits / 16; i++) {
        char part[17] = {0};
        memcpy(part, text + 16 * i, 16);
        out[i] = strtoull(part, NULL, 16);
    }
}

static void get_name(struct fields *f, const char *field, char *out) {
    const char *id = get_string(f, field, 1, WANE__TRACE_ID_MOST, "a name of 1 to 64 bytes");
    memcpy(out, id, strlen(id) + 1);
}

static void get_id(struct fields *f, char *out) {
    get_name(f, "id", out);
}

static void get_kind(struct fields *f, enum wane__kind *kind) {
    static const char allowed[] = "\"single\", \"multi\", \"code\" or \"summary\"";
    const char *name = get_string(f, "kind", 1, 16, allowed);
    if (!wane__kind_from(name, strlen(name), kind)) wrong(f, "kind", allowed);
}

static const json_t *get_array(struct fields *f, const char *name, size_t most, const char *allowed) {
    const json_t *value = json_object_get(f->object, name);
    if (json_is_array(value) && json_array_size(value) <= most) return value;
    wrong(f, name, allowed);
    return NULL;
}

/* ----------------------------------------------------------------- origin */

static void parse_origin(struct fields *f, struct wane__trace_origin *o) {
    static const char digest[] = "a digest of 32 hexadecimal digits";
    o->version = get_int(f, "version", 1, INT32_MAX);
    const char *model = get_string(f, "model", 32, 32, digest);
    const char *tokenizer = get_string(f, "tokenizer", 32, 32, digest);
    o->vocab_size = get_int(f, "vocab_size", 1, INT32_MAX);
    if (f->code != WANE_OK) return;
    static const char hex[] = "0123456789abcdef";
    if (strspn(model, hex) != 32) wrong(f, "model", digest);
    if (strspn(tokenizer, hex) != 32) wrong(f, "tokenizer", digest);
    memcpy(o->model, model, sizeof o->model);
    memcpy(o->tokenizer, tokenizer, sizeof o->tokenizer);
}

/* ------------------------------------------------------------------ token */

static void parse_last(struct fields *f, struct wane__trace_token *t) {
    const json_t *list = get_array(f, "last", WANE__TEN, "a list of at most 10 tokens");
    t->last_count = (int)json_array_size(list);
    for (int i = 0; i < t->last_count; i++) {
        int64_t value;
        if (!as_int(json_array_get(list, (size_t)i), 0, INT32_MAX, &value)) {
            wrong(f, "last", "a list of at most 10 tokens");
            return;
        }
        t->last[i] = (int32_t)value;
    }
}

static void parse_top(struct fields *f, struct wane__trace_token *t) {
    static const char allowed[] = "a list of 1 to 64 pairs of token and logit";
    const json_t *list = get_array(f, "top", WANE__TRACE_TOP, allowed);
    t->top_count = (int)json_array_size(list);
    for (int i = 0; i < t->top_count; i++) {
        const json_t *pair = json_array_get(list, (size_t)i);
        int64_t token;
        if (json_array_size(pair) != 2 || !as_int(json_array_get(pair, 0), 0, INT32_MAX, &token) ||
            !as_float(json_array_get(pair, 1), &t->top[i].logit)) {
            wrong(f, "top", allowed);
            return;
        }
        t->top[i].token = (int32_t)token;
    }
}

static int letter_value(char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

/* Base64 of 4 · vocab_size bytes, little-endian floats. */
static bool decode_all(const char *text, size_t size, float *out, int count) {
    size_t bytes = 4 * (size_t)count, at = 0;
    if (size != (bytes + 2) / 3 * 4) return false;
    uint32_t held = 0, word = 0;
    int bits = 0;
    for (size_t i = 0; i < size && at < bytes; i++) {
        int value = letter_value(text[i]);
        if (value < 0) return false;
        held = held << 6 | (uint32_t)value;
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        word = word >> 8 | (held >> bits & 0xff) << 24;
        held &= (1u << bits) - 1;
        if (++at % 4 == 0) memcpy(&out[at / 4 - 1], &word, sizeof word);
    }
    size_t padding = (3 - bytes % 3) % 3;
    return at == bytes && held == 0 && strspn(text + size - padding, "=") == padding;
}

static void parse_all(struct fields *f, int vocab_size, struct wane__trace_scratch *s,
                      struct wane__trace_record *record) {
    const json_t *value = json_object_get(f->object, "all");
    if (value == NULL || json_is_null(value)) return;
    if (s->all_room < vocab_size) {
        float *more = wane__resize(s->all, (size_t)vocab_size, sizeof *more);
        if (more == NULL) {
            no_memory(f);
            return;
        }
        s->all = more;
        s->all_room = vocab_size;
    }
    record->all = s->all;
    if (!json_is_string(value) ||
        !decode_all(json_string_value(value), json_string_length(value), s->all, vocab_size))
        wrong(f, "all", "base64 of as many floats as the vocabulary has tokens");
}

int wane__trace_check_token(const struct wane__trace_token *t, int vocab_size, wane_error *error) {
    if (t->token >= vocab_size)
        return wane__fail(error, WANE_EFORMAT, "\"token\" is %d; the vocabulary has %d", t->token,
                          vocab_size);
    if (t->index > t->position || t->last_count > t->position)
        return wane__fail(error, WANE_EFORMAT,
                          "\"position\" is %d: fewer tokens than \"index\" or \"last\" say", t->position);
    for (int i = 0; i < t->last_count; i++)
        if (t->last[i] >= vocab_size)
            return wane__fail(error, WANE_EFORMAT, "\"last\" holds %d; the vocabulary has %d", t->last[i],
                              vocab_size);
    if (t->top_count < 1) return wane__fail(error, WANE_EFORMAT, "\"top\" is empty");
    for (int i = 0; i < t->top_count; i++) {
        if (t->top[i].token >= vocab_size)
            return wane__fail(error, WANE_EFORMAT, "\"top\" holds %d; the vocabulary has %d", t->top[i].token,
                              vocab_size);
        if (i > 0 && !(t->top[i].logit < t->top[i - 1].logit ||
                       (t->top[i].logit == t->top[i - 1].logit && t->top[i].token > t->top[i - 1].token)))
            return wane__fail(error, WANE_EFORMAT, "\"top\" is not in order at token %d", t->top[i].token);
    }
    return WANE_OK;
}

static void parse_state(struct fields *f, struct wane__trace_token *t) {
    static const char allowed[] = "\"normal\", \"locked\", \"explore\" or \"protect\"";
    const char *name = get_string(f, "state", 1, 16, allowed);
    for (int i = 0; i < WANE_STATES; i++)
        if (strcmp(wane_state_name(i), name) == 0) t->state = i + 1;
    if (t->state == 0) wrong(f, "state", allowed);
}

static void parse_token(struct fields *f, int vocab_size, bool want_all, struct wane__trace_scratch *s,
                        struct wane__trace_record *record) {
    struct wane__trace_token *t = &s->token;
    uint64_t before[2] = {0, 0};
    get_id(f, t->request);
    get_kind(f, &t->kind);
    get_hex(f, "tenant", 16, &t->tenant);
    get_hex(f, "before", 32, before);
    t->before = (struct wane__context_name){.low = before[1], .high = before[0]};
    t->position = get_int(f, "position", 0, INT32_MAX);
    t->index = get_int(f, "index", 0, INT32_MAX);
    parse_last(f, t);
    t->token = get_int(f, "token", 0, INT32_MAX);
    t->changed = get_bool(f, "changed");
    t->state = 0;
    if (json_object_get(f->object, "state") != NULL) parse_state(f, t);
    parse_top(f, t);
    t->log_sum = NAN;
    const json_t *sum = json_object_get(f->object, "log_sum");
    if (sum != NULL && !json_is_null(sum) && !as_float(sum, &t->log_sum))
        wrong(f, "log_sum", "a number that a float holds");
    if (f->code == WANE_OK) f->code = wane__trace_check_token(t, vocab_size, f->error);
    if (want_all && f->code == WANE_OK) parse_all(f, vocab_size, s, record);
    record->token = t;
}

/* ---------------------------------------------------------------- request */

static void parse_prompt(struct fields *f, int vocab_size, struct wane__trace_scratch *s) {
    const json_t *list = get_array(f, "prompt", INT32_MAX, "a list of tokens");
    size_t count = json_array_size(list), i;
    const json_t *item;
    if (count > s->prompt_room) {
        int32_t *more = wane__resize(s->prompt, count, sizeof *more);
        if (more == NULL) {
            no_memory(f);
            return;
        }
        s->prompt = more;
        s->prompt_room = count;
    }
    json_array_foreach(list, i, item) {
        int64_t value;
        if (!as_int(item, WANE__TRACE_REDACTED, vocab_size - 1, &value)) {
            wrong(f, "prompt", "a list of the vocabulary's tokens");
            return;
        }
        s->prompt[i] = (int32_t)value;
    }
    s->request.prompt = s->prompt;
    s->request.prompt_count = count;
}

static void get_real(struct fields *f, const char *name, float *out) {
    const json_t *value = json_object_get(f->object, name);
    if (value != NULL && !as_float(value, out)) wrong(f, name, "a number that a float holds");
}

static void get_seed(struct fields *f, uint64_t *seed) {
    const char *text = get_string(f, "seed", 1, 20, "a string of decimal digits below 2^64");
    errno = 0;
    *seed = strtoull(text, NULL, 10);
    if (strspn(text, "0123456789") != strlen(text) || errno != 0)
        wrong(f, "seed", "a string of decimal digits below 2^64");
}

static void parse_bias(struct fields *f, struct wane__trace_scratch *s) {
    static const char allowed[] = "a list of at most 1024 pairs of token and number";
    if (json_object_get(f->object, "bias") == NULL) return;
    const json_t *list = get_array(f, "bias", 1024, allowed), *pair;
    if (s->bias == NULL && json_array_size(list) > 0) {
        s->bias = wane__alloc_zero(1024, sizeof *s->bias);
        if (s->bias == NULL) {
            no_memory(f);
            return;
        }
    }
    if (s->bias == NULL) { /* an empty list */
        s->request.sampling.bias_count = 0;
        return;
    }
    size_t i;
    json_array_foreach(list, i, pair) {
        const json_t *bias = json_array_get(pair, 1);
        int64_t token;
        s->bias[i].bias = -INFINITY;
        if (json_array_size(pair) != 2 || !as_int(json_array_get(pair, 0), 0, INT32_MAX, &token) ||
            (!json_is_null(bias) && !as_float(bias, &s->bias[i].bias))) {
            wrong(f, "bias", allowed);
            return;
        }
        s->bias[i].token = (int32_t)token;
    }
    s->request.sampling.bias = s->bias;
    s->request.sampling.bias_count = json_array_size(list);
}

static void parse_sampling(struct fields *f, int vocab_size, struct wane__trace_scratch *s) {
    struct fields inner = {json_object_get(f->object, "sampling"), f->error, f->code};
    wane_sampling *p = &s->request.sampling;
    wane__sampling_defaults(p);
    if (!json_is_object(inner.object)) {
        wrong(f, "sampling", "an object");
        return;
    }
    get_real(&inner, "temperature", &p->temperature);
    p->top_k = get_int(&inner, "top_k", 0, INT32_MAX);
    get_real(&inner, "top_p", &p->top_p);
    get_real(&inner, "min_p", &p->min_p);
    get_real(&inner, "repeat_penalty", &p->repeat_penalty);
    get_real(&inner, "presence_penalty", &p->presence_penalty);
    get_real(&inner, "frequency_penalty", &p->frequency_penalty);
    p->penalty_window = get_int(&inner, "penalty_window", -1, INT32_MAX);
    get_seed(&inner, &p->seed);
    p->seeded = true;
    parse_bias(&inner, s);
    f->code = inner.code;
    if (f->code != WANE_OK) return;
    wane_error why = {0};
    if (wane__sampling_check(p, vocab_size, &why) != WANE_OK)
        f->code = wane__fail(f->error, WANE_EFORMAT, "\"sampling\": %.400s", why.text);
}

static void parse_stops(struct fields *f, struct wane__trace_scratch *s) {
    static const char allowed[] = "a list of at most 16 strings of at most 1024 bytes";
    const json_t *list = get_array(f, "stops", WANE__TRACE_STOPS, allowed), *item;
    size_t i, offset[WANE__TRACE_STOPS] = {0};
    wane__buf_clear(&s->stops);
    json_array_foreach(list, i, item) {
        if (!json_is_string(item) || json_string_length(item) > 1024) {
            wrong(f, "stops", allowed);
            return;
        }
        offset[i] = s->stops.size;
        if (!wane__buf_append(&s->stops, json_string_value(item), json_string_length(item) + 1)) {
            no_memory(f);
            return;
        }
    }
    s->request.stop_count = (int)json_array_size(list);
    for (int n = 0; n < s->request.stop_count; n++) s->request.stops[n] = s->stops.data + offset[n];
}

static void parse_request_vote(struct fields *f, struct wane__trace_request *r) {
    struct fields inner = {json_object_get(f->object, "vote"), f->error, f->code};
    if (inner.object == NULL) return;
    if (!json_is_object(inner.object)) {
        wrong(f, "vote", "an object");
        return;
    }
    get_name(&inner, "of", r->vote_of);
    r->vote_answer = get_int(&inner, "answer", 0, WANE__TRACE_ANSWERS - 1);
    f->code = inner.code;
}

static void parse_request(struct fields *f, int vocab_size, struct wane__trace_scratch *s) {
    struct wane__trace_request *r = &s->request;
    *r = (struct wane__trace_request){0};
    get_id(f, r->request);
    get_kind(f, &r->kind);
    get_hex(f, "tenant", 16, &r->tenant);
    if (!as_int(json_object_get(f->object, "time_ms"), 0, INT64_MAX, &r->time_ms))
        wrong(f, "time_ms", "an integer of milliseconds since 1970");
    r->max_tokens = get_int(f, "max_tokens", 0, INT32_MAX);
    r->ignore_end = get_bool(f, "ignore_end");
    r->redacted = get_int(f, "redacted", 0, INT32_MAX);
    if (f->code == WANE_OK) parse_request_vote(f, r);
    if (f->code == WANE_OK) parse_prompt(f, vocab_size, s);
    if (f->code == WANE_OK) parse_sampling(f, vocab_size, s);
    if (f->code == WANE_OK) parse_stops(f, s);
}

/* ------------------------------------------------------ end, dropped, vote */

static void parse_end(struct fields *f, struct wane__trace_end *end) {
    get_id(f, end->request);
    const char *finish = get_string(f, "finish", 1, sizeof end->finish - 1, "a word of at most 15 bytes");
    memcpy(end->finish, finish, strlen(finish) + 1);
    end->tokens = get_int(f, "tokens", 0, INT32_MAX);
    end->redacted = get_int(f, "redacted", 0, INT32_MAX);
    const json_t *ms = json_object_get(f->object, "ms");
    end->ms = json_number_value(ms);
    if (!json_is_number(ms) || !(end->ms >= 0 && end->ms <= WANE__TRACE_MS_MOST))
        wrong(f, "ms", "a number from 0 to 1e12");
}

static void parse_dropped(struct fields *f, struct wane__trace_dropped *dropped) {
    int64_t requests = 0, tokens = 0;
    if (!as_int(json_object_get(f->object, "requests"), 0, INT64_MAX, &requests))
        wrong(f, "requests", "an integer of at least 0");
    if (!as_int(json_object_get(f->object, "tokens"), 0, INT64_MAX, &tokens))
        wrong(f, "tokens", "an integer of at least 0");
    *dropped = (struct wane__trace_dropped){(uint64_t)requests, (uint64_t)tokens};
}

static void parse_vote(struct fields *f, struct wane__trace_vote *vote) {
    get_name(f, "of", vote->of);
    vote->chosen = get_int(f, "chosen", 0, WANE__TRACE_ANSWERS - 1);
}

/* ----------------------------------------------------------------- the line */

static void parse_object(struct fields *f, int vocab_size, bool want_all, struct wane__trace_scratch *s,
                         struct wane__trace_record *record) {
    const char *type = get_string(f, "type", 1, 64, "a word");
    if (strcmp(type, "origin") == 0) {
        record->type = WANE__TRACE_ORIGIN;
        parse_origin(f, &s->origin);
        record->origin = &s->origin;
    } else if (strcmp(type, "token") == 0) {
        record->type = WANE__TRACE_TOKEN;
        parse_token(f, vocab_size, want_all, s, record);
    } else if (strcmp(type, "request") == 0) {
        record->type = WANE__TRACE_REQUEST;
        parse_request(f, vocab_size, s);
        record->request = &s->request;
    } else if (strcmp(type, "end") == 0) {
        record->type = WANE__TRACE_END;
        parse_end(f, &s->end);
        record->end = &s->end;
    } else if (strcmp(type, "dropped") == 0) {
        record->type = WANE__TRACE_DROPPED;
        parse_dropped(f, &s->dropped);
        record->dropped = &s->dropped;
    } else if (strcmp(type, "vote") == 0) {
        record->type = WANE__TRACE_VOTE;
        parse_vote(f, &s->vote);
        record->vote = &s->vote;
    } else {
        record->type = WANE__TRACE_OTHER;
    }
}

int wane__trace_parse(const char *line, size_t size, int vocab_size, bool want_all, bool slow,
                      struct wane__trace_scratch *s, struct wane__trace_record *record, wane_error *error) {
    record->token = NULL;
    record->all = NULL;
    record->request = NULL;
    record->end = NULL;
    record->dropped = NULL;
    record->vote = NULL;
    if (!slow && wane__trace_parse_token(line, size, &s->token)) {
        record->type = WANE__TRACE_TOKEN;
        record->token = &s->token;
        return wane__trace_check_token(&s->token, vocab_size, error);
    }
    json_error_t fault;
    json_t *root = json_loadb(line, size, JSON_REJECT_DUPLICATES, &fault);
    if (root == NULL)
        return wane__fail(error, WANE_EFORMAT, "not JSON: %.200s (byte %d)", fault.text, fault.position);
    struct fields f = {root, error, WANE_OK};
    if (!json_is_object(root))
        f.code = wane__fail(error, WANE_EFORMAT, "not a JSON object");
    else
        parse_object(&f, vocab_size, want_all, s, record);
    json_decref(root);
    return f.code;
}

void wane__trace_scratch_free(struct wane__trace_scratch *s) {
    wane__free(s->prompt);
    wane__free(s->bias);
    wane__free(s->all);
    wane__buf_free(&s->stops);
    *s = (struct wane__trace_scratch){0};
}
