/*
 * bench_clients.c - clients of `wane bench layer` and `wane bench protocol`: each a thread that sends a request, reads it to its end, and sends the next.
 *
 * A closed loop: a slower server gets fewer requests, not a longer queue. Times are the client's.
 */
#include "bench_clients.h"
#include "sorted.h"
#include "text.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

void numbers_add(struct numbers *numbers, double value) {
    if (numbers->count == numbers->capacity) {
        numbers->capacity = numbers->capacity > 0 ? 2 * numbers->capacity : 256;
        numbers->value = text_grow(numbers->value, numbers->capacity * sizeof *numbers->value);
    }
    numbers->value[numbers->count++] = value;
}

double numbers_quantile(struct numbers *numbers, double p) {
    if (numbers->count == 0) return 0;
    sort_numbers(numbers->value, numbers->count);
    return sorted_quantile(numbers->value, numbers->count, p);
}

double numbers_deviation(const struct numbers *numbers) {
    double sum = 0, squares = 0, count = (double)numbers->count;
    if (numbers->count == 0) return 0;
    for (size_t i = 0; i < numbers->count; i++) sum += numbers->value[i];
    for (size_t i = 0; i < numbers->count; i++)
        squares += (numbers->value[i] - sum / count) * (numbers->value[i] - sum / count);
    return sqrt(squares / count);
}

/* ---- clients ------------------------------------------------------------------------------------------------------- */

struct clients {
    const struct client_load *load;
    struct client_cell *cell;
    pthread_mutex_t lock; /* guards what follows, and the cell */
    int next;
    int code;
    wane_error error;
};

/* The next request's number, or -1. */
static int take_number(struct clients *clients) {
    pthread_mutex_lock(&clients->lock);
    const struct client_load *load = clients->load;
    while (load->finished != NULL && clients->next < load->count &&
           load->finished[load->first + clients->next])
        clients->next++;
    bool more = clients->code == WANE_OK && clients->next < load->count && !interrupt_seen();
    int number = more ? load->first + clients->next++ : -1;
    pthread_mutex_unlock(&clients->lock);
    return number;
}

static void keep_text(struct client_request *request, const char *text, size_t size) {
    request->text = text_grow(request->text, request->text_size + size + 1);
    memcpy(request->text + request->text_size, text, size);
    request->text_size += size;
    request->text[request->text_size] = '\0';
}

/* Read it to its end; `gaps`: between its tokens. */
static int read_reply(wane_ticket *ticket, double began, struct client_request *request, struct numbers *gaps,
                      wane_event *end, wane_error *error) {
    double last = 0;
    for (bool ended = false; !ended;) {
        wane_event event;
        int code = wane_ticket_next(ticket, 600000, &event, &ended, error);
        if (code != WANE_OK) return code;
        double now = now_ms();
        keep_text(request, event.text_size > 0 ? event.text : "", event.text_size);
        if (event.kind == WANE_EVENT_TEXT) {
            if (request->tokens++ == 0)
                request->first_ms = now - began;
            else
                numbers_add(gaps, now - last);
            last = now;
            request->last_ms = now - began;
        }
        if (event.kind != WANE_EVENT_END) continue;
        *end = event;
        request->whole_ms = now - began;
        request->chosen = event.answers > 0 ? event.chosen : -1;
        if (event.chosen_text == NULL) continue;
        request->text_size = 0;
        keep_text(request, event.chosen_text, event.chosen_size);
    }
    return WANE_OK;
}

double client_tpot_ms(const struct client_request *request) {
    return request->tokens > 1 ? (request->last_ms - request->first_ms) / (request->tokens - 1) : 0;
}

/*
 * How many tokens request `number` may have: even steps of the golden ratio over what the spread allows, the same in each run. Replies that are all as
 * long make clients of a closed loop march in step: no prompt would ever come while others are answered.
 */
