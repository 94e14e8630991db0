/*
 * sign.c - keys and signatures. Owns nothing; a secret is in memory only while it is used, and is wiped.
 *
 * Refused: a secret key that others may read, a key file over another, a signature of anything but the bytes that are used.
 */
#include "table/sign.h"

#include "core/error.h"
#include "core/file.h"
#include "core/memory.h"
#include "table/slmt_read.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_MOST = 4096 };

static const char secret_word[] = "wane-secret-key-1", public_word[] = "wane-public-key-1",
                  signature_word[] = "wane-signature-1";

static int start(wane_error *error) {
    return sodium_init() < 0 ? wane__fail(error, WANE_EINTERNAL, "libsodium cannot start.") : WANE_OK;
}

void wane__sign_name(const unsigned char key[WANE__SIGN_PUBLIC], char name[WANE__SIGN_NAME]) {
    unsigned char hash[32];
    crypto_generichash(hash, sizeof hash, key, WANE__SIGN_PUBLIC, NULL, 0);
    sodium_bin2hex(name, WANE__SIGN_NAME, hash, 8);
}

/* ------------------------------------------------------------------------ text */

static int digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool wane__sign_parse(const char *text, size_t size, const char *word, const size_t *field, int fields,
                      unsigned char *out) {
    size_t at = 0, length = strlen(word);
    while (at < size && text[at] == '#') { /* lines for people */
        while (at < size && text[at] != '\n') at++;
        if (at < size) at++;
    }
    if (size - at < length || memcmp(text + at, word, length) != 0) return false;
    at += length;
    for (int f = 0; f < fields; f++) {
        if (at >= size || text[at] != ' ') return false;
        at++;
        for (size_t i = 0; i < field[f]; i++, at += 2) {
            int high = size - at < 2 ? -1 : digit(text[at]), low = size - at < 2 ? -1 : digit(text[at + 1]);
            if (high < 0 || low < 0) return false;
            *out++ = (unsigned char)(16 * high + low);
        }
    }
    return at == size || (at + 1 == size && text[at] == '\n');
}

static int read_text(const char *path, const char *what, const char *word, const size_t *field, int fields,
                     unsigned char *out, wane_error *error) {
    char *text;
    size_t size;
    int status = wane__file_read(path, what, TEXT_MOST, &text, &size, error);
    if (status != WANE_OK) return status;
    if (!wane__sign_parse(text, size, word, field, fields, out))
        status =
            wane__fail(error, WANE_EFORMAT, "%s is not %s: a line \"%s\" and hexadecimal digits are missing.",
                       path, what, word);
    sodium_memzero(text, size);
    wane__free(text);
    return status;
}

static int write_text(const char *path, const char *what, const char *remark, const char *word,
                      const char *name, const unsigned char *bytes, size_t size, unsigned mode,
                      wane_error *error) {
    char hex[2 * WANE__SIGN_BYTES + 1], line[512];
    sodium_bin2hex(hex, sizeof hex, bytes, size);
    int length =
        snprintf(line, sizeof line, "# %s\n%s%s%s %s\n", remark, word, name[0] != '\0' ? " " : "", name, hex);
    int status = wane__file_write(path, what, line, (size_t)length, mode, error);
    sodium_memzero(line, sizeof line);
    sodium_memzero(hex, sizeof hex);
    return status;
}

static char *beside(const char *path, const char *ending) {
    size_t size = strlen(path) + strlen(ending) + 1;
    char *made = wane__alloc(size);
    if (made != NULL) snprintf(made, size, "%s%s", path, ending);
    return made;
}

/* ------------------------------------------------------------------------ keys */

static int refuse_existing(const char *path, wane_error *error) {
    struct stat facts;
    if (lstat(path, &facts) != 0) return WANE_OK;
    return wane__fail(error, WANE_EINVAL,
                      "%s is there already; a key is never written over. Choose another name.", path);
}

