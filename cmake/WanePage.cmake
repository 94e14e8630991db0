# The live page: web/ and, where scripts/page has fetched it, the charts' library, as one generated C file. WANE_PAGE_DIR is the
# folder that scripts/page prints; empty: the page has no charts, and says so.
set(WANE_PAGE_DIR "" CACHE PATH "Folder of the charts' library, as scripts/page prints it; empty: none")

file(GLOB WANE_PAGE_FILES CONFIGURE_DEPENDS web/*.html web/*.css web/*.js web/*.svg)
set(WANE_PAGE_LIBRARY)
if(WANE_PAGE_DIR AND EXISTS "${WANE_PAGE_DIR}/uPlot.iife.min.js")
  set(WANE_PAGE_LIBRARY "${WANE_PAGE_DIR}/uPlot.iife.min.js" "${WANE_PAGE_DIR}/uPlot.min.css" "${WANE_PAGE_DIR}/LICENSE")
endif()
set(WANE_PAGE_SOURCE "${CMAKE_BINARY_DIR}/page_assets.c")
add_custom_command(OUTPUT "${WANE_PAGE_SOURCE}"
  COMMAND ${CMAKE_COMMAND} "-DOUT=${WANE_PAGE_SOURCE}" "-DFILES=${WANE_PAGE_FILES}" "-DLIBRARY=${WANE_PAGE_LIBRARY}"
    -P "${CMAKE_SOURCE_DIR}/cmake/embed.cmake"
  DEPENDS ${WANE_PAGE_FILES} ${WANE_PAGE_LIBRARY} cmake/embed.cmake
  COMMENT "The live page" VERBATIM)
