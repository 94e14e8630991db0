# `cmake --install`: libraries, header, pkg-config file, program, manual page, completion, and the engine's
# libraries in a folder of their own, so that what was installed does not need the build tree.
# Relative to the pkg-config file itself, so that an installation may be made, or moved, anywhere.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(WANE_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
else()
  string(REGEX REPLACE "[^/]+" ".." WANE_PC_UP "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  set(WANE_PC_PREFIX "\${pcfiledir}/${WANE_PC_UP}")
endif()
configure_file(cmake/wane.pc.in "${CMAKE_BINARY_DIR}/wane.pc" @ONLY)
install(TARGETS wane_shared wane_static
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET wane)
  install(TARGETS wane RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  # "wane table build" by another name.
  install(CODE "file(CREATE_LINK wane \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/slmt_builder\" SYMBOLIC)")
endif()
install(TARGETS wane_preload LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/wane) # where wane_exec_library looks
install(FILES include/wane.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/wane DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES "${CMAKE_BINARY_DIR}/wane.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(WANE_ENGINE_DIR)
  file(GLOB engine_libraries "${WANE_ENGINE_LIB_DIR}/lib*")
  install(FILES ${engine_libraries} DESTINATION ${CMAKE_INSTALL_LIBDIR}/wane)
endif()
install(DIRECTORY share/rules DESTINATION ${CMAKE_INSTALL_DATADIR}/wane)
install(PROGRAMS scripts/model scripts/engine DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/wane)
install(FILES scripts/engine.lock scripts/supply.py DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/wane)
install(DIRECTORY share/profiles share/tune share/governor DESTINATION ${CMAKE_INSTALL_DATADIR}/wane)
if(EXISTS "${CMAKE_SOURCE_DIR}/share/gates") # gates of known models; wane_model_set_gate finds them by the model's digest
  install(DIRECTORY share/gates DESTINATION ${CMAKE_INSTALL_DATADIR}/wane FILES_MATCHING PATTERN "*.gate")
endif()
install(FILES share/domains/domains.linear share/domains/seed.jsonl share/domains/held-out.jsonl
  DESTINATION ${CMAKE_INSTALL_DATADIR}/wane/domains)
if(EXISTS "${CMAKE_SOURCE_DIR}/docs/wane.1")
  install(FILES docs/wane.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
if(EXISTS "${CMAKE_SOURCE_DIR}/scripts/wane.bash")
  install(FILES scripts/wane.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME wane)
endif()
