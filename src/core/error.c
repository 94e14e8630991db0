/* error.c - names of the error codes, and the one place that writes an error's sentence. */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>

const char *wane_strerror(int code) {
    switch (code) {
    case WANE_OK: return "WANE_OK";
    case WANE_EINVAL: return "WANE_EINVAL";
    case WANE_ENOMEM: return "WANE_ENOMEM";
    case WANE_EIO: return "WANE_EIO";
    case WANE_ENOENT: return "WANE_ENOENT";
    case WANE_EFORMAT: return "WANE_EFORMAT";
    case WANE_EENGINE: return "WANE_EENGINE";
    case WANE_ECONTEXT: return "WANE_ECONTEXT";
    case WANE_EBUSY: return "WANE_EBUSY";
    case WANE_ECANCELLED: return "WANE_ECANCELLED";
    case WANE_ETIMEOUT: return "WANE_ETIMEOUT";
    case WANE_EUNSUPPORTED: return "WANE_EUNSUPPORTED";
    case WANE_EAUTH: return "WANE_EAUTH";
    case WANE_ESHUTDOWN: return "WANE_ESHUTDOWN";
    case WANE_EADDRESS: return "WANE_EADDRESS";
    case WANE_EINTERNAL: return "WANE_EINTERNAL";
    default: return "WANE_E?";
    }
}

const char *wane_version(void) {
    return WANE_VERSION;
}

int wane__fail(wane_error *error, int code, const char *format, ...) {
    if (error == NULL) return code;
    error->code = code;
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return code;
}

void wane__clear(wane_error *error) {
    if (error == NULL) return;
    error->code = WANE_OK;
    error->text[0] = '\0';
}
