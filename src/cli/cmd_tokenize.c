/*
 * cmd_tokenize.c - `wane tokenize`: a text's tokens, loaded with the vocabulary alone.
 *
 * A piece is shown as a JSON string. One token may be part of a character: then its bytes are shown as <e4><b8>.
 */
#include "cli.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_MOST = 8192 };

static int tokens_of(const struct settings *settings, const wane_model *model, const char *text, size_t size,
                     wane_tokens *tokens, wane_error *error) {
    if (setting_on(settings, SET_CHAT)) {
        const char *system = setting_text(settings, SET_SYSTEM);
        wane_message messages[2] = {{"system", system, system != NULL ? strlen(system) : 0},
                                    {"user", text, size}};
        size_t skip = system == NULL || system[0] == '\0';
        return wane_chat_tokenize(model, messages + skip, 2 - skip, tokens, error);
    }
    unsigned flags = (setting_on(settings, SET_CONTROL) ? WANE_TOKENIZE_CONTROL : 0u) |
                     (setting_on(settings, SET_BOS) ? WANE_TOKENIZE_SPECIAL : 0u);
    return wane_tokenize(model, text, size, flags, tokens, error);
}

static json_t *piece(const wane_model *model, int32_t token, char *bytes) {
    int size = wane_token_bytes(model, token, true, bytes, PIECE_MOST);
    if (size < 0) return json_pack("{s:i, s:n}", "id", token, "text");
    if (text_utf8_prefix(bytes, (size_t)size) == (size_t)size)
        return json_pack("{s:i, s:o}", "id", token, "text", json_stringn_nocheck(bytes, (size_t)size));
    char *hex = text_alloc(2 * (size_t)size + 1);
    for (int i = 0; i < size; i++) {
        static const char digits[] = "0123456789abcdef";
        hex[2 * i] = digits[(unsigned char)bytes[i] >> 4];
        hex[2 * i + 1] = digits[(unsigned char)bytes[i] & 15];
    }
    json_t *value = json_pack("{s:i, s:n, s:s}", "id", token, "text", "hex", hex);
    free(hex);
    return value;
}

static void print_json(const wane_model *model, const wane_tokens *tokens) {
    char *bytes = text_alloc(PIECE_MOST);
    json_t *ids = json_array(), *pieces = json_array();
    for (size_t i = 0; i < tokens->count; i++) {
        json_array_append_new(ids, json_integer(tokens->id[i]));
        json_array_append_new(pieces, piece(model, tokens->id[i], bytes));
    }
    out_json(json_pack("{s:I, s:o, s:o}", "count", (json_int_t)tokens->count, "ids", ids, "tokens", pieces),
             false);
    free(bytes);
}

static bool print_line(const wane_model *model, int32_t token, char *bytes) {
    json_t *value = piece(model, token, bytes);
    const char *hex = json_string_value(json_object_get(value, "hex"));
    json_t *text = json_object_get(value, "text");
    out_format("%d\t", token);
    if (hex == NULL) {
        char *quoted = json_dumps(text, JSON_ENCODE_ANY);
        out_format("%s", quoted != NULL ? quoted : "?");
        free(quoted);
    }
    for (; hex != NULL && *hex != '\0'; hex += 2) out_format("<%.2s>", hex);
    json_decref(value);
    return out_format("\n");
}

static void print_tokens(const struct settings *settings, const wane_model *model,
                         const wane_tokens *tokens) {
    if (setting_on(settings, SET_JSON)) {
        print_json(model, tokens);
    } else if (setting_on(settings, SET_COUNT)) {
        out_format("%zu\n", tokens->count);
    } else if (setting_on(settings, SET_IDS)) {
        for (size_t i = 0; i < tokens->count; i++) out_format("%s%d", i > 0 ? " " : "", tokens->id[i]);
        out_format("\n");
    } else {
        char *bytes = text_alloc(PIECE_MOST);
        for (size_t i = 0; i < tokens->count; i++)
            if (!print_line(model, tokens->id[i], bytes)) break;
        free(bytes);
    }
}

int command_tokenize(struct settings *settings) {
    interrupt_catch();
    if (setting_on(settings, SET_CHAT) &&
        (setting_on(settings, SET_CONTROL) || setting_on(settings, SET_BOS)))
        return cli_usage("tokenize",
                         "--chat sets control tokens by the template; leave --control and --bos out");
    size_t size;
    char *text = settings->operand_count > 0 ? join_operands(settings, &size) : read_all_input(&size);
    if (text == NULL) return interrupt_seen() ? EXIT_INTERRUPTED : EXIT_FAILED;
    wane_model *model = NULL;
    wane_tokens tokens = {0};
    wane_error error = {0};
    int code = model_open(settings, &(struct model_wish){.vocab_only = true}, &model);
    if (code == EXIT_FINE && tokens_of(settings, model, text, size, &tokens, &error) != WANE_OK)
        code = cli_fail_wane(&error);
    if (code == EXIT_FINE) print_tokens(settings, model, &tokens);
    wane_tokens_free(&tokens);
    wane_model_free(model);
    free(text);
    return code;
}
