# Every library that wane asks for, once, with what it is for.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson>=2.13)      # JSON
pkg_check_modules(ICU REQUIRED IMPORTED_TARGET icu-uc icu-i18n)        # NFC, sentences, patterns
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)           # keys: hash, constant-time compare
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)           # digests of models and files
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)               # traces
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)             # audit, feedback
if(WANE_PARTS_ONLY)
  return()
endif()
pkg_check_modules(MHD REQUIRED IMPORTED_TARGET libmicrohttpd>=0.9.71)  # HTTP/1.1
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl>=7.74)         # alerts to a URL
pkg_check_modules(INIH REQUIRED IMPORTED_TARGET inih)                  # the configuration file
pkg_check_modules(EDIT REQUIRED IMPORTED_TARGET libedit)               # line editing in `wane run`
if(WANE_TESTS)
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)            # unit tests
endif()
