/*
 * What a predicate or a priority in C sees of Pintle. pintle.c implements
 * sdk/ABI.md with it; an author writes functions and fills in pintle_plugins.
 *
 * There is no C library: a module is freestanding. Everything that a request
 * points to belongs to the replica: read it during the call, change and keep
 * nothing. The same replica must give the same answer.
 */
#ifndef PINTLE_H
#define PINTLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Text is UTF-8 without an end mark. */
struct pintle_text {
	const char *bytes;
	uint32_t size;
};

/* Lists are chains; NULL is empty. */
struct pintle_pair {
	struct pintle_text key, value;
	struct pintle_pair *next;
};

struct pintle_names {
	struct pintle_text name;
	struct pintle_names *next;
};

struct pintle_quantity {
	struct pintle_text name;
	int64_t value;
	struct pintle_quantity *next;
};

struct pintle_resources {
	int64_t milli_cpu;
	int64_t memory;            /* bytes */
	int64_t ephemeral_storage; /* bytes */
	int64_t pods;              /* count; nodes only */
	struct pintle_quantity *scalar;
};

struct pintle_taint {
	struct pintle_text key, value, effect;
	struct pintle_taint *next;
};

struct pintle_toleration {
	struct pintle_text key, op, value, effect;
	struct pintle_toleration *next;
};

struct pintle_image {
	struct pintle_names *names;
	int64_t size_bytes;
	struct pintle_image *next;
};

struct pintle_requirement {
	struct pintle_text key, op; /* In, NotIn, Exists, DoesNotExist, Gt, Lt */
	struct pintle_names *values;
	struct pintle_requirement *next;
};

struct pintle_term {
	struct pintle_requirement *expressions, *fields;
	int32_t weight; /* of preferred terms */
	struct pintle_term *next;
};

struct pintle_affinity {
	bool has_required; /* with no required term it matches no node */
	struct pintle_term *required, *preferred;
};

struct pintle_container {
	struct pintle_text name, image;
	struct pintle_container *next;
};

struct pintle_host_port {
	int32_t port;
	struct pintle_text protocol, host_ip;
	struct pintle_host_port *next;
};

struct pintle_volume {
	struct pintle_text name, type, id;
	bool read_only;
	struct pintle_names *monitors;
	struct pintle_volume *next;
};

struct pintle_owner {
	struct pintle_text api_version, kind, name, uid;
	bool controller;
	struct pintle_owner *next;
};

struct pintle_pod {
	struct pintle_text namespace, name, uid, node_name, scheduler_name;
	struct pintle_pair *labels, *annotations, *node_selector;
	struct pintle_affinity *node_affinity; /* NULL: it asks for nothing */
	struct pintle_toleration *tolerations;
	struct pintle_container *containers, *init_containers;
	struct pintle_host_port *host_ports;
	struct pintle_volume *volumes;
	struct pintle_owner *owners;
	struct pintle_resources requests; /* of the whole pod */
	int64_t non_zero_milli_cpu, non_zero_memory;
	int32_t priority;
	bool terminating;
	int64_t start_time_unix;
	struct pintle_pod *next; /* on the same node */
	struct pintle_arena *arena;
};

struct pintle_node {
	uint32_t index;
	struct pintle_text name, uid;
	struct pintle_pair *labels, *annotations;
	bool unschedulable;
	struct pintle_taint *taints;
	struct pintle_resources capacity, allocatable;
	struct pintle_image *images;
	/* What occupies it: the sums of its pods, and the pods. */
	int64_t requested_milli_cpu, requested_memory, requested_ephemeral_storage, requested_pods;
	int64_t non_zero_milli_cpu, non_zero_memory;
	struct pintle_pod *pods;
	struct pintle_arena *arena;
};

struct pintle_object {
	struct pintle_text kind, namespace, name;
	struct pintle_pair *labels;
	bool has_selector;
	struct pintle_pair *match_labels;
	struct pintle_requirement *match_expressions;
	struct pintle_text volume_name;        /* of a claim */
	struct pintle_volume *volume;          /* of a persistent volume */
	struct pintle_affinity *node_affinity; /* of a persistent volume */
	struct pintle_object *next;            /* of the same bucket: use pintle_next_object */
	struct pintle_arena *arena;
};

/* A question: this pod on this node. */
struct pintle_request {
	const struct pintle_pod *pod;
	const struct pintle_node *node;
};

enum pintle_kind { PINTLE_PREDICATE, PINTLE_PRIORITY };

struct pintle_plugin {
	const char *name;
	enum pintle_kind kind;
	const char *scope;     /* "node" (NULL means it) or "cluster" */
	const char *normalize; /* priorities: "none" (NULL), "max", "reverse-max", "plugin" */
	const char *reads;     /* kinds of objects, as "Service,ReplicaSet"; NULL: none */
	/* NULL where the pod fits, else why not, in a text that stays as it is; several reasons are lines. */
	const char *(*filter)(const struct pintle_request *r);
	/* The raw score. */
	int64_t (*score)(const struct pintle_request *r);
	/* Rewrites scores in place; goes with "plugin". */
	void (*rewrite)(const struct pintle_pod *pod, const struct pintle_node *const *nodes, int64_t *scores, uint32_t n);
	/* Takes its configuration, which size 0 sets back; NULL, or what is wrong. */
	const char *(*configure)(const char *json, uint32_t size);
};

/* What the bundle holds; the author defines both. */
extern const struct pintle_plugin pintle_plugins[];
extern const uint32_t pintle_plugin_count;

/* Texts. */
bool pintle_is(struct pintle_text a, const char *b);
bool pintle_equal(struct pintle_text a, struct pintle_text b);
/* The value of a key; bytes is NULL where there is none. */
struct pintle_text pintle_get(const struct pintle_pair *list, const char *key);

/* The replica: nodes by index, NULL where there is none; node_count bounds it. */
uint32_t pintle_node_count(void);
const struct pintle_node *pintle_node(uint32_t index);
/* An object that the plugin reads, or NULL. */
const struct pintle_object *pintle_object(const char *kind, struct pintle_text namespace, struct pintle_text name);
/* The objects one after the other; NULL begins and ends. */
const struct pintle_object *pintle_next_object(const struct pintle_object *after);

/* Kubernetes' rules. */
bool pintle_tolerates(const struct pintle_pod *pod, const struct pintle_taint *taint);
bool pintle_matches_required(const struct pintle_affinity *a, const struct pintle_node *node);
bool pintle_matches_term(const struct pintle_term *t, const struct pintle_node *node);
bool pintle_matches_selector(const struct pintle_object *o, const struct pintle_pair *labels);

#endif
