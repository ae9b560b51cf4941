// The module's side of sdk/ABI.md, version 1: controllers and admission plugins.
// An author's index.ts exports all of this file and registers plugins.
import { find, findString, quote } from "./json";

/** The object that a controller is asked about; it may be gone. */
export class Key {
  constructor(public namespace: string, public name: string) {}
}

/** What a controller makes of a key. */
export class Result {
  constructor(public again: i64, public failed: string) {}

  /** There is nothing to do until the object changes. */
  static done(): Result {
    return new Result(0, "");
  }

  /** To be asked again after that many milliseconds. */
  static after(milliseconds: i64): Result {
    return new Result(milliseconds, "");
  }

  /** To be asked again with back-off. */
  static error(why: string): Result {
    return new Result(0, why == "" ? "it failed" : why);
  }
}

/** A request as admission webhooks get it; a review that refuses nothing allows it. */
export class Review {
  operation: string;
  namespace: string;
  name: string;
  object: string; // what shall be stored, as JSON; empty in deletions
  old: string; // what is stored
  refused: string = "";
  warnings: string[] = [];
  changes: string[] = [];

  constructor(public request: string) {
    this.operation = findString(request, "/operation");
    this.namespace = findString(request, "/namespace");
    this.name = findString(request, "/name");
    this.object = some(find(request, "/object"));
    this.old = some(find(request, "/oldObject"));
  }

  refuse(why: string): void {
    this.refused = why;
  }

  warn(text: string): void {
    this.warnings.push(quote(text));
  }

  /** Mutators: puts JSON at a pointer, whose parent must be there. */
  set(pointer: string, json: string): void {
    this.changes.push('{"op":"add","path":' + quote(pointer) + ',"value":' + json + "}");
  }

  remove(pointer: string): void {
    this.changes.push('{"op":"remove","path":' + quote(pointer) + "}");
  }
}

function some(json: string): string {
  return json == "null" ? "" : json;
}

/** What a module holds. Use Controller, Validator and Mutator. */
export class Plugin {
  owns: string[] = [];
  reconcile: ((key: Key) => Result) | null = null;
  operations: string[] = ["CREATE", "UPDATE"];
  review: ((r: Review) => void) | null = null;
  /** Takes the configuration as JSON, empty where it is set back; answers what is wrong with it, or null. */
  configure: ((json: string) => string | null) | null = null;

  constructor(public kind: string, public name: string, public resources: string[]) {}
}

/** Is asked about each object of a resource, v1/configmaps or apps/v1/deployments. */
export class Controller extends Plugin {
  constructor(name: string, resource: string, reconcile: (key: Key) => Result) {
    super("controller", name, [resource]);
    this.reconcile = reconcile;
  }
}

/** May refuse requests about the resources. */
export class Validator extends Plugin {
  constructor(name: string, resources: string[], review: (r: Review) => void) {
    super("validating", name, resources);
    this.review = review;
  }
}

/** May change what shall be stored, or refuse it. */
export class Mutator extends Plugin {
  constructor(name: string, resources: string[], review: (r: Review) => void) {
    super("mutating", name, resources);
    this.review = review;
  }
}

/** Adds a plugin to the module. */
export function register(plugin: Plugin): void {
  plugins.push(plugin);
}

const plugins: Plugin[] = [];

// The exports of sdk/ABI.md.

const statusPlugin = -1, statusFailed = -6;

let said: ArrayBuffer = new ArrayBuffer(0); // what the last span points to
let fault: string = "";

function span(text: string): i64 {
  said = String.UTF8.encode(text);
  if (said.byteLength == 0) return 0;
  return <i64>((<u64>changetype<usize>(said) << 32) | <u64>said.byteLength);
}

function fail(status: i32, why: string): i32 {
  fault = why;
  return status;
}

function noPlugin(): i32 {
  return fail(statusPlugin, "no such plugin, or not of this kind");
}

/** What a failed check of the language ends in: the host makes a new instance. */
export function pintleAbort(message: string | null, file: string | null, line: u32, column: u32): void {
  unreachable();
}

export function pintle_abi_version(): i32 {
  return 1;
}

export function pintle_alloc(size: u32): usize {
  return heap.alloc(size == 0 ? 1 : size);
}

