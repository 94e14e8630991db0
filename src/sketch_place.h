/* sketch_place.h - where a model's sketch lies: the folder and the name. */
#ifndef WANE_SKETCH_PLACE_H
#define WANE_SKETCH_PLACE_H

#include "wane.h"

/* The folder of sketches, without a slash at its end; false when nothing names one. `given` may be NULL or "". */
bool wane__sketch_folder(const char *given, char *out, size_t size);
/* The sketch of a model with that digest, in that folder. */
void wane__sketch_path(const char *folder, const char *digest, char *out, size_t size);

#endif
