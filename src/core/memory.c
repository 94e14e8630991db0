/* memory.c - allocation with overflow checks; owns nothing, refuses allocation inside a decode step (debug). */
#include "core/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef WANE_DEBUG
static _Thread_local int step_depth;

void wane__step_enter(void) {
    step_depth++;
}

void wane__step_leave(void) {
    step_depth--;
}

static void check_step(void) {
    if (step_depth > 0) __builtin_trap();
}
#else
static inline void check_step(void) {}
#endif

void *wane__alloc(size_t size) {
    check_step();
    return malloc(size ? size : 1);
}

void *wane__alloc_zero(size_t count, size_t size) {
    check_step();
    if (size != 0 && count > SIZE_MAX / size)
        return NULL; /* calloc says so too, but sanitizers end the process */
    return calloc(count ? count : 1, size ? size : 1);
}

void *wane__alloc_aligned(size_t alignment, size_t size) {
    check_step();
    size_t rounded = (size + alignment - 1) / alignment * alignment;
    if (rounded < size) return NULL;
    return aligned_alloc(alignment, rounded ? rounded : alignment);
}

void *wane__resize(void *block, size_t count, size_t size) {
    check_step();
    if (size != 0 && count > SIZE_MAX / size) return NULL;
    size_t bytes = count * size;
    return realloc(block, bytes ? bytes : 1);
}

char *wane__copy_bytes(const void *bytes, size_t size) {
    if (size == SIZE_MAX) return NULL;
    char *copy = wane__alloc(size + 1);
    if (copy == NULL) return NULL;
    if (size > 0) memcpy(copy, bytes, size);
    copy[size] = '\0';
    return copy;
}

char *wane__copy_string(const char *text) {
    return text == NULL ? NULL : wane__copy_bytes(text, strlen(text));
}

void wane__free(void *block) {
    free(block);
}
