/*
 * memory.h - allocation, and the promise that a decode step makes none.
 *
 * Everything in wane allocates through these. In a debug build, an allocation made by a thread that is
 * between wane__step_enter and wane__step_leave traps, so that a test finds it at once.
 */
#ifndef WANE_CORE_MEMORY_H
#define WANE_CORE_MEMORY_H

#include <stddef.h>

void *wane__alloc(size_t size);                             /* NULL when there is no memory       */
void *wane__alloc_zero(size_t count, size_t size);          /* zeroed; NULL also on overflow      */
void *wane__alloc_aligned(size_t alignment, size_t size);   /* free with wane__free               */
void *wane__resize(void *block, size_t count, size_t size); /* NULL: the old block is still there */
char *wane__copy_string(const char *text);                  /* NULL in, NULL out                  */
char *wane__copy_bytes(const void *bytes, size_t size);     /* with a terminating zero            */
void wane__free(void *block);

#ifdef WANE_DEBUG
void wane__step_enter(void);
void wane__step_leave(void);
#else
static inline void wane__step_enter(void) {}
static inline void wane__step_leave(void) {}
#endif

#endif
