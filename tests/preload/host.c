/*
 * host.c - a llama.cpp program as people write them, for the tests of wane exec: what it prints must be the same with wane under
 * it and without.
 *
 *     exec_host MODEL MODE[,MODE…] [N]
 *
 * For each mode its name, then a line of token ids for each reply, and what the mode looks at beside them, bit for bit.
 */
#include <llama.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CONTEXT = 256, MOST = 128, STREAMS = 4 };

static struct llama_model *model;
static const struct llama_vocab *vocab;
static int vocab_size, steps = 24;
static const char *mode;

static bool is(const char *name) {
    return strcmp(mode, name) == 0;
}

static void silent(enum ggml_log_level level, const char *text, void *user) {
    (void)level;
    (void)text;
    (void)user;
}

/* ------------------------------------------------------------------- samplers */

static struct llama_sampler *grammar(void) {
    return llama_sampler_init_grammar(vocab, "root ::= [a-z ]+", "root");
}

static void add_best(struct llama_sampler *chain, int k) {
    llama_sampler_chain_add(chain, llama_sampler_init_top_k(k));
    llama_sampler_chain_add(chain, llama_sampler_init_top_p(0.95f, 1));
    llama_sampler_chain_add(chain, llama_sampler_init_temp(0.9f));
    llama_sampler_chain_add(chain, llama_sampler_init_dist(7));
}

static struct llama_sampler *sampler(void) {
    struct llama_sampler *chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
    llama_logit_bias bias[] = {{.token = 260, .bias = 9}, {.token = 28, .bias = -INFINITY}};
    if (is("bias")) llama_sampler_chain_add(chain, llama_sampler_init_logit_bias(vocab_size, 2, bias));
    if (is("penalties"))
        llama_sampler_chain_add(chain, llama_sampler_init_penalties(vocab_size, 64, 1.3f, 0.2f, 0.1f));
    if (is("grammar")) llama_sampler_chain_add(chain, grammar());
    if (is("sigma")) llama_sampler_chain_add(chain, llama_sampler_init_top_n_sigma(1));
    if (is("min-p")) llama_sampler_chain_add(chain, llama_sampler_init_min_p(0.05f, 1));
    if (is("top-k") || is("penalties") || is("sigma")) {
        add_best(chain, 40);
    } else if (is("top-k-1024")) {
        add_best(chain, 1024);
    } else if (is("min-p") || is("dist")) {
        llama_sampler_chain_add(chain, llama_sampler_init_temp(0.9f));
        llama_sampler_chain_add(chain, llama_sampler_init_dist(7));
    } else {
        llama_sampler_chain_add(chain, llama_sampler_init_greedy());
    }
    return chain;
}

static uint32_t bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The whole row, as one number. */
static uint32_t digest(const float *logits) {
    uint32_t sum = 2166136261u;
    for (int i = 0; i < vocab_size; i++) sum = (sum ^ bits(logits[i])) * 16777619u;
    return sum;
}

static llama_token best(const float *logits) {
    llama_token found = 0;
    for (int i = 1; i < vocab_size; i++)
        if (logits[i] > logits[found]) found = i;
    return found;
}

/* As llama-server does it: its own array of candidates, then the chain. */
static llama_token apply(struct llama_sampler *chain, const float *logits) {
    static llama_token_data *data;
    if (data == NULL) data = calloc((size_t)vocab_size, sizeof *data);
    if (data == NULL) exit(1);
    for (int i = 0; i < vocab_size; i++) data[i] = (llama_token_data){.id = i, .logit = logits[i]};
    llama_token_data_array all = {.data = data, .size = (size_t)vocab_size, .selected = -1};
    llama_sampler_apply(chain, &all);
    llama_token token = all.data[all.selected].id;
    llama_sampler_accept(chain, token);
    return token;
}

static llama_token choose(struct llama_context *context, struct llama_sampler *chain, int at) {
    if (is("own")) return best(llama_get_logits_ith(context, at));
    if (is("server")) return apply(chain, llama_get_logits_ith(context, at));
    if (is("node"))
        return llama_get_logits(context) != NULL ? apply(chain, llama_get_logits_ith(context, at)) : -1;
    llama_token token = llama_sampler_sample(chain, context, at);
    if (is("logprobs")) printf("%08x ", digest(llama_get_logits_ith(context, at)));
    return token;
}

/* ------------------------------------------------------------------- contexts */

static int wanted_nodes;

static bool on_node(struct ggml_tensor *node, bool ask, void *user) {
    (void)user;
    const char *wish = is("behind") ? "result_output" : "l_out-3";
    if (ask) return strcmp(node->name, wish) == 0;
    wanted_nodes++;
    return true;
}

static struct llama_context *context_new(void) {
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = is("streams") ? STREAMS * CONTEXT : CONTEXT;
    p.n_seq_max = is("streams") ? STREAMS : 1;
    p.n_threads = p.n_threads_batch = 1;
    p.n_outputs_max_per_seq = is("rows") || is("embeddings") ? 16 : 1;
    if (is("callback") || is("behind")) p.cb_eval = on_node;
    struct llama_context *context = llama_init_from_model(model, p);
    if (context == NULL) exit(1);
    return context;
}

static int tokens_of(const char *text, llama_token *out) {
    int count = llama_tokenize(vocab, text, (int)strlen(text), out, MOST, true, true);
    if (count < 1) exit(1);
    return count;
}

static void put(struct llama_batch *batch, llama_token token, int pos, int seq, bool wanted) {
    int i = batch->n_tokens++;
    batch->token[i] = token;
    batch->pos[i] = pos;
    batch->n_seq_id[i] = 1;
    batch->seq_id[i][0] = seq;
    batch->logits[i] = wanted;
}

