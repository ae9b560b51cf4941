// The module's side of sdk/ABI.md, version 1. An author's index.ts exports all
// of this file and registers plugins.
//
// Everything that a request points to belongs to the replica: change and keep
// nothing. The same replica must give the same answer.

/** An amount of what a node offers or a pod asks for. */
export class Resources {
  milliCPU: i64 = 0;
  memory: i64 = 0; // bytes
  ephemeralStorage: i64 = 0; // bytes
  pods: i64 = 0; // count; nodes only
  scalar: Map<string, i64> = new Map();
}

export class Taint {
  key: string = "";
  value: string = "";
  effect: string = "";
}

export class Toleration {
  key: string = "";
  operator: string = "";
  value: string = "";
  effect: string = "";

  /** An empty effect covers every effect, an empty key with Exists every key. */
  tolerates(taint: Taint): bool {
    if (this.effect != "" && this.effect != taint.effect) return false;
    if (this.key != "" && this.key != taint.key) return false;
    if (this.operator == "Exists") return true;
    return (this.operator == "" || this.operator == "Equal") && this.value == taint.value;
  }
}

export class Image {
  names: string[] = [];
  sizeBytes: i64 = 0;
}

/** One expression; operator is In, NotIn, Exists, DoesNotExist, Gt or Lt. */
export class Requirement {
  key: string = "";
  operator: string = "";
  values: string[] = [];

  matches(labels: Map<string, string>): bool {
    const has = labels.has(this.key);
    if (this.operator == "In") return has && this.values.includes(labels.get(this.key));
    if (this.operator == "NotIn") return !has || !this.values.includes(labels.get(this.key));
    if (this.operator == "Exists") return has;
    if (this.operator == "DoesNotExist") return !has;
    if ((this.operator != "Gt" && this.operator != "Lt") || !has || this.values.length != 1) return false;
    const value = labels.get(this.key);
    if (!isInteger(value) || !isInteger(this.values[0])) return false;
    const have = I64.parseInt(value), bound = I64.parseInt(this.values[0]);
    return this.operator == "Gt" ? have > bound : have < bound;
  }
}

function isInteger(text: string): bool {
  const from = text.startsWith("-") || text.startsWith("+") ? 1 : 0;
  if (text.length == from || text.length > from + 18) return false;
  for (let i = from; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c < 48 || c > 57) return false;
  }
  return true;
}

/** Matches a node when every requirement does; an empty one matches nothing. */
export class NodeSelectorTerm {
  matchExpressions: Requirement[] = [];
  matchFields: Requirement[] = [];

  matches(node: Node): bool {
    if (this.matchExpressions.length == 0 && this.matchFields.length == 0) return false;
    for (let i = 0; i < this.matchExpressions.length; i++) {
      if (!this.matchExpressions[i].matches(node.labels)) return false;
    }
    for (let i = 0; i < this.matchFields.length; i++) {
      const r = this.matchFields[i], is = r.operator == "In";
      if (r.key != "metadata.name" || (!is && r.operator != "NotIn") || r.values.includes(node.name) != is) return false;
    }
    return true;
  }
}

export class PreferredTerm {
  weight: i32 = 0;
  term: NodeSelectorTerm = new NodeSelectorTerm();
}

export class NodeAffinity {
  hasRequired: bool = false; // with no required term it matches no node
  required: NodeSelectorTerm[] = [];
  preferred: PreferredTerm[] = [];

  matchesRequired(node: Node): bool {
    if (!this.hasRequired) return true;
    for (let i = 0; i < this.required.length; i++) {
      if (this.required[i].matches(node)) return true;
    }
    return false;
  }
}

export class HostPort {
  port: i32 = 0;
  protocol: string = "";
  hostIP: string = "";
}

export class Container {
  name: string = "";
  image: string = "";
}

export class Volume {
  name: string = "";
  type: string = "";
  id: string = "";
  readOnly: bool = false;
  monitors: string[] = [];
}

export class OwnerReference {
  apiVersion: string = "";
  kind: string = "";
  name: string = "";
  uid: string = "";
  controller: bool = false;
}

