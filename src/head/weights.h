/*
 * weights.h - rows of weights as files and other programs hold them: floats of 32 or 16 bits, and blocks of few bits as GGUF files have.
 *
 * A row is `d` weights in whole blocks; blocks of the types with a K hold 256 weights, of the others 32. docs/head.md lists the types.
 */
#ifndef WANE_HEAD_WEIGHTS_H
#define WANE_HEAD_WEIGHTS_H

#include "wane.h"

/* Weights that are taken out at once; a multiple of every block. */
enum { WANE__WEIGHTS_CHUNK = 256 };

/* Weights in a block, and its bytes; 0: there is no such type. */
int wane__weights_block(int type);
size_t wane__weights_bytes(int type);
/* Bytes of a row of `d` weights; 0: they are not whole blocks. */
size_t wane__weights_row(int type, int d);

/*
 * Weights first … first + count - 1 of a row as floats. `first` is a multiple of WANE__WEIGHTS_CHUNK, `count` at most that, and either that or
 * what is left of the row. Returns `room`, or a pointer into the row where floats lie there already.
 */
const float *wane__weights_take(int type, const void *row, int first, int count, float *room);

#endif
