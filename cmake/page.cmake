# The library dgxmm_page: the page of web/, built by npm and embedded. What npm makes lies in web/, for all presets
# together. Included by src/CMakeLists.txt, as CMake wants a file's rule beside the target that needs it.
if(NOT DGXMM_WEB)
  add_library(dgxmm_page STATIC page/without_page.cpp)
  target_link_libraries(dgxmm_page PUBLIC dgxmm_app PRIVATE dgxmm_options)
  return()
endif()

find_program(NPM_PROGRAM npm)
find_program(NODE_PROGRAM node)
if(NOT NPM_PROGRAM OR NOT NODE_PROGRAM)
  message(FATAL_ERROR "The page needs Node.js and npm: run ./dev setup, or build without it: -DDGXMM_WEB=OFF")
endif()
execute_process(COMMAND ${NODE_PROGRAM} --version OUTPUT_VARIABLE node_version OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REGEX REPLACE "^v" "" node_version "${node_version}")
if(node_version VERSION_LESS 18)
  message(FATAL_ERROR "The page needs Node.js 18, ${NODE_PROGRAM} is ${node_version}; without it: -DDGXMM_WEB=OFF")
endif()

set(page_folder ${CMAKE_SOURCE_DIR}/web)
# npm writes this file last; it is younger than the lock file when the packages are those that it names.
set(page_packages ${page_folder}/node_modules/.package-lock.json)
add_custom_command(OUTPUT ${page_packages}
  COMMAND ${NPM_PROGRAM} ci --no-audit --no-fund
  COMMAND ${CMAKE_COMMAND} -E touch ${page_packages}
  DEPENDS ${page_folder}/package-lock.json
  WORKING_DIRECTORY ${page_folder} COMMENT "Installing the packages of the page" VERBATIM)

file(GLOB_RECURSE page_sources CONFIGURE_DEPENDS ${page_folder}/src/* ${page_folder}/public/*)
file(GLOB page_settings CONFIGURE_DEPENDS
  ${page_folder}/*.html ${page_folder}/*.json ${page_folder}/*.ts ${CMAKE_SOURCE_DIR}/docs/openapi.json)
# Tests are no part of it, and what the build itself generates would make it build again.
list(FILTER page_sources EXCLUDE REGEX "\\.(test|gen)\\.")
add_custom_command(OUTPUT ${page_folder}/dist/index.html
  COMMAND ${NPM_PROGRAM} run build
  DEPENDS ${page_sources} ${page_settings} ${page_packages}
  WORKING_DIRECTORY ${page_folder} COMMENT "Building the page" VERBATIM)

set(page_bytes ${CMAKE_CURRENT_BINARY_DIR}/page_bytes)
set(page_table ${CMAKE_CURRENT_BINARY_DIR}/page_table.cpp)
set(embed_page ${CMAKE_SOURCE_DIR}/tools/embed_page.py)
add_custom_command(OUTPUT ${page_bytes} ${page_table}
  COMMAND Python3::Interpreter ${embed_page} ${page_folder}/dist ${page_bytes} ${page_table}
  DEPENDS ${page_folder}/dist/index.html ${embed_page}
  COMMENT "Embedding the page" VERBATIM)
set_source_files_properties(page/page_bytes.S PROPERTIES
  OBJECT_DEPENDS ${page_bytes} COMPILE_DEFINITIONS "DGXMM_PAGE_BYTES=\"${page_bytes}\""
  COMPILE_OPTIONS -Wno-unused-command-line-argument)
add_library(dgxmm_page STATIC page/page_bytes.S ${page_table})
target_link_libraries(dgxmm_page PUBLIC dgxmm_app PRIVATE dgxmm_options)
