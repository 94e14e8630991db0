/*
 * settings.c - the one table of everything that can be set.
 *
 * Add a line here and the option, its variable, its key in the file, its help, its place in docs/cli.md and its
 * completion exist. The variables of the listening address are WANE_HTTP_…, because Kubernetes puts WANE_PORT
 * and WANE_SERVICE_HOST into every container beside a service that is named wane.
 */
#include "settings.h"

#define LOADS \
    (FOR_RUN | FOR_SERVE | FOR_MODEL | FOR_TOKENIZE | FOR_BENCH | FOR_HEAD | FOR_RECORD | FOR_CONFIG)
#define DECODES (FOR_RUN | FOR_SERVE | FOR_BENCH | FOR_HEAD | FOR_RECORD | FOR_MODEL | FOR_CONFIG)
#define HEADED  (FOR_RUN | FOR_SERVE | FOR_BENCH | FOR_RECORD | FOR_CONFIG)
#define SAMPLES (FOR_RUN | FOR_SERVE | FOR_RECORD | FOR_CONFIG)
#define SERVES  (FOR_SERVE | FOR_CONFIG)
#define CHATS   (FOR_RUN | FOR_CONFIG)
#define ANSWERS (FOR_RUN | FOR_RECORD | FOR_CONFIG)
#define TRACES  (FOR_SERVE | FOR_RECORD | FOR_CONFIG)

static const char kv_types[] = "f16 f32 bf16 q8_0 q5_1 q5_0 q4_1 q4_0 iq4_nl";

/* One setting in two lines: how it is named and what it takes, then where it counts and what it does. */
/* clang-format off */
#define SWITCH(group, option, letter, env, key, fallback, commands, help) \
    { group, option, letter, env, key, TYPE_SWITCH, 0, 1, NULL, fallback, commands, NULL, help }
#define NUMBER(group, option, letter, env, key, type, least, most, fallback, commands, help) \
    { group, option, letter, env, key, type, least, most, NULL, fallback, commands, "N", help }
#define WORDS(group, option, letter, env, key, type, least, most, fallback, commands, argument, help) \
    { group, option, letter, env, key, type, least, most, NULL, fallback, commands, argument, help }
#define CHOICE(group, option, env, key, choices, fallback, commands, help) \
    { group, option, 0, env, key, TYPE_CHOICE, 0, 0, choices, fallback, commands, "WORD", help }

