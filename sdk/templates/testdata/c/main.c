/* What a controller and a mutating plugin can ask for and say, all of it. */
#include "pintle.h"

static struct pintle_text words(const char *s) { return pintle_format("%s", s); }

static int64_t see(struct pintle_key key) {
	struct pintle_answer seen = pintle_get("v1/configmaps", key.namespace, key.name);
	if (seen.code)
		return pintle_failed(seen.message);
	struct pintle_text text = pintle_find_string(seen.object, "/data/text");
	struct pintle_answer pods = pintle_list("v1/pods", key.namespace, "app=web");
	struct pintle_text items = pintle_find(pods.object, "/items"), item;
	int64_t n = 0;
	for (; pintle_next(&items, &item); n++)
		pintle_patch("v1/pods", key.namespace, pintle_find_string(item, "/metadata/name"), "status", "merge",
			pintle_format("{\"metadata\":{\"labels\":{\"seen\":%q}}}", text));
	if (!pintle_is(pintle_find_string(pods.object, "/items/1/metadata/name"), "b") || pintle_find(pods.object, "/items/2").bytes)
		return pintle_failed(words("the second of two items is b"));
	pintle_update("v1/configmaps", key.namespace, NULL, seen.object);
	pintle_event(seen.object, "Normal", "Seen", pintle_format("%d pods of %d%%", n, pintle_find_number(pods.object, "/percent", 0)));
	pintle_log(PINTLE_WARN, text);
	if (pintle_now() != 0)
		return pintle_failed(words("it is not 1970"));
	struct pintle_answer gone = pintle_delete("v1/configmaps", key.namespace, key.name);
	if (gone.code)
		return pintle_failed(pintle_format("%d %t: %t", (int64_t)gone.code, gone.reason, gone.message));
	return PINTLE_AGAIN(1500);
}

static void change(const struct pintle_review *r) {
	struct pintle_text x = pintle_find_string(r->object, "/metadata/annotations/x~1y");
	if (pintle_is(x, "no"))
		pintle_refuse("no is \"no\"");
	pintle_warn("a \"warning\"");
	pintle_set("/metadata/labels/a~1b", pintle_format("%q", x));
	pintle_remove("/spec/x");
}

static const char *configured(struct pintle_text json) {
	if (!json.size || pintle_find(json, "/size").size)
		return NULL;
	return "size is missing";
}

const struct pintle_plugin pintle_plugins[] = {
	{.name = "seer", .kind = PINTLE_CONTROLLER, .watches = "v1/configmaps", .owns = "v1/pods,apps/v1/replicasets", .reconcile = see},
	{.name = "changer", .kind = PINTLE_MUTATOR, .resources = "v1/pods", .review = change, .configure = configured},
};
const uint32_t pintle_plugin_count = sizeof pintle_plugins / sizeof *pintle_plugins;
