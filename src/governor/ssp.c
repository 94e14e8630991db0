/*
 * ssp.c - reads the structured system instruction, and holds the table of what its values do.
 *
 * Pure: no state, no clock, no server. Refuses to guess: a key or value that is not known is said, with the one that was probably
 * meant, never taken for it. What stands elsewhere than where it is read, but looks like it, is refused as well, because a policy
 * that is silently not in force is worse than none.
 */
#include "governor/ssp.h"

#include "core/error.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VALUES_MOST = 5, WORD_MOST = 24, SHOWN = 60 };

static const char *const key_names[WANE_SSP_KEYS + 1] = {"domain", "confidence", "tolerance", "fallback",
                                                         NULL};
static const char *const value_names[WANE_SSP_KEYS][VALUES_MOST + 1] = {
    {"legal", "medical", "finance", "tech", "creative", NULL},
    {"high", "medium", "low", NULL},
    {"strict", "balanced", "lenient", NULL},
    {"conservative", "transparent", "none", NULL},
};

/* A stretch of the text, without a terminating zero. */
struct part {
    const char *at, *end;
};

/* ------------------------------------------------------------------ characters */

static size_t starts(const char *at, const char *end, const char *with) {
    size_t size = strlen(with);
    return (size_t)(end - at) >= size && memcmp(at, with, size) == 0 ? size : 0;
}

/* Bytes of the blank at `at`: also the wide one, and what cannot be seen but comes along when text is pasted. */
static size_t blank(const char *at, const char *end) {
    static const char *const wide[] = {"\xe3\x80\x80", "\xc2\xa0", "\xef\xbb\xbf", "\xe2\x80\x8b",
                                       "\xe2\x81\xa0"};
    if (at < end && (*at == ' ' || *at == '\t' || *at == '\r')) return 1;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (starts(at, end, wide[i]) > 0) return strlen(wide[i]);
    return 0;
}

/* Bytes of `sign` or of its full-width form. */
static size_t sign(const char *at, const char *end, char narrow, const char *wide) {
    if (at < end && *at == narrow) return 1;
    return starts(at, end, wide);
}

static size_t colon(const char *at, const char *end) {
    return sign(at, end, ':', "\xef\xbc\x9a");
}

static size_t semicolon(const char *at, const char *end) {
    return sign(at, end, ';', "\xef\xbc\x9b");
}

