// What a controller and a mutating plugin can ask for and say, all of it.
export * from "./pintle";
import * as host from "./host";
import { find, findNumber, findString, items, quote } from "./json";
import { Controller, Key, Mutator, Result, Review, register } from "./pintle";

function see(key: Key): Result {
  const seen = host.get("v1/configmaps", key.namespace, key.name);
  if (seen.code != 0) return Result.error(seen.message);
  const text = findString(seen.object, "/data/text");
  const pods = host.list("v1/pods", key.namespace, "app=web");
  const list = items(pods.object, "/items");
  for (let i = 0; i < list.length; i++) {
    host.patch("v1/pods", key.namespace, findString(list[i], "/metadata/name"), "status", "merge",
      '{"metadata":{"labels":{"seen":' + quote(text) + "}}}");
  }
  if (findString(pods.object, "/items/1/metadata/name") != "b" || find(pods.object, "/items/2") != "") {
    return Result.error("the second of two items is b");
  }
  host.update("v1/configmaps", key.namespace, "", seen.object);
  host.event(seen.object, "Normal", "Seen", list.length.toString() + " pods of " + findNumber(pods.object, "/percent", 0).toString() + "%");
  host.log(host.WARN, text);
  if (host.now() != 0) return Result.error("it is not 1970");
  const gone = host.remove("v1/configmaps", key.namespace, key.name);
  if (gone.code != 0) return Result.error(gone.code.toString() + " " + gone.reason + ": " + gone.message);
  return Result.after(1500);
}

function change(r: Review): void {
  const x = findString(r.object, "/metadata/annotations/x~1y");
  if (x == "no") r.refuse('no is "no"');
  r.warn('a "warning"');
  r.set("/metadata/labels/a~1b", quote(x));
  r.remove("/spec/x");
}

const seer = new Controller("seer", "v1/configmaps", see);
seer.owns = ["v1/pods", "apps/v1/replicasets"];
register(seer);

const changer = new Mutator("changer", ["v1/pods"], change);
changer.configure = (json: string): string | null => (json == "" || find(json, "/size") != "" ? null : "size is missing");
register(changer);
