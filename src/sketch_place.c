/*
 * sketch_place.c - where a model's sketch lies.
 *
 * Its name is the model's digest and the revision of what it was made from, so that a changed model, text or format
 * never meets an old file.
 */
#include "sketch_place.h"

#include <stdio.h>
#include <stdlib.h>

/* Of the calibration text and of how rows are taken from it. The file's own version is the head's business. */
#define REVISION 2

bool wane__sketch_folder(const char *given, char *out, size_t size) {
    const char *cache = getenv("WANE_CACHE"), *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (given != NULL && given[0] != '\0')
        length = snprintf(out, size, "%s", given);
    else if (cache != NULL && cache[0] != '\0')
        length = snprintf(out, size, "%s/sketches", cache);
    else if (base != NULL && base[0] != '\0')
        length = snprintf(out, size, "%s/wane/sketches", base);
    else if (home != NULL && home[0] != '\0')
        length = snprintf(out, size, "%s/.cache/wane/sketches", home);
    return length > 0 && (size_t)length < size;
}

void wane__sketch_path(const char *folder, const char *digest, char *out, size_t size) {
    snprintf(out, size, "%s/%s-%d.sketch", folder, digest, REVISION);
}
