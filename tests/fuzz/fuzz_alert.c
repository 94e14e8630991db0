/*
 * fuzz_alert.c - any bytes as the reason of an alert, and as the names around it: what is posted is JSON with all its fields, and what stands on
 * the board is a line of UTF-8. The first byte says where the bytes are cut in two.
 */
#include "ops/alert_board.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    const char *name;
    int count;
};

static void see(void *user, const struct wane__alert_change *change) {
    struct seen *seen = user;
    const struct wane__alert_facts facts = {
        .host = seen->name, .model = seen->name, .version = seen->name, .instance = seen->name, .port = 1};
    struct wane__buf body = {0};
    if (!wane__alert_body(change, &facts, &body)) abort();
    json_t *all = json_loadb(body.data, body.size, JSON_REJECT_DUPLICATES, NULL);
    if (all == NULL || json_object_size(all) != 13) abort();
    const char *reason = json_string_value(json_object_get(all, "reason"));
    if (reason == NULL || strcmp(reason, change->view.reason) != 0) abort();
    for (const char *c = reason; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) abort();
    json_decref(all);
    wane__buf_free(&body);
    seen->count++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct wane__board *board;
    char *text = malloc(size + 1);
    if (text == NULL) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    size_t cut = size > 0 ? data[0] % size : 0;
    struct seen seen = {.name = text + cut};
    if (wane__board_new(NULL, NULL, NULL, &board, NULL) != WANE_OK) abort();
    wane__board_listen(board, see, &seen);
    wane__board_raise(board, WANE__ALERT_RELOAD, "%s", text);
    wane__board_clear(board, WANE__ALERT_RELOAD, "%.*s", (int)cut, text);
    wane__board_break(board, WANE__ALERT_TABLE, "table", "x%s", text + cut);
    if (seen.count != 3) abort();
    wane__board_free(board);
    free(text);
    return 0;
}
