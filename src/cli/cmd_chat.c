/*
 * cmd_chat.c - the conversation on a terminal: line editing, history, slash commands.
 *
 * At the prompt the terminal sends no signals: Ctrl-C is a key that clears the line, and leaves when there is
 * nothing to clear. While a reply runs it is a signal and stops the reply; what came of it stays in the history.
 */
#include "talk.h"
#include "text.h"
#include "xray.h"

#include <errno.h>
#include <histedit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HISTORY_LINES = 1000 };

struct chat {
    struct talk talk;
    EditLine *editor;
    History *history;
    char *history_file; /* NULL: none is kept */
    bool more;          /* the line before ended with a backslash */
};

static const char help_text[] = "/help         this text\n"
                                "/reset        begin a new conversation\n"
                                "/system TEXT  set the system message; without TEXT: show it\n"
                                "/save FILE    write the conversation as JSON\n"
                                "/quit         leave; so do Ctrl-D and Ctrl-C\n"
                                "A line that ends with \\ goes on in the next. Ctrl-C stops a reply.\n";

/* ---- history ----------------------------------------------------------------------------------------------------- */

/* Make a folder and those above it, for nobody else to read. */
static bool make_folders(char *path) {
    for (char *at = path + 1; *at != '\0'; at++) {
        if (*at != '/') continue;
        *at = '\0';
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *at = '/';
        if (!made) return false;
    }
    return true;
}

static char *history_path(void) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *path = state != NULL && state[0] == '/'  ? text_format("%s/wane/history", state)
                 : home != NULL && home[0] != '\0' ? text_format("%s/.local/state/wane/history", home)
                                                   : NULL;
    if (path != NULL && make_folders(path)) return path;
    free(path);
    return NULL;
}

static void load_history(struct chat *chat) {
    HistEvent event;
    chat->history = history_init();
    if (chat->history == NULL) return;
    history(chat->history, &event, H_SETSIZE, HISTORY_LINES);
    history(chat->history, &event, H_SETUNIQUE, 1);
    if (!setting_on(chat->talk.settings, SET_HISTORY)) return;
    chat->history_file = history_path();
    if (chat->history_file != NULL) history(chat->history, &event, H_LOAD, chat->history_file);
}

static void save_history(struct chat *chat) {
    HistEvent event;
    if (chat->history != NULL && chat->history_file != NULL) {
        char *fresh = text_format("%s.%ld", chat->history_file, (long)getpid());
        mode_t before = umask(077); /* what people ask is nobody else's */
        bool wrote =
            history(chat->history, &event, H_SAVE, fresh) >= 0 && rename(fresh, chat->history_file) == 0;
        umask(before);
        if (!wrote) unlink(fresh);
        free(fresh);
    }
    if (chat->history != NULL) history_end(chat->history);
    free(chat->history_file);
}

/* ---- the prompt -------------------------------------------------------------------------------------------------- */

static char *prompt_text(EditLine *editor) {
    static char fresh[] = "> ", more[] = ". ";
    struct chat *chat = NULL;
    el_get(editor, EL_CLIENTDATA, &chat);
    return chat != NULL && chat->more ? more : fresh;
}

/* Ctrl-C at the prompt. */
static unsigned char on_break(EditLine *editor, int key) {
    (void)key;
    const LineInfo *line = el_line(editor);
    struct chat *chat = NULL;
    el_get(editor, EL_CLIENTDATA, &chat);
    if (line->lastchar == line->buffer && (chat == NULL || !chat->more)) return CC_EOF;
    el_cursor(editor, (int)(line->lastchar - line->cursor));
    el_deletestr(editor, (int)(line->lastchar - line->buffer));
    if (chat != NULL) chat->more = false;
    return CC_REDISPLAY;
}

