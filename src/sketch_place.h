/* sketch_place.h - where a model's sketch lies: the digest of the model's file, the folder, the name. */
#ifndef WANE_SKETCH_PLACE_H
#define WANE_SKETCH_PLACE_H

#include "wane.h"

/* XXH3-128 of a file's bytes, as 32 hexadecimal digits. */
int wane__file_digest(const char *path, char hex[33], wane_error *error);
/* The folder of sketches, without a slash at its end; false when nothing names one. `given` may be NULL or "". */
bool wane__sketch_folder(const char *given, char *out, size_t size);
/* The sketch of a model with that digest, in that folder. */
void wane__sketch_path(const char *folder, const char *digest, char *out, size_t size);

#endif
