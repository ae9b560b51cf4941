// A process plugin for Pintle from the .proto files alone: go-plugin's handshake
// over mutual TLS, the Lifecycle and the Scheduling service, and the replica.
// main.mjs registers plugins and calls serve.
import { randomBytes } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import grpc from "@grpc/grpc-js";
import { fromJSON } from "@grpc/proto-loader";
import protobuf from "protobufjs";
import pluginProto from "./proto/plugin.proto";
import schedulingProto from "./proto/scheduling.proto";
import goPluginProto from "./proto/goplugin.proto";
import healthProto from "./proto/health.proto";
import { certificate } from "./certificate.mjs";

/** The version of the contract that this file speaks. */
export const contract = 1;

/** The replica: what the kernel said of nodes, pods and objects so far. */
export class Cluster {
  generation = 0;
  nodes = new Map(); // index → node of the contract, with pods (uid → pod) and requested
  classes = new Map(); // number → pod
  objects = new Map(); // kind/namespace/name → object

  apply(delta) {
    if (delta.reset) {
      this.nodes.clear();
      this.classes.clear();
      this.objects.clear();
    }
    for (const op of delta.operations) this.#operation(op);
    this.generation = delta.generation;
  }

  #operation(op) {
    switch (op.op) {
      case "nodeSet": {
        const old = this.nodes.get(op.nodeSet.index);
        const node = op.nodeSet.node ?? {};
        node.index = op.nodeSet.index;
        node.pods = old?.pods ?? new Map();
        node.requested = old?.requested ?? { milliCpu: 0, memory: 0, ephemeralStorage: 0, pods: 0 };
        this.nodes.set(node.index, node);
        return;
      }
      case "nodeRemove":
        this.nodes.delete(op.nodeRemove);
        return;
      case "podAdd": {
        const node = this.nodes.get(op.podAdd.node);
        const pod = op.podAdd.pod;
        if (!node) throw new Refusal(grpc.status.INVALID_ARGUMENT, `pod ${pod?.name} is added to node ${op.podAdd.node}, which is not there`);
        this.#remove(node, pod.uid);
        node.pods.set(pod.uid, pod);
        account(node, pod, 1);
        return;
      }
      case "podRemove": {
        const node = this.nodes.get(op.podRemove.node);
        if (node) this.#remove(node, op.podRemove.uid);
        return;
      }
      case "classSet":
        this.classes.set(op.classSet.class, op.classSet.pod);
        return;
      case "classRemove":
        this.classes.delete(op.classRemove);
        return;
      case "objectSet":
        this.objects.set(keyOf(op.objectSet.key), op.objectSet);
        return;
      case "objectRemove":
        this.objects.delete(keyOf(op.objectRemove));
    }
  }

  #remove(node, uid) {
    const old = node.pods.get(uid);
    if (!old) return;
    node.pods.delete(uid);
    account(node, old, -1);
  }
}

function account(node, pod, sign) {
  const asked = pod.requests ?? {};
  for (const what of ["milliCpu", "memory", "ephemeralStorage"]) node.requested[what] += sign * (asked[what] ?? 0);
  node.requested.pods += sign;
}

const keyOf = (key) => `${key.kind}/${key.namespace}/${key.name}`;

/** What a call is refused with. */
class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/**
 * Serves plugins until the kernel asks the process to stop. A plugin is
 *   { name, kind: "predicate", filter({pod, node, cluster}) → reasons or null }
 *   { name, kind: "priority", score({pod, node, cluster}) → number }
 * with scope ("node" or "cluster"), reads (kinds), normalize ("none", "max",
 * "reverse-max", or "plugin" with rewrite(pod, nodes, scores)) and
 * configure(value), which throws over what it does not take.
 */
export function serve(...plugins) {
  if (process.env.PINTLE_PLUGIN !== "kernel.pintle.dev/v1") {
    console.error("this is a plugin of the Pintle kernel and is not run by hand: put it into a bundle and name the bundle in the kernel's configuration");
    process.exit(1);
  }
  // The kernel stops plugins over the wire; Ctrl-C of a terminal is not for them.
  for (const signal of ["SIGINT", "SIGHUP"]) process.on(signal, () => {});
  const mine = certificate();
  const server = new grpc.Server({ "grpc.max_receive_message_length": 256 << 20, "grpc.max_send_message_length": 256 << 20 });
  addServices(server, plugins);
  const credentials = grpc.ServerCredentials.createSsl(
    Buffer.from(process.env.PLUGIN_CLIENT_CERT ?? ""),
    [{ private_key: Buffer.from(mine.key), cert_chain: Buffer.from(mine.certificate) }],
    true, // only the kernel that started this process has the other key
  );
  const socket = join(process.env.PLUGIN_UNIX_SOCKET_DIR || tmpdir(), `plugin-${randomBytes(8).toString("hex")}`);
  server.bindAsync(`unix:${socket}`, credentials, (failed) => {
    if (failed) {
      console.error(failed.message);
      process.exit(1);
    }
    // version of go-plugin | version of the handshake | where | how | certificate
    console.log(`1|1|unix|${socket}|grpc|${mine.der.toString("base64").replace(/=+$/, "")}`);
  });
}

const encoded = { keepCase: false, longs: Number, enums: Number, defaults: true, oneofs: true };

