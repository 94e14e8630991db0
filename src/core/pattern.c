/* pattern.c - opens regular expressions. Owns none; refuses to search without bounds. */
#include "core/pattern.h"

#include "core/error.h"

#include <unicode/utext.h>

int wane__pattern_open(const char *text, size_t size, uint32_t flags, int steps, URegularExpression **out,
                       struct wane__pattern_fault *fault) {
    UErrorCode status = U_ZERO_ERROR;
    UParseError where = {0};
    UText *pattern = utext_openUTF8(NULL, text, (int64_t)size, &status);
    *out = uregex_openUText(pattern, flags, &where, &status);
    if (pattern != NULL) utext_close(pattern);
    if (U_SUCCESS(status)) uregex_setTimeLimit(*out, steps, &status);
    if (U_SUCCESS(status)) uregex_setStackLimit(*out, WANE__PATTERN_STACK, &status);
    if (U_SUCCESS(status)) return WANE_OK;
    if (*out != NULL) uregex_close(*out);
    *out = NULL;
    *fault = (struct wane__pattern_fault){where.line > 0 ? where.line : 1,
                                          where.offset > 0 ? where.offset : 0, u_errorName(status)};
    return status == U_MEMORY_ALLOCATION_ERROR ? WANE_ENOMEM : WANE_EINVAL;
}