/** A pod that is asked about, or that occupies a node. */
export class Pod {
  namespace: string = "";
  name: string = "";
  uid: string = "";
  labels: Map<string, string> = new Map();
  annotations: Map<string, string> = new Map();
  nodeName: string = "";
  schedulerName: string = "";
  priority: i32 = 0;
  nodeSelector: Map<string, string> = new Map();
  nodeAffinity: NodeAffinity | null = null;
  tolerations: Toleration[] = [];
  containers: Container[] = [];
  initContainers: Container[] = [];
  hostPorts: HostPort[] = [];
  volumes: Volume[] = [];
  requests: Resources = new Resources(); // of the whole pod
  nonZeroMilliCPU: i64 = 0;
  nonZeroMemory: i64 = 0;
  owners: OwnerReference[] = [];
  terminating: bool = false;
  startTimeUnix: i64 = 0;

  tolerates(taint: Taint): bool {
    for (let i = 0; i < this.tolerations.length; i++) {
      if (this.tolerations[i].tolerates(taint)) return true;
    }
    return false;
  }
}

/** A node with the pods that occupy it, and the sums of what they ask for. */
export class Node {
  index: u32 = 0;
  name: string = "";
  uid: string = "";
  labels: Map<string, string> = new Map();
  annotations: Map<string, string> = new Map();
  unschedulable: bool = false;
  taints: Taint[] = [];
  capacity: Resources = new Resources();
  allocatable: Resources = new Resources();
  images: Image[] = [];
  pods: Map<string, Pod> = new Map(); // by uid
  requested: Resources = new Resources();
  nonZeroMilliCPU: i64 = 0;
  nonZeroMemory: i64 = 0;
}

/** A cluster object that a plugin declared to read. */
export class ClusterObject {
  kind: string = "";
  namespace: string = "";
  name: string = "";
  labels: Map<string, string> = new Map();
  hasSelector: bool = false;
  matchLabels: Map<string, string> = new Map();
  matchExpressions: Requirement[] = [];
  volumeName: string = ""; // of a claim
  volume: Volume | null = null; // of a persistent volume
  nodeAffinity: NodeAffinity | null = null;

  selects(labels: Map<string, string>): bool {
    if (!this.hasSelector) return false;
    const keys = this.matchLabels.keys();
    for (let i = 0; i < keys.length; i++) {
      if (!labels.has(keys[i]) || labels.get(keys[i]) != this.matchLabels.get(keys[i])) return false;
    }
    for (let i = 0; i < this.matchExpressions.length; i++) {
      if (!this.matchExpressions[i].matches(labels)) return false;
    }
    return true;
  }
}

/** The replica that all plugins of the module share. */
export class Cluster {
  nodes: Array<Node | null> = []; // by index
  classes: Map<u32, Pod> = new Map();
  objects: Map<string, ClusterObject> = new Map(); // by kind/namespace/name

  node(index: u32): Node | null {
    return index < <u32>this.nodes.length ? this.nodes[index] : null;
  }

  object(kind: string, namespace: string, name: string): ClusterObject | null {
    const key = kind + "/" + namespace + "/" + name;
    return this.objects.has(key) ? this.objects.get(key) : null;
  }
}

/** One question: this pod on this node. */
export class Request {
  constructor(public pod: Pod, public node: Node, public cluster: Cluster) {}
}

/** What a module holds. Use Predicate and Priority. */
export class Plugin {
  scope: string = "node";
  reads: string[] = [];
  filter: ((r: Request) => string | null) | null = null;
  score: ((r: Request) => i64) | null = null;
  normalize: string = "none";
  rewrite: ((pod: Pod, nodes: Node[], scores: i64[]) => void) | null = null;
  /** Takes the configuration as JSON; answers what is wrong with it, or null. */
  configure: ((json: string) => string | null) | null = null;
  verdicts: Map<string, u32> = new Map();
  words: string[] = [];

  constructor(public kind: string, public name: string) {}
}

/** Answers null where the pod fits, else why not; several reasons are lines. */
export class Predicate extends Plugin {
  constructor(name: string, filter: (r: Request) => string | null) {
    super("predicate", name);
    this.filter = filter;
  }
}

/** Answers the raw score: 0 to 10, unless normalize is max, reverse-max or plugin. */
export class Priority extends Plugin {
  constructor(name: string, score: (r: Request) => i64) {
    super("priority", name);
    this.score = score;
  }
}

/** Adds a plugin to the module. */
export function register(plugin: Plugin): void {
  plugins.push(plugin);
}

const plugins: Plugin[] = [];
const cluster = new Cluster();
const maxNodes: u32 = 1 << 20;
const maxVerdicts: u32 = 4096;

// The protobuf encoding, field by field.

class Reader {
  bad: bool = false;
  tag: u32 = 0;
  kind: u32 = 0;
  number: u64 = 0;
  start: usize = 0; // of the field's bytes
  size: usize = 0;

