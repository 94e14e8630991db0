/*
 * table.h - the public interface to tables: contexts that were seen before, and what came after them. Part of wane.h.
 *
 * docs/slmt.md specifies the files.
 */
#ifndef WANE_TABLE_H
#define WANE_TABLE_H

#include "../wane.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __cplusplus
}
#endif

#endif