static bool open_editor(struct chat *chat) {
    chat->editor = el_init("wane", stdin, stdout, stderr);
    if (chat->editor == NULL) return false;
    el_set(chat->editor, EL_CLIENTDATA, chat);
    el_set(chat->editor, EL_PROMPT, prompt_text);
    el_set(chat->editor, EL_EDITOR, "emacs");
    el_set(chat->editor, EL_SIGNAL, 1);
    if (chat->history != NULL) el_set(chat->editor, EL_HIST, history, chat->history);
    el_set(chat->editor, EL_ADDFN, "wane-break", "clear the line, or leave", on_break);
    el_source(chat->editor, NULL); /* the user's ~/.editrc */
    el_set(chat->editor, EL_BIND, "^C", "wane-break", NULL);
    el_set(chat->editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_set(chat->editor, EL_SETTY, "-d", "-isig", NULL);
    return true;
}

/* A message: one line, or several joined by backslashes. NULL: the user leaves. */
static char *read_message(struct chat *chat) {
    char *message = NULL;
    chat->more = false;
    for (;;) {
        int count = 0;
        const char *line = el_gets(chat->editor, &count);
        if (line == NULL || count <= 0) {
            free(message);
            return NULL;
        }
        if (!chat->more) { /* fresh, or what was begun has been given up */
            free(message);
            message = NULL;
        }
        size_t size = strcspn(line, "\r\n");
        HistEvent event;
        if (size > 0 && chat->history != NULL) history(chat->history, &event, H_ENTER, line);
        chat->more = size > 0 && line[size - 1] == '\\';
        char *part = text_copy_part(line, size - chat->more);
        char *all = message == NULL ? text_copy(part) : text_format("%s\n%s", message, part);
        free(part);
        free(message);
        message = all;
        if (!chat->more) return message;
    }
}

/* ---- replies ------------------------------------------------------------------------------------------------------ */

static bool print_reply(void *user, const wane_event *event) {
    (void)user;
    return event->text_size == 0 || (out_text(event->text, event->text_size) && out_flush());
}

/* In dim letters, on standard error, on a line of its own. */
static void note(const char *text) {
    fprintf(stderr, "%s%s%s\n", term_dim(), text, term_plain());
}

static void answer(struct chat *chat, const char *message) {
    struct reply reply;
    struct xray xray;
    wane_error error = {0};
    talk_add(&chat->talk, "user", message, strlen(message));
    interrupt_forget();
    bool seen = setting_on(chat->talk.settings, SET_XRAY);
    xray_begin(&xray);
    int result = talk_answer(&chat->talk, seen ? xray_event : print_reply, &xray, &reply, &error);
    interrupt_forget();
    if (seen)
        xray_end(&xray);
    else
        out_text("\n", 1);
    out_flush();
    if (reply.size > 0)
        talk_add(&chat->talk, "assistant", reply.text, reply.size);
    else
        talk_drop_last(&chat->talk); /* unanswered: the next try begins where this one did */
    if (result == WANE_ECANCELLED)
        note("[stopped]");
    else if (result == WANE_ECONTEXT)
        note("[this does not fit the context any more: /reset begins a new conversation, --context N makes "
             "room]");
    else if (result != WANE_OK)
        cli_fail_wane(&error);
    else if (reply.finish == WANE_FINISH_CONTEXT)
        note("[the context is full: /reset begins a new conversation, --context N makes room]");
    else if (reply.finish == WANE_FINISH_LENGTH)
        note("[--max-tokens ended the reply]");
    else if (reply.finish == WANE_FINISH_FUSE)
        note("[the fuse ended the reply; --fuse off lets it go on]");
    if (result == WANE_OK && setting_on(chat->talk.settings, SET_STATS)) reply_say_stats(&reply);
    reply_free(&reply);
}

/* ---- slash commands ----------------------------------------------------------------------------------------------- */

static void save(const struct talk *talk, const char *path) {
    if (path[0] == '\0') {
        note("/save needs the name of a file");
        return;
    }
    json_t *all = talk_as_json(talk);
    if (json_dump_file(all, path, JSON_INDENT(2)) == 0)
        fprintf(stderr, "%swrote %zu messages to %s%s\n", term_dim(), talk->count, path, term_plain());
    else
        cli_say("cannot write %s: %s", path, strerror(errno));
    json_decref(all);
}

static void set_system(struct talk *talk, const char *text) {
    if (text[0] != '\0') {
        talk_set_system(talk, text);
        note("[the system message is set]");
        return;
    }
    const char *system = talk_system(talk);
    note(system != NULL ? system : "[there is no system message]");
}

/* True: the user leaves. */
static bool slash(struct chat *chat, const char *line) {
    static const char *const names[] = {"/help", "/reset", "/system", "/save", "/quit"};
    size_t length = strcspn(line, " ");
    char *name = text_copy_part(line, length);
    const char *rest = line + length + strspn(line + length, " ");
    bool leave = strcmp(name, "/quit") == 0;
    struct nearest nearest = {.wanted = name};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) nearest_offer(&nearest, names[i]);
    if (strcmp(name, "/help") == 0) {
        fputs(help_text, stderr);
    } else if (strcmp(name, "/reset") == 0) {
        talk_reset(&chat->talk);
        note("[a new conversation]");
    } else if (strcmp(name, "/system") == 0) {
        set_system(&chat->talk, rest);
    } else if (strcmp(name, "/save") == 0) {
        save(&chat->talk, rest);
    } else if (!leave) {
        fprintf(stderr, "there is no %s; did you mean %s?\n", name,
                nearest.found != NULL ? nearest.found : "/help");
    }
    free(name);
    return leave;
}

static void converse(struct chat *chat, const char *first) {
    if (first != NULL) answer(chat, first);
    for (;;) {
        char *message = read_message(chat);
        bool leave = message == NULL;
        if (leave)
            out_text("\n", 1);
        else if (message[0] == '/')
            leave = slash(chat, message);
        else if (message[strspn(message, " \t\n")] != '\0')
            answer(chat, message);
        free(message);
        if (leave || !out_flush()) return;
    }
}

int chat(struct talk *talk, const char *first) {
    struct chat chat = {.talk = *talk};
    int code = EXIT_FINE;
    const wane_model_facts *facts = wane_model_get_facts(chat.talk.model);
    load_history(&chat);
    if (open_editor(&chat)) {
        fprintf(stderr, "%s%s, context of %d tokens; /help for help%s\n", term_dim(), facts->name,
                facts->context, term_plain());
        converse(&chat, first);
        el_end(chat.editor);
    } else {
        code = cli_fail(EXIT_FAILED, "this terminal cannot be used for a conversation; use -p");
    }
    save_history(&chat);
    *talk = chat.talk;
    return code;
}