static size_t equals(const char *at, const char *end) {
    return sign(at, end, '=', "\xef\xbc\x9d");
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static size_t word(const char *at, const char *end, const char *name) {
    size_t i = 0;
    while (name[i] != '\0' && at + i < end && lower(at[i]) == name[i]) i++;
    return name[i] == '\0' ? i : 0;
}

static const char *skip_blanks(const char *at, const char *end) {
    for (size_t size; (size = blank(at, end)) > 0;) at += size;
    return at;
}

static struct part trim(struct part part) {
    part.at = skip_blanks(part.at, part.end);
    const char *last = part.at;
    for (const char *at = part.at; at < part.end;) {
        size_t size = blank(at, part.end);
        at += size > 0 ? size : 1;
        if (size == 0) last = at;
    }
    part.end = last;
    return part;
}

static int find(struct part part, const char *const *names) {
    for (int i = 0; names[i] != NULL; i++)
        if (strlen(names[i]) == (size_t)(part.end - part.at) && word(part.at, part.end, names[i]) > 0)
            return i;
    return -1;
}

/* A part as a message shows it, cut between characters. */
static char *show(struct part part, char out[SHOWN + 4]) {
    size_t size = (size_t)(part.end - part.at);
    bool cut = size > SHOWN;
    if (cut) {
        size = SHOWN;
        while (size > 0 && ((unsigned char)part.at[size] & 0xc0) == 0x80) size--;
    }
    memcpy(out, part.at, size);
    memcpy(out + size, cut ? "\xe2\x80\xa6" : "", cut ? 4 : 1);
    return out;
}

/* "legal, medical, finance, tech or creative". */
static const char *list(const char *const *names, char out[80]) {
    size_t used = 0;
    for (int i = 0; names[i] != NULL && used < 80; i++) {
        const char *joint = i == 0 ? "" : names[i + 1] != NULL ? ", " : " or ";
        used += (size_t)snprintf(out + used, 80 - used, "%s%s", joint, names[i]);
    }
    return out;
}

/* ------------------------------------------------------------------ near misses */

static int least(int a, int b) {
    return a < b ? a : b;
}

/* Letters that must be put in, left out, exchanged or swapped with their neighbour to make one word of the other. */
static int distance(const char *a, int m, const char *b, int n) {
    int row[3][WORD_MOST + 1];
    int *before = row[0], *last = row[1], *now = row[2];
    for (int j = 0; j <= n; j++) last[j] = j;
    for (int i = 1; i <= m; i++) {
        now[0] = i;
        for (int j = 1; j <= n; j++) {
            now[j] = least(last[j - 1] + (a[i - 1] != b[j - 1]), least(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], before[j - 2] + 1);
        }
        int *oldest = before;
        before = last;
        last = now;
        now = oldest;
    }
    return last[n];
}

char *wane__ssp_suggest(const char *given, size_t size, const char *const *names, char *out, size_t room) {
    char text[WORD_MOST];
    const char *best = NULL;
    int best_distance = 3;
    if (room > 0) out[0] = '\0';
    if (size == 0 || size > sizeof text) return out;
    for (size_t i = 0; i < size; i++) text[i] = lower(given[i]);
    for (int i = 0; names[i] != NULL; i++) {
        size_t length = strlen(names[i]);
        int far = distance(text, (int)size, names[i], (int)length);
        bool begins = size >= 3 && size < length && memcmp(text, names[i], size) == 0;
        if (begins) far = 1;
        if (far > (length > 4 ? 2 : 1) || far >= best_distance) continue;
        best = names[i];
        best_distance = far;
    }
    if (best != NULL) snprintf(out, room, " (did you mean %s?)", best);
    return out;
}

/* ------------------------------------------------------------------ pairs */

static int bad_key(struct part key, struct part value, wane_error *error) {
    char shown[SHOWN + 4], shown_value[SHOWN + 4], allowed[80], hint[60];
    if (key.at == key.end)
        return wane__fail(error, WANE_EINVAL,
                          "SSP: there is no key before \"=%s\"; it must be %s, with its value behind =",
                          show(value, shown_value), list(key_names, allowed));
    wane__ssp_suggest(key.at, (size_t)(key.end - key.at), key_names, hint, sizeof hint);
    return wane__fail(error, WANE_EINVAL, "SSP: \"%s\" (with the value \"%s\") is not a key; it must be %s%s",
                      show(key, shown), show(value, shown_value), list(key_names, allowed), hint);
}

/* What was probably meant by a value that is none. */
static void value_hint(int key, struct part value, char *out, size_t room) {
    size_t size = (size_t)(value.end - value.at);
    if (size == 0) return;
    if (strchr("\"'`", *value.at) != NULL) {
        snprintf(out, room, " (write it without quotes)");
        return;
    }
    wane__ssp_suggest(value.at, size, value_names[key], out, room);
    if (out[0] != '\0') return;
    for (int other = 0; other < WANE_SSP_KEYS; other++)
        if (other != key && find(value, value_names[other]) >= 0) {
            snprintf(out, room, " (that is a value of %s)", key_names[other]);
            return;
        }
    for (int i = 0; value_names[key][i] != NULL && out[0] == '\0'; i++) {
        size_t length = word(value.at, value.end, value_names[key][i]);
        const char *behind = value.at + length;
        if (length == 0 || behind == value.end) continue;
        if (blank(behind, value.end) > 0)
            snprintf(out, room, " (the instruction ends with its line: begin a new one behind %s)",
                     value_names[key][i]);
        else if (strchr(",|&/+", *behind) != NULL || starts(behind, value.end, "\xef\xbc\x8c") > 0)
            snprintf(out, room, " (between pairs stands ;, and a key has one value)");
    }
}

static int bad_value(int key, struct part value, wane_error *error) {
    char shown[SHOWN + 4], allowed[80], hint[100] = "";
    value_hint(key, value, hint, sizeof hint);
    return wane__fail(error, WANE_EINVAL, "SSP: %s: \"%s\" is not allowed; it must be %s%s", key_names[key],
                      show(value, shown), list(value_names[key], allowed), hint);
}

static int bad_pair(struct part pair, wane_error *error) {
    char shown[SHOWN + 4], allowed[80];
    int key = find(pair, key_names);
    if (key >= 0)
        return wane__fail(error, WANE_EINVAL, "SSP: %s has no value; it must be %s=%s", key_names[key],
                          key_names[key], list(value_names[key], allowed));
    for (key = 0; key < WANE_SSP_KEYS; key++)
        if (find(pair, value_names[key]) >= 0)
            return wane__fail(error, WANE_EINVAL, "SSP: \"%s\" has no key; write %s=%s", show(pair, shown),
                              key_names[key], value_names[key][find(pair, value_names[key])]);
    return wane__fail(error, WANE_EINVAL, "SSP: \"%s\" is not a pair; it must be key=value, with the key %s",
                      show(pair, shown), list(key_names, allowed));
}

static int read_pair(struct part pair, wane_ssp *ssp, wane_error *error) {
    const char *at = pair.at;
    while (at < pair.end && equals(at, pair.end) == 0) at++;
    if (at == pair.end) return bad_pair(pair, error);
    struct part key = trim((struct part){pair.at, at}),
                value = trim((struct part){at + equals(at, pair.end), pair.end});
    int which = find(key, key_names);
    if (which < 0) return bad_key(key, value, error);
    int chosen = find(value, value_names[which]);
    if (chosen < 0) return bad_value(which, value, error);
    if (ssp->value[which] != 0)
        return wane__fail(error, WANE_EINVAL, "SSP: %s is given twice, as %s and as %s; give it once",
                          key_names[which], value_names[which][ssp->value[which] - 1],
                          value_names[which][chosen]);
    ssp->value[which] = chosen + 1;
    return WANE_OK;
}

static int read_pairs(struct part line, wane_ssp *ssp, wane_error *error) {
    char allowed[80];
    line = trim(line);
    if (line.at == line.end)
        return wane__fail(error, WANE_EINVAL,
                          "SSP: it is empty; behind SSP: must stand key=value;key=value, with the keys %s",
                          list(key_names, allowed));
    for (const char *at = line.at; at < line.end;) {
        const char *stop = at;
        while (stop < line.end && semicolon(stop, line.end) == 0) stop++;
        struct part pair = trim((struct part){at, stop});
        if (pair.at == pair.end)
            return wane__fail(error, WANE_EINVAL,
                              "SSP: there is nothing before a \";\"; it must be key=value, with the key %s",
                              list(key_names, allowed));
        int code = read_pair(pair, ssp, error);
        if (code != WANE_OK) return code;
        at = stop + semicolon(stop, line.end);
    }
    ssp->given = true;
    return WANE_OK;
}

/* ------------------------------------------------------------------ the text */

static const char *line_end(const char *at, const char *end) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    return stop != NULL ? stop : end;
}