static int tokens_of(const struct client_load *load, int number) {
    double part = number * 0.6180339887498949, at = part - floor(part);
    int tokens = (int)lround(load->work->steps * (1 + load->spread * (2 * at - 1)));
    return tokens > 1 ? tokens : 1;
}

static int one_request(struct clients *clients, int number, wane_error *error) {
    const struct client_load *load = clients->load;
    const wane_tokens *prompt = &load->work->prompts[number % load->work->count];
    struct client_request *request = &clients->cell->request[number];
    struct numbers gaps = {0};
    wane_generation generation;
    wane_event end = {0};
    wane_ticket *ticket = NULL;
    wane_generation_init(&generation);
    generation.sampling = load->work->sampling;
    generation.sampling.seed += (uint64_t)number;
    generation.sampling.seeded = true;
    generation.max_tokens = tokens_of(load, number);
    generation.no_memo = true;
    generation.quality = load->quality;
    generation.ignore_end = load->ignore_end;
    free(request->text);
    *request = (struct client_request){.chosen = -1};
    double began = now_ms();
    int code = wane_scheduler_submit(load->scheduler, prompt->id, prompt->count, &generation, &ticket, error);
    if (code != WANE_OK) return code;
    code = read_reply(ticket, began, request, &gaps, &end, error);
    wane_ticket_free(ticket);
    if (code == WANE_OK) {
        struct client_cell *cell = clients->cell;
        pthread_mutex_lock(&clients->lock);
        for (size_t i = 0; i < gaps.count; i++) numbers_add(&cell->gap_ms, gaps.value[i]);
        if (request->tokens > 1) numbers_add(&cell->tpot_ms, client_tpot_ms(request));
        numbers_add(&cell->first_ms, request->first_ms);
        numbers_add(&cell->whole_ms, request->whole_ms);
        cell->delivered += (uint64_t)end.reply_tokens;
        cell->decoded += (uint64_t)(end.reply_tokens + end.spare_tokens);
        cell->requests++;
        cell->votes += end.answers > 0;
        cell->votes_changed += end.answers > 0 && end.chosen != 0;
        if (load->on_done != NULL) load->on_done(load->user, number, request);
        pthread_mutex_unlock(&clients->lock);
    }
    free(gaps.value);
    return code;
}

static void *client(void *user) {
    struct clients *clients = user;
    for (int number; (number = take_number(clients)) >= 0;) {
        wane_error error = {0};
        int code = one_request(clients, number, &error);
        if (code == WANE_OK) continue;
        pthread_mutex_lock(&clients->lock);
        if (clients->code == WANE_OK) {
            clients->code = code;
            clients->error = error;
        }
        pthread_mutex_unlock(&clients->lock);
    }
    return NULL;
}

void client_cell_close(struct client_cell *cell) {
    free(cell->gap_ms.value);
    free(cell->tpot_ms.value);
    free(cell->first_ms.value);
    free(cell->whole_ms.value);
    cell->gap_ms = cell->tpot_ms = cell->first_ms = cell->whole_ms = (struct numbers){0};
}

void client_cell_free(struct client_cell *cell, int count) {
    for (int i = 0; cell->request != NULL && i < count; i++) free(cell->request[i].text);
    free(cell->request);
    cell->request = NULL;
    client_cell_close(cell);
}

int clients_run(const struct client_load *load, struct client_cell *cell, wane_error *error) {
    struct clients clients = {.load = load, .cell = cell, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t *thread = text_alloc((size_t)load->streams * sizeof *thread);
    int started = 0;
    double began = now_ms();
    while (started < load->streams && pthread_create(&thread[started], NULL, client, &clients) == 0)
        started++;
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
    cell->seconds += 1e-3 * (now_ms() - began);
    free(thread);
    if (started == 0) {
        *error = (wane_error){.code = WANE_ENOMEM, .text = "No thread could be started."};
        return WANE_ENOMEM;
    }
    if (clients.code == WANE_OK && interrupt_seen()) clients.code = clients.error.code = WANE_ECANCELLED;
    *error = clients.error;
    return clients.code;
}
