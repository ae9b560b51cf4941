/* The module's side of sdk/ABI.md, version 1. */
#include "pintle.h"
#include "memory.h"

#define EXPORT(name) __attribute__((export_name(#name)))

enum { PLUGIN = -1, CLASS = -2, NODE = -3, MALFORMED = -4, FAILED = -6 };
enum { MAX_NODES = 1 << 20, MAX_VERDICTS = 4096, BUCKETS = 1024 };

/* A pod, a node or an object lives in chunks that are freed together. */
struct pintle_arena {
	struct pintle_arena *next;
	uint32_t used, size;
};

static struct pintle_arena *chunk(uint32_t size, struct pintle_arena *next) {
	struct pintle_arena *a = take(size + sizeof *a);
	a->next = next;
	a->size = size;
	return a;
}

/* The first chunk stays first: it is the arena's name. */
static void *from(struct pintle_arena *a, uint32_t size) {
	size = (size + 7) & ~7u;
	struct pintle_arena *c = a->next ? a->next : a;
	if (c->used + size > c->size) {
		c = chunk(size > 1000 ? size : 1000, a->next);
		a->next = c;
	}
	void *p = (char *)(c + 1) + c->used;
	c->used += size;
	return p;
}

static void drop(struct pintle_arena *a) {
	while (a) {
		struct pintle_arena *next = a->next;
		give(a);
		a = next;
	}
}

/* Texts. */

bool pintle_equal(struct pintle_text a, struct pintle_text b) {
	if (a.size != b.size)
		return false;
	for (uint32_t i = 0; i < a.size; i++)
		if (a.bytes[i] != b.bytes[i])
			return false;
	return true;
}

static struct pintle_text text(const char *s) { return (struct pintle_text){s, length(s)}; }

bool pintle_is(struct pintle_text a, const char *b) { return pintle_equal(a, text(b)); }

struct pintle_text pintle_get(const struct pintle_pair *list, const char *key) {
	for (; list; list = list->next)
		if (pintle_is(list->key, key))
			return list->value;
	return (struct pintle_text){0};
}

static const struct pintle_pair *find(const struct pintle_pair *list, struct pintle_text key) {
	for (; list; list = list->next)
		if (pintle_equal(list->key, key))
			return list;
	return NULL;
}

/* The protobuf encoding, field by field. */

struct reader {
	const unsigned char *at, *end;
	bool bad;
	uint32_t tag, kind; /* of the field that next() found */
	uint64_t number;
	struct pintle_text bytes;
};

static struct reader reader(struct pintle_text t) {
	const unsigned char *at = (const unsigned char *)t.bytes;
	return (struct reader){.at = at, .end = at + t.size};
}

static uint64_t varint(struct reader *r) {
	uint64_t v = 0;
	for (uint32_t i = 0; i < 10 && r->at < r->end; i++) {
		unsigned char b = *r->at++;
		v |= (uint64_t)(b & 0x7f) << (7 * i);
		if (b < 0x80)
			return v;
	}
	r->bad = true;
	return 0;
}

static bool next(struct reader *r) {
	if (r->bad || r->at == r->end)
		return false;
	uint64_t key = varint(r), size = 0;
	r->tag = (uint32_t)(key >> 3);
	r->kind = (uint32_t)(key & 7);
	r->number = 0;
	r->bytes = (struct pintle_text){0};
	if (r->bad || r->tag == 0 || key >> 3 > (1u << 29) - 1) {
		r->bad = true;
		return false;
	}
	switch (r->kind) {
	case 0:
		r->number = varint(r);
		break;
	case 1:
		size = 8;
		break;
	case 2:
		size = varint(r);
		break;
	case 5:
		size = 4;
		break;
	default:
		r->bad = true;
	}
	if (!r->bad && size > (uint64_t)(r->end - r->at))
		r->bad = true;
	if (r->bad)
		return false;
	if (r->kind == 2)
		r->bytes = (struct pintle_text){(const char *)r->at, (uint32_t)size};
	r->at += size;
	return true;
}