export function pintle_free(pointer: usize): void {
  heap.free(pointer);
}

export function pintle_error(): i64 {
  return span(fault);
}

function list(texts: string[]): string {
  return '["' + texts.join('","') + '"]';
}

export function pintle_describe(): i64 {
  let out = "", contract = 1;
  for (let i = 0; i < plugins.length; i++) {
    const p = plugins[i];
    if (i > 0) out += ",";
    out += '{"name":"' + p.name + '"';
    if (p.kind == "controller") {
      out += ',"kind":"controller","for":"' + p.resources[0] + '"';
      if (p.owns.length > 0) out += ',"owns":' + list(p.owns);
    } else {
      contract = 2; // admission is of the second
      out += ',"kind":"admission","phase":"' + p.kind + '","rules":[{"operations":' + list(p.operations) + ',"resources":' + list(p.resources) + "}]";
    }
    out += "}";
  }
  return span('{"contract":' + contract.toString() + ',"plugins":[' + out + "]}");
}

export function pintle_configure(plugin: u32, pointer: usize, size: u32): i32 {
  if (plugin >= <u32>plugins.length) return noPlugin();
  const p = plugins[plugin], configure = p.configure;
  if (configure === null) return size == 0 ? 0 : fail(statusFailed, p.name + " takes no configuration");
  const wrong = configure(String.UTF8.decodeUnsafe(pointer, size));
  return wrong === null ? 0 : fail(statusFailed, wrong);
}

export function pintle_reconcile(plugin: u32, pointer: usize, size: u32): i64 {
  const reconcile = plugin < <u32>plugins.length ? plugins[plugin].reconcile : null;
  if (reconcile === null) return noPlugin();
  const key = String.UTF8.decodeUnsafe(pointer, size);
  const result = reconcile(new Key(findString(key, "/namespace"), findString(key, "/name")));
  return result.failed == "" ? result.again : fail(statusFailed, result.failed);
}

export function pintle_admit(plugin: u32, pointer: usize, size: u32): i64 {
  const review = plugin < <u32>plugins.length ? plugins[plugin].review : null;
  if (review === null) {
    noPlugin();
    return 0;
  }
  const r = new Review(String.UTF8.decodeUnsafe(pointer, size));
  if (r.operation == "") {
    fault = "the request is no AdmissionRequest";
    return 0;
  }
  review(r);
  if (r.changes.length > 0 && plugins[plugin].kind != "mutating") {
    fault = "a Validator changed the object; register a Mutator for that";
    return 0;
  }
  let out = '{"allowed":true';
  if (r.refused != "") out = '{"allowed":false,"status":{"code":403,"reason":"Forbidden","message":' + quote(r.refused) + "}";
  else if (r.changes.length > 0) out += ',"patchType":"JSONPatch","patch":"' + base64("[" + r.changes.join(",") + "]") + '"';
  if (r.warnings.length > 0) out += ',"warnings":[' + r.warnings.join(",") + "]";
  return span(out + "}");
}

function base64(text: string): string {
  const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const bytes = Uint8Array.wrap(String.UTF8.encode(text));
  let out = "";
  for (let i = 0; i < bytes.length; i += 3) {
    const left = bytes.length - i;
    const v = (<u32>bytes[i] << 16) | (left > 1 ? <u32>bytes[i + 1] << 8 : 0) | (left > 2 ? <u32>bytes[i + 2] : 0);
    out += letters.charAt(v >> 18) + letters.charAt((v >> 12) & 63);
    out += left > 1 ? letters.charAt((v >> 6) & 63) : "=";
    out += left > 2 ? letters.charAt(v & 63) : "=";
  }
  return out;
}

// What only plugins of the scheduler need.

export function pintle_apply(pointer: usize, size: u32): i32 {
  return 0;
}

export function pintle_filter(plugin: u32, class_: u32, nodes: usize, n: u32, out: usize): i32 {
  return noPlugin();
}

export function pintle_score(plugin: u32, class_: u32, nodes: usize, n: u32, out: usize): i32 {
  return noPlugin();
}

export function pintle_normalize(plugin: u32, class_: u32, nodes: usize, n: u32, scores: usize): i32 {
  return noPlugin();
}

export function pintle_reason(plugin: u32, verdict: u32): i64 {
  return 0;
}
