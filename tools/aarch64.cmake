# Cross-compiles for arm64 with gcc-aarch64-linux-gnu (or clang: -DYK_CROSS=clang) and the libraries of a
# directory that tools/sysroot created. Programs and tests run under qemu:
#
#     tools/sysroot arm64 build-arm64/sysroot
#     cmake -S . -B build-arm64 -G Ninja -DCMAKE_TOOLCHAIN_FILE=tools/aarch64.cmake -DYK_SYSROOT=$PWD/build-arm64/sysroot
#     ninja -C build-arm64 && ctest --test-dir build-arm64 -R '^test_'
#     QEMU_CPU=max,sve-max-vq=2 ctest ...         # a processor with SVE vectors of 2 * 128 bits; sve=off: with NEON only
#
# ./dev arm64 does all of this. An arm64 machine does not need it: use ./dev test.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(YK_SYSROOT "" CACHE PATH "the arm64 libraries: a directory made by tools/sysroot")
set(YK_CROSS gcc CACHE STRING "gcc or clang")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES YK_SYSROOT YK_CROSS) # for CMake's own compiler checks
if(NOT EXISTS "${YK_SYSROOT}/usr/lib/aarch64-linux-gnu")
  message(FATAL_ERROR "-DYK_SYSROOT=${YK_SYSROOT} holds no arm64 libraries; make such a directory with: tools/sysroot arm64 DIRECTORY")
endif()

if(YK_CROSS STREQUAL "clang")
  set(CMAKE_C_COMPILER clang)
  set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)
else()
  set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
endif()
set(CMAKE_SYSROOT "${YK_SYSROOT}")
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${YK_SYSROOT}")
set(ENV{PKG_CONFIG_LIBDIR} "${YK_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${YK_SYSROOT}/usr/share/pkgconfig")

# MPI's compiler wrapper cannot be used: the one in the sysroot is an arm64 program, and the one in PATH describes this machine.
set(MPI_SKIP_COMPILER_WRAPPER TRUE)
set(MPI_C_HEADER_DIR "${YK_SYSROOT}/usr/lib/aarch64-linux-gnu/openmpi/include" CACHE PATH "")
set(MPI_C_LIB_NAMES mpi CACHE STRING "")
set(MPI_mpi_LIBRARY "${YK_SYSROOT}/usr/lib/aarch64-linux-gnu/openmpi/lib/libmpi.so" CACHE FILEPATH "")

find_program(YK_QEMU qemu-aarch64)
if(YK_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${YK_QEMU};-L;${YK_SYSROOT}") # QEMU_CPU selects the processor
endif()
