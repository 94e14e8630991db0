/*
 * dump_hidden.c - real hidden rows and a real head, as plain files, for bench/scan.c.
 *
 *     dump_hidden model.gguf folder text.txt prompts.txt [steps]
 *
 * Writes into the folder, all floats of this machine's byte order:
 *
 *     calibration.f32   d floats a row: every token of text.txt, read as prompts of 512 tokens
 *     decode.f32        d floats a row: greedy replies of `steps` tokens to each line of prompts.txt
 *     head.f32          V rows of d weights, dequantised
 *     size.txt          "V d"
 *
 * In prompts.txt, \n stands for a line end.
 */
#include "engine_support.h"

static FILE *out;
static bool dense;

static bool keep_rows(void *user, const float *hidden, int first, int rows, int d) {
    (void)user, (void)first;
    if (fwrite(hidden, sizeof *hidden * (size_t)d, (size_t)rows, out) != (size_t)rows) abort();
    return dense;
}

static FILE *open_in(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    return file;
}

static char *read_text(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    char *text = malloc(1 << 22);
    if (file == NULL || text == NULL) {
        perror(path);
        exit(1);
    }
    *size = fread(text, 1, (1 << 22) - 1, file);
    text[*size] = 0;
    fclose(file);
    return text;
}

static void dump_text(struct fixture *f, const char *path) {
    size_t size;
    char *text = read_text(path, &size);
    wane_tokens tokens = {0};
    wane_error error;
    engine_tokens(f, text, size, false, false, &tokens);
    for (size_t at = 0; at < tokens.count; at += 512) {
        static struct wane__item items[512];
        int n = 0;
        for (; n < 512 && at + (size_t)n < tokens.count; n++)
            items[n] =
                (struct wane__item){.token = tokens.id[at + (size_t)n], .pos = n, .seq = 0, .wanted = true};
        f->engine->ops->truncate(f->engine, 0, 0);
        if (f->engine->ops->decode(f->engine, items, n, &error) != WANE_OK) abort();
    }
    fprintf(stderr, "%zu tokens of text\n", tokens.count);
    free(text);
}

static void dump_replies(struct fixture *f, const char *path, int steps) {
    size_t size;
    char *text = read_text(path, &size);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *to = line;
        for (char *from = line; *from; from++) {
            bool end = from[0] == '\\' && from[1] == 'n';
            *to++ = end ? '\n' : *from;
            from += end;
        }
        *to = 0;
        wane_message message = {.role = "user", .content = line};
        wane_tokens prompt = {0};
        wane_error error;
        if (f->engine->ops->chat(f->engine, &message, 1, &prompt, NULL, &error) != WANE_OK)
            engine_tokens(f, line, strlen(line), true, false, &prompt);
        f->engine->ops->truncate(f->engine, 0, 0);
        if (prefill(f, 0, prompt.id, prompt.count, &error) != WANE_OK) abort();
        for (int i = 0; i < steps; i++) {
            int32_t token = argmax(f->engine->ops->logits(f->engine, 0), f->engine->facts.vocab_size);
            if (f->engine->ops->is_end(f->engine, token)) break;
            struct wane__item item = {.token = token, .pos = f->llama->length[0], .wanted = true};
            if (f->engine->ops->decode(f->engine, &item, 1, &error) != WANE_OK) abort();
        }
    }
    free(text);
}

static void dump_head(struct fixture *f, FILE *file) {
    const struct ggml_tensor *w = f->llama->head.weights;
    const struct ggml_type_traits *traits = ggml_get_type_traits(w->type);
    size_t d = (size_t)w->ne[0];
    float *row = malloc(d * sizeof *row);
    for (int64_t i = 0; i < w->ne[1]; i++) {
        const char *from = (const char *)w->data + (size_t)i * w->nb[1];
        if (w->type == GGML_TYPE_F32)
            memcpy(row, from, d * sizeof *row);
        else
            traits->to_float(from, row, (int64_t)d);
        if (fwrite(row, sizeof *row, d, file) != d) abort();
    }
    free(row);
}

int main(int count, char **words) {
    wane_model_options o;
    struct fixture f = {0};
    if (count < 5) {
        fprintf(stderr, "usage: dump_hidden model.gguf folder text.txt prompts.txt [steps]\n");
        return 2;
    }
    default_options(&o, words[1]);
    if (!load_fixture(&f, &o, NULL)) return 1;
    FILE *file = open_in(words[2], "size.txt");
    fprintf(file, "%d %d\n", f.engine->facts.vocab_size, f.engine->facts.embedding_size);
    fclose(file);
    f.engine->ops->set_hook(f.engine, keep_rows, NULL);
    out = open_in(words[2], "calibration.f32");
    dump_text(&f, words[3]);
    fclose(out);
    dense = true;
    out = open_in(words[2], "decode.f32");
    dump_replies(&f, words[4], count > 5 ? atoi(words[5]) : 48);
    fclose(out);
    file = open_in(words[2], "head.f32");
    dump_head(&f, file);
    fclose(file);
    free_fixture(&f);
    return 0;
}
