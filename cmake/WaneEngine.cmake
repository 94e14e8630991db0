# Finds the engine: llama.cpp's libllama, unmodified. Offers the target wane_engine (headers and libraries)
# and sets WANE_ENGINE_LIB_DIR, where its plug-ins lie, and WANE_HAVE_JINJA.
#
#   WANE_ENGINE_DIR   a folder with include/ and lib/, as scripts/engine prints it
#   empty             an installed package: pkg-config's llama

add_library(wane_engine INTERFACE)

if(WANE_ENGINE_DIR)
  set(WANE_ENGINE_LIB_DIR "${WANE_ENGINE_DIR}/lib")
  foreach(name llama ggml ggml-base)
    file(GLOB found
      "${WANE_ENGINE_LIB_DIR}/lib${name}.so" "${WANE_ENGINE_LIB_DIR}/lib${name}.v*.so"
      "${WANE_ENGINE_LIB_DIR}/lib${name}.dylib" "${WANE_ENGINE_LIB_DIR}/lib${name}.*.dylib")
    if(NOT found)
      message(FATAL_ERROR "No lib${name} in ${WANE_ENGINE_LIB_DIR}: run scripts/engine, or set WANE_ENGINE_DIR to its output.")
    endif()
    list(GET found 0 library)
    target_link_libraries(wane_engine INTERFACE "${library}")
  endforeach()
  target_include_directories(wane_engine SYSTEM INTERFACE "${WANE_ENGINE_DIR}/include")
  file(GLOB WANE_ENGINE_COMMON "${WANE_ENGINE_LIB_DIR}/libllama-common.so" "${WANE_ENGINE_LIB_DIR}/libllama-common.dylib")
  if(WANE_ENGINE_COMMON AND EXISTS "${WANE_ENGINE_DIR}/include/common/jinja/runtime.h")
    set(WANE_HAVE_JINJA ON)
  endif()
else()
  pkg_check_modules(LLAMA REQUIRED IMPORTED_TARGET llama)
  target_link_libraries(wane_engine INTERFACE PkgConfig::LLAMA)
  pkg_get_variable(WANE_ENGINE_LIB_DIR llama libdir)
endif()