/* Adds an element to the end of a chain, so that order is kept. */
#define APPEND(arena, list)                                      \
	({                                                           \
		__typeof__(list) *end_ = &(list);                        \
		while (*end_)                                            \
			end_ = &(*end_)->next;                               \
		*end_ = from(arena, sizeof **end_);                      \
		*end_;                                                   \
	})

/* The decoders follow contract/v1/scheduling.proto; what they do not know they
 * skip. Texts point into the arena's own copy of the message. */

static bool decode_pair(struct pintle_arena *a, struct pintle_pair **list, struct pintle_text t) {
	struct pintle_text key = {0}, value = {0};
	struct reader r = reader(t);
	while (next(&r)) {
		if (r.tag == 1)
			key = r.bytes;
		if (r.tag == 2)
			value = r.bytes;
	}
	struct pintle_pair *p = (struct pintle_pair *)find(*list, key);
	if (!p) {
		p = from(a, sizeof *p);
		p->key = key;
		p->next = *list;
		*list = p;
	}
	p->value = value;
	/* An empty value is one too: bytes of NULL mean that there is none. */
	if (!p->value.bytes)
		p->value.bytes = "";
	return !r.bad;
}

static bool decode_resources(struct pintle_arena *a, struct pintle_resources *o, struct pintle_text t) {
	struct reader r = reader(t);
	while (next(&r)) {
		switch (r.tag) {
		case 1:
			o->milli_cpu = (int64_t)r.number;
			break;
		case 2:
			o->memory = (int64_t)r.number;
			break;
		case 3:
			o->ephemeral_storage = (int64_t)r.number;
			break;
		case 4:
			o->pods = (int64_t)r.number;
			break;
		case 5: {
			struct pintle_quantity *q = APPEND(a, o->scalar);
			struct reader e = reader(r.bytes);
			while (next(&e)) {
				if (e.tag == 1)
					q->name = e.bytes;
				if (e.tag == 2)
					q->value = (int64_t)e.number;
			}
			r.bad |= e.bad;
		}
		}
	}
	return !r.bad;
}

/* Decodes a message whose fields are texts, numbered from 1. */
static bool decode_texts(struct pintle_text t, struct pintle_text *to, uint32_t n, bool *flag) {
	struct reader r = reader(t);
	while (next(&r)) {
		if (r.tag <= n)
			to[r.tag - 1] = r.bytes;
		else if (r.tag == n + 1 && flag)
			*flag = r.number != 0;
	}
	return !r.bad;
}

static bool decode_requirement(struct pintle_arena *a, struct pintle_requirement **list, struct pintle_text t) {
	struct pintle_requirement *q = APPEND(a, *list);
	struct reader r = reader(t);
	while (next(&r)) {
		if (r.tag == 1)
			q->key = r.bytes;
		if (r.tag == 2)
			q->op = r.bytes;
		if (r.tag == 3) {
			struct pintle_names *v = APPEND(a, q->values);
			v->name = r.bytes;
		}
	}
	return !r.bad;
}

static bool decode_term(struct pintle_arena *a, struct pintle_term *o, struct pintle_text t) {
	struct reader r = reader(t);
	while (next(&r)) {
		if (r.tag == 1)
			r.bad |= !decode_requirement(a, &o->expressions, r.bytes);
		if (r.tag == 2)
			r.bad |= !decode_requirement(a, &o->fields, r.bytes);
	}
	return !r.bad;
}

static struct pintle_affinity *decode_affinity(struct pintle_arena *a, struct pintle_text t, bool *bad) {
	struct pintle_affinity *o = from(a, sizeof *o);
	struct reader r = reader(t);
	while (next(&r)) {
		if (r.tag == 1)
			o->has_required = r.number != 0;
		if (r.tag == 2) {
			struct pintle_term *term = APPEND(a, o->required);
			r.bad |= !decode_term(a, term, r.bytes);
		}
		if (r.tag == 3) {
			struct pintle_term *term = APPEND(a, o->preferred);
			struct reader e = reader(r.bytes);
			while (next(&e)) {
				if (e.tag == 1)
					term->weight = (int32_t)e.number;
				if (e.tag == 2)
					e.bad |= !decode_term(a, term, e.bytes);
			}
			r.bad |= e.bad;
		}
	}
	*bad |= r.bad;
	return o;
}