/* The first character that is neither blank nor a line end. */
static const char *first_ink(const char *at, const char *end) {
    for (;;) {
        at = skip_blanks(at, end);
        if (at == end || *at != '\n') return at;
        at++;
    }
}

/* Behind "SSP:", or NULL. */
static const char *behind_marker(const char *at, const char *end) {
    size_t size = word(at, end, "ssp");
    if (size == 0) return NULL;
    at = skip_blanks(at + size, end);
    size = colon(at, end);
    return size > 0 ? at + size : NULL;
}

static bool is_key_ahead(const char *at, const char *end) {
    for (int i = 0; i < WANE_SSP_KEYS; i++) {
        size_t size = word(at, end, key_names[i]);
        if (size > 0 && equals(skip_blanks(at + size, end), end) > 0) return true;
    }
    return false;
}

/* An instruction in a form that it does not have: without its colon, in brackets or quotes, with a wrong sign. */
static bool is_misspelt(const char *at, const char *end) {
    while (at < end && (*at == ' ' || strchr("[({<\"'`*#>", *at) != NULL)) at++;
    size_t size = word(at, end, "ssp");
    if (size == 0) return false;
    at = skip_blanks(at + size, end);
    while (at < end && strchr("=-;,.>]", *at) != NULL) at++;
    at += colon(at, end);
    return is_key_ahead(skip_blanks(at, end), end);
}

