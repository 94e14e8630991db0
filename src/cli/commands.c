/* commands.c - the list of commands: names, usage and description, for dispatch, help and completion. */
#include "cli.h"

#include <string.h>

const struct command cli_commands[] = {
    {"run", FOR_RUN, "wane run [OPTION...] [PROMPT...]", "talk to a model",
     "On a terminal: a conversation that keeps its history; PROMPT is its first message. With -p, or when\n"
     "input or output is not a terminal: one reply. Standard input that is not a terminal is read to its "
     "end\n"
     "and follows the prompt. Ctrl-C stops a reply; at the prompt, Ctrl-C or Ctrl-D leaves.\n"
     "In a conversation: /help, /reset, /system TEXT, /save FILE, /quit.",
     NULL, command_run},
    {"session", FOR_SESSION,
     "wane session save [OPTION...] FILE [PROMPT...]\n       wane session load [OPTION...] FILE [PROMPT...]\n"
     "       wane session info [--json] FILE",
     "keep a conversation in a file, and go on later",
     "save: answer a prompt, or what --conversation holds, and keep everything, the engine's cache "
     "included,\n"
     "in FILE; with --prefill without a reply. load: go on from FILE, which stays as it is; on a terminal,\n"
     "without a prompt, as a conversation. info: what a file holds. \"wane run --session FILE\" does both: "
     "it\n"
     "loads what is there and saves at the end. docs/session.md has the promise and the form.",
     "save load info", command_session},
    {"serve", FOR_SERVE, "wane serve [OPTION...]", "answer over HTTP",
     "Loads the model, then answers the OpenAI and Anthropic message APIs; docs/api.md describes them.\n"
     "SIGTERM or Ctrl-C: what is running may finish within --grace; a second one ends it at once.",
     NULL, command_serve},
    {"model", FOR_MODEL,
     "wane model list [--json]\n       wane model get NAME\n       wane model path NAME\n       wane model "
     "info MODEL [--json]",
     "list, fetch and examine models",
     "list: the known models and those in the cache. get: fetch one and print its path. path: print the "
     "path\n"
     "of one that is here. info: load a model, by name or path, and print its facts and digest.",
     "list get path info", command_model},
    {"tokenize", FOR_TOKENIZE, "wane tokenize [OPTION...] [TEXT...]", "show the tokens of a text",
     "One token a line: its id and its piece. Without TEXT, standard input is read, byte for byte.", NULL,
     command_tokenize},
    {"prepare", FOR_PREPARE, "wane prepare [--prepare LIST] [--json] [TEXT...]",
     "make a text ready for a prompt, and say what was changed",
     "Prints TEXT, or standard input, as --prepare makes it (all steps where it is not given), and what "
     "each\n"
     "step changed on standard error; with --json one object with text and changes. Code fences stay as\n"
     "they are. No model is loaded. docs/prepare.md describes the steps.",
     NULL, command_prepare},
    {"head", FOR_HEAD,
     "wane head build [OPTION...]\n       wane head info [OPTION...] [--json]\n       wane head verify "
     "[OPTION...] [--json]\n       wane head statistics --prompts FILE --statistics FILE [OPTION...]",
     "make, examine and check a model's certified head",
     "build: make the sketch of the LM head anew (otherwise it is made when a model is used for the first\n"
     "time). info: what it is made of, and how sure it is. verify: decode --tokens for each built-in prompt\n"
     "with three samplers, compute every token with the dense head as well, and compare. statistics: take\n"
     "those of your own texts, for build.",
     "build info verify statistics", command_head},
    {"table", FOR_TABLE,
     "wane table build [OPTION...] --log-file TRACE... --output FILE\n"
     "       wane table merge [OPTION...] --output FILE PART...\n"
     "       wane table replay [OPTION...] --log-file TRACE... --table FILE\n"
     "       wane table info [--model MODEL] [--hottest N] [--json] FILE\n"
     "       wane table verify [--table-key FILE] [--json] FILE\n"
     "       wane table sign --key FILE [--json] FILE",
     "build, replay, examine, check and sign tables of contexts seen before",
     "build: make a table of traces, as docs/table.md defines it; the same traces and settings give the\n"
     "same bytes. slmt_builder is build by another name. merge: make one of what build --partial wrote.\n"
     "replay: run the recorded requests without the table and with it; exit code 1 if a token differs.\n"
     "info: parameters, sizes, where it comes from, and the entries that were seen most; with --model their\n"
     "text. verify: check every byte, and with --table-key the signature in FILE.sig. sign: write FILE.sig,\n"
     "by a secret key that wane key made.",
     "build merge replay info verify sign", command_table},
    {"auto-build", FOR_AUTO_BUILD, "wane auto-build [OPTION...] FOLDER --output FILE",
     "keep a table up to date with a folder of traces",
     "Looks into FOLDER once in a while; when --min-new token records have come, builds a table of all of\n"
     "them, others, replays the newest --requests requests with it, which it did not see, and only if every "
     "token\n"
     "is the same signs it (--key) and puts it in FILE's place. A server with --table FILE takes it in by "
     "itself. Log lines go "
     "to\n"
     "standard error, with --json an object a round to standard output.",
     NULL, command_auto_build},
    {"key", FOR_KEY, "wane key new [--out FILE] [--json]", "make keys for signing tables",
     "new: an Ed25519 pair: a secret key for its owner only, and its public half, whose name ends in .pub.\n"
     "No file is ever written over.",
     "new", command_key},
    {"record", FOR_RECORD, "wane record --prompts FILE [OPTION...]",
     "answer prompts of a file and record them",
     "FILE has one prompt a line: as it is, or as a JSON object with messages (or prompt, and system), and\n"
     "what it sets for itself: kind, tenant, temperature, top_k, top_p, min_p, repeat_penalty,\n"
     "presence_penalty, frequency_penalty, penalty_window, seed, max_tokens, stop, ignore_end. Texts are\n"
     "brought into NFC. Everything is recorded token by token in --out; docs/trace.md specifies the files.",
     NULL, command_record},
    {"trace", FOR_TRACE,
     "wane trace stats FILE... [--json]\n       wane trace head FILE... [-n N]\n       wane trace validate "
     "FILE... [--json]",
     "examine what was recorded",
     "FILE is a trace or a folder of traces. stats: what is in them. head: the first records, decompressed.\n"
     "validate: read everything, name each file's first wrong line; exit code 1 if there is one.",
     "stats head validate", command_trace},
    {"gate", FOR_GATE,
     "wane gate explain [OPTION...] [PROMPT...] [--json|--html]\n       wane gate info [--json] FILE",
     "show what the gate makes of a prompt",
     "explain: answer PROMPT (or standard input) and print the prompt's entropy, the threshold and, for "
     "each\n"
     "token, gaps, odds, verdict and reason, and where a vote would fork; no vote runs. Without "
     "--max-tokens\n"
     "it ends after 256 tokens. info: how a gate's file was made, and how good it is. docs/gate.md explains\n"
     "both.",
     "explain info", command_gate},
    {"classify", FOR_CLASSIFY, "wane classify [--classifier FILE] [--json] [FILE|-]",
     "say which domain a text is of",
     "Of FILE, or standard input: legal, medical, finance, tech, creative, or none when the classifier is "
     "not\n"
     "sure, and how sure it is. docs/domains.md says how it was made and how often it is right.",
     NULL, command_classify},
    {"train", FOR_TRAIN,
     "wane train gate --trace FILE... [--model MODEL] [--output FILE] [OPTION...]\n"
     "       wane train domains --data FILE... [--test FILE] [--output FILE] [--seed N] [--json]\n"
     "       wane train reward --feedback FILE [--output FILE] [--seed N] [--json]",
     "make a gate, a classifier of domains or a reward model",
     "gate: learns from traces in which three answers were sampled and one was chosen how likely a vote\n"
     "leaves a token alone. With --model, traces of another one are refused. domains: learns from texts "
     "which\n"
     "domain they are of. reward: learns from a server's feedback, with texts (--feedback-text), which "
     "replies\n"
     "are liked. Each prints how good that is on what was held out. The same files and --seed (1 where it "
     "is\n"
     "not given) give the same bytes. Without --output nothing is written.",
     "gate domains reward", command_train},
    {"tune", FOR_TUNE, "wane tune --data FILE [--domain NAME] [--output FILE] [--plot FILE] [OPTION...]",
     "find out which signal says how sure a model is",
     "Runs a text through the model, with the attention of every layer looked at, and says how well "
     "entropy,\n"
     "margin, kurtosis and its spread tell tokens that are right from those that are not. Layer, sign and\n"
     "thresholds come from one part of the text, every figure from the other; where that shows no signal, "
     "it\n"
     "says so, and the profile keeps the governor off. The same text and --seed (1 where it is not given)\n"
     "give the same profile. Without --output and --plot nothing is written. docs/tune.md explains it.",
     NULL, command_tune},
    {"feedback", FOR_FEEDBACK, "wane feedback export [--json] FILE\n       wane feedback stats [--json] FILE",
     "read what a server's feedback says",
     "export: the ratings, oldest first, one JSON object a line; with --json the same. stats: how many "
     "there\n"
     "are of each kind. FILE is what wane serve --feedback FILE writes; it may be read meanwhile.",
     "export stats", command_feedback},
    {"rollout", FOR_ROLLOUT,
     "wane rollout plan --rollout FILE [OPTION...] [PLAN]\n       wane rollout start [FEATURE] [OPTION...]\n"
     "       wane rollout status [OPTION...]\n       wane rollout advance [FEATURE] [OPTION...]\n"
     "       wane rollout back [FEATURE] [OPTION...]\n       wane rollout abort [FEATURE] [OPTION...]",
     "bring features to more and more requests, and take them back",
     "plan: write FILE, by PLAN (JSON) or by the settings; features whose plan stays the same keep their\n"
     "place. start: from the first stage. status: where each feature is, what its bars are held against, "
     "and\n"
     "what it waits for. advance: to the next stage, now. back: to the one before. abort: off for "
     "everybody.\n"
     "Without FEATURE: all of the plan to which that can be done. With --rollout FILE this is done in the\n"
     "file, which a server that uses it obeys within seconds; with --url by that server, at once.\n"
     "docs/rollout.md has plans, stages, bars and the hash that puts a user on a side.",
     "plan start status advance back abort", command_rollout},
    {"audit", FOR_AUDIT,
     "wane audit tail [OPTION...] [FILE]\n       wane audit show RECORD [FILE] [--json]\n"
     "       wane audit export [OPTION...] [FILE]\n       wane audit verify [OPTION...] [FILE...]\n"
     "       wane audit rotate FILE NEXT",
     "read and check what a server wrote down",
     "tail: the newest records. show: one record, by its number or a request's or reply's id. export: all\n"
     "that fit, oldest first. verify: is each record chained to the one before it, unchanged? It names the\n"
     "first that is not (exit code 1), and prints the head; several files follow each other. rotate: close\n"
     "a log that no server uses, and begin the next one. FILE is what wane serve --audit FILE writes; it "
     "may\n"
     "be read meanwhile. docs/audit.md explains it.",
     "tail show export verify rotate", command_audit},
    {"bench", FOR_BENCH,
     "wane bench decode [OPTION...]\n       wane bench head [OPTION...]\n       wane bench draft "
     "[OPTION...]\n"
     "       wane bench memo [OPTION...]\n       wane bench layer [OPTION...]\n"
     "       wane bench governor [OPTION...]\n       wane bench protocol [OPTION...]\n       wane bench "
     "compare [--json] A B\n       wane bench report RESULT... --output FILE",
     "measure wane against its engine",
     "decode: the same prompts greedily through the engine's own loop and through wane. head: with the\n"
     "dense head, with the certified one, and with the body alone. draft: with the dense head, with the\n"
     "certified one, and with drafts as well, on text that repeats. memo: the same requests once more, by\n"
     "the plain loop and from the memo. layer: the same seeded requests in the modes off, legacy and wane.\n"
     "governor: diversity, loops and right answers with the governor and without it, same seeds.\n"
     "By turns, on the same loaded weights; printed are medians. protocol: the acceptance run: a fixed "
     "prompt,\n"
     "many requests, percentiles, utilisation, a verdict against --bar; goes on after a stop. compare: two "
     "of\n"
     "its results side by side, with intervals. report: one page, FILE, of what these print with --json.\n"
     "docs/cli.md says what is timed. Measure on an idle machine.",
     "decode head draft memo layer governor protocol compare report", command_bench},
    {"doctor", FOR_DOCTOR, "wane doctor [OPTION...]", "check the machine, the model and what belongs to it",
     "One line a check, with PASSED, WARNING, CRITICAL or SKIPPED and what to do next: engine, processor, "
     "threads,\n"
     "memory, model, head, tokenizer against the table, a saved session against the model, table, "
     "signature,\n"
     "clock, port, disk, load, and with --url a running server. Takes a server's settings, and changes\n"
     "nothing. Exit code 0: all passed; 1: a warning; 2: something critical. docs/troubleshooting.md goes\n"
     "from symptoms to checks.",
     NULL, command_doctor},
    {"diagnose", FOR_DIAGNOSE, "wane diagnose [--a OPTIONS] [--b OPTIONS] [OPTION...] [PROMPT...]",
     "find the first layer where two runs of a prompt part",
     "Answers PROMPT (or standard input) twice, with what --a and --b say beside all other options, and "
     "compares\n"
     "the prompt's tokens, the logits of each token, the choice, and the cache: its length and layout. Names "
     "the\n"
     "first that differs, where, and what had a hand in it: a table's entry with its context, a correction, "
     "the\n"
     "governor. Temperature 0 and 64 tokens where nothing else is said. Exit code 0: the same; 1: they "
     "part;\n"
     "2: it could not be told. docs/diagnose.md has examples.",
     NULL, command_diagnose},
    {"cost", FOR_COST, "wane cost [OPTION...] [MODE=]FILE...\n       wane cost [OPTION...] --url URL",
     "what 10,000 tokens cost, with the arithmetic",
     "FILE is what wane bench layer --json or wane bench protocol wrote, or a server's /metrics. The first "
     "is\n"
     "what the others are compared with. docs/cost.md explains every line.",
     NULL, command_cost},
    {"exec", FOR_EXEC, "wane exec [OPTION...] -- PROGRAM [ARGUMENT...]",
     "run a llama.cpp program with wane's head under it",
     "PROGRAM is built on llama.cpp's shared library: llama-server, llama-cli, node with node-llama-cpp. "
     "Its\n"
     "tokens are the same, in less time; where that cannot be promised, or its llama.cpp is not one that\n"
     "wane knows, it runs untouched. A line at its start and one at its end say how it went. The exit code\n"
     "is the program's. docs/exec.md says what it works with, and what a row of logits then holds.",
     NULL, command_exec},
    {"config", FOR_CONFIG, "wane config [OPTION...]", "show every setting and where its value comes from",
     "Takes the options of all commands. Order: option, environment, settings file, default.", NULL,
     command_config},
    {"version", FOR_VERSION, "wane version [--json]", "print the versions of wane and its engine", NULL, NULL,
     command_version},
    {"help", FOR_HELP, "wane help [COMMAND]\n       wane help --table\n       wane help --words [COMMAND]",
     "explain a command", NULL,
     "run session serve model tokenize prepare head table key record trace gate classify train tune feedback "
     "rollout audit bench doctor diagnose cost exec config version help",
     command_help},
};
const int cli_command_count = (int)(sizeof cli_commands / sizeof *cli_commands);

const struct command *command_find(const char *name) {
    for (int i = 0; i < cli_command_count; i++)
        if (strcmp(cli_commands[i].name, name) == 0) return &cli_commands[i];
    return NULL;
}