int wane__sign_new(const char *path, wane_error *error) {
    unsigned char key[crypto_sign_PUBLICKEYBYTES], secret[crypto_sign_SECRETKEYBYTES], seed[WANE__SIGN_SEED];
    char *public_path = beside(path, ".pub"), name[WANE__SIGN_NAME], remark[128];
    if (public_path == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a file name.");
    int status = start(error);
    if (status == WANE_OK) status = refuse_existing(path, error);
    if (status == WANE_OK) status = refuse_existing(public_path, error);
    if (status == WANE_OK) {
        randombytes_buf(seed, sizeof seed);
        crypto_sign_seed_keypair(key, secret, seed);
        wane__sign_name(key, name);
        snprintf(remark, sizeof remark, "secret key %s for signing tables: keep it to yourself", name);
        status = write_text(path, "the secret key", remark, secret_word, "", seed, sizeof seed, 0600, error);
        snprintf(remark, sizeof remark, "public key %s: whoever has it can check tables", name);
        if (status == WANE_OK) {
            status = write_text(public_path, "the public key", remark, public_word, "", key, sizeof key, 0644,
                                error);
            if (status != WANE_OK) unlink(path);
        }
        sodium_memzero(secret, sizeof secret);
        sodium_memzero(seed, sizeof seed);
    }
    wane__free(public_path);
    return status;
}

int wane__sign_read_public(const char *path, unsigned char key[WANE__SIGN_PUBLIC], wane_error *error) {
    static const size_t field[] = {WANE__SIGN_PUBLIC};
    int status = start(error);
    return status == WANE_OK ? read_text(path, "a public key", public_word, field, 1, key, error) : status;
}

static int read_secret(const char *path, unsigned char seed[WANE__SIGN_SEED], wane_error *error) {
    static const size_t field[] = {WANE__SIGN_SEED};
    struct stat facts;
    if (stat(path, &facts) == 0 && (facts.st_mode & 077) != 0)
        return wane__fail(error, WANE_EAUTH,
                          "The secret key %s can be read by others than its owner: chmod 600 it first.",
                          path);
    return read_text(path, "a secret key", secret_word, field, 1, seed, error);
}

/* ------------------------------------------------------------------ signatures */

static int write_signature(const char *table_path, const struct wane__slmt *table, const unsigned char *seed,
                           wane_error *error) {
    unsigned char key[crypto_sign_PUBLICKEYBYTES], secret[crypto_sign_SECRETKEYBYTES],
        signature[crypto_sign_BYTES];
    char name[WANE__SIGN_NAME], *path = beside(table_path, ".sig");
    if (path == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a file name.");
    crypto_sign_seed_keypair(key, secret, seed);
    crypto_sign_detached(signature, NULL, table->bytes, table->size, secret);
    sodium_memzero(secret, sizeof secret);
    wane__sign_name(key, name);
    int status = write_text(path, "the signature", "Ed25519 signature of a wane table: key, signature",
                            signature_word, name, signature, sizeof signature, 0644, error);
    wane__free(path);
    return status;
}

int wane__sign_file(const char *key_path, const char *table_path, wane_error *error) {
    unsigned char seed[WANE__SIGN_SEED];
    struct wane__slmt table;
    int status = start(error);
    if (status == WANE_OK) status = read_secret(key_path, seed, error);
    if (status != WANE_OK) return status;
    status = wane__slmt_open(table_path, NULL, NULL, &table,
                             error); /* what cannot be read is not worth a signature */
    if (status == WANE_OK) {
        status = write_signature(table_path, &table, seed, error);
        wane__slmt_close(&table);
    }
    sodium_memzero(seed, sizeof seed);
    return status;
}

int wane__sign_check_bytes(const char *path, const unsigned char *bytes, size_t size,
                           const unsigned char key[WANE__SIGN_PUBLIC], wane_error *error) {
    static const size_t field[] = {8, WANE__SIGN_BYTES};
    unsigned char read[8 + WANE__SIGN_BYTES] = {0};
    char name[WANE__SIGN_NAME], theirs[WANE__SIGN_NAME], *sig_path = beside(path, ".sig");
    if (sig_path == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a file name.");
    wane_error why = {0};
    int status = start(error);
    if (status == WANE_OK) status = read_text(sig_path, "a signature", signature_word, field, 2, read, &why);
    wane__sign_name(key, name);
    sodium_bin2hex(theirs, sizeof theirs, read, 8);
    if (status == WANE_ENOENT)
        status = wane__fail(error, WANE_EAUTH, "The table %s is not signed: there is no %s.", path, sig_path);
    else if (status != WANE_OK)
        status = wane__fail(error, WANE_EAUTH, "The signature of the table %s cannot be used: %.300s", path,
                            why.text);
    else if (strcmp(name, theirs) != 0)
        status = wane__fail(error, WANE_EAUTH, "The table %s is signed by the key %s, not by %s.", path,
                            theirs, name);
    else if (crypto_sign_verify_detached(read + 8, bytes, size, key) != 0)
        status =
            wane__fail(error, WANE_EAUTH,
                       "The table %s is not what the key %s signed: the table or its signature was altered.",
                       path, name);
    wane__free(sig_path);
    return status;
}
