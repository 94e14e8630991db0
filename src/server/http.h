/*
 * http.h - one HTTP request, from its first byte to the last byte of its reply.
 *
 * Each connection has a thread of libmicrohttpd's. It may block: on the ticket, in short waits between which it looks
 * whether the client is still there.
 */
#ifndef WANE_SERVER_HTTP_H
#define WANE_SERVER_HTTP_H

#include "ops/rollout_live.h"
#include "server/http_audit.h"
#include "server/server_internal.h"

#include <microhttpd.h>

struct wane__route;
struct wane__dialect;

/* One that follows the samples. */
struct wane__viewer {
    bool on;
    uint64_t next, dropped; /* the sample to send; how many it was too slow for */
};

struct wane__exchange {
    struct wane_server *server;
    struct MHD_Connection *connection;
    const struct wane__route *route;
    const char *rest;       /* of the path, where the route ends in a wildcard */
    enum wane__shape shape; /* of errors                                       */
    bool posts;             /* its method, where a route has several           */
    char request_id[32];
    struct wane__key key; /* "" without keys                                 */
    double started;
    int status; /* 0: not answered yet                             */
    bool gone;  /* the client left                                 */

    struct wane__buf body;
    size_t received;
    struct wane__problem problem; /* kind NONE: none                                 */

    /* A request to generate. */
    struct wane__call call;
    wane_quality quality;   /* what call.generation.quality points to */
    unsigned prepare;       /* steps that its texts went through */
    wane_prepared prepared; /* what they changed                 */
    bool has_call;
    const struct wane__dialect *dialect;
    wane_ticket *ticket;
    double looked; /* when the client was last looked for             */
    char reply_id[40];
    time_t created;
    int prompt_tokens, reused_tokens, reply_tokens;

    /* What may be rated later, where that is kept (http_feedback.c). */
    struct wane__buf asked, said;
    bool said_enough;
    char domain_note[96]; /* header wane-domain-mismatch; "": none           */

    /* Its side of the rollout; and, where its question was asked before, both answers (http_rollout.c). */
    struct wane__rollout_side side;
    struct wane__buf earlier, again;
    bool repeats;
    /* The audit log's (http_audit.c). */
    bool owes_record;              /* it was admitted, and no ticket writes its record */
    struct wane__audited *audited; /* what the ticket's end writes; NULL: nothing      */
    /* http_ab.c */
    int ab_side;              /* 1 + its side; 0: it takes no part               */
    struct wane__buf ab_text; /* what its reply has said                         */

    struct wane__buf text;     /* whole reply, not streamed                       */
    struct wane__buf head;     /* what each OpenAI object starts with             */
    struct wane__buf lists[4]; /* logprobs on their way out                       */
    size_t text_offset;        /* characters so far: the old logprobs form        */

    struct wane__viewer viewer; /* http_live.c */

    struct wane__buf out; /* stream: bytes to send                           */
    size_t sent;
    bool over; /* stream: nothing comes after `out`               */
};

/* How an API writes a reply: anthropic_reply.c, openai_reply.c. */
struct wane__dialect {
    const char *ping;                              /* as sent on the stream      */
    void (*open)(struct wane__exchange *exchange); /* stream: the first events   */
    void (*delta)(struct wane__exchange *exchange, const wane_event *event);
    void (*close)(struct wane__exchange *exchange, const wane_event *end);
    void (*fail)(struct wane__exchange *exchange); /* stream: `problem`, the last */
    void (*gather)(struct wane__exchange *exchange, const wane_event *event);
    void (*whole)(struct wane__exchange *exchange, const wane_event *end); /* into `out`              */
};

extern const struct wane__dialect wane__anthropic_dialect, wane__chat_dialect, wane__text_dialect;

/* MHD's entry points; `server` and `exchange` travel in their pointers. */
enum MHD_Result wane__http_access(void *server, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **exchange);
void wane__http_completed(void *server, struct MHD_Connection *connection, void **exchange,
                          enum MHD_RequestTerminationCode how);
void wane__http_connection(void *server, struct MHD_Connection *connection, void **mark,
                           enum MHD_ConnectionNotificationCode what);

/* Answer with `out` as the body. */
enum MHD_Result wane__http_send(struct wane__exchange *exchange, int status, const char *type);
/* Answer with `problem`. */
enum MHD_Result wane__http_refuse(struct wane__exchange *exchange);
/* Answer with a response of one's own, which this lets go of. */
enum MHD_Result wane__http_queue(struct wane__exchange *exchange, int status, struct MHD_Response *response);
/* Answer with a stream that `read` fills until it says that it is over. */
enum MHD_Result wane__http_stream(struct wane__exchange *exchange, MHD_ContentReaderCallback read);
/*
 * What such a callback does: hand out what is left of `out`; when nothing is, `fill` puts more there, however long it waits. `end` where it
 * says false, or memory runs out.
 */
ssize_t wane__http_hand_out(struct wane__exchange *exchange, bool (*fill)(struct wane__exchange *exchange),
                            ssize_t end, char *buffer, size_t capacity);
const char *wane__http_header(const struct wane__exchange *exchange, const char *name);
/* A wait begins or is over: MHD must not take it for an idle client. */
void wane__http_pause_timeout(const struct wane__exchange *exchange);
void wane__http_resume_timeout(const struct wane__exchange *exchange);
/* Has the client closed or reset the connection? */
bool wane__http_is_gone(const struct wane__exchange *exchange);

