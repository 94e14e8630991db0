/*
 * sign.h - Ed25519 signatures of tables: keys in text files, a signature beside each table.
 *
 *     wane.key        # wane secret key; keep it to yourself       wane-secret-key-1 <64 hex digits: the seed>
 *     wane.key.pub    # wane public key                            wane-public-key-1 <64 hex digits>
 *     T.slmt.sig      # wane signature of a table                  wane-signature-1 <16 hex digits: key> <128 hex digits>
 *
 * Lines that begin with # are for people. A signature is of the file's bytes as they are, so that any Ed25519 program can
 * check it. docs/slmt.md specifies the three.
 */
#ifndef WANE_TABLE_SIGN_H
#define WANE_TABLE_SIGN_H

#include "wane.h"

#define WANE__SIGN_PUBLIC 32
#define WANE__SIGN_SEED   32
#define WANE__SIGN_BYTES  64
/* Of a public key: the first 8 bytes of its BLAKE2b-256, in hex. */
#define WANE__SIGN_NAME 17

void wane__sign_name(const unsigned char key[WANE__SIGN_PUBLIC], char name[WANE__SIGN_NAME]);

/* Make a pair: `path` (readable by its owner only) and `path`.pub. WANE_EINVAL when one of them is there already. */
int wane__sign_new(const char *path, wane_error *error);
int wane__sign_read_public(const char *path, unsigned char key[WANE__SIGN_PUBLIC], wane_error *error);
/* Sign a table that can be read, beside it. WANE_EAUTH when others may read the secret key. */
int wane__sign_file(const char *key_path, const char *table_path, wane_error *error);
/* Is what lies in `path`.sig the key's signature of these bytes? WANE_EAUTH and a sentence if not. */
int wane__sign_check_bytes(const char *path, const unsigned char *bytes, size_t size,
                           const unsigned char key[WANE__SIGN_PUBLIC], wane_error *error);
/* The text of a key or signature file: `word`, then `fields` strings of hex digits of the sizes given, into `out`. */
bool wane__sign_parse(const char *text, size_t size, const char *word, const size_t *field, int fields,
                      unsigned char *out);

#endif
