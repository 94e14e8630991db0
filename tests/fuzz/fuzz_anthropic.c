/* fuzz_anthropic.c - any bytes as the body of /v1/messages and of count_tokens: parsed, or refused in words. */
#include "fuzz_api.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try_body(WANE__API_MESSAGES, data, size);
    try_body(WANE__API_COUNT, data, size);
    return 0;
}