function addServices(server, plugins) {
  const root = new protobuf.Root();
  for (const text of [pluginProto, schedulingProto, goPluginProto, healthProto]) protobuf.parse(text, root, { keepCase: false });
  const packages = grpc.loadPackageDefinition(fromJSON(root.toJSON(), encoded));
  const Delta = root.lookupType("pintle.contract.v1.Delta");
  const cluster = new Cluster();
  const find = (name, kind) => {
    const plugin = plugins.find((p) => p.name === name && (!kind || p.kind === kind));
    if (!plugin) throw new Refusal(grpc.status.NOT_FOUND, `this bundle has no ${kind ?? "plugin"} ${name}`);
    return plugin;
  };
  const about = (generation, number, nodes) => {
    if (generation !== cluster.generation) {
      throw new Refusal(grpc.status.FAILED_PRECONDITION, `replica is at generation ${cluster.generation}, asked about ${generation}`);
    }
    const pod = cluster.classes.get(number);
    if (!pod) throw new Refusal(grpc.status.NOT_FOUND, `no such class: ${number}`);
    return nodes.map((index) => {
      const node = cluster.nodes.get(index);
      if (!node) throw new Refusal(grpc.status.NOT_FOUND, `no such node: ${index}`);
      return { pod, node, cluster };
    });
  };
  const filter = (name, requests) => {
    const plugin = find(name, "predicate");
    const reasons = [], known = new Map();
    const verdicts = requests.map((request) => {
      const why = [plugin.filter(request) ?? []].flat();
      if (why.length === 0) return 0;
      const key = why.join("\n");
      if (!known.has(key)) known.set(key, reasons.push({ reasons: why }));
      return known.get(key);
    });
    return { verdicts, reasons };
  };
  const score = (name, requests) => {
    const plugin = find(name, "priority");
    return requests.map((request) => plugin.score(request));
  };

  const serviceOf = (name) => name.split(".").reduce((at, part) => at[part], packages).service;
  server.addService(serviceOf("pintle.contract.v1.Lifecycle"), unary({
    describe: () => ({
      contract,
      plugins: plugins.map((p) => ({
        name: p.name, kind: p.kind, scope: p.scope ?? "node", reads: p.reads ?? [],
        normalize: p.kind === "priority" ? p.normalize ?? "none" : "",
      })),
    }),
    configure: ({ plugin: name, config }) => {
      const plugin = find(name);
      if (!plugin.configure) {
        if (config.length > 0) throw new Refusal(grpc.status.INVALID_ARGUMENT, `${name} takes no configuration`);
        return {};
      }
      try {
        plugin.configure(config.length > 0 ? JSON.parse(config.toString("utf8")) : {});
      } catch (error) {
        throw new Refusal(grpc.status.INVALID_ARGUMENT, `configure ${name}: ${error.message}`);
      }
      return {};
    },
    health: () => ({ healthy: true }),
    stop: () => ({}),
  }));
  server.addService(serviceOf("pintle.contract.v1.Scheduling"), unary({
    apply: ({ delta }) => {
      cluster.apply(delta);
      return { generation: cluster.generation };
    },
    filter: (q) => {
      find(q.plugin, "predicate");
      return filter(q.plugin, about(q.generation, q.class, q.nodes));
    },
    score: (q) => {
      find(q.plugin, "priority");
      return { scores: score(q.plugin, about(q.generation, q.class, q.nodes)) };
    },
    normalize: (q) => {
      const plugin = find(q.plugin, "priority");
      if (!plugin.rewrite) throw new Refusal(grpc.status.NOT_FOUND, `${q.plugin} does not normalize`);
      const requests = about(cluster.generation, q.class, q.nodes);
      return { scores: plugin.rewrite(cluster.classes.get(q.class), requests.map((r) => r.node), q.scores) };
    },
    // All of a decision in one call: nodes that a filter refuses are left out of
    // what is asked after it.
    evaluate: (q) => {
      for (const delta of q.deltas) cluster.apply(Delta.toObject(Delta.decode(delta), encoded));
      const refused = new Set();
      const left = (question) => (question.nodes.length > 0 ? question.nodes : q.nodes).filter((n) => !refused.has(n));
      const timed = (answer) => {
        const began = process.hrtime.bigint();
        return { ...answer(), nanoseconds: Number(process.hrtime.bigint() - began) };
      };
      const filters = q.filters.map((question) => {
        const nodes = left(question);
        const answer = timed(() => filter(question.plugin, about(q.generation, q.class, nodes)));
        nodes.forEach((node, i) => answer.verdicts[i] && refused.add(node));
        return answer;
      });
      const scores = q.scores.map((question) => timed(() => ({ scores: score(question.plugin, about(q.generation, q.class, left(question))) })));
      return { generation: cluster.generation, filters, scores };
    },
  }));
  // What go-plugin itself asks of every plugin.
  server.addService(serviceOf("plugin.GRPCController"), unary({
    shutdown: () => {
      setImmediate(() => process.exit(0));
      return {};
    },
  }));
  server.addService(serviceOf("plugin.GRPCStdio"), { streamStdio: () => {} }); // nothing is sent: standard error is the log
  server.addService(serviceOf("plugin.GRPCBroker"), { startStream: () => {} });
  server.addService(serviceOf("grpc.health.v1.Health"), unary({ check: () => ({ status: 1 }) }));
}

/** Turns functions of a request into handlers; what they throw is the answer's status. */
function unary(functions) {
  const handlers = {};
  for (const [name, answer] of Object.entries(functions)) {
    handlers[name] = (call, done) => {
      try {
        done(null, answer(call.request));
      } catch (error) {
        done({ code: error instanceof Refusal ? error.code : grpc.status.INTERNAL, message: error.message });
      }
    };
  }
  return handlers;
}