static bool decode_volume(struct pintle_arena *a, struct pintle_volume *v, struct pintle_text t) {
	struct reader r = reader(t);
	while (next(&r)) {
		switch (r.tag) {
		case 1:
			v->name = r.bytes;
			break;
		case 2:
			v->type = r.bytes;
			break;
		case 3:
			v->id = r.bytes;
			break;
		case 4:
			v->read_only = r.number != 0;
			break;
		case 5: {
			struct pintle_names *m = APPEND(a, v->monitors);
			m->name = r.bytes;
		}
		}
	}
	return !r.bad;
}

/* Makes an arena with a copy of the message in it. */
static struct pintle_arena *own(struct pintle_text *t, uint32_t extra) {
	struct pintle_arena *a = chunk(t->size + extra + 64, NULL);
	char *copy = from(a, t->size + 1);
	memcpy(copy, t->bytes, t->size);
	t->bytes = copy;
	return a;
}

static struct pintle_pod *decode_pod(struct pintle_text t) {
	struct pintle_arena *a = own(&t, sizeof(struct pintle_pod) + 512);
	struct pintle_pod *p = from(a, sizeof *p);
	p->arena = a;
	struct reader r = reader(t);
	while (next(&r)) {
		switch (r.tag) {
		case 1:
			p->namespace = r.bytes;
			break;
		case 2:
			p->name = r.bytes;
			break;
		case 3:
			p->uid = r.bytes;
			break;
		case 4:
			r.bad |= !decode_pair(a, &p->labels, r.bytes);
			break;
		case 5:
			r.bad |= !decode_pair(a, &p->annotations, r.bytes);
			break;
		case 6:
			p->node_name = r.bytes;
			break;
		case 7:
			p->scheduler_name = r.bytes;
			break;
		case 8:
			p->priority = (int32_t)r.number;
			break;
		case 9:
			r.bad |= !decode_pair(a, &p->node_selector, r.bytes);
			break;
		case 10:
			p->node_affinity = decode_affinity(a, r.bytes, &r.bad);
			break;
		case 11: {
			struct pintle_toleration *o = APPEND(a, p->tolerations);
			r.bad |= !decode_texts(r.bytes, &o->key, 4, NULL);
			break;
		}
		case 12: {
			struct pintle_container *o = APPEND(a, p->containers);
			r.bad |= !decode_texts(r.bytes, &o->name, 2, NULL);
			break;
		}
		case 13: {
			struct pintle_container *o = APPEND(a, p->init_containers);
			r.bad |= !decode_texts(r.bytes, &o->name, 2, NULL);
			break;
		}
		case 14: {
			struct pintle_host_port *o = APPEND(a, p->host_ports);
			struct reader e = reader(r.bytes);
			while (next(&e)) {
				if (e.tag == 1)
					o->port = (int32_t)e.number;
				if (e.tag == 2)
					o->protocol = e.bytes;
				if (e.tag == 3)
					o->host_ip = e.bytes;
			}
			r.bad |= e.bad;
			break;
		}
		case 15: {
			struct pintle_volume *o = APPEND(a, p->volumes);
			r.bad |= !decode_volume(a, o, r.bytes);
			break;
		}
		case 16:
			r.bad |= !decode_resources(a, &p->requests, r.bytes);
			break;
		case 17:
			p->non_zero_milli_cpu = (int64_t)r.number;
			break;
		case 18:
			p->non_zero_memory = (int64_t)r.number;
			break;
		case 19: {
			struct pintle_owner *o = APPEND(a, p->owners);
			r.bad |= !decode_texts(r.bytes, &o->api_version, 4, &o->controller);
			break;
		}
		case 20:
			p->terminating = r.number != 0;
			break;
		case 21:
			p->start_time_unix = (int64_t)r.number;
		}
	}
	if (r.bad) {
		drop(a);
		return NULL;
	}
	return p;
}