static void reply(struct llama_context *context, const char *prompt, int count) {
    llama_token tokens[MOST];
    int length = tokens_of(prompt, tokens);
    struct llama_sampler *chain = is("own") ? NULL : sampler();
    if (is("embeddings")) llama_set_embeddings(context, true);
    if (llama_decode(context, llama_batch_get_one(tokens, length)) != 0) exit(1);
    for (int i = 0; i < count; i++) {
        llama_token token = choose(context, chain, -1);
        printf("%d ", token);
        if (is("embeddings")) printf("%08x ", bits(llama_get_embeddings_ith(context, -1)[0]));
        if (llama_vocab_is_eog(vocab, token)) break;
        if (llama_decode(context, llama_batch_get_one(&token, 1)) != 0) exit(1);
    }
    printf("\n");
    llama_sampler_free(chain);
}

static void replies(void) {
    static const char *const prompts[] = {"The capital of France is", "def fibonacci(n):\n"};
    struct llama_context *context = context_new();
    for (int i = 0; i < 2; i++) {
        llama_memory_clear(llama_get_memory(context), true);
        reply(context, prompts[i], steps);
    }
    if (is("callback") || is("behind")) printf("%d nodes\n", wanted_nodes);
    llama_free(context);
}

/* Four sequences in one batch. */
static void streams(void) {
    static const char *const prompts[STREAMS] = {"The sea is", "A cat is", "Rome was", "2 + 2 ="};
    struct llama_context *context = context_new();
    struct llama_batch batch = llama_batch_init(STREAMS * MOST, 0, 1);
    struct llama_sampler *chain[STREAMS];
    llama_token next[STREAMS];
    int length[STREAMS];
    for (int s = 0; s < STREAMS; s++) {
        llama_token tokens[MOST];
        length[s] = tokens_of(prompts[s], tokens);
        chain[s] = sampler();
        batch.n_tokens = 0;
        for (int i = 0; i < length[s]; i++) put(&batch, tokens[i], i, s, i == length[s] - 1);
        if (llama_decode(context, batch) != 0) exit(1);
        next[s] = llama_sampler_sample(chain[s], context, -1);
    }
    for (int step = 0; step < steps; step++) {
        batch.n_tokens = 0;
        for (int s = 0; s < STREAMS; s++) put(&batch, next[s], length[s]++, s, true);
        if (llama_decode(context, batch) != 0) exit(1);
        for (int s = 0; s < STREAMS; s++) {
            printf("%d ", next[s]);
            next[s] = llama_sampler_sample(chain[s], context, s);
        }
        printf("\n");
    }
    for (int s = 0; s < STREAMS; s++) llama_sampler_free(chain[s]);
    llama_batch_free(batch);
    llama_free(context);
}

/* A row of every token of a prompt: what perplexity tools do, and drafts. */
static void rows(void) {
    llama_token tokens[MOST];
    int length = tokens_of("One two three four five six", tokens);
    struct llama_context *context = context_new();
    struct llama_sampler *chain = sampler();
    struct llama_batch batch = llama_batch_init(MOST, 0, 1);
    for (int round = 0; round < 4; round++) {
        int count = length - round;
        llama_memory_clear(llama_get_memory(context), true);
        batch.n_tokens = 0;
        for (int i = 0; i < count; i++) put(&batch, tokens[i], i, 0, true);
        if (llama_decode(context, batch) != 0) exit(1);
        for (int i = count - 1; i >= 0; i--) printf("%d ", llama_sampler_sample(chain, context, i));
        printf("\n");
    }
    llama_sampler_free(chain);
    llama_batch_free(batch);
    llama_free(context);
}

static long resident(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL && fscanf(file, "%*d %ld", &pages) != 1) pages = 0;
    if (file != NULL) fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Contexts made and freed, ten requests on each; does the process grow once it has seen some? */
static void contexts(int count) {
    long before = 0;
    mode = "greedy";
    for (int i = 0; i < count; i++) {
        struct llama_context *context = context_new();
        for (int request = 0; request < 10; request++) {
            llama_memory_clear(llama_get_memory(context), true);
            reply(context, "Hi", 1);
        }
        llama_free(context);
        if (i == count / 4) before = resident();
    }
    long grown = resident() - before;
    printf("%s\n", grown < 16 * 1024 ? "did not grow" : "grew");
}

/* A child that goes on by itself, and its parent. */
static void forks(void) {
    mode = "greedy";
    struct llama_context *context = context_new();
    reply(context, "The sun", 8);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        replies();
        fflush(stdout);
        exit(0);
    }
    waitpid(child, NULL, 0);
    llama_memory_clear(llama_get_memory(context), true);
    reply(context, "The moon", 8);
    llama_free(context);
}

static void run(char *name) {
    mode = name;
    printf("%s\n", name);
    if (is("streams"))
        streams();
    else if (is("rows"))
        rows();
    else if (is("contexts"))
        contexts(steps);
    else if (is("fork"))
        forks();
    else
        replies();
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    if (argc > 3) steps = atoi(argv[3]);
    llama_log_set(silent, NULL);
    llama_backend_init();
    ggml_backend_load_all_from_path(EXEC_HOST_PLUGINS);
    model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (model == NULL) return 1;
    vocab = llama_model_get_vocab(model);
    vocab_size = llama_vocab_n_tokens(vocab);
    for (char *name = strtok(argv[2], ","); name != NULL; name = strtok(NULL, ",")) run(name);
    llama_model_free(model);
    llama_backend_free();
    return 0;
}
