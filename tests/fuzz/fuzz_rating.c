/* fuzz_rating.c - any bytes as the body of a rating: refused in words, or a rating within its bounds. */
#include "server/rating.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct wane__rating rating;
    struct wane__problem problem = {0};
    bool fine = wane__rating_parse(&rating, (const char *)data, size, &problem);
    if (fine) {
        size_t id = strlen(rating.id);
        if (id == 0 || id > WANE__RATING_ID_MOST || !(rating.value >= -1 && rating.value <= 1)) abort();
        if (rating.comment != NULL && strlen(rating.comment) > WANE__RATING_COMMENT_MOST) abort();
    } else if (problem.kind == WANE__PROBLEM_NONE || problem.text[0] == '\0') {
        abort();
    }
    wane__rating_free(&rating);
    return 0;
}
