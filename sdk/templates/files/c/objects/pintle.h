/*
 * What a controller or an admission plugin in C sees of Pintle. pintle.c
 * implements sdk/ABI.md with it; an author writes functions and fills in
 * pintle_plugins.
 *
 * There is no C library: a module is freestanding. Texts that functions of this
 * page answer stay until the plugin's function returns; keep copies of nothing.
 */
#ifndef PINTLE_H
#define PINTLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Text is UTF-8 without an end mark; bytes is NULL where there is none. */
struct pintle_text {
	const char *bytes;
	uint32_t size;
};

bool pintle_is(struct pintle_text a, const char *b);
bool pintle_equal(struct pintle_text a, struct pintle_text b);

/* Makes a text: %s is a string of C, %t a pintle_text, %q a pintle_text as a
 * string of JSON, quotes included, %d an int64_t, %% a percent sign. */
struct pintle_text pintle_format(const char *format, ...);

/* JSON. A pointer is that of RFC 6901, as /metadata/labels/example.com~1tier. */

/* The value at a pointer, as JSON; no text where there is none. */
struct pintle_text pintle_find(struct pintle_text json, const char *pointer);
/* The string at a pointer, decoded; no text where there is none. */
struct pintle_text pintle_find_string(struct pintle_text json, const char *pointer);
/* The number at a pointer without what is behind its point, or otherwise. */
int64_t pintle_find_number(struct pintle_text json, const char *pointer, int64_t otherwise);
/* Goes through the values of an array: each call takes one off its front. */
bool pintle_next(struct pintle_text *array, struct pintle_text *value);

/* Controllers. */

/* What the API answered: an object, or a code such as 404 with a reason (NotFound)
 * and a message. code is 0 where it was done. */
struct pintle_answer {
	int32_t code;
	struct pintle_text object, reason, message;
};

/* The host's functions; the manifest names those that are used. A resource is
 * v1/configmaps or apps/v1/deployments. A namespace of NULL is that of objects
 * without one. */
struct pintle_answer pintle_get(const char *resource, struct pintle_text namespace, struct pintle_text name);
/* selector is one of labels, or NULL; the answer is a list, whose items are at /items. */
struct pintle_answer pintle_list(const char *resource, struct pintle_text namespace, const char *selector);
struct pintle_answer pintle_create(const char *resource, struct pintle_text namespace, struct pintle_text object);
/* subresource is status, or NULL. */
struct pintle_answer pintle_update(const char *resource, struct pintle_text namespace, const char *subresource, struct pintle_text object);
/* type is json, merge, strategic or apply. */
struct pintle_answer pintle_patch(const char *resource, struct pintle_text namespace, struct pintle_text name, const char *subresource,
	const char *type, struct pintle_text patch);
struct pintle_answer pintle_delete(const char *resource, struct pintle_text namespace, struct pintle_text name);
/* An event about an object as get answers it; type is Normal or Warning. */
struct pintle_answer pintle_event(struct pintle_text object, const char *type, const char *reason, struct pintle_text message);

enum pintle_level { PINTLE_DEBUG = -4, PINTLE_INFO = 0, PINTLE_WARN = 4, PINTLE_ERROR = 8 };
void pintle_log(enum pintle_level level, struct pintle_text message);
/* Nanoseconds since 1970. */
int64_t pintle_now(void);

/* The object that a controller is asked about; it may be gone. */
struct pintle_key {
	struct pintle_text namespace, name;
};

/* What a controller makes of a key: PINTLE_DONE, PINTLE_AGAIN(milliseconds), or
 * what pintle_failed answers. */
#define PINTLE_DONE 0
#define PINTLE_AGAIN(milliseconds) (milliseconds)
int64_t pintle_failed(struct pintle_text why);

/* Admission plugins. */

/* A request as admission webhooks get it; object is what shall be stored, old
 * what is, both none where they do not apply. */
struct pintle_review {
	struct pintle_text request, object, old, operation, namespace, name;
};

/* A review that refuses nothing allows the request. */
void pintle_refuse(const char *why);
void pintle_warn(const char *text);
/* Mutating plugins: puts JSON at a pointer, whose parent must be there. */
void pintle_set(const char *pointer, struct pintle_text json);
void pintle_remove(const char *pointer);

enum pintle_kind { PINTLE_CONTROLLER, PINTLE_VALIDATOR, PINTLE_MUTATOR };

struct pintle_plugin {
	const char *name;
	enum pintle_kind kind;
	/* Controllers: the resource whose objects it is asked about, and those whose
	 * owner it is asked about as well, as "apps/v1/replicasets,v1/pods"; NULL: none. */
	const char *watches, *owns;
	int64_t (*reconcile)(struct pintle_key key);
	/* Admission plugins: "CREATE,UPDATE" (NULL means it) of "v1/pods,apps/v1/deployments". */
	const char *operations, *resources;
	void (*review)(const struct pintle_review *r);
	/* Takes its configuration as JSON, none where it is set back; NULL, or what is wrong. */
	const char *(*configure)(struct pintle_text json);
};

/* What the module holds; the author defines both. */
extern const struct pintle_plugin pintle_plugins[];
extern const uint32_t pintle_plugin_count;

#endif