static struct pintle_node *decode_node(struct pintle_text t) {
	struct pintle_arena *a = own(&t, sizeof(struct pintle_node) + 512);
	struct pintle_node *n = from(a, sizeof *n);
	n->arena = a;
	struct reader r = reader(t);
	while (next(&r)) {
		switch (r.tag) {
		case 1:
			n->name = r.bytes;
			break;
		case 2:
			r.bad |= !decode_pair(a, &n->labels, r.bytes);
			break;
		case 3:
			r.bad |= !decode_pair(a, &n->annotations, r.bytes);
			break;
		case 4:
			n->unschedulable = r.number != 0;
			break;
		case 5: {
			struct pintle_taint *o = APPEND(a, n->taints);
			r.bad |= !decode_texts(r.bytes, &o->key, 3, NULL);
			break;
		}
		case 6:
			r.bad |= !decode_resources(a, &n->capacity, r.bytes);
			break;
		case 7:
			r.bad |= !decode_resources(a, &n->allocatable, r.bytes);
			break;
		case 8: {
			struct pintle_image *o = APPEND(a, n->images);
			struct reader e = reader(r.bytes);
			while (next(&e)) {
				if (e.tag == 1) {
					struct pintle_names *name = APPEND(a, o->names);
					name->name = e.bytes;
				}
				if (e.tag == 2)
					o->size_bytes = (int64_t)e.number;
			}
			r.bad |= e.bad;
			break;
		}
		case 9:
			n->uid = r.bytes;
		}
	}
	if (r.bad) {
		drop(a);
		return NULL;
	}
	return n;
}

static struct pintle_object *decode_object(struct pintle_text t, bool key_only) {
	struct pintle_arena *a = own(&t, sizeof(struct pintle_object) + 256);
	struct pintle_object *o = from(a, sizeof *o);
	o->arena = a;
	struct reader r = reader(t);
	if (key_only) {
		r.bad |= !decode_texts(t, &o->kind, 3, NULL);
		r.at = r.end;
	}
	while (next(&r)) {
		switch (r.tag) {
		case 1:
			r.bad |= !decode_texts(r.bytes, &o->kind, 3, NULL);
			break;
		case 2:
			r.bad |= !decode_pair(a, &o->labels, r.bytes);
			break;
		case 3:
			o->has_selector = r.number != 0;
			break;
		case 4: {
			struct reader e = reader(r.bytes);
			while (next(&e)) {
				if (e.tag == 1)
					e.bad |= !decode_pair(a, &o->match_labels, e.bytes);
				if (e.tag == 2)
					e.bad |= !decode_requirement(a, &o->match_expressions, e.bytes);
			}
			r.bad |= e.bad;
			break;
		}
		case 5:
			o->volume_name = r.bytes;
			break;
		case 6:
			o->volume = from(a, sizeof *o->volume);
			r.bad |= !decode_volume(a, o->volume, r.bytes);
			break;
		case 7:
			o->node_affinity = decode_affinity(a, r.bytes, &r.bad);
		}
	}
	if (r.bad) {
		drop(a);
		return NULL;
	}
	return o;
}

/* The replica. */

struct table {
	void **at;
	uint32_t size;
};

static struct table nodes, classes;
static struct pintle_object *objects[BUCKETS];

static void *lookup(const struct table *t, uint32_t i) { return i < t->size ? t->at[i] : NULL; }

static void put(struct table *t, uint32_t i, void *value) {
	if (i >= t->size) {
		uint32_t size = t->size ? t->size : 64;
		while (size <= i)
			size *= 2;
		void **at = take(size * sizeof *at);
		if (t->size)
			memcpy(at, t->at, t->size * sizeof *at);
		give(t->at);
		t->at = at;
		t->size = size;
	}
	t->at[i] = value;
}

static void account(struct pintle_node *n, const struct pintle_pod *p, int64_t sign) {
	n->requested_milli_cpu += sign * p->requests.milli_cpu;
	n->requested_memory += sign * p->requests.memory;
	n->requested_ephemeral_storage += sign * p->requests.ephemeral_storage;
	n->requested_pods += sign;
	n->non_zero_milli_cpu += sign * p->non_zero_milli_cpu;
	n->non_zero_memory += sign * p->non_zero_memory;
}

