/*
 * layer.c - the whole layer in a program of one's own: questions go in from anywhere, one engine thread answers them side
 * by side, tokens are read as they come.
 *
 *     cc -std=c17 examples/embed/layer.c $(pkg-config --cflags --libs wane) -o layer
 *     ./layer model.gguf "Write one sentence about the sea." "Name three colours."
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wane.h>

enum { MOST = 16, TOKENS = 40 };

struct request {
    wane_ticket *ticket;
    char text[2000];
    size_t size;
    bool ended;
};

static int submit(wane_model *model, wane_scheduler *scheduler, const char *question, struct request *request,
                  wane_error *error) {
    wane_message messages[] = {{"user", question, strlen(question)}};
    wane_tokens prompt = {0};
    wane_generation generation;
    wane_generation_init(&generation);
    generation.max_tokens = TOKENS;
    int result = wane_chat_tokenize(model, messages, 1, &prompt, error);
    if (result == WANE_OK)
        result =
            wane_scheduler_submit(scheduler, prompt.id, prompt.count, &generation, &request->ticket, error);
    wane_tokens_free(&prompt);
    return result;
}

/* What a request has to say by now. A program with a thread a request would wait in here instead. */
static int read_on(struct request *request, wane_error *error) {
    wane_event event;
    int result = wane_ticket_next(request->ticket, 5, &event, &request->ended, error);
    if (result == WANE_ETIMEOUT && !request->ended) return WANE_OK; /* nothing yet, nothing lost */
    if (result != WANE_OK) return result;
    if (event.kind == WANE_EVENT_END) request->ended = true;
    if (event.text_size < sizeof request->text - request->size) {
        memcpy(request->text + request->size, event.text, event.text_size);
        request->size += event.text_size;
    }
    return WANE_OK;
}

static int answer_all(wane_model *model, wane_scheduler *scheduler, char **questions, int count,
                      wane_error *error) {
    struct request *requests = calloc((size_t)count, sizeof *requests);
    int result = requests != NULL ? WANE_OK : WANE_ENOMEM, open = count;
    for (int i = 0; result == WANE_OK && i < count; i++)
        result = submit(model, scheduler, questions[i], &requests[i], error);
    while (result == WANE_OK && open > 0)
        for (int i = 0; result == WANE_OK && i < count; i++) {
            if (requests[i].ended) continue;
            result = read_on(&requests[i], error);
            if (result == WANE_OK && requests[i].ended) {
                printf("%s\n  %.*s\n", questions[i], (int)requests[i].size, requests[i].text);
                open--;
            }
        }
    for (int i = 0; requests != NULL && i < count; i++) wane_ticket_free(requests[i].ticket);
    free(requests);
    return result;
}

int main(int words, char **word) {
    if (words < 3 || words - 2 > MOST) {
        fprintf(stderr, "usage: layer MODEL.gguf QUESTION...  (at most %d)\n", MOST);
        return 2;
    }
    wane_error error = {0};
    wane_model *model = NULL;
    wane_scheduler *scheduler = NULL;
    wane_model_options options;
    wane_scheduler_options with;
    wane_model_options_init(&options);
    wane_scheduler_options_init(&with);
    options.path = word[1];
    options.sequences = words - 2;
    int result = wane_model_load(&options, &model, &error);
    if (result == WANE_OK) result = wane_scheduler_new(model, &with, &scheduler, &error);
    if (result == WANE_OK) result = answer_all(model, scheduler, word + 2, words - 2, &error);
    wane_scheduler_free(scheduler);
    wane_model_free(model);
    if (result == WANE_OK) return 0;
    fprintf(stderr, "layer: %s (%s)\n", error.text, wane_strerror(result));
    return 1;
}
