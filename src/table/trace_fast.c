/*
 * trace_fast.c - a token's line in the canonical layout, read by hand: builds read millions of them.
 *
 * Refuses, without a word, whatever is not laid out exactly so, and whatever could be read in two ways (more than 15
 * digits, exponents, escapes): the JSON parser decides about those. What it accepts, the JSON parser reads alike.
 */
#include "table/trace_text.h"

#include <math.h>
#include <string.h>

/* Where we are; the line ends with a zero that no rule below accepts, so that single characters need no bound. */
struct cursor {
    const char *at, *end;
};

static inline bool take(struct cursor *c, const char *literal, size_t size) {
    if ((size_t)(c->end - c->at) < size || memcmp(c->at, literal, size) != 0) return false;
    c->at += size;
    return true;
}
#define TAKE(c, literal) take(c, literal, sizeof(literal) - 1)

static inline bool is_digit(char c) {
    return (unsigned char)(c - '0') < 10;
}

/*
 * The digits at `at`, up to 8 of them at once, as a number; returns how many there are, 9 for "8 or more". Which bytes are digits is
 * found and added up without a branch for each: their number differs from one field to the next, and guessing it wrong costs
 * more than the digits. `at` has 8 readable bytes.
 */
static inline int eight_digits(const char *at, uint64_t *value) {
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t x;
    memcpy(&x, at, sizeof x);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    x ^= 0x30 * ones; /* a digit is 0 … 9 now */
    uint64_t other = ((x + 0x76 * ones) | x) &
                     0x80 * ones; /* the high bit of each byte that is none; carries only go up */
    if (other == 0) return 9;
    int count = __builtin_ctzll(other) >> 3;
    /* The digits to the upper bytes, zeros in front; then pairs, fours, all: the first one stands lowest. */
    x = count > 0 ? x << (64 - 8 * count) : 0;
    x = (x * 10 + (x >> 8)) & UINT64_C(0x00ff00ff00ff00ff);
    x = (x * 100 + (x >> 16)) & UINT64_C(0x0000ffff0000ffff);
    *value = (x * 10000 + (x >> 32)) & UINT64_C(0xffffffff);
    return count;
}

/* 0 … INT32_MAX, without zeros in front. */
static bool take_long_int(struct cursor *c, int32_t *out) {
    const char *at = c->at;
    if (!is_digit(*at) || (*at == '0' && is_digit(at[1]))) return false;
    uint64_t value = 0;
    const char *first = at;
    while (is_digit(*at)) {
        if (at - first == 10) return false;
        value = value * 10 + (uint64_t)(*at++ - '0');
    }
    if (value > INT32_MAX || *at == '.' || *at == 'e' || *at == 'E') return false;
    *out = (int32_t)value;
    c->at = at;
    return true;
}

static inline bool take_int(struct cursor *c, int32_t *out) {
    uint64_t value;
    if (c->end - c->at < 9) return take_long_int(c, out);
    int count = eight_digits(c->at, &value);
    if (count > 8) return take_long_int(c, out);
    char next = c->at[count];
    if (count == 0 || (count > 1 && *c->at == '0') || next == '.' || next == 'e' || next == 'E') return false;
    *out = (int32_t)value;
    c->at += count;
    return true;
}