static void remove_pod(struct pintle_node *n, struct pintle_text uid) {
	for (struct pintle_pod **at = &n->pods; *at; at = &(*at)->next) {
		struct pintle_pod *p = *at;
		if (pintle_equal(p->uid, uid)) {
			*at = p->next;
			account(n, p, -1);
			drop(p->arena);
			return;
		}
	}
}

static void remove_node(uint32_t i) {
	struct pintle_node *n = lookup(&nodes, i);
	if (!n)
		return;
	while (n->pods) {
		struct pintle_pod *p = n->pods;
		n->pods = p->next;
		drop(p->arena);
	}
	drop(n->arena);
	nodes.at[i] = NULL;
}

static void remove_class(uint32_t i) {
	struct pintle_pod *p = lookup(&classes, i);
	if (p) {
		drop(p->arena);
		classes.at[i] = NULL;
	}
}

static uint32_t hash(uint32_t h, struct pintle_text t) {
	for (uint32_t i = 0; i < t.size; i++)
		h = (h ^ (unsigned char)t.bytes[i]) * 16777619u;
	return (h ^ 0xff) * 16777619u;
}

static struct pintle_object **slot(struct pintle_text kind, struct pintle_text namespace, struct pintle_text name) {
	uint32_t h = hash(hash(hash(2166136261u, kind), namespace), name) % BUCKETS;
	struct pintle_object **at = &objects[h];
	while (*at && !(pintle_equal((*at)->kind, kind) && pintle_equal((*at)->namespace, namespace) && pintle_equal((*at)->name, name)))
		at = &(*at)->next;
	return at;
}

static void remove_object(struct pintle_object **at) {
	struct pintle_object *o = *at;
	if (o) {
		*at = o->next;
		drop(o->arena);
	}
}

static void reset(void) {
	for (uint32_t i = 0; i < nodes.size; i++)
		remove_node(i);
	for (uint32_t i = 0; i < classes.size; i++)
		remove_class(i);
	for (uint32_t i = 0; i < BUCKETS; i++)
		while (objects[i])
			remove_object(&objects[i]);
}

uint32_t pintle_node_count(void) { return nodes.size; }

const struct pintle_node *pintle_node(uint32_t index) { return lookup(&nodes, index); }

const struct pintle_object *pintle_object(const char *kind, struct pintle_text namespace, struct pintle_text name) {
	return *slot(text(kind), namespace, name);
}

const struct pintle_object *pintle_next_object(const struct pintle_object *after) {
	uint32_t h = 0;
	if (after) {
		if (after->next)
			return after->next;
		h = hash(hash(hash(2166136261u, after->kind), after->namespace), after->name) % BUCKETS + 1;
	}
	for (; h < BUCKETS; h++)
		if (objects[h])
			return objects[h];
	return NULL;
}

/* Numbers and a message, as NodeSet, PodAdd, PodRemove and ClassSet have them. */
static bool numbered(struct pintle_text t, uint32_t *number, struct pintle_text *m) {
	struct reader r = reader(t);
	*number = 0;
	*m = (struct pintle_text){"", 0};
	while (next(&r)) {
		if (r.tag == 1)
			*number = (uint32_t)r.number;
		if (r.tag == 2)
			*m = r.bytes;
	}
	return !r.bad;
}