const struct setting settings_table[SETTING_COUNT] = {
    [SET_MODEL] = WORDS("Model", "model", 'm', "WANE_MODEL", "model.name", TYPE_FILE, 1, 4096, "smollm2-135m",
        LOADS & ~(unsigned)FOR_MODEL, "MODEL", "a known name, or the path of a GGUF file"),
    [SET_OFFLINE] = SWITCH("Model", "offline", 0, "WANE_OFFLINE", "model.offline", "off",
        LOADS, "never fetch a model; say which command would"),
    [SET_BACKENDS] = WORDS("Model", "backends", 0, "WANE_BACKENDS", "model.backends", TYPE_FILE, 1, 4096, NULL,
        LOADS, "FOLDER", "folder of the engine's plug-ins; not set: as built or installed"),

    [SET_THREADS] = NUMBER("Engine", "threads", 't', "WANE_THREADS", "engine.threads", TYPE_INTEGER, 0, 512, "0",
        DECODES, "threads for decoding; 0: one a physical core"),
    [SET_BATCH_THREADS] = NUMBER("Engine", "batch-threads", 0, "WANE_BATCH_THREADS", "engine.batch_threads", TYPE_INTEGER, 0, 512, "0",
        DECODES, "threads for prompts; 0: as many as for decoding"),
    [SET_CONTEXT] = NUMBER("Engine", "context", 0, "WANE_CONTEXT", "engine.context", TYPE_INTEGER, 0, 1048576, "0",
        DECODES, "tokens that one conversation may hold; 0: the trained size, at most 4096"),
    [SET_BATCH] = NUMBER("Engine", "batch", 0, "WANE_BATCH", "engine.batch", TYPE_INTEGER, 32, 4096, "512",
        DECODES, "tokens in one engine call"),
    [SET_GPU_LAYERS] = NUMBER("Engine", "gpu-layers", 0, "WANE_GPU_LAYERS", "engine.gpu_layers", TYPE_INTEGER, -1, 10000, "-1",
        DECODES, "layers on a GPU; -1: as many as fit"),
    [SET_KV_TYPE_K] = CHOICE("Engine", "kv-type-k", "WANE_KV_TYPE_K", "engine.kv_type_k", kv_types, "f16",
        DECODES, "how the cache keeps keys"),
    [SET_KV_TYPE_V] = CHOICE("Engine", "kv-type-v", "WANE_KV_TYPE_V", "engine.kv_type_v", kv_types, "f16",
        DECODES, "how the cache keeps values"),
    [SET_FLASH_ATTENTION] = CHOICE("Engine", "flash-attention", "WANE_FLASH_ATTENTION", "engine.flash_attention", "auto on off", "auto",
        DECODES, "the fused attention; auto: the engine decides"),
    [SET_MMAP] = SWITCH("Engine", "mmap", 0, "WANE_MMAP", "engine.mmap", "on",
        LOADS, "map the weights; off: read them into memory"),
    [SET_MLOCK] = SWITCH("Engine", "mlock", 0, "WANE_MLOCK", "engine.mlock", "off",
        DECODES, "keep the weights in memory"),
    [SET_HEAD] = CHOICE("Engine", "head", "WANE_HEAD", "engine.head", "certified always dense", "certified",
        HEADED, "how the next token is found; certified: the dense tokens in less time; always: even where it takes more"),
    [SET_HEAD_SIGMAS] = NUMBER("Engine", "head-sigmas", 0, "WANE_HEAD_SIGMAS", "engine.head_sigmas", TYPE_REAL, 3, 12, "6",
        HEADED | FOR_HEAD, "how sure the certified head is; 6: misses a token once in 1e9"),
    [SET_HEAD_KERNEL] = CHOICE("Engine", "head-kernel", "WANE_HEAD_KERNEL", "engine.head_kernel", "auto plain avx2 avx512-vnni neon", "auto",
        HEADED | FOR_HEAD, "instructions of its scan; auto: the best that the processor has"),
    [SET_SHADOW] = NUMBER("Engine", "shadow", 0, "WANE_SHADOW", "engine.shadow", TYPE_REAL, 0, 1, "0.001",
        HEADED, "share of tokens that the dense head computes as well, to compare"),

    [SET_TEMPERATURE] = NUMBER("Sampling", "temperature", 0, "WANE_TEMPERATURE", "sampling.temperature", TYPE_REAL, 0, 100, "0.8",
        SAMPLES, "0: always the most likely token"),
    [SET_TOP_K] = NUMBER("Sampling", "top-k", 0, "WANE_TOP_K", "sampling.top_k", TYPE_INTEGER, 0, 10000000, "40",
        SAMPLES, "draw from so many tokens; 0: all"),
    [SET_TOP_P] = NUMBER("Sampling", "top-p", 0, "WANE_TOP_P", "sampling.top_p", TYPE_REAL, 0, 1, "0.95",
        SAMPLES, "draw from the tokens that carry this much probability; 1: off"),
    [SET_MIN_P] = NUMBER("Sampling", "min-p", 0, "WANE_MIN_P", "sampling.min_p", TYPE_REAL, 0, 1, "0.05",
        SAMPLES, "drop tokens below this share of the best one's probability; 0: off"),
    [SET_REPEAT_PENALTY] = NUMBER("Sampling", "repeat-penalty", 0, "WANE_REPEAT_PENALTY", "sampling.repeat_penalty", TYPE_REAL, 0.01, 100, "1",
        SAMPLES, "divide the logits of tokens seen before; 1: off"),
    [SET_PRESENCE_PENALTY] = NUMBER("Sampling", "presence-penalty", 0, "WANE_PRESENCE_PENALTY", "sampling.presence_penalty", TYPE_REAL, -100, 100, "0",
        SAMPLES, "take this from the logits of tokens seen before; 0: off"),
    [SET_FREQUENCY_PENALTY] = NUMBER("Sampling", "frequency-penalty", 0, "WANE_FREQUENCY_PENALTY", "sampling.frequency_penalty", TYPE_REAL, -100, 100, "0",
        SAMPLES, "the same, for each time that they were seen; 0: off"),
    [SET_PENALTY_WINDOW] = NUMBER("Sampling", "penalty-window", 0, "WANE_PENALTY_WINDOW", "sampling.penalty_window", TYPE_INTEGER, -1, 1000000, "64",
        SAMPLES, "last tokens that the penalties look at; -1: all"),
    [SET_SEED] = NUMBER("Sampling", "seed", 0, "WANE_SEED", "sampling.seed", TYPE_SEED, 0, 0, "random",
        ANSWERS, "the same seed and prompt give the same reply"),
    [SET_MAX_TOKENS] = NUMBER("Sampling", "max-tokens", 'n', "WANE_MAX_TOKENS", "sampling.max_tokens", TYPE_INTEGER, 0, 1048576, "0",
        ANSWERS, "tokens of a reply; 0: until the context is full"),
    [SET_STOP] = WORDS("Sampling", "stop", 0, "WANE_STOP", "sampling.stop", TYPE_TEXTS, 1, 16, NULL,
        ANSWERS, "TEXT", "end the reply before this text; \\n, \\t and \\\\ are read"),

    [SET_PROMPT] = WORDS("Chat", "prompt", 'p', NULL, NULL, TYPE_TEXT, 0, 16777216, NULL,
        FOR_RUN, "TEXT", "answer this once and leave"),
    [SET_SYSTEM] = WORDS("Chat", "system", 0, "WANE_SYSTEM", "chat.system", TYPE_TEXT, 0, 1048576, NULL,
        ANSWERS | FOR_TOKENIZE, "TEXT", "the system message"),
    [SET_HISTORY] = SWITCH("Chat", "history", 0, "WANE_HISTORY", "chat.history", "on",
        CHATS, "remember the lines that you type"),
    [SET_STATS] = SWITCH("Chat", "stats", 0, "WANE_STATS", "chat.stats", "off",
        CHATS, "print tokens and their speed after each reply"),

    [SET_HOST] = WORDS("Server", "host", 0, "WANE_HTTP_HOST", "serve.host", TYPE_WORD, 1, 255, "127.0.0.1",
        SERVES, "ADDRESS", "address to listen on; beyond loopback it needs --key-file or --open"),
    [SET_PORT] = NUMBER("Server", "port", 0, "WANE_HTTP_PORT", "serve.port", TYPE_INTEGER, 0, 65535, "8080",
        SERVES, "port to listen on; 0: any free one"),
    [SET_KEY_FILE] = WORDS("Server", "key-file", 0, "WANE_KEY_FILE", "serve.key_file", TYPE_FILE, 1, 4096, NULL,
        SERVES, "FILE", "keys that clients must show; docs/api.md has its form"),
    [SET_OPEN] = SWITCH("Server", "open", 0, "WANE_OPEN", "serve.open", "off",
        SERVES, "listen beyond loopback without keys"),
    [SET_SLOTS] = NUMBER("Server", "slots", 0, "WANE_SLOTS", "serve.slots", TYPE_INTEGER, 1, 64, "4",
        SERVES, "conversations decoded at once"),
    [SET_QUEUE] = NUMBER("Server", "queue", 0, "WANE_QUEUE", "serve.queue", TYPE_INTEGER, 0, 65536, "64",
        SERVES, "requests that may wait; more are refused"),
    [SET_WINDOW] = NUMBER("Server", "window", 0, "WANE_WINDOW", "serve.window_ms", TYPE_INTEGER, 0, 1000, "5",
        SERVES, "ms that the first request of an idle moment waits for company"),
    [SET_BATCH_REQUESTS] = NUMBER("Server", "batch-requests", 0, "WANE_BATCH_REQUESTS", "serve.batch_requests", TYPE_INTEGER, 1, 64, "32",
        SERVES, "conversations in one engine call"),
    [SET_PROMPT_CHUNK] = NUMBER("Server", "prompt-chunk", 0, "WANE_PROMPT_CHUNK", "serve.prompt_chunk", TYPE_INTEGER, 1, 4096, "128",
        SERVES, "prompt tokens in one call while others decode"),
    [SET_PREFIX_REUSE] = SWITCH("Server", "prefix-reuse", 0, "WANE_PREFIX_REUSE", "serve.prefix_reuse", "on",
        SERVES, "keep the beginnings that requests share"),
    [SET_DEADLINE] = NUMBER("Server", "deadline", 0, "WANE_DEADLINE", "serve.deadline_ms", TYPE_INTEGER, 0, 86400000, "0",
        SERVES, "ms that a request may take; 0: no limit"),
    [SET_PING] = NUMBER("Server", "ping", 0, "WANE_PING", "serve.ping_ms", TYPE_INTEGER, 100, 3600000, "5000",
        SERVES, "ms of silence on a stream after which a ping goes out"),
    [SET_GRACE] = NUMBER("Server", "grace", 0, "WANE_GRACE", "serve.grace_ms", TYPE_INTEGER, 0, 3600000, "10000",
        SERVES, "ms that running requests get when the server is told to stop"),
    [SET_MAX_CONNECTIONS] = NUMBER("Server", "max-connections", 0, "WANE_MAX_CONNECTIONS", "serve.max_connections", TYPE_INTEGER, 1, 65536, "256",
        SERVES, "connections at once"),
    [SET_MAX_BODY] = NUMBER("Server", "max-body", 0, "WANE_MAX_BODY", "serve.max_body", TYPE_BYTES, 1024, 1073741824, "8M",
        SERVES, "bytes of a request; K, M and G are read"),
    [SET_DEFAULT_MAX_TOKENS] = NUMBER("Server", "default-max-tokens", 0, "WANE_DEFAULT_MAX_TOKENS", "serve.default_max_tokens", TYPE_INTEGER, 1, 1048576, "1024",
        SERVES, "tokens of a reply where a request may leave it out"),
    [SET_LOG_LEVEL] = CHOICE("Server", "log-level", "WANE_LOG_LEVEL", "serve.log_level", "error warn info debug", "info",
        SERVES, "what goes to the log"),
    [SET_READY_FILE] = WORDS("Server", "ready-file", 0, "WANE_READY_FILE", "serve.ready_file", TYPE_FILE, 1, 4096, NULL,
        SERVES, "FILE", "write the port here once requests are answered; removed at the end"),

    [SET_RECORD] = WORDS("Trace", "record", 0, "WANE_RECORD", "trace.record", TYPE_FILE, 1, 4096, NULL,
        SERVES, "FOLDER", "record what is decoded in this folder; not set: nothing is"),
    [SET_OUT] = WORDS("Trace", "out", 0, NULL, NULL, TYPE_FILE, 1, 4096, "traces",
        FOR_RECORD, "FOLDER", "where the files go; made when it is not there"),
    [SET_KIND] = CHOICE("Trace", "kind", NULL, NULL, "guess single multi code summary", "guess",
        FOR_RECORD, "what the requests are; guess: from their text"),
    [SET_REDACT] = WORDS("Trace", "redact", 0, "WANE_REDACT", "trace.redact", TYPE_FILE, 1, 4096, NULL,
        TRACES, "FILE", "patterns of what must not be recorded, one a line; docs/trace.md"),
    [SET_ALL_LOGITS] = SWITCH("Trace", "all-logits", 0, "WANE_ALL_LOGITS", "trace.all_logits", "off",
        TRACES, "record all logits of each token, not the best 64 alone"),
    [SET_COMPRESS] = SWITCH("Trace", "compress", 0, "WANE_COMPRESS", "trace.compress", "on",
        TRACES, "write .jsonl.zst; off: .jsonl"),
    [SET_TRACE_FILE_SIZE] = NUMBER("Trace", "trace-file-size", 0, "WANE_TRACE_FILE_SIZE", "trace.file_size", TYPE_BYTES, 4096, 1099511627776, "256M",
        TRACES, "begin another file beyond so many bytes"),
    [SET_TRACE_FILE_AGE] = NUMBER("Trace", "trace-file-age", 0, "WANE_TRACE_FILE_AGE", "trace.file_age", TYPE_INTEGER, 1, 31536000, "3600",
        TRACES, "begin another file after so many seconds"),
    [SET_TRACE_FILES] = NUMBER("Trace", "trace-files", 0, "WANE_TRACE_FILES", "trace.files", TYPE_INTEGER, 0, 1000000, "0",
        TRACES, "keep the newest so many files; 0: all"),
    [SET_TRACE_QUEUE] = NUMBER("Trace", "trace-queue", 0, "WANE_TRACE_QUEUE", "trace.queue", TYPE_BYTES, 65536, 4294967296, "32M",
        TRACES, "bytes of records that may wait for the disk; beyond it records are dropped"),
    [SET_LINES] = NUMBER("Trace", "lines", 'n', NULL, NULL, TYPE_INTEGER, 1, 1000000000, "10",
        FOR_TRACE, "head: print so many records"),

    [SET_IDS] = SWITCH("Tokens", "ids", 0, NULL, NULL, "off",
        FOR_TOKENIZE, "print the ids alone, in one line"),
    [SET_COUNT] = SWITCH("Tokens", "count", 0, NULL, NULL, "off",
        FOR_TOKENIZE, "print how many there are, and nothing else"),
    [SET_CONTROL] = SWITCH("Tokens", "control", 0, NULL, NULL, "off",
        FOR_TOKENIZE, "read the model's control markers as control tokens"),
    [SET_CHAT] = SWITCH("Tokens", "chat", 0, NULL, NULL, "off",
        FOR_TOKENIZE, "as a user's message, through the model's chat template"),
    [SET_BOS] = SWITCH("Tokens", "bos", 0, NULL, NULL, "off",
        FOR_TOKENIZE, "begin as the model wants a text to begin"),

    [SET_TOKENS] = NUMBER("Bench", "tokens", 0, NULL, NULL, TYPE_INTEGER, 2, 4096, "64",
        FOR_BENCH | FOR_HEAD, "tokens decoded for each prompt"),
    [SET_ROUNDS] = NUMBER("Bench", "rounds", 0, NULL, NULL, TYPE_INTEGER, 1, 1000, "5",
        FOR_BENCH, "rounds; medians are taken over them"),
    [SET_STREAMS] = WORDS("Bench", "streams", 0, NULL, NULL, TYPE_WORD, 1, 100, "1",
        FOR_BENCH, "LIST", "decode: sequences at once: a number, several with commas, or both for 1,4"),
    [SET_SAMPLER] = CHOICE("Bench", "sampler", NULL, NULL, "greedy default full", "greedy",
        FOR_BENCH, "head: how tokens are drawn; full: top-p 0.95 of the whole vocabulary"),
    [SET_ROWS] = NUMBER("Bench", "rows", 0, NULL, NULL, TYPE_INTEGER, 1, 64, "1",
        FOR_BENCH, "head: sequences at once"),
    [SET_BODY] = SWITCH("Bench", "body", 0, NULL, NULL, "on",
        FOR_BENCH, "head: measure the body alone, too"),
    [SET_PROMPTS] = WORDS("Bench", "prompts", 0, NULL, NULL, TYPE_FILE, 1, 4096, NULL,
        FOR_BENCH | FOR_RECORD, "FILE", "a file of prompts, one a line; bench head: not set: those built in"),

    [SET_JSON] = SWITCH("Output", "json", 0, NULL, NULL, "off",
        FOR_ALL & ~(unsigned)FOR_HELP, "print JSON on standard output; serve: log lines as JSON"),
    [SET_JSON_STREAM] = SWITCH("Output", "json-stream", 0, NULL, NULL, "off",
        FOR_RUN, "print one JSON object for each token, then one for the end"),
    [SET_TABLE] = SWITCH("Output", "table", 0, NULL, NULL, "off",
        FOR_HELP, "every setting as a Markdown table"),
    [SET_WORDS] = SWITCH("Output", "words", 0, NULL, NULL, "off",
        FOR_HELP, "what can follow a command, for completion"),
    [SET_VERBOSE] = SWITCH("Output", "verbose", 'v', NULL, NULL, "off",
        FOR_RUN | FOR_MODEL | FOR_TOKENIZE | FOR_BENCH | FOR_HEAD | FOR_RECORD, "what the engine has to say, on standard error"),
    [SET_CONFIG] = WORDS("Output", "config", 'c', "WANE_CONFIG", NULL, TYPE_FILE, 1, 4096, NULL,
        LOADS, "FILE", "settings file; not set: wane/wane.conf below XDG_CONFIG_HOME or ~/.config"),
    [SET_HELP] = SWITCH("Output", "help", 'h', NULL, NULL, "off",
        FOR_ALL, "this text"),
};
/* clang-format on */
