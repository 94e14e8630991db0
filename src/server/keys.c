/*
 * keys.c - reads the key file and recognises keys; owns their hashes, never a key itself.
 *
 * The tenant that a key belongs to is the server's choice alone: no field of a request can name one. Refused: lines
 * that are not three words and what a key may have, names that occur twice, one key under two names, words that are too long.
 */
#include "server/keys.h"

#include "core/error.h"
#include "core/memory.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define HASH_BYTES 32u
#define MAX_WORD   64u    /* of a name and a tenant                                     */
#define MAX_KEY    512u   /* bytes of a key; a longer one in a header is refused unread */
#define MIN_KEY    8u     /* shorter ones are guessed                                   */
#define MAX_KEYS   10000u /* each request looks at all of them                          */
#define MAX_FILE   (4u << 20)
static const char hash_mark[] = "blake2b:";

struct entry {
    char name[MAX_WORD + 1];
    char tenant[MAX_WORD + 1];
    unsigned char hash[HASH_BYTES];
    bool admin;
    int mode; /* -1: none */
    char domain[MAX_WORD + 1];
};

struct wane__keys {
    struct entry *entries;
    size_t count;
};

struct word {
    const char *text;
    size_t size;
};

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* Up to 7 words of a line; a seventh is a fault, but must be seen. '#' starts a comment at a word's start. */
static int split(const char *line, size_t size, struct word words[7]) {
    int count = 0;
    size_t i = 0;
    while (i < size && count < 7) {
        while (i < size && is_space(line[i])) i++;
        if (i == size || line[i] == '#') break;
        size_t start = i;
        while (i < size && !is_space(line[i])) i++;
        words[count++] = (struct word){line + start, i - start};
    }
    return count;
}

static bool is_plain(struct word word) {
    if (word.size == 0 || word.size > MAX_WORD) return false;
    for (size_t i = 0; i < word.size; i++) {
        char c = word.text[i];
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                    c == '_' || c == '.' || c == '@';
        if (!fine) return false;
    }
    return true;
}

/* Visible ASCII: what a header can carry without doubt about its encoding. */
static bool is_key(struct word word) {
    if (word.size < MIN_KEY || word.size > MAX_KEY) return false;
    for (size_t i = 0; i < word.size; i++) {
        if (word.text[i] < 0x21 || word.text[i] > 0x7e) return false;
    }
    return true;
}

static bool begins_with(struct word word, const char *mark) {
    return word.size >= strlen(mark) && memcmp(word.text, mark, strlen(mark)) == 0;
}

/* A word behind the key: what it may, or what its requests get. */
static int read_right(struct word word, struct entry *entry, int line, wane_error *error) {
    char value[MAX_WORD + 1] = "";
    const char *equals = memchr(word.text, '=', word.size);
    struct word after = {equals != NULL ? equals + 1 : word.text, 0};
    if (equals != NULL) after.size = word.size - (size_t)(after.text - word.text);
    if (is_plain(after)) memcpy(value, after.text, after.size);
    if (word.size == 5 && begins_with(word, "admin")) {
        entry->admin = true;
        return WANE_OK;
    }
    if (begins_with(word, "mode=")) {
        entry->mode = wane_mode_from(value);
        if (entry->mode >= 0) return WANE_OK;
        return wane__fail(error, WANE_EFORMAT, "line %d: a key's mode is off, legacy or wane", line);
    }
    if (begins_with(word, "domain=") && value[0] != '\0') {
        memcpy(entry->domain, value, sizeof value);
        return WANE_OK;
    }
    return wane__fail(error, WANE_EFORMAT,
                      "line %d: behind the key may stand admin, mode=NAME and domain=NAME, and nothing else",
                      line);
}

static void hash_key(const char *key, size_t size, unsigned char hash[HASH_BYTES]) {
    crypto_generichash(hash, HASH_BYTES, (const unsigned char *)key, size, NULL, 0);
}