static bool operation(const struct reader *op) {
	uint32_t i = 0;
	struct pintle_text m = {"", 0};
	switch (op->tag) {
	case 1: {
		if (!numbered(op->bytes, &i, &m) || i >= MAX_NODES)
			return false;
		struct pintle_node *n = decode_node(m), *old = lookup(&nodes, i);
		if (!n)
			return false;
		n->index = i;
		if (old) {
			n->pods = old->pods;
			n->requested_milli_cpu = old->requested_milli_cpu;
			n->requested_memory = old->requested_memory;
			n->requested_ephemeral_storage = old->requested_ephemeral_storage;
			n->requested_pods = old->requested_pods;
			n->non_zero_milli_cpu = old->non_zero_milli_cpu;
			n->non_zero_memory = old->non_zero_memory;
			drop(old->arena);
		}
		put(&nodes, i, n);
		return true;
	}
	case 2:
		remove_node((uint32_t)op->number);
		return true;
	case 3: {
		if (!numbered(op->bytes, &i, &m))
			return false;
		struct pintle_node *n = lookup(&nodes, i);
		struct pintle_pod *p = n ? decode_pod(m) : NULL;
		if (!p)
			return false;
		remove_pod(n, p->uid);
		p->next = n->pods;
		n->pods = p;
		account(n, p, 1);
		return true;
	}
	case 4: {
		if (!numbered(op->bytes, &i, &m))
			return false;
		struct pintle_node *n = lookup(&nodes, i);
		if (n)
			remove_pod(n, m);
		return true;
	}
	case 5: {
		if (!numbered(op->bytes, &i, &m) || i >= MAX_NODES)
			return false;
		struct pintle_pod *p = decode_pod(m);
		if (!p)
			return false;
		remove_class(i);
		put(&classes, i, p);
		return true;
	}
	case 6:
		remove_class((uint32_t)op->number);
		return true;
	case 7:
	case 8: {
		struct pintle_object *o = decode_object(op->bytes, op->tag == 8);
		if (!o)
			return false;
		struct pintle_object **at = slot(o->kind, o->namespace, o->name);
		remove_object(at);
		if (op->tag == 8) {
			drop(o->arena);
			return true;
		}
		/* Removing may have moved what stood behind it: find the end again. */
		at = slot(o->kind, o->namespace, o->name);
		*at = o;
		return true;
	}
	}
	return true;
}

static bool apply(struct pintle_text delta) {
	/* reset may stand behind the operations. */
	struct reader r = reader(delta);
	bool forget = false;
	while (next(&r))
		if (r.tag == 2 && r.kind == 0)
			forget = r.number != 0;
	if (r.bad)
		return false;
	if (forget)
		reset();
	r = reader(delta);
	while (next(&r)) {
		if (r.tag != 3)
			continue;
		struct reader op = reader(r.bytes);
		while (next(&op))
			if (!operation(&op))
				return false;
		if (op.bad)
			return false;
	}
	return true;
}

/* Kubernetes' rules. */

bool pintle_tolerates(const struct pintle_pod *pod, const struct pintle_taint *taint) {
	for (const struct pintle_toleration *t = pod->tolerations; t; t = t->next) {
		if (t->effect.size && !pintle_equal(t->effect, taint->effect))
			continue;
		if (t->key.size && !pintle_equal(t->key, taint->key))
			continue;
		if (pintle_is(t->op, "Exists"))
			return true;
		if ((!t->op.size || pintle_is(t->op, "Equal")) && pintle_equal(t->value, taint->value))
			return true;
	}
	return false;
}

static bool integer(struct pintle_text t, int64_t *value) {
	uint32_t i = t.size && (t.bytes[0] == '-' || t.bytes[0] == '+');
	uint64_t v = 0, limit = (uint64_t)INT64_MAX + (i && t.bytes[0] == '-');
	if (i == t.size)
		return false;
	for (; i < t.size; i++) {
		uint32_t d = (uint32_t)(unsigned char)t.bytes[i] - '0';
		if (d > 9 || v > (limit - d) / 10)
			return false;
		v = 10 * v + d;
	}
	*value = t.bytes[0] == '-' ? (int64_t)(0 - v) : (int64_t)v;
	return true;
}

static bool among(const struct pintle_names *values, struct pintle_text value) {
	for (; values; values = values->next)
		if (pintle_equal(values->name, value))
			return true;
	return false;
}

static bool satisfied(const struct pintle_requirement *r, const struct pintle_pair *labels) {
	const struct pintle_pair *has = find(labels, r->key);
	if (pintle_is(r->op, "In"))
		return has && among(r->values, has->value);
	if (pintle_is(r->op, "NotIn"))
		return !has || !among(r->values, has->value);
	if (pintle_is(r->op, "Exists"))
		return has;
	if (pintle_is(r->op, "DoesNotExist"))
		return !has;
	int64_t have, bound;
	bool greater = pintle_is(r->op, "Gt");
	if ((!greater && !pintle_is(r->op, "Lt")) || !has || !r->values || r->values->next)
		return false;
	if (!integer(has->value, &have) || !integer(r->values->name, &bound))
		return false;
	return greater ? have > bound : have < bound;
}

