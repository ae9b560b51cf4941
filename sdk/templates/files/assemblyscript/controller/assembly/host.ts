// What a controller may ask of its host (sdk/ABI.md, "Controllers"). The manifest
// names the functions that are used; the plugin's rules say of which objects.
//
// A resource is v1/configmaps or apps/v1/deployments; the namespace is empty for
// objects without one, and objects are JSON.
import { find, findNumber, findString, quote } from "./json";

/** What the API answered: an object, or a code such as 404 with a reason (NotFound) and a message. */
export class Answer {
  code: i32 = 0; // 0: it was done
  object: string = "";
  reason: string = "";
  message: string = "";
}

export function get(resource: string, namespace: string, name: string): Answer {
  const r = encode(about(resource, namespace, name));
  return answered(hostGet(changetype<usize>(r), r.byteLength));
}

/** selector is one of labels, or empty; the answer is a list, whose items are at /items. */
export function list(resource: string, namespace: string, selector: string): Answer {
  const r = encode(about(resource, namespace, "") + field("labelSelector", selector));
  return answered(hostList(changetype<usize>(r), r.byteLength));
}

export function create(resource: string, namespace: string, object: string): Answer {
  const r = encode(about(resource, namespace, "") + ',"object":' + object);
  return answered(hostCreate(changetype<usize>(r), r.byteLength));
}

/** subresource is status, or empty. */
export function update(resource: string, namespace: string, subresource: string, object: string): Answer {
  const r = encode(about(resource, namespace, "") + field("subresource", subresource) + ',"object":' + object);
  return answered(hostUpdate(changetype<usize>(r), r.byteLength));
}

/** type is json, merge, strategic or apply. */
export function patch(resource: string, namespace: string, name: string, subresource: string, type: string, patch: string): Answer {
  const r = encode(about(resource, namespace, name) + field("subresource", subresource) + field("patchType", type) + ',"patch":' + patch);
  return answered(hostPatch(changetype<usize>(r), r.byteLength));
}

export function remove(resource: string, namespace: string, name: string): Answer {
  const r = encode(about(resource, namespace, name));
  return answered(hostDelete(changetype<usize>(r), r.byteLength));
}

/** An event about an object as get answers it; type is Normal or Warning. */
export function event(object: string, type: string, reason: string, message: string): Answer {
  let text = '{"type":' + quote(type) + field("reason", reason) + field("message", message);
  text += field("apiVersion", findString(object, "/apiVersion")) + field("kind", findString(object, "/kind"));
  text += field("namespace", findString(object, "/metadata/namespace")) + field("name", findString(object, "/metadata/name"));
  const r = encode(text + field("uid", findString(object, "/metadata/uid")));
  return answered(hostEvent(changetype<usize>(r), r.byteLength));
}

export const DEBUG = -4, INFO = 0, WARN = 4, ERROR = 8;

/** A record of the kernel's log. */
export function log(level: i32, message: string): void {
  const r = encode('{"level":' + level.toString() + field("message", message));
  hostLog(changetype<usize>(r), r.byteLength);
}

/** Nanoseconds since 1970. */
export function now(): i64 {
  return hostNow();
}

@external("pintle_host", "get") declare function hostGet(request: usize, size: u32): u32;
@external("pintle_host", "list") declare function hostList(request: usize, size: u32): u32;
@external("pintle_host", "create") declare function hostCreate(request: usize, size: u32): u32;
@external("pintle_host", "update") declare function hostUpdate(request: usize, size: u32): u32;
@external("pintle_host", "patch") declare function hostPatch(request: usize, size: u32): u32;
@external("pintle_host", "delete") declare function hostDelete(request: usize, size: u32): u32;
@external("pintle_host", "event") declare function hostEvent(request: usize, size: u32): u32;
@external("pintle_host", "log") declare function hostLog(record: usize, size: u32): void;
@external("pintle_host", "now") declare function hostNow(): i64;
@external("pintle_host", "answer") declare function hostAnswer(into: usize, size: u32): void;

function field(name: string, value: string): string {
  return value == "" ? "" : ',"' + name + '":' + quote(value);
}

function about(resource: string, namespace: string, name: string): string {
  return '{"resource":' + quote(resource) + field("namespace", namespace) + field("name", name);
}

let sent: ArrayBuffer = new ArrayBuffer(0); // stays while the host reads it

function encode(request: string): ArrayBuffer {
  sent = String.UTF8.encode(request + "}");
  return sent;
}

/** Fetches what a host function answered, whose size it said. */
function answered(size: u32): Answer {
  const data = new ArrayBuffer(size);
  if (size > 0) hostAnswer(changetype<usize>(data), size);
  const text = String.UTF8.decode(data), status = find(text, "/status"), a = new Answer();
  if (status == "") {
    a.object = find(text, "/object");
    return a;
  }
  a.code = <i32>findNumber(status, "/code", 500);
  a.reason = findString(status, "/reason");
  a.message = findString(status, "/message");
  return a;
}