static int read_hash(struct word word, int line, unsigned char hash[HASH_BYTES], wane_error *error) {
    size_t mark = sizeof hash_mark - 1, got = 0;
    if (word.size > mark && memcmp(word.text, hash_mark, mark) == 0) {
        const char *end = NULL;
        size_t digits = word.size - mark;
        bool fine = digits == 2 * HASH_BYTES &&
                    sodium_hex2bin(hash, HASH_BYTES, word.text + mark, digits, NULL, &got, &end) == 0 &&
                    got == HASH_BYTES && end == word.text + word.size;
        if (fine) return WANE_OK;
        return wane__fail(error, WANE_EFORMAT, "line %d: after \"%s\" there must be %u hex digits", line,
                          hash_mark, 2 * HASH_BYTES);
    }
    if (!is_key(word)) {
        return wane__fail(error, WANE_EFORMAT, "line %d: a key has %u to %u visible ASCII characters", line,
                          MIN_KEY, MAX_KEY);
    }
    hash_key(word.text, word.size, hash);
    return WANE_OK;
}

static int check_new(const struct wane__keys *keys, const struct entry *entry, int line, wane_error *error) {
    for (size_t i = 0; i < keys->count; i++) {
        const struct entry *other = &keys->entries[i];
        if (strcmp(other->name, entry->name) == 0) {
            return wane__fail(error, WANE_EFORMAT, "line %d: the name \"%s\" occurs twice", line,
                              entry->name);
        }
        if (sodium_memcmp(other->hash, entry->hash, HASH_BYTES) == 0) {
            return wane__fail(error, WANE_EFORMAT, "line %d: \"%s\" and \"%s\" have the same key", line,
                              other->name, entry->name);
        }
    }
    return WANE_OK;
}

static int add_line(struct wane__keys *keys, const char *text, size_t size, int line, wane_error *error) {
    struct word words[7];
    int count = split(text, size, words);
    if (count == 0) return WANE_OK;
    if (count < 3 || count > 6) {
        return wane__fail(
            error, WANE_EFORMAT,
            "line %d: a line is \"name tenant key\", and behind them what the key has; this one has %s words",
            line, count < 3 ? "fewer" : "more");
    }
    if (!is_plain(words[0]) || !is_plain(words[1])) {
        return wane__fail(error, WANE_EFORMAT,
                          "line %d: a name and a tenant have 1 to %u of a-z A-Z 0-9 - _ . @", line, MAX_WORD);
    }
    if (keys->count == MAX_KEYS) {
        return wane__fail(error, WANE_EFORMAT, "line %d: more than %u keys", line, MAX_KEYS);
    }
    struct entry entry = {.mode = -1};
    memcpy(entry.name, words[0].text, words[0].size);
    memcpy(entry.tenant, words[1].text, words[1].size);
    int code = read_hash(words[2], line, entry.hash, error);
    for (int i = 3; i < count && code == WANE_OK; i++) code = read_right(words[i], &entry, line, error);
    if (code == WANE_OK) code = check_new(keys, &entry, line, error);
    if (code != WANE_OK) return code;
    if ((keys->count & (keys->count - 1)) == 0) { /* a power of two: the room is used up */
        struct entry *more = wane__resize(keys->entries, keys->count ? 2 * keys->count : 1, sizeof *more);
        if (more == NULL) return wane__fail(error, WANE_ENOMEM, "no memory for the keys");
        keys->entries = more;
    }
    keys->entries[keys->count++] = entry;
    return WANE_OK;
}

int wane__keys_parse(const char *text, size_t size, struct wane__keys **keys, wane_error *error) {
    *keys = NULL;
    if (sodium_init() < 0) return wane__fail(error, WANE_EINTERNAL, "libsodium cannot start");
    struct wane__keys *made = wane__alloc_zero(1, sizeof *made);
    if (made == NULL) return wane__fail(error, WANE_ENOMEM, "no memory for the keys");
    int code = WANE_OK;
    size_t at = 0;
    for (int line = 1; at < size && code == WANE_OK; line++) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - (text + at)) : size - at;
        code = add_line(made, text + at, length, line, error);
        at += length + 1;
    }
    if (code == WANE_OK && made->count == 0) code = wane__fail(error, WANE_EFORMAT, "there is no key in it");
    if (code != WANE_OK) {
        wane__keys_free(made);
        return code;
    }
    *keys = made;
    return WANE_OK;
}