bool pintle_matches_term(const struct pintle_term *t, const struct pintle_node *node) {
	if (!t->expressions && !t->fields)
		return false;
	for (const struct pintle_requirement *r = t->expressions; r; r = r->next)
		if (!satisfied(r, node->labels))
			return false;
	for (const struct pintle_requirement *r = t->fields; r; r = r->next) {
		bool in = pintle_is(r->op, "In");
		if (!pintle_is(r->key, "metadata.name") || (!in && !pintle_is(r->op, "NotIn")) || among(r->values, node->name) != in)
			return false;
	}
	return true;
}

bool pintle_matches_required(const struct pintle_affinity *a, const struct pintle_node *node) {
	if (!a || !a->has_required)
		return true;
	for (const struct pintle_term *t = a->required; t; t = t->next)
		if (pintle_matches_term(t, node))
			return true;
	return false;
}

bool pintle_matches_selector(const struct pintle_object *o, const struct pintle_pair *labels) {
	if (!o->has_selector)
		return false;
	for (const struct pintle_pair *p = o->match_labels; p; p = p->next) {
		const struct pintle_pair *has = find(labels, p->key);
		if (!has || !pintle_equal(has->value, p->value))
			return false;
	}
	for (const struct pintle_requirement *r = o->match_expressions; r; r = r->next)
		if (!satisfied(r, labels))
			return false;
	return true;
}

/* Words of verdicts: the same words have the same id. */

struct word {
	uint32_t plugin, id;
	struct pintle_text text;
	struct word *next;
};

static struct word *verdicts;
static uint32_t *given; /* a plugin: how many ids it gave */

static uint32_t verdict(uint32_t plugin, const char *why) {
	struct pintle_text t = text(why);
	for (struct word *w = verdicts; w; w = w->next)
		if (w->plugin == plugin && pintle_equal(w->text, t))
			return w->id;
	if (!given)
		given = take((pintle_plugin_count + 1) * sizeof *given);
	/* Words without end would fill the memory: the rest share the last id. */
	if (given[plugin] >= MAX_VERDICTS - 1)
		t = text("node(s) did not satisfy a predicate");
	if (given[plugin] == MAX_VERDICTS)
		return MAX_VERDICTS;
	struct word *w = take(sizeof *w);
	char *copy = take(t.size + 1);
	memcpy(copy, t.bytes, t.size);
	*w = (struct word){plugin, ++given[plugin], {copy, t.size}, verdicts};
	verdicts = w;
	return w->id;
}

/* The exports. */

static const char *fault = "";

static int32_t fail(int32_t status, const char *why) {
	fault = why;
	return status;
}

static int64_t span(struct pintle_text t) {
	return t.size ? (int64_t)((uint64_t)(uintptr_t)t.bytes << 32 | t.size) : 0;
}

static int32_t no_plugin(void) { return fail(PLUGIN, "no such plugin, or not of this kind"); }
static int32_t no_class(void) { return fail(CLASS, "no such class"); }
static int32_t no_node(void) { return fail(NODE, "no such node"); }

EXPORT(pintle_abi_version) int32_t pintle_abi_version(void) { return 1; }

EXPORT(pintle_alloc) void *pintle_alloc(uint32_t size) { return take(size ? size : 1); }

EXPORT(pintle_free) void pintle_free(void *p) { give(p); }

EXPORT(pintle_error) int64_t pintle_error(void) { return span(text(fault)); }

static char *description;
static uint32_t described, room;

static void say(const char *s) {
	for (; *s; s++) {
		if (described == room) {
			char *more = take(room = room ? 2 * room : 1024);
			memcpy(more, description, described);
			give(description);
			description = more;
		}
		description[described++] = *s;
	}
}

static void say_field(const char *name, const char *value) {
	say(",\"");
	say(name);
	say("\":\"");
	say(value);
	say("\"");
}

