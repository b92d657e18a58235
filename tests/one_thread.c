// SPDX-License-Identifier: Apache-2.0
//
// Ends a program of tests that starts a thread although its CMakeLists.txt says ONE_THREAD: then
// ThreadSanitizer must test it, too.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) {
  (void)thread, (void)attributes, (void)start, (void)argument;
  fputs("a test starts a thread: remove ONE_THREAD from the CMakeLists.txt of its module\n",
        stderr);
  abort();
}
