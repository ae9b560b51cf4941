/* The module's side of sdk/ABI.md, version 1: controllers and admission plugins. */
#include "pintle.h"
#include "memory.h"

#include <stdarg.h>

#define EXPORT(name) __attribute__((export_name(#name)))
#define HOST(name) __attribute__((import_module("pintle_host"), import_name(#name)))

enum { PLUGIN = -1, FAILED = -6 };

/* What lives until the present call returns. */

static struct held {
	struct held *next;
	uint64_t data[];
} *holding;

static void *hold(uint32_t size) {
	struct held *h = take(size + sizeof *h);
	h->next = holding;
	holding = h;
	return h->data;
}

static void release(void) {
	while (holding) {
		struct held *next = holding->next;
		give(holding);
		holding = next;
	}
}

/* Texts. */

static struct pintle_text text(const char *s) {
	return s ? (struct pintle_text){s, length(s)} : (struct pintle_text){0};
}

bool pintle_equal(struct pintle_text a, struct pintle_text b) {
	if (a.size != b.size)
		return false;
	for (uint32_t i = 0; i < a.size; i++)
		if (a.bytes[i] != b.bytes[i])
			return false;
	return true;
}

bool pintle_is(struct pintle_text a, const char *b) { return pintle_equal(a, text(b)); }

struct builder {
	char *bytes;
	uint32_t size, room;
};

static void add(struct builder *b, const char *bytes, uint32_t size) {
	if (b->size + size > b->room) {
		uint32_t room = 2 * (b->size + size) + 64;
		char *more = hold(room);
		memcpy(more, b->bytes, b->size);
		b->bytes = more;
		b->room = room;
	}
	memcpy(b->bytes + b->size, bytes, size);
	b->size += size;
}

static void say(struct builder *b, const char *s) { add(b, s, length(s)); }

