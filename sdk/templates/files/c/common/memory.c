/* Memory of a module, which has no C library. */
#include "memory.h"

void *memcpy(void *to, const void *from, size_t n) {
	char *t = to;
	const char *f = from;
	while (n--)
		*t++ = *f++;
	return to;
}

void *memset(void *to, int c, size_t n) {
	char *t = to;
	while (n--)
		*t++ = (char)c;
	return to;
}

uint32_t length(const char *s) {
	uint32_t n = 0;
	while (s[n])
		n++;
	return n;
}

/* Blocks are powers of two with their class in front; freed ones are kept by class. */
struct block {
	uint32_t class;
	uint32_t pad;
	struct block *next; /* while it is free */
};

extern unsigned char __heap_base;
static uintptr_t brk_at;
static struct block *freed[32];

void *take(uint32_t size) {
	uint32_t class = 4;
	if (size > 1u << 30)
		__builtin_trap();
	while ((1u << class) < size + 8)
		class++;
	struct block *b = freed[class];
	if (b) {
		freed[class] = b->next;
	} else {
		if (!brk_at)
			brk_at = ((uintptr_t)&__heap_base + 15) & ~(uintptr_t)15;
		uint64_t end = (uint64_t)brk_at + (1u << class);
		uint64_t has = (uint64_t)__builtin_wasm_memory_size(0) << 16;
		if (end > has) {
			uint32_t pages = (uint32_t)((end - has + 65535) >> 16);
			if (__builtin_wasm_memory_grow(0, pages) == (size_t)-1)
				__builtin_trap();
		}
		b = (struct block *)brk_at;
		brk_at += 1u << class;
		b->class = class;
	}
	void *p = (char *)b + 8;
	memset(p, 0, (1u << class) - 8);
	return p;
}

void give(void *p) {
	if (!p)
		return;
	struct block *b = (struct block *)((char *)p - 8);
	b->next = freed[b->class];
	freed[b->class] = b;
}