/* The number of a later line that begins with an instruction; 0: there is none. */
static int misplaced(const char *text, const char *at, const char *end) {
    int line = 1;
    for (const char *c = text; c < at; c++) line += *c == '\n';
    while (at < end) {
        const char *stop = line_end(at, end), *ink = skip_blanks(at, stop),
                   *behind = behind_marker(ink, stop);
        if (behind != NULL && is_key_ahead(skip_blanks(behind, stop), stop)) return line;
        at = stop + (stop < end);
        line++;
    }
    return 0;
}

/* Blank lines go with the instruction, but not the blanks that a line begins with. */
static const char *behind_blank_lines(const char *at, const char *end) {
    for (;;) {
        const char *ink = skip_blanks(at, end);
        if (ink == end) return end;
        if (*ink != '\n') return at;
        at = ink + 1;
    }
}

int wane_ssp_read(const char *text, size_t size, wane_ssp *ssp, size_t *rest, wane_error *error) {
    const char *end = text + size, *ink;
    char shown[SHOWN + 4];
    wane__clear(error);
    *ssp = (wane_ssp){0};
    *rest = 0;
    if (size == 0) return WANE_OK;
    ink = first_ink(text, end);
    const char *stop = line_end(ink, end), *pairs = behind_marker(ink, stop);
    if (pairs == NULL && is_misspelt(ink, stop))
        return wane__fail(
            error, WANE_EINVAL,
            "SSP: \"%s\" is not its form; it must be SSP:key=value;key=value on a line of its own",
            show(trim((struct part){ink, stop}), shown));
    if (pairs != NULL) {
        int code = read_pairs((struct part){pairs, stop}, ssp, error);
        if (code != WANE_OK) {
            *ssp = (wane_ssp){0};
            return code;
        }
        stop += stop < end;
    }
    int line = misplaced(text, pairs != NULL ? stop : ink, end);
    if (line > 0) {
        *ssp = (wane_ssp){0};
        return wane__fail(error, WANE_EINVAL,
                          pairs != NULL
                              ? "SSP: line %d has another one; a request has one"
                              : "SSP: it stands on line %d; it must be the first line of the system "
                                "text, or of a block or message of its own",
                          line);
    }
    if (pairs == NULL) return WANE_OK;
    *rest = (size_t)(behind_blank_lines(stop, end) - text);
    return WANE_OK;
}

/* ------------------------------------------------------------------ the table */

/*
 * Rows by domain. SST: what is often wrong costs more where it is read as advice, so that more must speak for a token before it
 * passes: the odds that the gate asks for, and the governor's thresholds, are multiplied by it. Rules: what remains of their `hold`;
 * 0: off, for texts in which a prohibition is rare and its words mean something else.
 */
struct domain_row {
    float sst, hold;
    float
        documents; /* scale of odds_documents: several documents contradict each other                       */
    int clamp;     /* at most; 0: as it is; -1: none                                                        */
    float
        dialogue; /* scale of dialogue_slope                                                               */
};
static const struct domain_row domain_rows[WANE_SSP_DOMAINS] = {
    [0] = {1, 1, 1, 0, 1},
    [WANE_SSP_LEGAL] = {1.3f, 0.2f, 2, 0, 1},
    [WANE_SSP_MEDICAL] = {1.4f, 0.1f, 1, 40, 1},
    [WANE_SSP_FINANCE] = {1.25f, 0.5f, 1, 20, 1},
    [WANE_SSP_TECH] = {1.1f, 0, 1, 0, 1},
    [WANE_SSP_CREATIVE] = {0.7f, 0, 1, -1, 0},
};

float wane_ssp_stability(int domain) {
    return domain > 0 && domain < WANE_SSP_DOMAINS ? domain_rows[domain].sst : 1;
}

static float within(double value, double low, double high) {
    return (float)(value < low ? low : value > high ? high : value);
}

static void tighten_clamp(int most, wane_quality *q) {
    if (q->clamp == 0 || q->clamp > most) q->clamp = most;
}

static void apply_domain(int domain, wane_quality *q) {
    const struct domain_row *row = &domain_rows[domain];
    q->odds_base = within((double)q->odds_base + log10((double)row->sst), -10, 10);
    q->stability = within((double)(q->stability * row->sst), 0.01, 100);
    q->odds_documents = within((double)(q->odds_documents * row->documents), 0, 10);
    q->dialogue_slope *= row->dialogue;
    if (row->hold > 0)
        q->hold *= row->hold;
    else
        q->rules = false;
    if (row->clamp < 0) q->clamp = 0;
    if (row->clamp > 0) tighten_clamp(row->clamp, q);
}