  constructor(private at: usize, private end: usize) {}

  /** The message in the field that next found. */
  inner(): Reader {
    return new Reader(this.start, this.start + this.size);
  }

  text(): string {
    return String.UTF8.decodeUnsafe(this.start, this.size);
  }

  next(): bool {
    if (this.bad || this.at >= this.end) return false;
    const key = this.varint();
    this.tag = <u32>(key >> 3);
    this.kind = <u32>(key & 7);
    this.number = 0;
    this.start = this.at;
    let size: u64 = 0;
    if (this.bad || this.tag == 0 || key >> 3 > (1 << 29) - 1) return this.fail();
    if (this.kind == 0) this.number = this.varint();
    else if (this.kind == 1) size = 8;
    else if (this.kind == 5) size = 4;
    else if (this.kind == 2) {
      size = this.varint();
      this.start = this.at;
    } else return this.fail();
    if (this.bad || size > <u64>(this.end - this.at)) return this.fail();
    this.size = this.kind == 2 ? <usize>size : 0;
    this.at += <usize>size;
    return true;
  }

  fail(): bool {
    this.bad = true;
    return false;
  }

  private varint(): u64 {
    let v: u64 = 0;
    for (let i: u64 = 0; i < 10 && this.at < this.end; i++) {
      const b = load<u8>(this.at++);
      v |= <u64>(b & 0x7f) << (7 * i);
      if (b < 0x80) return v;
    }
    this.bad = true;
    return 0;
  }
}

// The decoders follow contract/v1/scheduling.proto; what they do not know they
// skip. Each answers false where the message is malformed.

function pair(r: Reader, into: Map<string, string>): bool {
  let key = "", value = "";
  while (r.next()) {
    if (r.tag == 1) key = r.text();
    else if (r.tag == 2) value = r.text();
  }
  into.set(key, value);
  return !r.bad;
}

function resources(r: Reader, into: Resources): bool {
  while (r.next()) {
    if (r.tag == 1) into.milliCPU = r.number;
    else if (r.tag == 2) into.memory = r.number;
    else if (r.tag == 3) into.ephemeralStorage = r.number;
    else if (r.tag == 4) into.pods = r.number;
    else if (r.tag == 5) {
      const e = r.inner();
      let key = "";
      let value: i64 = 0;
      while (e.next()) {
        if (e.tag == 1) key = e.text();
        else if (e.tag == 2) value = e.number;
      }
      into.scalar.set(key, value);
      if (e.bad) return false;
    }
  }
  return !r.bad;
}

function requirement(r: Reader, into: Requirement[]): bool {
  const o = new Requirement();
  while (r.next()) {
    if (r.tag == 1) o.key = r.text();
    else if (r.tag == 2) o.operator = r.text();
    else if (r.tag == 3) o.values.push(r.text());
  }
  into.push(o);
  return !r.bad;
}

function term(r: Reader, o: NodeSelectorTerm): bool {
  while (r.next()) {
    if (r.tag == 1 && !requirement(r.inner(), o.matchExpressions)) return false;
    if (r.tag == 2 && !requirement(r.inner(), o.matchFields)) return false;
  }
  return !r.bad;
}

function affinity(r: Reader, o: NodeAffinity): bool {
  while (r.next()) {
    if (r.tag == 1) o.hasRequired = r.number != 0;
    else if (r.tag == 2) {
      const t = new NodeSelectorTerm();
      o.required.push(t);
      if (!term(r.inner(), t)) return false;
    } else if (r.tag == 3) {
      const p = new PreferredTerm(), e = r.inner();
      o.preferred.push(p);
      while (e.next()) {
        if (e.tag == 1) p.weight = <i32>e.number;
        else if (e.tag == 2 && !term(e.inner(), p.term)) return false;
      }
      if (e.bad) return false;
    }
  }
  return !r.bad;
}

function volume(r: Reader, o: Volume): bool {
  while (r.next()) {
    if (r.tag == 1) o.name = r.text();
    else if (r.tag == 2) o.type = r.text();
    else if (r.tag == 3) o.id = r.text();
    else if (r.tag == 4) o.readOnly = r.number != 0;
    else if (r.tag == 5) o.monitors.push(r.text());
  }
  return !r.bad;
}

function container(r: Reader, into: Container[]): bool {
  const o = new Container();
  while (r.next()) {
    if (r.tag == 1) o.name = r.text();
    else if (r.tag == 2) o.image = r.text();
  }
  into.push(o);
  return !r.bad;
}

