/*
 * decode.c - the smallest program on libwane: one question, the reply as it comes.
 *
 *     cc examples/decode.c $(pkg-config --cflags --libs wane) -o decode
 *     ./decode model.gguf "Write one sentence about the sea."
 */
#include <stdio.h>
#include <string.h>
#include <wane.h>

static int fail(const wane_error *error) {
    fprintf(stderr, "decode: %s (%s)\n", error->text, wane_strerror(error->code));
    return 1;
}

static int reply(wane_model *model, const char *question, wane_error *error) {
    wane_message messages[] = {{"user", question, strlen(question)}};
    wane_tokens prompt = {0};
    wane_session *session = NULL;
    wane_generation generation;
    wane_generation_init(&generation);
    generation.max_tokens = 100;

    int result = wane_chat_tokenize(model, messages, 1, &prompt, error);
    if (result == WANE_OK) result = wane_session_new(model, &session, error);
    if (result == WANE_OK) result = wane_session_start(session, prompt.id, prompt.count, &generation, error);
    for (wane_event event = {0}; result == WANE_OK && event.kind != WANE_EVENT_END;) {
        result = wane_session_next(session, &event, error);
        if (result == WANE_OK) fwrite(event.text, 1, event.text_size, stdout);
    }
    putchar('\n');
    wane_session_free(session);
    wane_tokens_free(&prompt);
    return result;
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: decode MODEL.gguf QUESTION\n");
        return 2;
    }
    wane_error error = {0};
    wane_model *model = NULL;
    wane_model_options options;
    wane_model_options_init(&options);
    options.path = arguments[1];
    if (wane_model_load(&options, &model, &error) != WANE_OK) return fail(&error);
    int result = reply(model, arguments[2], &error);
    wane_model_free(model);
    return result == WANE_OK ? 0 : fail(&error);
}