/* Three times the odds and a quarter of the doubt; or the other way round. */
static void apply_confidence(int confidence, wane_quality *q) {
    enum { DOUBT_MOST = 1 << 24 };
    if (confidence == WANE_SSP_HIGH) {
        q->odds_base = within((double)q->odds_base + 0.5, -10, 10);
        q->doubt_budget /= 4;
        q->revival_top = within((double)q->revival_top * 1.5, 0, 1);
    } else if (confidence == WANE_SSP_LOW) {
        q->odds_base = within((double)q->odds_base - 0.5, -10, 10);
        q->doubt_budget = q->doubt_budget > DOUBT_MOST / 4 ? DOUBT_MOST : q->doubt_budget * 4 + 3;
        q->revival_after = 0;
    }
}

static void apply_tolerance(int tolerance, wane_quality *q) {
    if (tolerance == WANE_SSP_BALANCED) q->fuse = WANE_FUSE_LOOP;
    if (tolerance == WANE_SSP_STRICT) {
        /* Not the plain rule, which would end what is fluent, too; but whatever the settings have, there is a fuse. */
        if (q->fuse == WANE_FUSE_OFF) q->fuse = WANE_FUSE_LOOP;
        q->fuse_limit = within((double)q->fuse_limit * 3, 0, 10);
        q->hold = 0;
        tighten_clamp(20, q);
    } else if (tolerance == WANE_SSP_LENIENT) {
        q->fuse = WANE_FUSE_OFF;
        q->hold = within((double)q->hold * 4, 0, 1);
        q->clamp = 0;
    }
}

static void apply_fallback(int fallback, wane_quality *q) {
    static const int fallbacks[] = {[WANE_SSP_CONSERVATIVE] = WANE_FALLBACK_CONSERVATIVE,
                                    [WANE_SSP_TRANSPARENT] = WANE_FALLBACK_TRANSPARENT,
                                    [WANE_SSP_NONE] = WANE_FALLBACK_NONE};
    if (fallback >= WANE_SSP_CONSERVATIVE && fallback <= WANE_SSP_NONE) q->fallback = fallbacks[fallback];
}

void wane_ssp_apply(const wane_ssp *ssp, wane_quality *quality) {
    if (!ssp->given) return;
    int domain = ssp->value[WANE_SSP_DOMAIN];
    quality->mode = WANE_MODE_WANE;
    if (!ssp->settled && domain > 0 && domain < WANE_SSP_DOMAINS) apply_domain(domain, quality);
    apply_confidence(ssp->value[WANE_SSP_CONFIDENCE], quality);
    apply_tolerance(ssp->value[WANE_SSP_TOLERANCE], quality);
    apply_fallback(ssp->value[WANE_SSP_FALLBACK], quality);
}

/* ------------------------------------------------------------------ names */

const char *wane_ssp_key_name(int key) {
    return key >= 0 && key < WANE_SSP_KEYS ? key_names[key] : NULL;
}

const char *wane_ssp_value_name(int key, int value) {
    if (key < 0 || key >= WANE_SSP_KEYS || value < 1 || value > VALUES_MOST) return NULL;
    for (int i = 0; i < value - 1; i++)
        if (value_names[key][i] == NULL) return NULL;
    return value_names[key][value - 1];
}

int wane_ssp_value_from(int key, const char *name) {
    if (key < 0 || key >= WANE_SSP_KEYS || name == NULL) return 0;
    return find((struct part){name, name + strlen(name)}, value_names[key]) + 1;
}

char *wane_ssp_write(const wane_ssp *ssp, char *out) {
    size_t used = 0;
    out[0] = '\0';
    for (int key = 0; ssp->given && key < WANE_SSP_KEYS; key++) {
        const char *value = wane_ssp_value_name(key, ssp->value[key]);
        if (value == NULL || used >= WANE_SSP_TEXT) continue;
        used += (size_t)snprintf(out + used, WANE_SSP_TEXT - used, "%s%s=%s", used == 0 ? "SSP:" : ";",
                                 key_names[key], value);
    }
    return out;
}