function toleration(r: Reader, into: Toleration[]): bool {
  const o = new Toleration();
  while (r.next()) {
    if (r.tag == 1) o.key = r.text();
    else if (r.tag == 2) o.operator = r.text();
    else if (r.tag == 3) o.value = r.text();
    else if (r.tag == 4) o.effect = r.text();
  }
  into.push(o);
  return !r.bad;
}

function hostPort(r: Reader, into: HostPort[]): bool {
  const o = new HostPort();
  while (r.next()) {
    if (r.tag == 1) o.port = <i32>r.number;
    else if (r.tag == 2) o.protocol = r.text();
    else if (r.tag == 3) o.hostIP = r.text();
  }
  into.push(o);
  return !r.bad;
}

function owner(r: Reader, into: OwnerReference[]): bool {
  const o = new OwnerReference();
  while (r.next()) {
    if (r.tag == 1) o.apiVersion = r.text();
    else if (r.tag == 2) o.kind = r.text();
    else if (r.tag == 3) o.name = r.text();
    else if (r.tag == 4) o.uid = r.text();
    else if (r.tag == 5) o.controller = r.number != 0;
  }
  into.push(o);
  return !r.bad;
}

function pod(r: Reader, p: Pod): bool {
  while (r.next()) {
    let good = true;
    switch (r.tag) {
      case 1: p.namespace = r.text(); break;
      case 2: p.name = r.text(); break;
      case 3: p.uid = r.text(); break;
      case 4: good = pair(r.inner(), p.labels); break;
      case 5: good = pair(r.inner(), p.annotations); break;
      case 6: p.nodeName = r.text(); break;
      case 7: p.schedulerName = r.text(); break;
      case 8: p.priority = <i32>r.number; break;
      case 9: good = pair(r.inner(), p.nodeSelector); break;
      case 10: {
        const a = new NodeAffinity();
        p.nodeAffinity = a;
        good = affinity(r.inner(), a);
        break;
      }
      case 11: good = toleration(r.inner(), p.tolerations); break;
      case 12: good = container(r.inner(), p.containers); break;
      case 13: good = container(r.inner(), p.initContainers); break;
      case 14: good = hostPort(r.inner(), p.hostPorts); break;
      case 15: {
        const v = new Volume();
        p.volumes.push(v);
        good = volume(r.inner(), v);
        break;
      }
      case 16: good = resources(r.inner(), p.requests); break;
      case 17: p.nonZeroMilliCPU = r.number; break;
      case 18: p.nonZeroMemory = r.number; break;
      case 19: good = owner(r.inner(), p.owners); break;
      case 20: p.terminating = r.number != 0; break;
      case 21: p.startTimeUnix = r.number; break;
    }
    if (!good) return false;
  }
  return !r.bad;
}

function node(r: Reader, n: Node): bool {
  while (r.next()) {
    let good = true;
    switch (r.tag) {
      case 1: n.name = r.text(); break;
      case 2: good = pair(r.inner(), n.labels); break;
      case 3: good = pair(r.inner(), n.annotations); break;
      case 4: n.unschedulable = r.number != 0; break;
      case 5: {
        const t = new Taint(), e = r.inner();
        while (e.next()) {
          if (e.tag == 1) t.key = e.text();
          else if (e.tag == 2) t.value = e.text();
          else if (e.tag == 3) t.effect = e.text();
        }
        n.taints.push(t);
        good = !e.bad;
        break;
      }
      case 6: good = resources(r.inner(), n.capacity); break;
      case 7: good = resources(r.inner(), n.allocatable); break;
      case 8: {
        const image = new Image(), e = r.inner();
        while (e.next()) {
          if (e.tag == 1) image.names.push(e.text());
          else if (e.tag == 2) image.sizeBytes = e.number;
        }
        n.images.push(image);
        good = !e.bad;
        break;
      }
      case 9: n.uid = r.text(); break;
    }
    if (!good) return false;
  }
  return !r.bad;
}

function key(r: Reader, o: ClusterObject): bool {
  while (r.next()) {
    if (r.tag == 1) o.kind = r.text();
    else if (r.tag == 2) o.namespace = r.text();
    else if (r.tag == 3) o.name = r.text();
  }
  return !r.bad;
}