static void quote(struct builder *b, struct pintle_text t) {
	say(b, "\"");
	for (uint32_t i = 0; i < t.size; i++) {
		unsigned char c = (unsigned char)t.bytes[i];
		if (c == '"' || c == '\\') {
			add(b, (char[]){'\\', (char)c}, 2);
		} else if (c < 0x20) {
			const char *hex = "0123456789abcdef";
			add(b, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
		} else {
			add(b, t.bytes + i, 1);
		}
	}
	say(b, "\"");
}

static void number(struct builder *b, int64_t v) {
	char digits[20];
	uint32_t at = sizeof digits;
	uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	do
		digits[--at] = (char)('0' + left % 10);
	while (left /= 10);
	if (v < 0)
		digits[--at] = '-';
	add(b, digits + at, sizeof digits - at);
}

static struct pintle_text built(const struct builder *b) { return (struct pintle_text){b->bytes ? b->bytes : "", b->size}; }

struct pintle_text pintle_format(const char *format, ...) {
	struct builder b = {0};
	va_list args;
	va_start(args, format);
	for (; *format; format++) {
		if (*format != '%' || !format[1]) {
			add(&b, format, 1);
			continue;
		}
		switch (*++format) {
		case 's':
			say(&b, va_arg(args, const char *));
			break;
		case 't': {
			struct pintle_text t = va_arg(args, struct pintle_text);
			add(&b, t.bytes, t.size);
			break;
		}
		case 'q':
			quote(&b, va_arg(args, struct pintle_text));
			break;
		case 'd':
			number(&b, va_arg(args, int64_t));
			break;
		default:
			add(&b, format, 1);
		}
	}
	va_end(args);
	return built(&b);
}

/* JSON, which the host has checked; what is not JSON is nowhere. */

struct cursor {
	const char *at, *end;
};

static struct cursor cursor(struct pintle_text t) { return (struct cursor){t.bytes, t.bytes + t.size}; }

static char peek(struct cursor *c) {
	while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\r' || *c->at == '\t'))
		c->at++;
	return c->at < c->end ? *c->at : 0;
}

static bool pass(struct cursor *c, char want) {
	if (peek(c) != want)
		return false;
	c->at++;
	return true;
}

static void pass_string(struct cursor *c) {
	for (c->at++; c->at < c->end; c->at++) {
		if (*c->at == '\\')
			c->at++;
		else if (*c->at == '"')
			break;
	}
	c->at = c->at < c->end ? c->at + 1 : c->end;
}

/* Passes one value and answers it. */
static struct pintle_text value(struct cursor *c) {
	uint32_t depth = 0;
	peek(c);
	const char *from = c->at;
	while (c->at < c->end) {
		char ch = *c->at;
		if (!depth && (ch == ',' || ch == ']' || ch == '}' || ch == ' ' || ch == '\n' || ch == '\r' || ch == '\t'))
			break;
		if (ch == '"') {
			pass_string(c);
		} else {
			if (ch == '{' || ch == '[')
				depth++;
			if (ch == '}' || ch == ']')
				depth--;
			c->at++;
		}
		if (!depth && (ch == '"' || ch == '}' || ch == ']'))
			break;
	}
	return (struct pintle_text){from, (uint32_t)(c->at - from)};
}

static uint32_t hex(const char *s) {
	uint32_t v = 0;
	for (int i = 0; i < 4; i++) {
		uint32_t d = (uint32_t)(s[i] <= '9' ? s[i] - '0' : (s[i] | 0x20) - 'a' + 10);
		v = v << 4 | (d & 15);
	}
	return v;
}

static void add_rune(struct builder *b, uint32_t r) {
	char utf8[4];
	uint32_t n = r < 0x80 ? 1 : r < 0x800 ? 2 : r < 0x10000 ? 3 : 4;
	for (uint32_t i = n; i-- > 1; r >>= 6)
		utf8[i] = (char)(0x80 | (r & 0x3f));
	utf8[0] = (char)(n == 1 ? r : (0xf00u >> n & 0xff) | r);
	add(b, utf8, n);
}

/* A string of JSON without quotes and escapes. */
static struct pintle_text decoded(struct pintle_text json) {
	if (json.size < 2 || *json.bytes != '"')
		return (struct pintle_text){0};
	struct builder b = {0};
	const char *end = json.bytes + json.size - 1;
	for (const char *s = json.bytes + 1; s < end; s++) {
		if (*s != '\\') {
			add(&b, s, 1);
			continue;
		}
		switch (*++s) {
		case 'b':
			say(&b, "\b");
			break;
		case 'f':
			say(&b, "\f");
			break;
		case 'n':
			say(&b, "\n");
			break;
		case 'r':
			say(&b, "\r");
			break;
		case 't':
			say(&b, "\t");
			break;
		case 'u': {
			if (end - s < 5)
				return built(&b);
			uint32_t r = hex(s + 1);
			s += 4;
			if (r >> 10 == 0x36 && end - s > 6 && s[1] == '\\' && s[2] == 'u') {
				r = 0x10000 + ((r & 0x3ff) << 10 | (hex(s + 3) & 0x3ff));
				s += 6;
			}
			add_rune(&b, r);
			break;
		}
		default:
			add(&b, s, 1);
		}
	}
	return built(&b);
}

/* The next part of a pointer, without ~1 and ~0. */
static struct pintle_text part(const char **pointer) {
	struct builder b = {0};
	const char *s = *pointer + 1;
	for (; *s && *s != '/'; s++) {
		if (*s == '~' && (s[1] == '0' || s[1] == '1'))
			say(&b, *++s == '0' ? "~" : "/");
		else
			add(&b, s, 1);
	}
	*pointer = s;
	return built(&b);
}

struct pintle_text pintle_find(struct pintle_text json, const char *pointer) {
	while (*pointer == '/') {
		struct pintle_text want = part(&pointer), found = {0};
		struct cursor c = cursor(json);
		if (pass(&c, '{')) {
			while (peek(&c) == '"') {
				struct pintle_text key = decoded(value(&c));
				if (!pass(&c, ':'))
					break;
				struct pintle_text v = value(&c);
				if (pintle_equal(key, want)) {
					found = v;
					break;
				}
				pass(&c, ',');
			}
		} else if (peek(&c) == '[') {
			struct pintle_text item;
			for (int64_t i = pintle_find_number(want, "", -1); i >= 0; i--)
				if (!pintle_next(&json, &item))
					break;
				else if (i == 0)
					found = item;
		}
		if (!found.bytes)
			return found;
		json = found;
	}
	return json;
}

struct pintle_text pintle_find_string(struct pintle_text json, const char *pointer) {
	return decoded(pintle_find(json, pointer));
}

int64_t pintle_find_number(struct pintle_text json, const char *pointer, int64_t otherwise) {
	struct pintle_text t = pintle_find(json, pointer);
	uint32_t i = t.size && *t.bytes == '-';
	if (i == t.size || t.bytes[i] < '0' || t.bytes[i] > '9')
		return otherwise;
	uint64_t v = 0;
	for (; i < t.size && t.bytes[i] >= '0' && t.bytes[i] <= '9'; i++)
		v = 10 * v + (uint64_t)(t.bytes[i] - '0');
	return *t.bytes == '-' ? (int64_t)(0 - v) : (int64_t)v;
}

bool pintle_next(struct pintle_text *array, struct pintle_text *item) {
	struct cursor c = cursor(*array);
	if (!pass(&c, '['))
		pass(&c, ',');
	char first = peek(&c);
	if (!first || first == ']')
		return false;
	*item = value(&c);
	*array = (struct pintle_text){c.at, (uint32_t)(c.end - c.at)};
	return item->size > 0;
}

/* Host functions. */

HOST(get) uint32_t host_get(const char *request, uint32_t size);
HOST(list) uint32_t host_list(const char *request, uint32_t size);
HOST(create) uint32_t host_create(const char *request, uint32_t size);
HOST(update) uint32_t host_update(const char *request, uint32_t size);
HOST(patch) uint32_t host_patch(const char *request, uint32_t size);
HOST(delete) uint32_t host_delete(const char *request, uint32_t size);
HOST(event) uint32_t host_event(const char *request, uint32_t size);
HOST(log) void host_log(const char *record, uint32_t size);
HOST(now) int64_t host_now(void);
HOST(answer) void host_answer(char *into, uint32_t size);

static void field(struct builder *b, const char *name, struct pintle_text t) {
	if (!t.size)
		return;
	say(b, b->size ? ",\"" : "{\"");
	say(b, name);
	say(b, "\":");
	quote(b, t);
}

static struct builder about(const char *resource, struct pintle_text namespace, struct pintle_text name) {
	struct builder b = {0};
	field(&b, "resource", text(resource));
	field(&b, "namespace", namespace);
	field(&b, "name", name);
	return b;
}

/* What a host function answered, whose size it said. */
static struct pintle_answer answered(uint32_t size) {
	char *bytes = hold(size + 1);
	if (size)
		host_answer(bytes, size);
	struct pintle_text t = {bytes, size}, status = pintle_find(t, "/status");
	if (!status.bytes)
		return (struct pintle_answer){.object = pintle_find(t, "/object")};
	return (struct pintle_answer){
		.code = (int32_t)pintle_find_number(status, "/code", 500),
		.reason = pintle_find_string(status, "/reason"),
		.message = pintle_find_string(status, "/message"),
	};
}

struct pintle_answer pintle_get(const char *resource, struct pintle_text namespace, struct pintle_text name) {
	struct builder b = about(resource, namespace, name);
	say(&b, "}");
	return answered(host_get(b.bytes, b.size));
}

struct pintle_answer pintle_list(const char *resource, struct pintle_text namespace, const char *selector) {
	struct builder b = about(resource, namespace, text(NULL));
	field(&b, "labelSelector", text(selector));
	say(&b, "}");
	return answered(host_list(b.bytes, b.size));
}

static void with(struct builder *b, const char *name, struct pintle_text json) {
	say(b, ",\"");
	say(b, name);
	say(b, "\":");
	add(b, json.bytes, json.size);
	say(b, "}");
}

struct pintle_answer pintle_create(const char *resource, struct pintle_text namespace, struct pintle_text object) {
	struct builder b = about(resource, namespace, text(NULL));
	with(&b, "object", object);
	return answered(host_create(b.bytes, b.size));
}

struct pintle_answer pintle_update(const char *resource, struct pintle_text namespace, const char *subresource, struct pintle_text object) {
	struct builder b = about(resource, namespace, text(NULL));
	field(&b, "subresource", text(subresource));
	with(&b, "object", object);
	return answered(host_update(b.bytes, b.size));
}

struct pintle_answer pintle_patch(const char *resource, struct pintle_text namespace, struct pintle_text name, const char *subresource,
	const char *type, struct pintle_text patch) {
	struct builder b = about(resource, namespace, name);
	field(&b, "subresource", text(subresource));
	field(&b, "patchType", text(type));
	with(&b, "patch", patch);
	return answered(host_patch(b.bytes, b.size));
}

struct pintle_answer pintle_delete(const char *resource, struct pintle_text namespace, struct pintle_text name) {
	struct builder b = about(resource, namespace, name);
	say(&b, "}");
	return answered(host_delete(b.bytes, b.size));
}

struct pintle_answer pintle_event(struct pintle_text object, const char *type, const char *reason, struct pintle_text message) {
	struct builder b = {0};
	field(&b, "apiVersion", pintle_find_string(object, "/apiVersion"));
	field(&b, "kind", pintle_find_string(object, "/kind"));
	field(&b, "namespace", pintle_find_string(object, "/metadata/namespace"));
	field(&b, "name", pintle_find_string(object, "/metadata/name"));
	field(&b, "uid", pintle_find_string(object, "/metadata/uid"));
	field(&b, "type", text(type));
	field(&b, "reason", text(reason));
	field(&b, "message", message);
	say(&b, "}");
	return answered(host_event(b.bytes, b.size));
}

void pintle_log(enum pintle_level level, struct pintle_text message) {
	struct pintle_text record = pintle_format("{\"level\":%d,\"message\":%q}", (int64_t)level, message);
	host_log(record.bytes, record.size);
}

int64_t pintle_now(void) { return host_now(); }

/* What the present call says. */

static char fault[4096];
static uint32_t fault_size;

static int32_t fail(int32_t status, struct pintle_text why) {
	fault_size = why.size < sizeof fault ? why.size : sizeof fault;
	memcpy(fault, why.bytes, fault_size);
	return status;
}

int64_t pintle_failed(struct pintle_text why) { return fail(FAILED, why); }

static struct builder changes, warnings;
static struct pintle_text refused;

void pintle_refuse(const char *why) { refused = pintle_format("%s", why); }

void pintle_warn(const char *words) {
	say(&warnings, warnings.size ? "," : "");
	quote(&warnings, text(words));
}

void pintle_set(const char *pointer, struct pintle_text json) {
	struct pintle_text t = pintle_format("%s{\"op\":\"add\",\"path\":%q,\"value\":%t}", changes.size ? "," : "", text(pointer), json);
	add(&changes, t.bytes, t.size);
}

void pintle_remove(const char *pointer) {
	struct pintle_text t = pintle_format("%s{\"op\":\"remove\",\"path\":%q}", changes.size ? "," : "", text(pointer));
	add(&changes, t.bytes, t.size);
}

static void base64(struct builder *b, struct pintle_text t) {
	const char *letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *s = (const unsigned char *)t.bytes;
	for (uint32_t i = 0; i < t.size; i += 3) {
		uint32_t n = t.size - i;
		uint32_t v = (uint32_t)s[i] << 16 | (n > 1 ? (uint32_t)s[i + 1] << 8 : 0) | (n > 2 ? s[i + 2] : 0);
		add(b, (char[]){letters[v >> 18], letters[v >> 12 & 63], n > 1 ? letters[v >> 6 & 63] : '=', n > 2 ? letters[v & 63] : '='}, 4);
	}
}

/* The exports. */

static int64_t span(struct pintle_text t) {
	return t.size ? (int64_t)((uint64_t)(uintptr_t)t.bytes << 32 | t.size) : 0;
}

static int32_t no_plugin(void) { return fail(PLUGIN, text("no such plugin, or not of this kind")); }

EXPORT(pintle_abi_version) int32_t pintle_abi_version(void) { return 1; }

EXPORT(pintle_alloc) void *pintle_alloc(uint32_t size) { return take(size ? size : 1); }

EXPORT(pintle_free) void pintle_free(void *p) { give(p); }

EXPORT(pintle_error) int64_t pintle_error(void) { return span((struct pintle_text){fault, fault_size}); }

/* "a,b" as ["a","b"]. */
static void say_list(struct builder *b, const char *name, const char *list) {
	say(b, name);
	say(b, "[\"");
	for (; *list; list++)
		say(b, *list == ',' ? "\",\"" : (char[]){*list, 0});
	say(b, "\"]");
}

EXPORT(pintle_describe) int64_t pintle_describe(void) {
	release();
	struct builder b = {0};
	bool admits = false;
	for (uint32_t i = 0; i < pintle_plugin_count; i++) {
		const struct pintle_plugin *p = &pintle_plugins[i];
		say(&b, i ? ",{\"name\":" : "{\"name\":");
		quote(&b, text(p->name));
		if (p->kind == PINTLE_CONTROLLER) {
			say(&b, ",\"kind\":\"controller\",\"for\":");
			quote(&b, text(p->watches));
			if (p->owns)
				say_list(&b, ",\"owns\":", p->owns);
		} else {
			admits = true;
			say(&b, ",\"kind\":\"admission\",\"phase\":");
			quote(&b, text(p->kind == PINTLE_MUTATOR ? "mutating" : "validating"));
			say_list(&b, ",\"rules\":[{\"operations\":", p->operations ? p->operations : "CREATE,UPDATE");
			say_list(&b, ",\"resources\":", p->resources);
			say(&b, "}]");
		}
		say(&b, "}");
	}
	/* Admission is of the second contract. */
	return span(pintle_format("{\"contract\":%d,\"plugins\":[%t]}", (int64_t)(admits ? 2 : 1), built(&b)));
}

EXPORT(pintle_configure) int32_t pintle_configure(uint32_t plugin, const char *json, uint32_t size) {
	release();
	if (plugin >= pintle_plugin_count)
		return no_plugin();
	const struct pintle_plugin *p = &pintle_plugins[plugin];
	if (!p->configure)
		return size ? fail(FAILED, text("it takes no configuration")) : 0;
	const char *wrong = p->configure((struct pintle_text){size ? json : NULL, size});
	return wrong ? fail(FAILED, text(wrong)) : 0;
}

EXPORT(pintle_reconcile) int64_t pintle_reconcile(uint32_t plugin, const char *key, uint32_t size) {
	release();
	if (plugin >= pintle_plugin_count || pintle_plugins[plugin].kind != PINTLE_CONTROLLER)
		return no_plugin();
	struct pintle_text t = {key, size};
	return pintle_plugins[plugin].reconcile((struct pintle_key){pintle_find_string(t, "/namespace"), pintle_find_string(t, "/name")});
}

/* A value that is there and not null. */
static struct pintle_text some(struct pintle_text t) { return pintle_is(t, "null") ? (struct pintle_text){0} : t; }

EXPORT(pintle_admit) int64_t pintle_admit(uint32_t plugin, const char *request, uint32_t size) {
	release();
	changes = warnings = (struct builder){0};
	refused = (struct pintle_text){0};
	if (plugin >= pintle_plugin_count || pintle_plugins[plugin].kind == PINTLE_CONTROLLER) {
		no_plugin();
		return 0;
	}
	const struct pintle_plugin *p = &pintle_plugins[plugin];
	struct pintle_review r = {.request = {request, size}};
	r.operation = pintle_find_string(r.request, "/operation");
	r.namespace = pintle_find_string(r.request, "/namespace");
	r.name = pintle_find_string(r.request, "/name");
	r.object = some(pintle_find(r.request, "/object"));
	r.old = some(pintle_find(r.request, "/oldObject"));
	if (!r.operation.size) {
		fail(FAILED, text("the request is no AdmissionRequest"));
		return 0;
	}
	p->review(&r);
	if (changes.size && p->kind != PINTLE_MUTATOR) {
		fail(FAILED, text("a validator changed the object; make it a PINTLE_MUTATOR"));
		return 0;
	}
	struct builder b = {0};
	if (refused.bytes) {
		struct pintle_text status = pintle_format("{\"allowed\":false,\"status\":{\"code\":403,\"reason\":\"Forbidden\",\"message\":%q}", refused);
		add(&b, status.bytes, status.size);
	} else {
		say(&b, "{\"allowed\":true");
		if (changes.size) {
			say(&b, ",\"patchType\":\"JSONPatch\",\"patch\":\"");
			base64(&b, pintle_format("[%t]", built(&changes)));
			say(&b, "\"");
		}
	}
	struct pintle_text rest = pintle_format(warnings.size ? ",\"warnings\":[%t]}" : "}", built(&warnings));
	add(&b, rest.bytes, rest.size);
	return span(built(&b));
}

/* What only plugins of the scheduler need. */

EXPORT(pintle_apply) int32_t pintle_apply(const char *delta, uint32_t size) {
	(void)delta, (void)size;
	return 0;
}

EXPORT(pintle_filter) int32_t pintle_filter(uint32_t plugin, uint32_t class, const uint32_t *indexes, uint32_t n, uint32_t *out) {
	(void)plugin, (void)class, (void)indexes, (void)n, (void)out;
	return no_plugin();
}

EXPORT(pintle_score) int32_t pintle_score(uint32_t plugin, uint32_t class, const uint32_t *indexes, uint32_t n, int64_t *out) {
	(void)plugin, (void)class, (void)indexes, (void)n, (void)out;
	return no_plugin();
}

EXPORT(pintle_normalize) int32_t pintle_normalize(uint32_t plugin, uint32_t class, const uint32_t *indexes, uint32_t n, int64_t *scores) {
	(void)plugin, (void)class, (void)indexes, (void)n, (void)scores;
	return no_plugin();
}

EXPORT(pintle_reason) int64_t pintle_reason(uint32_t plugin, uint32_t id) {
	(void)plugin, (void)id;
	return 0;
}
