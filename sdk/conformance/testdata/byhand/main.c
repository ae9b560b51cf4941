/* A predicate written from sdk/ABI.md alone: no header, no template. It keeps pods
 * that name a tier off nodes of another one, and off nodes that are full. */
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define EXPORT(name) __attribute__((export_name(#name)))
enum { NODES = 4096, CLASSES = 256, PODS = 256, TIER = 63 };

struct text {
	const u8 *at;
	u32 size;
};
struct node {
	u32 there, pods, tier_size;
	i64 room;
	u8 tier[TIER];
	u64 uids[PODS];
};
struct class {
	u32 there, tier_size;
	u8 tier[TIER];
};
static struct node nodes[NODES];
static struct class classes[CLASSES];
static const char *fault = "";

/* pintle_alloc and pintle_free: powers of two, freed ones are kept. The first
 * eight bytes of a block say which power. */
extern u8 __heap_base;
static u32 top;
static u32 *unused[32];

EXPORT(pintle_alloc) u32 alloc(u32 size) {
	u32 power = 4;
	while ((u64)1 << power < (u64)size + 8)
		power++;
	u32 *block = unused[power];
	if (block) {
		unused[power] = *(u32 **)(block + 2);
		return (u32)(block + 2);
	}
	if (!top)
		top = ((u32)&__heap_base + 15) & ~15u;
	u64 end = (u64)top + ((u64)1 << power), has = (u64)__builtin_wasm_memory_size(0) << 16;
	if (end > has && __builtin_wasm_memory_grow(0, (u32)((end - has + 65535) >> 16)) == (unsigned long)-1)
		__builtin_trap();
	block = (u32 *)top;
	top = (u32)end;
	*block = power;
	return (u32)(block + 2);
}

EXPORT(pintle_free) void release(u32 at) {
	u32 *block = (u32 *)at - 2;
	*(u32 **)at = unused[*block];
	unused[*block] = block;
}

/* Fields of a message. */
struct field {
	u32 number, type;
	u64 value;
	struct text bytes;
};

static int varint(struct text *m, u64 *out) {
	*out = 0;
	for (u32 i = 0; i < 10 && m->size; i++) {
		u8 b = *m->at++;
		m->size--;
		*out |= (u64)(b & 127) << (7 * i);
		if (b < 128)
			return 1;
	}
	return 0;
}

/* 1: there is a field, 0: the message ends, -1: it is malformed. */
static int next(struct text *m, struct field *f) {
	u64 key, size = 0;
	if (!m->size)
		return 0;
	if (!varint(m, &key) || !(key >> 3) || key >> 32)
		return -1;
	f->number = (u32)(key >> 3);
	f->type = key & 7;
	f->value = 0;
	f->bytes.size = 0;
	if (f->type == 0)
		return varint(m, &f->value) ? 1 : -1;
	if (f->type == 1)
		size = 8;
	else if (f->type == 5)
		size = 4;
	else if (f->type != 2 || !varint(m, &size))
		return -1;
	if (size > m->size)
		return -1;
	if (f->type == 2)
		f->bytes = (struct text){m->at, (u32)size};
	m->at += size;
	m->size -= (u32)size;
	return 1;
}

static int is(struct text t, const char *s) {
	u32 i = 0;
	for (; i < t.size && s[i]; i++)
		if (t.at[i] != (u8)s[i])
			return 0;
	return i == t.size && !s[i];
}

static int same(const u8 *a, u32 n, const u8 *b, u32 m) {
	for (u32 i = 0; i < n && n == m; i++)
		if (a[i] != b[i])
			return 0;
	return n == m;
}

/* An entry of the labels: keeps the value of example.com/tier. */
static int label(struct text entry, u8 *tier, u32 *size) {
	struct text key = {0, 0}, value = {0, 0};
	struct field f;
	int more;
	while ((more = next(&entry, &f)) > 0) {
		if (f.number == 1)
			key = f.bytes;
		if (f.number == 2)
			value = f.bytes;
	}
	if (is(key, "example.com/tier") && value.size <= TIER) {
		for (u32 i = 0; i < value.size; i++)
			tier[i] = value.at[i];
		*size = value.size;
	}
	return more;
}

static int node_set(struct node *n, struct text message) {
	struct field f, r;
	int more;
	n->there = 1;
	n->tier_size = 0;
	n->room = 0;
	while ((more = next(&message, &f)) > 0) {
		if (f.number == 2 && label(f.bytes, n->tier, &n->tier_size) < 0)
			return -1;
		if (f.number == 7) {
			struct text resources = f.bytes;
			int left;
			while ((left = next(&resources, &r)) > 0)
				if (r.number == 4)
					n->room = (i64)r.value;
			if (left < 0)
				return -1;
		}
	}
	return more;
}

static u64 hash(struct text t) {
	u64 h = 14695981039346656037u;
	for (u32 i = 0; i < t.size; i++)
		h = (h ^ t.at[i]) * 1099511628211u;
	return h;
}

static void pod_remove(struct node *n, u64 uid) {
	for (u32 i = 0; i < n->pods; i++)
		if (n->uids[i] == uid) {
			n->uids[i] = n->uids[--n->pods];
			return;
		}
}

/* What an operation holds: a number (1), and a message or a text (2). */
static int operation(struct field *op) {
	struct text m = op->bytes, inner = {0, 0};
	struct field f;
	u64 number = 0;
	int more;
	if (op->number == 2) {
		if (op->value < NODES)
			nodes[op->value].there = nodes[op->value].pods = 0;
		return 0;
	}
	if (op->number == 6) {
		if (op->value < CLASSES)
			classes[op->value].there = 0;
		return 0;
	}
	if (op->number != 1 && op->number != 3 && op->number != 4 && op->number != 5)
		return 0; /* objects, which it does not read, and what came later */
	while ((more = next(&m, &f)) > 0) {
		if (f.number == 1)
			number = f.value;
		if (f.number == 2)
			inner = f.bytes;
	}
	if (more < 0)
		return -1;
	if (op->number == 5) {
		if (number >= CLASSES)
			return -1;
		struct class *c = &classes[number];
		c->there = 1;
		c->tier_size = 0;
		while ((more = next(&inner, &f)) > 0)
			if (f.number == 4 && label(f.bytes, c->tier, &c->tier_size) < 0)
				return -1;
		return more;
	}
	if (number >= NODES)
		return op->number == 4 ? 0 : -1;
	struct node *n = &nodes[number];
	if (op->number == 1)
		return node_set(n, inner);
	if (op->number == 4) {
		pod_remove(n, hash(inner));
		return 0;
	}
	struct text uid = {0, 0};
	while ((more = next(&inner, &f)) > 0)
		if (f.number == 3)
			uid = f.bytes;
	if (more < 0 || !n->there)
		return -1;
	pod_remove(n, hash(uid));
	if (n->pods == PODS)
		return -1;
	n->uids[n->pods++] = hash(uid);
	return 0;
}

static int apply(struct text delta) {
	struct text m = delta;
	struct field f, op;
	int more;
	while ((more = next(&m, &f)) > 0)
		if (f.number == 2 && f.value) {
			for (u32 i = 0; i < NODES; i++)
				nodes[i].there = nodes[i].pods = 0;
			for (u32 i = 0; i < CLASSES; i++)
				classes[i].there = 0;
		}
	if (more < 0)
		return -1;
	while (next(&delta, &f) > 0) {
		if (f.number != 3)
			continue;
		while ((more = next(&f.bytes, &op)) > 0)
			if (operation(&op) < 0)
				return -1;
		if (more < 0)
			return -1;
	}
	return 0;
}

/* The other exports. */
static u64 span(const char *s) {
	u32 n = 0;
	while (s[n])
		n++;
	return n ? (u64)(u32)s << 32 | n : 0;
}

static int fail(int status, const char *why) {
	fault = why;
	return status;
}

EXPORT(pintle_abi_version) int version(void) { return 1; }
EXPORT(pintle_error) u64 error(void) { return span(fault); }
EXPORT(pintle_describe) u64 describe(void) {
	return span("{\"contract\":1,\"plugins\":[{\"name\":\"ByHand\",\"kind\":\"predicate\",\"scope\":\"node\"}]}");
}
EXPORT(pintle_configure) int configure(u32 plugin, const u8 *json, u32 size) {
	(void)json;
	if (plugin)
		return fail(-1, "no such plugin");
	return size ? fail(-6, "it takes no configuration") : 0;
}
EXPORT(pintle_apply) int applied(const u8 *delta, u32 size) {
	return apply((struct text){delta, size}) < 0 ? fail(-4, "malformed delta") : 0;
}
EXPORT(pintle_filter) int filter(u32 plugin, u32 class, const u32 *asked, u32 n, u32 *out) {
	if (plugin)
		return fail(-1, "no such plugin");
	if (class >= CLASSES || !classes[class].there)
		return fail(-2, "no such class");
	const struct class *c = &classes[class];
	for (u32 i = 0; i < n; i++) {
		const struct node *at = asked[i] < NODES ? &nodes[asked[i]] : 0;
		if (!at || !at->there)
			return fail(-3, "no such node");
		int other = c->tier_size && !same(c->tier, c->tier_size, at->tier, at->tier_size);
		out[i] = other ? 1 : (i64)at->pods >= at->room ? 2 : 0;
	}
	return 0;
}
EXPORT(pintle_reason) u64 reason(u32 plugin, u32 verdict) {
	if (plugin)
		return 0;
	return span(verdict == 1 ? "node(s) were of another tier" : verdict == 2 ? "Too many pods" : "");
}
EXPORT(pintle_score) int score(u32 plugin, u32 class, const u32 *asked, u32 n, i64 *out) {
	(void)plugin, (void)class, (void)asked, (void)n, (void)out;
	return fail(-1, "there is no priority");
}
EXPORT(pintle_normalize) int normalize(u32 plugin, u32 class, const u32 *asked, u32 n, i64 *scores) {
	(void)plugin, (void)class, (void)asked, (void)n, (void)scores;
	return fail(-1, "there is no priority");
}