function object(r: Reader, o: ClusterObject): bool {
  while (r.next()) {
    let good = true;
    switch (r.tag) {
      case 1: good = key(r.inner(), o); break;
      case 2: good = pair(r.inner(), o.labels); break;
      case 3: o.hasSelector = r.number != 0; break;
      case 4: {
        const e = r.inner();
        while (e.next()) {
          if (e.tag == 1) good = good && pair(e.inner(), o.matchLabels);
          else if (e.tag == 2) good = good && requirement(e.inner(), o.matchExpressions);
        }
        good = good && !e.bad;
        break;
      }
      case 5: o.volumeName = r.text(); break;
      case 6: {
        const v = new Volume();
        o.volume = v;
        good = volume(r.inner(), v);
        break;
      }
      case 7: {
        const a = new NodeAffinity();
        o.nodeAffinity = a;
        good = affinity(r.inner(), a);
        break;
      }
    }
    if (!good) return false;
  }
  return !r.bad;
}

// The replica.

function account(n: Node, p: Pod, sign: i64): void {
  n.requested.milliCPU += sign * p.requests.milliCPU;
  n.requested.memory += sign * p.requests.memory;
  n.requested.ephemeralStorage += sign * p.requests.ephemeralStorage;
  n.requested.pods += sign;
  const names = p.requests.scalar.keys();
  for (let i = 0; i < names.length; i++) {
    const has = n.requested.scalar.has(names[i]) ? n.requested.scalar.get(names[i]) : 0;
    n.requested.scalar.set(names[i], has + sign * p.requests.scalar.get(names[i]));
  }
  n.nonZeroMilliCPU += sign * p.nonZeroMilliCPU;
  n.nonZeroMemory += sign * p.nonZeroMemory;
}

function removePod(n: Node, uid: string): void {
  if (!n.pods.has(uid)) return;
  account(n, n.pods.get(uid), -1);
  n.pods.delete(uid);
}

function operation(op: Reader): bool {
  if (op.tag == 2) {
    const index = <u32>op.number;
    if (index < <u32>cluster.nodes.length) cluster.nodes[index] = null;
    return true;
  }
  if (op.tag == 6) {
    cluster.classes.delete(<u32>op.number);
    return true;
  }
  if (op.tag == 7 || op.tag == 8) {
    const o = new ClusterObject();
    if (!(op.tag == 7 ? object(op.inner(), o) : key(op.inner(), o))) return false;
    const at = o.kind + "/" + o.namespace + "/" + o.name;
    if (op.tag == 7) cluster.objects.set(at, o);
    else cluster.objects.delete(at);
    return true;
  }
  if (op.tag == 0 || op.tag > 8) return true;
  // NodeSet, PodAdd, PodRemove and ClassSet: a number, and a message or a text.
  const r = op.inner();
  let number: u32 = 0;
  let m = new Reader(0, 0), text = "";
  while (r.next()) {
    if (r.tag == 1) number = <u32>r.number;
    else if (r.tag == 2) {
      if (op.tag == 4) text = r.text();
      else m = r.inner();
    }
  }
  if (r.bad) return false;
  if (op.tag == 1) {
    const n = new Node();
    if (number >= maxNodes || !node(m, n)) return false;
    n.index = number;
    while (<u32>cluster.nodes.length <= number) cluster.nodes.push(null);
    const old = cluster.nodes[number];
    if (old !== null) {
      n.pods = old.pods;
      n.requested = old.requested;
      n.nonZeroMilliCPU = old.nonZeroMilliCPU;
      n.nonZeroMemory = old.nonZeroMemory;
    }
    cluster.nodes[number] = n;
    return true;
  }
  if (op.tag == 5) {
    const p = new Pod();
    if (!pod(m, p)) return false;
    cluster.classes.set(number, p);
    return true;
  }
  const n = cluster.node(number);
  if (op.tag == 4) {
    if (n !== null) removePod(n, text);
    return true;
  }
  const p = new Pod();
  if (n === null || !pod(m, p)) return false;
  removePod(n, p.uid);
  n.pods.set(p.uid, p);
  account(n, p, 1);
  return true;
}

function applyDelta(at: usize, size: usize): bool {
  // reset may stand behind the operations.
  let r = new Reader(at, at + size), reset = false;
  while (r.next()) {
    if (r.tag == 2 && r.kind == 0) reset = r.number != 0;
  }
  if (r.bad) return false;
  if (reset) {
    cluster.nodes = [];
    cluster.classes.clear();
    cluster.objects.clear();
  }
  r = new Reader(at, at + size);
  while (r.next()) {
    if (r.tag != 3) continue;
    const op = r.inner();
    while (op.next()) {
      if (!operation(op)) return false;
    }
    if (op.bad) return false;
  }
  return true;
}

// The exports of sdk/ABI.md.

