set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# g++ 12 compiles valid coroutines into double frees, without a warning.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  message(FATAL_ERROR
    "g++ ${CMAKE_CXX_COMPILER_VERSION} miscompiles coroutines. Use clang++-19 or g++ 13.3 and newer: "
    "./dev does so, or pass -DCMAKE_CXX_COMPILER=clang++-19.")
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without the sloppiness every file that uses a precompiled header misses the cache.
  set(ccache_launcher ${CMAKE_COMMAND} -E env
    "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime" ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${ccache_launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ccache_launcher})
endif()

find_program(MOLD_PROGRAM mold)
find_program(LLD_PROGRAM NAMES ld.lld ld.lld-19)
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
elseif(LLD_PROGRAM)
  add_link_options(-fuse-ld=lld)
endif()

add_library(dgxmm_options INTERFACE)
target_compile_options(dgxmm_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wconversion -Wno-sign-conversion
  -fvisibility=hidden "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>"
  $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess -Wno-missing-field-initializers>
  $<$<CXX_COMPILER_ID:Clang>:-Wno-missing-field-initializers -Wno-missing-designated-field-initializers>)
if(DGXMM_WERROR)
  target_compile_options(dgxmm_options INTERFACE -Werror)
endif()
if(DGXMM_SANITIZE)
  add_compile_options(-fsanitize=${DGXMM_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${DGXMM_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(dgxmm_options INTERFACE -Wno-stringop-overflow -Wno-tsan)
  endif()
endif()
if(DGXMM_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "The fuzz targets need clang (libFuzzer).")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)  # libFuzzer sees the edges of the libraries, not of the target only
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_options(-ffunction-sections -fdata-sections)
  add_link_options(-Wl,--gc-sections)
endif()
