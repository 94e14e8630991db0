/* redact.c - compiles patterns and finds their matches; owns nothing else. See redact.h for what is promised. */
#include "table/redact.h"

#include "core/error.h"
#include "core/memory.h"

#include <errno.h>
#include <locale.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

/* Behind a longer match, others that begin within it are not looked for: time would grow with the length's square. */
enum { OVERLAP_MOST = 256 };

struct wane__redact {
    regex_t *pattern;
    size_t count;
    locale_t plain; /* "C": bytes are bytes */
};

void wane__redact_free(struct wane__redact *redact) {
    if (redact == NULL) return;
    for (size_t i = 0; i < redact->count; i++) regfree(&redact->pattern[i]);
    wane__free(redact->pattern);
    if (redact->plain != (locale_t)0) freelocale(redact->plain);
    wane__free(redact);
}

static int add(struct wane__redact *redact, const char *line, size_t size, int number, wane_error *error) {
    char pattern[WANE__REDACT_PATTERN + 1], why[200];
    if (size > WANE__REDACT_PATTERN || memchr(line, '\0', size) != NULL)
        return wane__fail(error, WANE_EFORMAT,
                          "line %d: a pattern has at most %d bytes, and no zero among them", number,
                          WANE__REDACT_PATTERN);
    if (redact->count == WANE__REDACT_PATTERNS)
        return wane__fail(error, WANE_EFORMAT, "line %d: more than %d patterns", number,
                          WANE__REDACT_PATTERNS);
    memcpy(pattern, line, size);
    pattern[size] = '\0';
    regex_t *made = &redact->pattern[redact->count];
    int code = regcomp(made, pattern, REG_EXTENDED | REG_NEWLINE);
    if (code != 0) {
        regerror(code, made, why, sizeof why);
        return wane__fail(error, WANE_EFORMAT, "line %d: \"%.100s\" is no extended regular expression: %s",
                          number, pattern, why);
    }
    redact->count++;
    if (regexec(made, "", 0, NULL, 0) == 0)
        return wane__fail(error, WANE_EFORMAT,
                          "line %d: \"%.100s\" matches nothing at all, which is everywhere", number, pattern);
    return WANE_OK;
}

static int add_lines(struct wane__redact *redact, const char *text, size_t size, wane_error *error) {
    int number = 1, code = WANE_OK;
    for (size_t at = 0; at < size && code == WANE_OK; number++) {
        const char *line = text + at, *newline = memchr(line, '\n', size - at);
        size_t length = newline != NULL ? (size_t)(newline - line) : size - at;
        at += length + 1;
        if (length > 0 && line[length - 1] == '\r') length--;
        if (length == 0 || line[0] == '#') continue;
        code = add(redact, line, length, number, error);
    }
    if (code == WANE_OK && redact->count == 0)
        code = wane__fail(error, WANE_EFORMAT, "there is no pattern in it");
    return code;
}

int wane__redact_parse(const char *text, size_t size, struct wane__redact **out, wane_error *error) {
    *out = NULL;
    struct wane__redact *redact = wane__alloc_zero(1, sizeof *redact);
    if (redact != NULL) redact->pattern = wane__alloc_zero(WANE__REDACT_PATTERNS, sizeof *redact->pattern);
    if (redact != NULL) redact->plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (redact == NULL || redact->pattern == NULL || redact->plain == (locale_t)0) {
        wane__redact_free(redact);
        return wane__fail(error, WANE_ENOMEM, "No memory for patterns.");
    }
    locale_t before = uselocale(redact->plain);
    int code = add_lines(redact, text, size, error);
    uselocale(before);
    if (code != WANE_OK) {
        wane__redact_free(redact);
        return code;
    }
    *out = redact;
    return WANE_OK;
}

int wane__redact_load(const char *path, struct wane__redact **redact, wane_error *error) {
    enum { MOST = WANE__REDACT_PATTERNS * (WANE__REDACT_PATTERN + 2) };
    *redact = NULL;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return wane__fail(error, errno == ENOENT ? WANE_ENOENT : WANE_EIO,
                          "Cannot read the redaction list %.300s: %s.", path, strerror(errno));
    char *text = wane__alloc(MOST + 1);
    size_t size = text != NULL ? fread(text, 1, MOST + 1, file) : 0;
    bool failed = ferror(file) != 0;
    fclose(file);
    int code;
    wane_error why = {0};
    if (text == NULL)
        code = wane__fail(error, WANE_ENOMEM, "No memory for the redaction list.");
    else if (failed)
        code = wane__fail(error, WANE_EIO, "Cannot read the redaction list %.300s.", path);
    else if (size > MOST)
        code =
            wane__fail(error, WANE_EFORMAT, "The redaction list %.200s is larger than %d bytes.", path, MOST);
    else if ((code = wane__redact_parse(text, size, redact, &why)) != WANE_OK)
        wane__fail(error, code, "The redaction list %.150s: %.300s.", path, why.text);
    wane__free(text);
    return code;
}

static void find_one(const regex_t *pattern, const char *text, size_t size,
                     void (*found)(void *user, size_t from, size_t to), void *user) {
    for (size_t at = 0; at < size;) {
        regmatch_t match;
        int flags = at > 0 && text[at - 1] != '\n' ? REG_NOTBOL : 0;
        if (regexec(pattern, text + at, 1, &match, flags) != 0) return;
        size_t from = at + (size_t)match.rm_so, to = at + (size_t)match.rm_eo;
        if (to > from) found(user, from, to);
        at = to - from > OVERLAP_MOST ? to : from + 1;
    }
}

void wane__redact_find(const struct wane__redact *redact, char *text, size_t size,
                       void (*found)(void *user, size_t from, size_t to), void *user) {
    for (size_t i = 0; i < size; i++)
        if (text[i] == '\0') text[i] = '\1';
    locale_t before = uselocale(redact->plain);
    for (size_t i = 0; i < redact->count; i++) find_one(&redact->pattern[i], text, size, found, user);
    uselocale(before);
}