const statusPlugin = -1, statusClass = -2, statusNode = -3, statusMalformed = -4, statusFailed = -6;

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

function pluginOf(index: u32, kind: string): Plugin | null {
  if (index >= <u32>plugins.length || (kind != "" && plugins[index].kind != kind)) {
    fault = "no such plugin, or not of this kind";
    return null;
  }
  return plugins[index];
}

function classOf(class_: u32): Pod | null {
  if (cluster.classes.has(class_)) return cluster.classes.get(class_);
  fault = "no such class";
  return null;
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

export function pintle_describe(): i64 {
  let out = '{"contract":1,"plugins":[';
  for (let i = 0; i < plugins.length; i++) {
    const p = plugins[i];
    if (i > 0) out += ",";
    out += '{"name":"' + p.name + '","kind":"' + p.kind + '","scope":"' + p.scope + '"';
    if (p.kind == "priority") out += ',"normalize":"' + p.normalize + '"';
    if (p.reads.length > 0) out += ',"reads":["' + p.reads.join('","') + '"]';
    out += "}";
  }
  return span(out + "]}");
}

export function pintle_configure(plugin: u32, pointer: usize, size: u32): i32 {
  const p = pluginOf(plugin, "");
  if (p === null) return statusPlugin;
  const configure = p.configure;
  if (configure === null) return size == 0 ? 0 : fail(statusFailed, p.name + " takes no configuration");
  const wrong = configure(String.UTF8.decodeUnsafe(pointer, size));
  return wrong === null ? 0 : fail(statusFailed, wrong);
}

export function pintle_apply(pointer: usize, size: u32): i32 {
  return applyDelta(pointer, size) ? 0 : fail(statusMalformed, "malformed delta");
}

function verdictOf(p: Plugin, why: string): u32 {
  if (p.verdicts.has(why)) return p.verdicts.get(why);
  // Words without end would fill the memory: the rest share the last id.
  if (<u32>p.words.length >= maxVerdicts) return maxVerdicts;
  if (<u32>p.words.length == maxVerdicts - 1) why = "node(s) did not satisfy " + p.name;
  p.words.push(why);
  p.verdicts.set(why, p.words.length);
  return p.words.length;
}

export function pintle_filter(plugin: u32, class_: u32, nodes: usize, n: u32, out: usize): i32 {
  const p = pluginOf(plugin, "predicate");
  if (p === null) return statusPlugin;
  const about = classOf(class_);
  if (about === null) return statusClass;
  const filter = p.filter!;
  for (let i: u32 = 0; i < n; i++) {
    const node = cluster.node(load<u32>(nodes + 4 * i));
    if (node === null) return fail(statusNode, "no such node");
    const why = filter(new Request(about, node, cluster));
    store<u32>(out + 4 * i, why === null ? 0 : verdictOf(p, why));
  }
  return 0;
}

export function pintle_score(plugin: u32, class_: u32, nodes: usize, n: u32, out: usize): i32 {
  const p = pluginOf(plugin, "priority");
  if (p === null) return statusPlugin;
  const about = classOf(class_);
  if (about === null) return statusClass;
  const score = p.score!;
  for (let i: u32 = 0; i < n; i++) {
    const node = cluster.node(load<u32>(nodes + 4 * i));
    if (node === null) return fail(statusNode, "no such node");
    store<i64>(out + 8 * i, score(new Request(about, node, cluster)));
  }
  return 0;
}

export function pintle_normalize(plugin: u32, class_: u32, nodes: usize, n: u32, scores: usize): i32 {
  const p = pluginOf(plugin, "priority");
  if (p === null) return statusPlugin;
  const rewrite = p.rewrite;
  if (rewrite === null) return fail(statusPlugin, p.name + " does not normalize");
  const about = classOf(class_);
  if (about === null) return statusClass;
  const list: Node[] = [], values: i64[] = [];
  for (let i: u32 = 0; i < n; i++) {
    const node = cluster.node(load<u32>(nodes + 4 * i));
    if (node === null) return fail(statusNode, "no such node");
    list.push(node);
    values.push(load<i64>(scores + 8 * i));
  }
  rewrite(about, list, values);
  for (let i: u32 = 0; i < n; i++) store<i64>(scores + 8 * i, values[i]);
  return 0;
}

export function pintle_reason(plugin: u32, verdict: u32): i64 {
  const p = pluginOf(plugin, "predicate");
  if (p === null || verdict == 0 || verdict > <u32>p.words.length) return 0;
  return span(p.words[verdict - 1]);
}
