/* normal.c - texts that look alike as the same bytes: NFC, by ICU. Owns nothing; refuses what is not UTF-8. */
#include "core/error.h"
#include "core/memory.h"

#include <limits.h>
#include <unicode/unorm2.h>
#include <unicode/ustring.h>

/* Through UTF-16 and back; both lists are the caller's to free. */
static int normalise(const char *text, int32_t size, UChar **from, UChar **to, char **out, size_t *out_size,
                     wane_error *error) {
    UErrorCode status = U_ZERO_ERROR;
    int32_t units = 0, most, bytes = 0;
    const UNormalizer2 *nfc = unorm2_getNFCInstance(&status);
    *from = wane__alloc_zero((size_t)size + 1, sizeof **from); /* never more units than bytes */
    if (*from == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a text of %d bytes.", size);
    u_strFromUTF8(*from, size + 1, &units, text, size, &status);
    if (status == U_INVALID_CHAR_FOUND) return wane__fail(error, WANE_EFORMAT, "The text is not UTF-8.");
    most = units <= INT_MAX / 3 - 1 ? 3 * units + 1 : 0; /* NFC makes at most three of one */
    if (most > 0) *to = wane__alloc_zero((size_t)most, sizeof **to);
    if (U_SUCCESS(status) && *to != NULL) units = unorm2_normalize(nfc, *from, units, *to, most, &status);
    if (*to != NULL) *out = wane__alloc(3 * (size_t)units + 1);
    if (*out == NULL) return wane__fail(error, WANE_ENOMEM, "No memory for a text of %d bytes.", size);
    if (U_SUCCESS(status)) u_strToUTF8(*out, 3 * units + 1, &bytes, *to, units, &status);
    if (U_FAILURE(status))
        return wane__fail(error, WANE_EINTERNAL, "ICU cannot normalise the text: %s.", u_errorName(status));
    *out_size = (size_t)bytes;
    return WANE_OK;
}

int wane_text_nfc(const char *text, size_t size, char **out, size_t *out_size, wane_error *error) {
    wane__clear(error);
    *out = NULL;
    *out_size = 0;
    if (size > INT_MAX / 4)
        return wane__fail(error, WANE_EINVAL, "A text of %zu bytes is too long to normalise.", size);
    UChar *from = NULL, *to = NULL;
    int code = normalise(text, (int32_t)size, &from, &to, out, out_size, error);
    wane__free(from);
    wane__free(to);
    if (code == WANE_OK) return code;
    wane__free(*out);
    *out = NULL;
    return code;
}
