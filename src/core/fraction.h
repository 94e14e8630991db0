/*
 * fraction.h - where a name stands between 0 and 1: the same on every machine, in every process, for ever. So a share of users or requests is
 * chosen without keeping a list.
 */
#ifndef WANE_CORE_FRACTION_H
#define WANE_CORE_FRACTION_H

#include <string.h>
#include <xxhash.h>

#define WANE__NAME_BYTES 512 /* of a name that count */

/*
 * XXH3-64 of `what`, a zero, `salt`, a zero, `kind` and `name`, each cut to 64 bytes but the name, which is cut to 512; its upper 53 bits.
 * `kind` keeps apart what has equal names: "user:", "key:", "request:". `what` keeps experiments apart.
 */
static inline double wane__fraction(const char *what, const char *salt, const char *kind, const char *name) {
    enum { PART = 64 };
    char text[3 * PART + WANE__NAME_BYTES + 2];
    size_t size = 0;
    const char *const parts[] = {what, salt, kind, name};
    for (int i = 0; i < 4; i++) {
        size_t part = strnlen(parts[i], i < 3 ? PART : WANE__NAME_BYTES);
        memcpy(text + size, parts[i], part);
        size += part;
        if (i < 2) text[size++] = '\0';
    }
    return (double)(XXH3_64bits(text, size) >> 11) * 0x1p-53;
}

#endif
