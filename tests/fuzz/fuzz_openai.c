/* fuzz_openai.c - any bytes as the body of /v1/chat/completions and of /v1/completions. */
#include "fuzz_api.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try_body(WANE__API_CHAT, data, size);
    try_body(WANE__API_TEXT, data, size);
    return 0;
}
