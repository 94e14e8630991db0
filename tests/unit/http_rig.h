/* http_rig.h - HTTP by hand against a server in this process: every byte that goes over is the test's. Included behind cmocka. */
#ifndef WANE_TESTS_HTTP_RIG_H
#define WANE_TESTS_HTTP_RIG_H

#include "wane.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static inline int http_dial(wane_server *server) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)wane_server_port(server))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval patience = {.tv_sec = 20};
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
#ifdef SO_NOSIGPIPE
    setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &(int){1}, sizeof(int));
#endif
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* `headers`: more of them, each with its line end. */
static inline void http_send(int fd, const char *method, const char *path, const char *headers,
                             const char *body) {
    char head[1024];
    int size = snprintf(head, sizeof head,
                        "%s %s HTTP/1.1\r\nhost: x\r\n%sconnection: close\r\ncontent-length: %zu\r\n\r\n",
                        method, path, headers, strlen(body));
    assert_true(size > 0 && (size_t)size < sizeof head);
    assert_int_equal(send(fd, head, (size_t)size, MSG_NOSIGNAL), size);
    assert_int_equal(send(fd, body, strlen(body), MSG_NOSIGNAL), (ssize_t)strlen(body));
}

/* Read to the end of the connection; returns the status. */
static inline int http_receive(int fd, char *reply, size_t capacity) {
    size_t size = 0;
    ssize_t got;
    while (size + 1 < capacity && (got = recv(fd, reply + size, capacity - size - 1, 0)) > 0)
        size += (size_t)got;
    reply[size] = '\0';
    close(fd);
    return size > 12 ? atoi(reply + 9) : 0;
}

#endif