EXPORT(pintle_describe) int64_t pintle_describe(void) {
	described = 0;
	say("{\"contract\":1,\"plugins\":[");
	for (uint32_t i = 0; i < pintle_plugin_count; i++) {
		const struct pintle_plugin *p = &pintle_plugins[i];
		say(i ? ",{\"name\":\"" : "{\"name\":\"");
		say(p->name);
		say("\"");
		say_field("kind", p->kind == PINTLE_PREDICATE ? "predicate" : "priority");
		say_field("scope", p->scope ? p->scope : "node");
		if (p->kind == PINTLE_PRIORITY)
			say_field("normalize", p->normalize ? p->normalize : "none");
		if (p->reads) {
			say(",\"reads\":[\"");
			for (const char *s = p->reads; *s; s++)
				say(*s == ',' ? "\",\"" : (char[]){*s, 0});
			say("\"]");
		}
		say("}");
	}
	say("]}");
	return span((struct pintle_text){description, described});
}

EXPORT(pintle_configure) int32_t pintle_configure(uint32_t plugin, const char *json, uint32_t size) {
	if (plugin >= pintle_plugin_count)
		return no_plugin();
	const struct pintle_plugin *p = &pintle_plugins[plugin];
	if (!p->configure)
		return size ? fail(FAILED, "it takes no configuration") : 0;
	const char *wrong = p->configure(json, size);
	return wrong ? fail(FAILED, wrong) : 0;
}

EXPORT(pintle_apply) int32_t pintle_apply(const char *delta, uint32_t size) {
	return apply((struct pintle_text){delta, size}) ? 0 : fail(MALFORMED, "malformed delta");
}

EXPORT(pintle_filter) int32_t pintle_filter(uint32_t plugin, uint32_t class, const uint32_t *indexes, uint32_t n, uint32_t *out) {
	if (plugin >= pintle_plugin_count || pintle_plugins[plugin].kind != PINTLE_PREDICATE)
		return no_plugin();
	struct pintle_request r = {.pod = lookup(&classes, class)};
	if (!r.pod)
		return no_class();
	const char *last = NULL;
	uint32_t id = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (!(r.node = lookup(&nodes, indexes[i])))
			return no_node();
		const char *why = pintle_plugins[plugin].filter(&r);
		if (why && why != last)
			id = verdict(plugin, why);
		last = why;
		out[i] = why ? id : 0;
	}
	return 0;
}

EXPORT(pintle_score) int32_t pintle_score(uint32_t plugin, uint32_t class, const uint32_t *indexes, uint32_t n, int64_t *out) {
	if (plugin >= pintle_plugin_count || pintle_plugins[plugin].kind != PINTLE_PRIORITY)
		return no_plugin();
	struct pintle_request r = {.pod = lookup(&classes, class)};
	if (!r.pod)
		return no_class();
	for (uint32_t i = 0; i < n; i++) {
		if (!(r.node = lookup(&nodes, indexes[i])))
			return no_node();
		out[i] = pintle_plugins[plugin].score(&r);
	}
	return 0;
}

EXPORT(pintle_normalize) int32_t pintle_normalize(uint32_t plugin, uint32_t class, const uint32_t *indexes, uint32_t n, int64_t *scores) {
	if (plugin >= pintle_plugin_count || !pintle_plugins[plugin].rewrite)
		return no_plugin();
	const struct pintle_pod *pod = lookup(&classes, class);
	if (!pod)
		return no_class();
	const struct pintle_node **list = take((n + 1) * sizeof *list);
	for (uint32_t i = 0; i < n; i++) {
		if (!(list[i] = lookup(&nodes, indexes[i]))) {
			give(list);
			return no_node();
		}
	}
	pintle_plugins[plugin].rewrite(pod, list, scores, n);
	give(list);
	return 0;
}

EXPORT(pintle_reason) int64_t pintle_reason(uint32_t plugin, uint32_t id) {
	for (struct word *w = verdicts; w; w = w->next)
		if (w->plugin == plugin && w->id == id)
			return span(w->text);
	return 0;
}