static int read_file(const char *path, struct wane__log *log, char **text, size_t *size, wane_error *error) {
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        return wane__fail(error, errno == ENOENT ? WANE_ENOENT : WANE_EIO, "cannot read the key file %s: %s",
                          path, strerror(errno));
    }
    struct stat status;
    if (fstat(fileno(file), &status) == 0 && (status.st_mode & (S_IRGRP | S_IROTH)) != 0) {
        wane__log(log, WANE_LOG_WARN, "the key file %s can be read by others: chmod 600 it", path);
    }
    char *bytes = wane__alloc(MAX_FILE + 1);
    *size = bytes ? fread(bytes, 1, MAX_FILE + 1, file) : 0;
    bool failed = bytes == NULL || ferror(file);
    fclose(file);
    *text = bytes;
    if (failed) return wane__fail(error, WANE_EIO, "cannot read the key file %s", path);
    if (*size > MAX_FILE) return wane__fail(error, WANE_EFORMAT, "the key file %s has over 4 MiB", path);
    return WANE_OK;
}

int wane__keys_load(const char *path, struct wane__log *log, struct wane__keys **keys, wane_error *error) {
    *keys = NULL;
    char *text = NULL;
    size_t size = 0;
    wane_error detail = {0};
    int code = read_file(path, log, &text, &size, error);
    if (code == WANE_OK) {
        code = wane__keys_parse(text, size, keys, &detail);
        if (code != WANE_OK) wane__fail(error, code, "the key file %s: %s", path, detail.text);
    }
    if (text != NULL) sodium_memzero(text, size);
    wane__free(text);
    return code;
}

void wane__keys_free(struct wane__keys *keys) {
    if (keys == NULL) return;
    wane__free(keys->entries);
    wane__free(keys);
}

const char *wane__keys_unknown_domain(const struct wane__keys *keys,
                                      bool (*known)(void *user, const char *name), void *user) {
    for (size_t i = 0; keys != NULL && i < keys->count; i++) {
        const char *domain = keys->entries[i].domain;
        if (domain[0] != '\0' && !known(user, domain)) return domain;
    }
    return NULL;
}

unsigned wane__keys_modes(const struct wane__keys *keys) {
    unsigned modes = 0;
    for (size_t i = 0; keys != NULL && i < keys->count; i++)
        if (keys->entries[i].mode >= 0) modes |= 1u << keys->entries[i].mode;
    return modes;
}

int wane_key_file_modes(const char *path, unsigned *modes, wane_error *error) {
    struct wane__keys *keys = NULL;
    *modes = 0;
    wane__clear(error);
    int code = wane__keys_load(path, NULL, &keys, error);
    *modes = wane__keys_modes(keys);
    wane__keys_free(keys);
    return code;
}

size_t wane__keys_count(const struct wane__keys *keys) {
    return keys ? keys->count : 0;
}

bool wane__keys_find(const struct wane__keys *keys, const char *presented, size_t size,
                     struct wane__key *found) {
    unsigned char hash[HASH_BYTES];
    if (size > MAX_KEY) size = 0; /* no key has no bytes */
    hash_key(presented, size, hash);
    size_t match = keys->count;
    for (size_t i = 0; i < keys->count; i++) {
        bool same = sodium_memcmp(keys->entries[i].hash, hash, HASH_BYTES) == 0;
        match = same ? i : match;
    }
    if (match == keys->count || size == 0) return false;
    const struct entry *entry = &keys->entries[match];
    *found = (struct wane__key){.name = entry->name,
                                .tenant = entry->tenant,
                                .domain = entry->domain[0] != '\0' ? entry->domain : NULL,
                                .mode = entry->mode,
                                .admin = entry->admin};
    return true;
}