static const double power[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                               1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

/* The decimal of at most 15 digits as n / 10^k: one division, rounded as strtod rounds it. */
static bool take_long_float(struct cursor *c, float *out) {
    const char *at = c->at;
    bool negative = *at == '-';
    at += negative;
    if (!is_digit(*at) || (*at == '0' && is_digit(at[1]))) return false;
    uint64_t n = 0;
    const char *first = at;
    while (is_digit(*at) && at - first < 16) n = n * 10 + (uint64_t)(*at++ - '0');
    long digits = at - first, decimals = 0;
    if (*at == '.') {
        const char *point = ++at;
        while (is_digit(*at) && at - point < 16) n = n * 10 + (uint64_t)(*at++ - '0');
        decimals = at - point;
        if (decimals == 0) return false;
    } else if (negative && n == 0) {
        return false; /* the integer -0 is no float's */
    }
    if (digits + decimals > 15 || *at == 'e' || *at == 'E') return false;
    double value = (double)n / power[decimals];
    *out = (float)(negative ? -value : value);
    c->at = at;
    return true;
}

/* The same where there are at most 8 digits on either side of the point, and room behind them; else the long way. */
static inline bool take_float(struct cursor *c, float *out) {
    static const uint64_t whole[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    const char *at = c->at;
    uint64_t n, part = 0;
    if (c->end - at < 20) return take_long_float(c, out);
    bool negative = *at == '-';
    at += negative;
    int digits = eight_digits(at, &n), decimals = 0;
    if (digits > 8 || digits == 0 || (digits > 1 && *at == '0')) return take_long_float(c, out);
    at += digits;
    if (*at == '.') {
        decimals = eight_digits(++at, &part);
        if (decimals > 8 || decimals == 0) return take_long_float(c, out);
        at += decimals;
        n = n * whole[decimals] + part;
    } else if (negative && n == 0) {
        return false;
    }
    if (digits + decimals > 15 || *at == 'e' || *at == 'E') return false;
    double value = (double)n / power[decimals];
    *out = (float)(negative ? -value : value);
    c->at = at;
    return true;
}

/* Eight hexadecimal digits, small letters, at once; false: they are not. `at` has 8 readable bytes. */
static inline bool eight_hex(const char *at, uint64_t *value) {
    const uint64_t ones = UINT64_C(0x0101010101010101), high = 0x80 * ones;
    uint64_t x;
    memcpy(&x, at, sizeof x);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    if ((x & high) != 0) return false; /* from here on no sum of a byte's reaches the next */
    uint64_t digit = (x + 0x50 * ones) & ~(x + 0x46 * ones) & high;  /* '0' … '9' */
    uint64_t letter = (x + 0x1f * ones) & ~(x + 0x19 * ones) & high; /* 'a' … 'f' */
    if ((digit | letter) != high) return false;
    x = (x & 0x0f * ones) + (letter >> 7) * 9;
    x = (x << 4 | x >> 8) & UINT64_C(0x00ff00ff00ff00ff); /* pairs: the first digit is the lower byte's */
    x = (x << 8 | x >> 16) & UINT64_C(0x0000ffff0000ffff);
    *value = (x << 16 | x >> 32) & UINT64_C(0xffffffff);
    return true;
}

static inline bool take_hex(struct cursor *c, uint64_t *out) {
    uint64_t upper, lower;
    if (c->end - c->at < 16 || !eight_hex(c->at, &upper) || !eight_hex(c->at + 8, &lower)) return false;
    c->at += 16;
    *out = upper << 32 | lower;
    return true;
}

static bool take_id(struct cursor *c, char *out) {
    int size = 0;
    for (; *c->at != '"'; c->at++) {
        unsigned char one = (unsigned char)*c->at;
        if (one < 0x20 || one >= 0x7f || one == '\\' || size == WANE__TRACE_ID_MOST) return false;
        out[size++] = (char)one;
    }
    out[size] = '\0';
    return size > 0;
}

static bool take_kind(struct cursor *c, enum wane__kind *kind) {
    const char *quote = memchr(c->at, '"', (size_t)(c->end - c->at));
    if (quote == NULL || !wane__kind_from(c->at, (size_t)(quote - c->at), kind)) return false;
    c->at = quote;
    return true;
}

static bool take_last(struct cursor *c, struct wane__trace_token *t) {
    t->last_count = 0;
    if (*c->at == ']') return true;
    for (;;) {
        if (t->last_count == WANE__TEN || !take_int(c, &t->last[t->last_count++])) return false;
        if (*c->at != ',') return true;
        c->at++;
    }
}

static bool take_top(struct cursor *c, struct wane__trace_token *t) {
    int count = 0;
    for (;;) {
        if (count == WANE__TRACE_TOP || *c->at != '[') return false;
        c->at++;
        if (!take_int(c, &t->top[count].token) || *c->at != ',') return false;
        c->at++;
        if (!take_float(c, &t->top[count].logit) || *c->at != ']') return false;
        c->at++;
        count++;
        if (*c->at != ',') break;
        c->at++;
    }
    t->top_count = count;
    return true;
}

static bool take_changed(struct cursor *c, bool *changed) {
    *changed = TAKE(c, "true");
    return *changed || TAKE(c, "false");
}

/* Optional, between its neighbours. */
static bool take_state(struct cursor *c, int *state) {
    *state = 0;
    if (!TAKE(c, ",\"state\":\"")) return true;
    for (int i = 0; i < WANE_STATES && *state == 0; i++) {
        const char *name = wane_state_name(i);
        size_t size = strlen(name);
        if ((size_t)(c->end - c->at) <= size || memcmp(c->at, name, size) != 0) continue;
        c->at += size;
        *state = i + 1;
    }
    return *state > 0 && TAKE(c, "\"");
}

bool wane__trace_parse_token(const char *line, size_t size, struct wane__trace_token *t) {
    struct cursor c = {line, line + size};
    bool fine = TAKE(&c, "{\"type\":\"token\",\"id\":\"") && take_id(&c, t->request) &&
                TAKE(&c, "\",\"kind\":\"") && take_kind(&c, &t->kind) && TAKE(&c, "\",\"tenant\":\"") &&
                take_hex(&c, &t->tenant) && TAKE(&c, "\",\"before\":\"") && take_hex(&c, &t->before.high) &&
                take_hex(&c, &t->before.low) && TAKE(&c, "\",\"position\":") && take_int(&c, &t->position) &&
                TAKE(&c, ",\"index\":") && take_int(&c, &t->index) && TAKE(&c, ",\"last\":[") &&
                take_last(&c, t) && TAKE(&c, "],\"token\":") && take_int(&c, &t->token) &&
                TAKE(&c, ",\"changed\":") && take_changed(&c, &t->changed) && take_state(&c, &t->state) &&
                TAKE(&c, ",\"top\":[") && take_top(&c, t) && TAKE(&c, "]");
    if (!fine) return false;
    t->log_sum = NAN;
    if (TAKE(&c, ",\"log_sum\":") && !take_float(&c, &t->log_sum)) return false;
    return TAKE(&c, "}") && c.at == c.end;
}
