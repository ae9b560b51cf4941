/* Memory of a module, which has no C library. */
#ifndef PINTLE_MEMORY_H
#define PINTLE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

void *memcpy(void *to, const void *from, size_t n);
void *memset(void *to, int c, size_t n);

/* Characters before the end mark. */
uint32_t length(const char *s);

/* A block of zeros, at a multiple of 8, that stays until it is given back. */
void *take(uint32_t size);
void give(void *block);

#endif