/* http_generate.c: the routes that generate or count. */
enum MHD_Result wane__http_generate(struct wane__exchange *exchange);

/* http_quality.c: copy and check the options' quality and domains; and free them. */
int wane__server_set_quality(struct wane_server *server, const wane_server_options *options,
                             wane_error *error);
/* Are the domains of its keys there? `file`: for the complaint. */
int wane__server_check_keys(struct wane_server *server, const char *file, wane_error *error);
/* Can any of its requests have a vote? */
bool wane__server_may_vote(const struct wane_server *server);
void wane__server_free_quality(struct wane_server *server);
/* Settle mode, domain and hold of the parsed call. False: `problem`. */
bool wane__http_quality(struct wane__exchange *exchange);
/* `,"wane":{…}`, where there is something to say: a vote, the fuse, an SSP, text that was prepared. */
void wane__http_put_wane(const struct wane__exchange *exchange, const wane_event *end, struct wane__buf *out);

/* http_trace.c: does the parsed call want to be told of each token? False: `problem`. */
bool wane__http_trace(struct wane__exchange *exchange);
/* `,"wane":{"token":{…}}`, where the event has a view; NULL is fine. */
void wane__http_put_token(const struct wane__exchange *exchange, const wane_event *event,
                          struct wane__buf *out);

/* http_live.c: the samples of the last minutes, for who watches. Started last, stopped before the connections are closed. */
int wane__http_live_start(struct wane_server *server, wane_error *error);
void wane__http_live_stop(struct wane_server *server);
void wane__http_live_reply(struct wane_server *server, const wane_event *end);
void wane__http_live_leave(struct wane__exchange *exchange);
enum MHD_Result wane__http_live_state(struct wane__exchange *exchange);
enum MHD_Result wane__http_live_events(struct wane__exchange *exchange);

/* http_page.c: the live page, for who asks for HTML; and its files. */
enum MHD_Result wane__http_page(struct wane__exchange *exchange);
enum MHD_Result wane__http_page_file(struct wane__exchange *exchange);

/* http_prepare.c: check the options' steps. */
int wane__server_set_prepare(struct wane_server *server, const wane_server_options *options,
                             wane_error *error);
/* Prepare the texts of the parsed call's users, as the request or else the server says. False: `problem`. */
bool wane__http_prepare(struct wane__exchange *exchange);

/*
 * http_domain.c: the domain that a request is to be treated as, `given` being the one that its SSP names (NULL: none). Call it when the
 * messages are there; prepares the header that says that the text looks like another one.
 */
const char *wane__http_domain(struct wane__exchange *exchange, const char *given);
void wane__http_domain_metrics(struct wane_server *server, struct wane__buf *out);

/* http_feedback.c: nothing happens where the server takes no feedback. */
int wane__server_open_feedback(struct wane_server *server, const wane_feedback_options *options,
                               wane_error *error);
void wane__server_close_feedback(struct wane_server *server);
/* The call still has its prompt; later, an event came. */
void wane__http_keep_prompt(struct wane__exchange *exchange);
void wane__http_keep(struct wane__exchange *exchange, const wane_event *event);
enum MHD_Result wane__http_feedback(struct wane__exchange *exchange);
void wane__http_feedback_metrics(struct wane_server *server, struct wane__buf *out);

/* metrics_process.c: what the program could not write to its log, where it says. */
void wane__metrics_write_log(const struct wane_server *server, struct wane__buf *out);

/* metrics_process.c: the disks whose free bytes the metrics have. */
int wane__server_set_disks(struct wane_server *server, const wane_server_options *options, wane_error *error);
void wane__server_free_disks(struct wane_server *server);

/* http_ab.c: nothing happens where no sides are compared. Share 0: none are. */
int wane__server_open_ab(struct wane_server *server, double share, wane_error *error);
void wane__server_close_ab(struct wane_server *server);
/* The request's side, and its governor with it, when all else of its quality is settled; later, an event came. */
void wane__http_ab_take(struct wane__exchange *exchange);
void wane__http_ab_see(struct wane__exchange *exchange, const wane_event *event);
/* "on", "off"; NULL: it takes no part. */
const char *wane__http_ab_side(const struct wane__exchange *exchange);
/* A reply of that side (as in an exchange) was rated for the first time. */
void wane__http_ab_rated(struct wane_server *server, int side, double rating);
enum MHD_Result wane__http_ab(struct wane__exchange *exchange);
void wane__http_ab_metrics(struct wane_server *server, struct wane__buf *out);
void wane__http_ab_live(struct wane_server *server,
                        struct wane__buf *out); /* for the dashboard; `null`: off */

enum wane__wait { WANE__WAIT_EVENT, WANE__WAIT_SILENT, WANE__WAIT_FAILED, WANE__WAIT_GONE };
/*
 * The ticket's next event. SILENT after `silence_ms` without one (UINT32_MAX: never); FAILED fills `problem`; GONE
 * has cancelled the ticket.
 */
enum wane__wait wane__http_wait(struct wane__exchange *exchange, uint32_t silence_ms, wane_event *event);
/* Counts of an event that every dialect needs. */
void wane__http_note(struct wane__exchange *exchange, const wane_event *event);

/* sse.c: start the stream of an accepted request. */
enum MHD_Result wane__sse_start(struct wane__exchange *exchange);

#endif
