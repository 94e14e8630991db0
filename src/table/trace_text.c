/*
 * trace_text.c - records as lines, in the canonical layout. Owns how floats are written; refuses to write what JSON cannot
 * hold: an infinite bias is null, an unknown sum is left out, a list of candidates ends before one that is not finite.
 */
#include "table/trace_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const kinds[WANE__KINDS] = {"single", "multi", "code", "summary"};

const char *wane__kind_name(enum wane__kind kind) {
    return (unsigned)kind < WANE__KINDS ? kinds[kind] : "single";
}

bool wane__kind_from(const char *name, size_t size, enum wane__kind *kind) {
    for (int i = 0; i < WANE__KINDS; i++) {
        if (strlen(kinds[i]) != size || memcmp(kinds[i], name, size) != 0) continue;
        *kind = (enum wane__kind)i;
        return true;
    }
    return false;
}

/* ------------------------------------------------------------------- numbers */

static const double power[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13};

static char *put_uint(char *at, uint64_t value) {
    char digits[20];
    int count = 0;
    do {
        digits[count++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (count > 0) *at++ = digits[--count];
    return at;
}

static char *put_int(char *at, int64_t value) {
    if (value < 0) *at++ = '-';
    return put_uint(at, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* n / 10^decimals, without zeros at its end. */
static char *put_decimal(char *at, uint64_t n, int decimals) {
    while (decimals > 0 && n % 10 == 0) {
        n /= 10;
        decimals--;
    }
    char digits[32];
    int count = 0;
    while (n > 0 || count <= decimals) {
        digits[count++] = (char)('0' + n % 10);
        n /= 10;
    }
    while (count > decimals) *at++ = digits[--count];
    if (decimals > 0) *at++ = '.';
    while (count > 0) *at++ = digits[--count];
    return at;
}

/*
 * Is a double so near to the middle between two floats that whoever reads the decimal straight into a float, instead of
 * through a double as we do, could round it the other way?
 */
static bool near_middle(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t low = (uint32_t)bits & 0x1fffffffu;
    return low > 0x0ffffff0u && low < 0x10000010u;
}

/* Very large or very small: the C library's way, with the locale's point taken back. */
static int rare_float(float value, char *out) {
    int size = 0;
    for (int digits = 6; digits <= 9; digits++) {
        size = snprintf(out, WANE__TRACE_FLOAT, "%.*g", digits, (double)value);
        double back = strtod(out, NULL);
        if (digits == 9 || ((float)back == value && !near_middle(back))) break;
    }
    for (int i = 0; i < size; i++)
        if (strchr("+-0123456789e", out[i]) == NULL) out[i] = '.';
    return size;
}

int wane__trace_float(float value, char *out) {
    double a = fabs((double)value);
    char *at = out;
    if (value == 0) {
        out[0] = '-';
        out[1] = out[3] = '0';
        out[2] = '.';
        if (signbit(value)) return 4; /* "-0" would be the integer 0 */
        *out = '0';
        return 1;
    }
    if (a < 1e-4 || a >= 1e9) return rare_float(value, out);
    if (value < 0) *at++ = '-';
    int whole = 0, zeros = 0; /* digits before the point; zeros right behind it */
    while (whole < 9 && a >= power[whole]) whole++;
    while (whole == 0 && a * power[zeros + 1] < 1) zeros++;
    uint64_t n = 0;
    int decimals = 0;
    for (int digits = 6; digits <= 9; digits++) {
        decimals = digits - whole + zeros;
        if (decimals < 0) decimals = 0;
        n = (uint64_t)(a * power[decimals] + 0.5);
        double back = (double)n / power[decimals];
        if ((float)back == fabsf(value) && !near_middle(back)) break;
    }
    return (int)(put_decimal(at, n, decimals) - out);
}

static char *put_float(char *at, float value) {
    return at + wane__trace_float(value, at);
}

static char *put_hex(char *at, uint64_t value) {
    for (int shift = 60; shift >= 0; shift -= 4) *at++ = "0123456789abcdef"[value >> shift & 15];
    return at;
}

static char *put_text(char *at, const char *text, size_t size) {
    memcpy(at, text, size);
    return at + size;
}
#define PUT(at, literal) put_text(at, literal, sizeof(literal) - 1)

/* ------------------------------------------------------------------- pieces */

/* Names of requests are ours; whatever else comes is made harmless. */
static char *put_id(char *at, const char *id) {
    for (int i = 0; i < WANE__TRACE_ID_MOST && id[i] != '\0'; i++) {
        unsigned char c = (unsigned char)id[i];
        *at++ = c > 0x20 && c < 0x7f && c != '"' && c != '\\' ? (char)c : '_';
    }
    return at;
}

/* The beginning that three kinds of records share. */
static char *put_begin(char *at, const char *type, const char *id) {
    at = PUT(at, "{\"type\":\"");
    at = put_text(at, type, strlen(type));
    at = PUT(at, "\",\"id\":\"");
    at = put_id(at, id);
    return PUT(at, "\"");
}

static char *put_whose(char *at, enum wane__kind kind, uint64_t tenant) {
    const char *name = wane__kind_name(kind);
    at = PUT(at, ",\"kind\":\"");
    at = put_text(at, name, strlen(name));
    at = PUT(at, "\",\"tenant\":\"");
    at = put_hex(at, tenant);
    return PUT(at, "\"");
}

/* Make room, let `write` append at a pointer. */
static char *room(struct wane__buf *out, size_t most) {
    return wane__buf_reserve(out, most) ? out->data + out->size : NULL;
}

static void written(struct wane__buf *out, const char *at) {
    out->size = (size_t)(at - out->data);
    out->data[out->size] = '\0';
}

/* A JSON string; bytes that are not UTF-8 become U+FFFD. */
static size_t utf8(const unsigned char *s) {
    size_t need = s[0] < 0x80                   ? 1
                  : s[0] >= 0xC2 && s[0] < 0xE0 ? 2
                  : s[0] >= 0xE0 && s[0] < 0xF0 ? 3
                  : s[0] >= 0xF0 && s[0] < 0xF5 ? 4
                                                : 0;
    for (size_t i = 1; i < need; i++) /* a zero at the text's end is no continuation */
        if ((s[i] & 0xC0) != 0x80) return 0;
    bool wrong = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
                 (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F);
    return wrong ? 0 : need;
}

static void put_string(struct wane__buf *out, const char *text) {
    wane__buf_text(out, "\"");
    for (const unsigned char *s = (const unsigned char *)text; *s != '\0';) {
        size_t size = utf8(s);
        if (*s == '"' || *s == '\\')
            wane__buf_format(out, "\\%c", *s);
        else if (*s < 0x20 || *s == 0x7f)
            wane__buf_format(out, "\\u%04x", *s);
        else if (size == 0)
            wane__buf_text(out, "\xEF\xBF\xBD");
        else
            wane__buf_append(out, s, size);
        s += size > 0 ? size : 1;
    }
    wane__buf_text(out, "\"");
}

/* ------------------------------------------------------------------ records */

void wane__trace_put_origin(struct wane__buf *out, const struct wane__trace_origin *origin, int64_t time_ms) {
    char date[32] = "1970-01-01T00:00:00Z";
    struct tm utc;
    time_t seconds = (time_t)(time_ms / 1000);
    if (gmtime_r(&seconds, &utc) != NULL) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    wane__buf_format(out,
                     "{\"type\":\"origin\",\"version\":%d,\"model\":\"%s\",\"tokenizer\":\"%s\","
                     "\"vocab_size\":%d,\"recorder\":\"wane %s\",\"time\":\"%s\"}\n",
                     origin->version, origin->model, origin->tokenizer, origin->vocab_size, wane_version(),
                     date);
}

/* An integer, or a float in its own length: what JSON cannot hold is null. */
static void put_named_float(struct wane__buf *out, const char *name, float value) {
    char text[WANE__TRACE_FLOAT];
    wane__buf_format(out, "%s\"%s\":", out->data[out->size - 1] == '{' ? "" : ",", name);
    if (!isfinite(value))
        wane__buf_text(out, "null");
    else
        wane__buf_append(out, text, (size_t)wane__trace_float(value, text));
}

static void put_sampling(struct wane__buf *out, const wane_sampling *s) {
    wane__buf_text(out, ",\"sampling\":{");
    if (out->failed) return;
    put_named_float(out, "temperature", s->temperature);
    wane__buf_format(out, ",\"top_k\":%d", s->top_k);
    put_named_float(out, "top_p", s->top_p);
    put_named_float(out, "min_p", s->min_p);
    put_named_float(out, "repeat_penalty", s->repeat_penalty);
    put_named_float(out, "presence_penalty", s->presence_penalty);
    put_named_float(out, "frequency_penalty", s->frequency_penalty);
    wane__buf_format(out, ",\"penalty_window\":%d,\"seed\":\"%llu\",\"bias\":[", s->penalty_window,
                     (unsigned long long)s->seed);
    for (size_t i = 0; i < s->bias_count && !out->failed; i++) {
        char text[WANE__TRACE_FLOAT] = "null";
        int size = isfinite(s->bias[i].bias) ? wane__trace_float(s->bias[i].bias, text) : 4;
        wane__buf_format(out, "%s[%d,%.*s]", i > 0 ? "," : "", s->bias[i].token, size, text);
    }
    wane__buf_text(out, "]}");
}

/* Which request a vote is about. */
static void put_of(struct wane__buf *out, const char *of) {
    char id[WANE__TRACE_ID_MOST];
    wane__buf_text(out, "\"of\":\"");
    wane__buf_append(out, id, (size_t)(put_id(id, of) - id));
    wane__buf_text(out, "\"");
}

void wane__trace_put_request(struct wane__buf *out, const struct wane__trace_request *r) {
    char *at = room(out, 400 + 12 * r->prompt_count);
    if (at == NULL) return;
    at = put_begin(at, "request", r->request);
    at = put_whose(at, r->kind, r->tenant);
    at = PUT(at, ",\"time_ms\":");
    at = put_int(at, r->time_ms);
    at = PUT(at, ",\"prompt\":[");
    for (size_t i = 0; i < r->prompt_count; i++) {
        if (i > 0) *at++ = ',';
        at = put_int(at, r->prompt[i]);
    }
    at = PUT(at, "]");
    written(out, at);
    put_sampling(out, &r->sampling);
    wane__buf_format(out, ",\"max_tokens\":%d,\"ignore_end\":%s,\"stops\":[", r->max_tokens,
                     r->ignore_end ? "true" : "false");
    for (int i = 0; i < r->stop_count; i++) {
        if (i > 0) wane__buf_text(out, ",");
        put_string(out, r->stops[i]);
    }
    wane__buf_format(out, "],\"redacted\":%d", r->redacted);
    if (r->vote_of[0] != '\0') {
        wane__buf_text(out, ",\"vote\":{");
        put_of(out, r->vote_of);
        wane__buf_format(out, ",\"answer\":%d}", r->vote_answer);
    }
    wane__buf_text(out, "}\n");
}

void wane__trace_put_vote(struct wane__buf *out, const struct wane__trace_vote *vote) {
    wane__buf_text(out, "{\"type\":\"vote\",");
    put_of(out, vote->of);
    wane__buf_format(out, ",\"chosen\":%d}\n", vote->chosen);
}

/* Logits as they lie in memory, little-endian, in base64. */
static void put_all(struct wane__buf *out, const float *all, int count) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t bytes = 4 * (size_t)count, i = 0;
    char *at = room(out, bytes / 3 * 4 + 4 + 16);
    if (at == NULL) return;
    at = PUT(at, ",\"all\":\"");
    uint32_t held = 0; /* bits that wait for a letter */
    int bits = 0;
    for (; i < bytes; i++) {
        uint32_t word;
        memcpy(&word, &all[i / 4], sizeof word);
        held = held << 8 | (word >> 8 * (i % 4) & 0xff);
        for (bits += 8; bits >= 6; bits -= 6) *at++ = letters[held >> (bits - 6) & 63];
        held &= (1u << bits) - 1;
    }
    if (bits > 0) *at++ = letters[held << (6 - bits) & 63];
    while (i++ % 3 != 0) *at++ = '=';
    *at++ = '"';
    written(out, at);
}

void wane__trace_put_token(struct wane__buf *out, const struct wane__trace_token *t, const float *all,
                           int all_count) {
    char *at = room(out, 600 + WANE__TRACE_TOP * (WANE__TRACE_FLOAT + 16));
    if (at == NULL) return;
    at = put_begin(at, "token", t->request);
    at = put_whose(at, t->kind, t->tenant);
    at = PUT(at, ",\"before\":\"");
    at = put_hex(at, t->before.high);
    at = put_hex(at, t->before.low);
    at = PUT(at, "\",\"position\":");
    at = put_int(at, t->position);
    at = PUT(at, ",\"index\":");
    at = put_int(at, t->index);
    at = PUT(at, ",\"last\":[");
    for (int i = 0; i < t->last_count; i++) {
        if (i > 0) *at++ = ',';
        at = put_int(at, t->last[i]);
    }
    at = PUT(at, "],\"token\":");
    at = put_int(at, t->token);
    at = PUT(at, ",\"changed\":");
    at = t->changed ? PUT(at, "true") : PUT(at, "false");
    if (t->state > 0) {
        at = PUT(at, ",\"state\":\"");
        at = put_text(at, wane_state_name(t->state - 1), strlen(wane_state_name(t->state - 1)));
        *at++ = '"';
    }
    at = PUT(at, ",\"top\":[");
    for (int i = 0; i < t->top_count && isfinite(t->top[i].logit); i++) {
        if (i > 0) *at++ = ',';
        *at++ = '[';
        at = put_int(at, t->top[i].token);
        *at++ = ',';
        at = put_float(at, t->top[i].logit);
        *at++ = ']';
    }
    *at++ = ']';
    if (isfinite(t->log_sum)) {
        at = PUT(at, ",\"log_sum\":");
        at = put_float(at, t->log_sum);
    }
    written(out, at);
    if (all != NULL) put_all(out, all, all_count);
    wane__buf_text(out, "}\n");
}

void wane__trace_put_end(struct wane__buf *out, const struct wane__trace_end *end) {
    char *at = room(out, 400), text[WANE__TRACE_FLOAT];
    if (at == NULL) return;
    at = put_begin(at, "end", end->request);
    written(out, at);
    double ms = end->ms > 0 && end->ms < WANE__TRACE_MS_MOST ? round(end->ms * 1e3) / 1e3 : 0;
    int size = wane__trace_float((float)ms, text);
    wane__buf_format(out, ",\"finish\":\"%s\",\"tokens\":%d,\"redacted\":%d,\"ms\":%.*s}\n", end->finish,
                     end->tokens, end->redacted, size, text);
}

void wane__trace_put_dropped(struct wane__buf *out, const struct wane__trace_dropped *dropped) {
    wane__buf_format(out, "{\"type\":\"dropped\",\"requests\":%llu,\"tokens\":%llu}\n",
                     (unsigned long long)dropped->requests, (unsigned long long)dropped->tokens);
}
