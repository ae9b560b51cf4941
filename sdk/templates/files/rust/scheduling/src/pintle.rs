//! The module's side of sdk/ABI.md, version 1. An author defines one function,
//! `plugins`, that names what the module holds (see lib.rs).
//!
//! Everything that a request points to belongs to the replica. The same replica
//! must give the same answer.

#![allow(dead_code)]

use std::collections::{BTreeMap, HashMap};

/// An amount of what a node offers or a pod asks for.
#[derive(Clone, Default)]
pub struct Resources {
    pub milli_cpu: i64,
    pub memory: i64,            // bytes
    pub ephemeral_storage: i64, // bytes
    pub pods: i64,              // count; nodes only
    pub scalar: BTreeMap<String, i64>,
}

#[derive(Default)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: String,
}

#[derive(Default)]
pub struct Toleration {
    pub key: String,
    pub operator: String,
    pub value: String,
    pub effect: String,
}

impl Toleration {
    /// An empty effect covers every effect, an empty key with Exists every key.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if !self.effect.is_empty() && self.effect != taint.effect {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator.as_str() {
            "" | "Equal" => self.value == taint.value,
            "Exists" => true,
            _ => false,
        }
    }
}

#[derive(Default)]
pub struct Image {
    pub names: Vec<String>,
    pub size_bytes: i64,
}

/// One expression; the operator is In, NotIn, Exists, DoesNotExist, Gt or Lt.
#[derive(Default)]
pub struct Requirement {
    pub key: String,
    pub operator: String,
    pub values: Vec<String>,
}

impl Requirement {
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match self.operator.as_str() {
            "In" => value.map_or(false, |v| self.values.contains(v)),
            "NotIn" => value.map_or(true, |v| !self.values.contains(v)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" | "Lt" => {
                let have = value.and_then(|v| v.parse::<i64>().ok());
                let bound = self.values.first().and_then(|v| v.parse::<i64>().ok());
                match (have, bound, self.values.len()) {
                    (Some(have), Some(bound), 1) if self.operator == "Gt" => have > bound,
                    (Some(have), Some(bound), 1) => have < bound,
                    _ => false,
                }
            }
            _ => false,
        }
    }
}

/// Matches a node when every requirement does; an empty one matches nothing.
#[derive(Default)]
pub struct NodeSelectorTerm {
    pub match_expressions: Vec<Requirement>,
    pub match_fields: Vec<Requirement>,
}

impl NodeSelectorTerm {
    pub fn matches(&self, node: &Node) -> bool {
        if self.match_expressions.is_empty() && self.match_fields.is_empty() {
            return false;
        }
        self.match_expressions
            .iter()
            .all(|r| r.matches(&node.labels))
            && self.match_fields.iter().all(|r| {
                r.key == "metadata.name"
                    && match r.operator.as_str() {
                        "In" => r.values.contains(&node.name),
                        "NotIn" => !r.values.contains(&node.name),
                        _ => false,
                    }
            })
    }
}

#[derive(Default)]
pub struct PreferredTerm {
    pub weight: i32,
    pub term: NodeSelectorTerm,
}

#[derive(Default)]
pub struct NodeAffinity {
    /// With no required term it matches no node.
    pub has_required: bool,
    pub required: Vec<NodeSelectorTerm>,
    pub preferred: Vec<PreferredTerm>,
}

impl NodeAffinity {
    pub fn matches_required(&self, node: &Node) -> bool {
        !self.has_required || self.required.iter().any(|t| t.matches(node))
    }
}

#[derive(Default)]
pub struct HostPort {
    pub port: i32,
    pub protocol: String,
    pub host_ip: String,
}

#[derive(Default)]
pub struct Container {
    pub name: String,
    pub image: String,
}

#[derive(Default)]
pub struct Volume {
    pub name: String,
    pub kind: String, // the contract's type
    pub id: String,
    pub read_only: bool,
    pub monitors: Vec<String>,
}

#[derive(Default)]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub controller: bool,
}

/// A pod that is asked about, or that occupies a node.
#[derive(Default)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub node_name: String,
    pub scheduler_name: String,
    pub priority: i32,
    pub node_selector: BTreeMap<String, String>,
    pub node_affinity: Option<NodeAffinity>,
    pub tolerations: Vec<Toleration>,
    pub containers: Vec<Container>,
    pub init_containers: Vec<Container>,
    pub host_ports: Vec<HostPort>,
    pub volumes: Vec<Volume>,
    pub requests: Resources, // of the whole pod
    pub non_zero_milli_cpu: i64,
    pub non_zero_memory: i64,
    pub owners: Vec<OwnerReference>,
    pub terminating: bool,
    pub start_time_unix: i64,
}

impl Pod {
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|t| t.tolerates(taint))
    }
}

/// A node with the pods that occupy it, and the sums of what they ask for.
#[derive(Default)]
pub struct Node {
    pub index: u32,
    pub name: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub unschedulable: bool,
    pub taints: Vec<Taint>,
    pub capacity: Resources,
    pub allocatable: Resources,
    pub images: Vec<Image>,
    pub pods: BTreeMap<String, Pod>, // by uid
    pub requested: Resources,
    pub non_zero_milli_cpu: i64,
    pub non_zero_memory: i64,
}

impl Node {
    fn account(&mut self, p: &Pod, sign: i64) {
        self.requested.milli_cpu += sign * p.requests.milli_cpu;
        self.requested.memory += sign * p.requests.memory;
        self.requested.ephemeral_storage += sign * p.requests.ephemeral_storage;
        self.requested.pods += sign;
        for (name, quantity) in &p.requests.scalar {
            *self.requested.scalar.entry(name.clone()).or_default() += sign * quantity;
        }
        self.non_zero_milli_cpu += sign * p.non_zero_milli_cpu;
        self.non_zero_memory += sign * p.non_zero_memory;
    }

    fn remove_pod(&mut self, uid: &str) {
        if let Some(p) = self.pods.remove(uid) {
            self.account(&p, -1);
        }
    }
}

/// A cluster object that a plugin declared to read.
#[derive(Default)]
pub struct Object {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub has_selector: bool,
    pub match_labels: BTreeMap<String, String>,
    pub match_expressions: Vec<Requirement>,
    pub volume_name: String,    // of a claim
    pub volume: Option<Volume>, // of a persistent volume
    pub node_affinity: Option<NodeAffinity>,
}

impl Object {
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.has_selector
            && self
                .match_labels
                .iter()
                .all(|(k, v)| labels.get(k) == Some(v))
            && self.match_expressions.iter().all(|r| r.matches(labels))
    }
}

/// The replica that all plugins of the module share.
#[derive(Default)]
pub struct Cluster {
    pub nodes: Vec<Option<Node>>,                            // by index
    pub objects: BTreeMap<(String, String, String), Object>, // by kind, namespace and name
    classes: HashMap<u32, Pod>,
}

impl Cluster {
    pub fn node(&self, index: u32) -> Option<&Node> {
        self.nodes.get(index as usize).and_then(|n| n.as_ref())
    }
}

/// One question: this pod on this node.
pub struct Request<'a> {
    pub pod: &'a Pod,
    pub node: &'a Node,
    pub cluster: &'a Cluster,
}

/// What a plugin answers with. Several reasons of a filter are lines.
#[derive(Clone, Copy)]
pub enum Answer {
    Filter(fn(&Request) -> Option<String>),
    Score(fn(&Request) -> i64),
}

pub type Rewrite = fn(&Pod, &[&Node], &mut [i64]);
pub type Configure = fn(&str) -> Result<(), String>;

/// One plugin of the module.
pub struct Plugin {
    pub name: &'static str,
    pub answer: Answer,
    pub scope: &'static str,     // node or cluster
    pub normalize: &'static str, // of scores: none, max, reverse-max or plugin
    pub reads: &'static [&'static str],
    pub rewrite: Option<Rewrite>, // goes with plugin
    pub configure: Option<Configure>,
    verdicts: HashMap<String, u32>,
    words: Vec<String>,
}

impl Plugin {
    pub fn predicate(name: &'static str, filter: fn(&Request) -> Option<String>) -> Plugin {
        Plugin::new(name, Answer::Filter(filter))
    }

    pub fn priority(name: &'static str, score: fn(&Request) -> i64) -> Plugin {
        Plugin::new(name, Answer::Score(score))
    }

    fn new(name: &'static str, answer: Answer) -> Plugin {
        Plugin {
            name,
            answer,
            scope: "node",
            normalize: "none",
            reads: &[],
            rewrite: None,
            configure: None,
            verdicts: HashMap::new(),
            words: Vec::new(),
        }
    }

    fn verdict(&mut self, why: String) -> u32 {
        if let Some(id) = self.verdicts.get(&why) {
            return *id;
        }
        // Words without end would fill the memory: the rest share the last id.
        if self.words.len() >= MAX_VERDICTS {
            return MAX_VERDICTS as u32;
        }
        let why = if self.words.len() == MAX_VERDICTS - 1 {
            format!("node(s) did not satisfy {}", self.name)
        } else {
            why
        };
        self.words.push(why.clone());
        self.verdicts.insert(why, self.words.len() as u32);
        self.words.len() as u32
    }
}

const MAX_NODES: u32 = 1 << 20;
const MAX_VERDICTS: usize = 4096;

/// The message is not what the contract says.
struct Malformed;

type Decoded = Result<(), Malformed>;

/// One field of a protobuf message.
struct Field<'a> {
    tag: u32,
    varint: bool,
    number: u64,
    bytes: &'a [u8],
}

impl Field<'_> {
    fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes).into_owned()
    }
}

fn varint(data: &mut &[u8]) -> Result<u64, Malformed> {
    let mut v = 0u64;
    for i in 0..data.len().min(10) {
        let b = data[i];
        v |= u64::from(b & 0x7f).wrapping_shl(7 * i as u32);
        if b < 0x80 {
            *data = &data[i + 1..];
            return Ok(v);
        }
    }
    Err(Malformed)
}

/// Calls visit for each field of a message.
fn fields(mut data: &[u8], mut visit: impl FnMut(&Field) -> Decoded) -> Decoded {
    while !data.is_empty() {
        let key = varint(&mut data)?;
        if key >> 3 == 0 || key >> 3 > (1 << 29) - 1 {
            return Err(Malformed);
        }
        let mut f = Field {
            tag: (key >> 3) as u32,
            varint: false,
            number: 0,
            bytes: &[],
        };
        let size = match key & 7 {
            0 => {
                f.varint = true;
                f.number = varint(&mut data)?;
                0
            }
            1 => 8,
            2 => varint(&mut data)?,
            5 => 4,
            _ => return Err(Malformed),
        };
        if size > data.len() as u64 {
            return Err(Malformed);
        }
        let (bytes, rest) = data.split_at(size as usize);
        if key & 7 == 2 {
            f.bytes = bytes;
        }
        data = rest;
        visit(&f)?;
    }
    Ok(())
}

// The decoders follow contract/v1/scheduling.proto; what they do not know they skip.

fn pair(data: &[u8], into: &mut BTreeMap<String, String>) -> Decoded {
    let (mut key, mut value) = (String::new(), String::new());
    texts(data, &mut [&mut key, &mut value])?;
    into.insert(key, value);
    Ok(())
}

/// Decodes a message whose fields are texts, numbered from 1.
fn texts(data: &[u8], to: &mut [&mut String]) -> Decoded {
    fields(data, |f| {
        if let Some(t) = to.get_mut(f.tag as usize - 1) {
            **t = f.text();
        }
        Ok(())
    })
}

fn resources(data: &[u8], r: &mut Resources) -> Decoded {
    fields(data, |f| {
        match f.tag {
            1 => r.milli_cpu = f.number as i64,
            2 => r.memory = f.number as i64,
            3 => r.ephemeral_storage = f.number as i64,
            4 => r.pods = f.number as i64,
            5 => {
                let (mut key, mut value) = (String::new(), 0);
                fields(f.bytes, |e| {
                    match e.tag {
                        1 => key = e.text(),
                        2 => value = e.number as i64,
                        _ => {}
                    }
                    Ok(())
                })?;
                r.scalar.insert(key, value);
            }
            _ => {}
        }
        Ok(())
    })
}

fn requirement(data: &[u8], into: &mut Vec<Requirement>) -> Decoded {
    let mut r = Requirement::default();
    fields(data, |f| {
        match f.tag {
            1 => r.key = f.text(),
            2 => r.operator = f.text(),
            3 => r.values.push(f.text()),
            _ => {}
        }
        Ok(())
    })?;
    into.push(r);
    Ok(())
}

fn term(data: &[u8]) -> Result<NodeSelectorTerm, Malformed> {
    let mut t = NodeSelectorTerm::default();
    fields(data, |f| match f.tag {
        1 => requirement(f.bytes, &mut t.match_expressions),
        2 => requirement(f.bytes, &mut t.match_fields),
        _ => Ok(()),
    })?;
    Ok(t)
}

fn affinity(data: &[u8]) -> Result<NodeAffinity, Malformed> {
    let mut a = NodeAffinity::default();
    fields(data, |f| {
        match f.tag {
            1 => a.has_required = f.number != 0,
            2 => a.required.push(term(f.bytes)?),
            3 => {
                let mut p = PreferredTerm::default();
                fields(f.bytes, |e| {
                    match e.tag {
                        1 => p.weight = e.number as i32,
                        2 => p.term = term(e.bytes)?,
                        _ => {}
                    }
                    Ok(())
                })?;
                a.preferred.push(p);
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(a)
}

fn volume(data: &[u8]) -> Result<Volume, Malformed> {
    let mut v = Volume::default();
    fields(data, |f| {
        match f.tag {
            1 => v.name = f.text(),
            2 => v.kind = f.text(),
            3 => v.id = f.text(),
            4 => v.read_only = f.number != 0,
            5 => v.monitors.push(f.text()),
            _ => {}
        }
        Ok(())
    })?;
    Ok(v)
}

fn container(data: &[u8], into: &mut Vec<Container>) -> Decoded {
    let mut c = Container::default();
    texts(data, &mut [&mut c.name, &mut c.image])?;
    into.push(c);
    Ok(())
}

fn host_port(data: &[u8]) -> Result<HostPort, Malformed> {
    let mut h = HostPort::default();
    fields(data, |f| {
        match f.tag {
            1 => h.port = f.number as i32,
            2 => h.protocol = f.text(),
            3 => h.host_ip = f.text(),
            _ => {}
        }
        Ok(())
    })?;
    Ok(h)
}

fn owner(data: &[u8]) -> Result<OwnerReference, Malformed> {
    let mut o = OwnerReference::default();
    fields(data, |f| {
        match f.tag {
            1 => o.api_version = f.text(),
            2 => o.kind = f.text(),
            3 => o.name = f.text(),
            4 => o.uid = f.text(),
            5 => o.controller = f.number != 0,
            _ => {}
        }
        Ok(())
    })?;
    Ok(o)
}

fn pod(data: &[u8]) -> Result<Pod, Malformed> {
    let mut p = Pod::default();
    fields(data, |f| {
        match f.tag {
            1 => p.namespace = f.text(),
            2 => p.name = f.text(),
            3 => p.uid = f.text(),
            4 => pair(f.bytes, &mut p.labels)?,
            5 => pair(f.bytes, &mut p.annotations)?,
            6 => p.node_name = f.text(),
            7 => p.scheduler_name = f.text(),
            8 => p.priority = f.number as i32,
            9 => pair(f.bytes, &mut p.node_selector)?,
            10 => p.node_affinity = Some(affinity(f.bytes)?),
            11 => {
                let mut t = Toleration::default();
                texts(
                    f.bytes,
                    &mut [&mut t.key, &mut t.operator, &mut t.value, &mut t.effect],
                )?;
                p.tolerations.push(t);
            }
            12 => container(f.bytes, &mut p.containers)?,
            13 => container(f.bytes, &mut p.init_containers)?,
            14 => p.host_ports.push(host_port(f.bytes)?),
            15 => p.volumes.push(volume(f.bytes)?),
            16 => resources(f.bytes, &mut p.requests)?,
            17 => p.non_zero_milli_cpu = f.number as i64,
            18 => p.non_zero_memory = f.number as i64,
            19 => p.owners.push(owner(f.bytes)?),
            20 => p.terminating = f.number != 0,
            21 => p.start_time_unix = f.number as i64,
            _ => {}
        }
        Ok(())
    })?;
    Ok(p)
}

fn node(data: &[u8]) -> Result<Node, Malformed> {
    let mut n = Node::default();
    fields(data, |f| {
        match f.tag {
            1 => n.name = f.text(),
            2 => pair(f.bytes, &mut n.labels)?,
            3 => pair(f.bytes, &mut n.annotations)?,
            4 => n.unschedulable = f.number != 0,
            5 => {
                let mut t = Taint::default();
                texts(f.bytes, &mut [&mut t.key, &mut t.value, &mut t.effect])?;
                n.taints.push(t);
            }
            6 => resources(f.bytes, &mut n.capacity)?,
            7 => resources(f.bytes, &mut n.allocatable)?,
            8 => {
                let mut i = Image::default();
                fields(f.bytes, |e| {
                    match e.tag {
                        1 => i.names.push(e.text()),
                        2 => i.size_bytes = e.number as i64,
                        _ => {}
                    }
                    Ok(())
                })?;
                n.images.push(i);
            }
            9 => n.uid = f.text(),
            _ => {}
        }
        Ok(())
    })?;
    Ok(n)
}

fn key(data: &[u8], o: &mut Object) -> Decoded {
    texts(data, &mut [&mut o.kind, &mut o.namespace, &mut o.name])
}

fn object(data: &[u8]) -> Result<Object, Malformed> {
    let mut o = Object::default();
    fields(data, |f| {
        match f.tag {
            1 => key(f.bytes, &mut o)?,
            2 => pair(f.bytes, &mut o.labels)?,
            3 => o.has_selector = f.number != 0,
            4 => fields(f.bytes, |e| match e.tag {
                1 => pair(e.bytes, &mut o.match_labels),
                2 => requirement(e.bytes, &mut o.match_expressions),
                _ => Ok(()),
            })?,
            5 => o.volume_name = f.text(),
            6 => o.volume = Some(volume(f.bytes)?),
            7 => o.node_affinity = Some(affinity(f.bytes)?),
            _ => {}
        }
        Ok(())
    })?;
    Ok(o)
}

impl Cluster {
    fn apply(&mut self, delta: &[u8]) -> Decoded {
        // reset may stand behind the operations.
        let mut reset = false;
        fields(delta, |f| {
            if f.tag == 2 && f.varint {
                reset = f.number != 0;
            }
            Ok(())
        })?;
        if reset {
            *self = Cluster::default();
        }
        fields(delta, |f| match f.tag {
            3 => fields(f.bytes, |op| self.operation(op)),
            _ => Ok(()),
        })
    }

    fn operation(&mut self, op: &Field) -> Decoded {
        // NodeSet, PodAdd, PodRemove and ClassSet: a number, and a message or a text.
        let (mut number, mut message) = (0u32, Vec::new());
        if matches!(op.tag, 1 | 3 | 4 | 5) {
            fields(op.bytes, |f| {
                match f.tag {
                    1 => number = f.number as u32,
                    2 => message = f.bytes.to_vec(),
                    _ => {}
                }
                Ok(())
            })?;
        }
        match op.tag {
            1 => {
                let mut n = node(&message)?;
                if number >= MAX_NODES {
                    return Err(Malformed);
                }
                n.index = number;
                while self.nodes.len() <= number as usize {
                    self.nodes.push(None);
                }
                if let Some(old) = self.nodes[number as usize].take() {
                    n.pods = old.pods;
                    n.requested = old.requested;
                    n.non_zero_milli_cpu = old.non_zero_milli_cpu;
                    n.non_zero_memory = old.non_zero_memory;
                }
                self.nodes[number as usize] = Some(n);
            }
            2 => {
                if let Some(n) = self.nodes.get_mut(op.number as u32 as usize) {
                    *n = None;
                }
            }
            3 => {
                let p = pod(&message)?;
                let n = self.occupied(number).ok_or(Malformed)?;
                n.remove_pod(&p.uid);
                n.account(&p, 1);
                n.pods.insert(p.uid.clone(), p);
            }
            4 => {
                if let Some(n) = self.occupied(number) {
                    n.remove_pod(&String::from_utf8_lossy(&message));
                }
            }
            5 => {
                self.classes.insert(number, pod(&message)?);
            }
            6 => {
                self.classes.remove(&(op.number as u32));
            }
            7 => {
                let o = object(op.bytes)?;
                self.objects
                    .insert((o.kind.clone(), o.namespace.clone(), o.name.clone()), o);
            }
            8 => {
                let mut o = Object::default();
                key(op.bytes, &mut o)?;
                self.objects.remove(&(o.kind, o.namespace, o.name));
            }
            _ => {}
        }
        Ok(())
    }

    fn occupied(&mut self, index: u32) -> Option<&mut Node> {
        self.nodes.get_mut(index as usize).and_then(|n| n.as_mut())
    }
}

// The exports of sdk/ABI.md. A module has one thread, and the host calls it one
// call at a time.

struct Module {
    plugins: Vec<Plugin>,
    cluster: Cluster,
    said: String, // what the last span points to
    fault: String,
    buffers: HashMap<usize, Vec<u64>>,
}

static mut MODULE: Option<Module> = None;

fn module() -> &'static mut Module {
    // SAFETY: one thread, and no call of the host is inside another.
    unsafe {
        let slot = &mut *std::ptr::addr_of_mut!(MODULE);
        slot.get_or_insert_with(|| Module {
            plugins: crate::plugins(),
            cluster: Cluster::default(),
            said: String::new(),
            fault: String::new(),
            buffers: HashMap::new(),
        })
    }
}

const PLUGIN: i32 = -1;
const CLASS: i32 = -2;
const NODE: i32 = -3;
const MALFORMED: i32 = -4;
const FAILED: i32 = -6;

impl Module {
    fn span(&mut self, text: String) -> i64 {
        self.said = text;
        if self.said.is_empty() {
            return 0;
        }
        ((self.said.as_ptr() as u64) << 32 | self.said.len() as u64) as i64
    }

    fn fail(&mut self, status: i32, why: impl Into<String>) -> i32 {
        self.fault = why.into();
        status
    }

    fn no_plugin(&mut self) -> i32 {
        self.fail(PLUGIN, "no such plugin, or not of this kind")
    }

    fn no_class(&mut self) -> i32 {
        self.fail(CLASS, "no such class")
    }

    fn no_node(&mut self) -> i32 {
        self.fail(NODE, "no such node")
    }
}

/// A view of memory that the host wrote or reads.
unsafe fn view<'a, T>(pointer: *mut T, n: u32) -> &'a mut [T] {
    if n == 0 {
        return &mut [];
    }
    std::slice::from_raw_parts_mut(pointer, n as usize)
}

#[no_mangle]
pub extern "C" fn pintle_abi_version() -> i32 {
    1
}

#[no_mangle]
pub extern "C" fn pintle_alloc(size: u32) -> usize {
    let mut buffer = vec![0u64; size as usize / 8 + 1];
    let pointer = buffer.as_mut_ptr() as usize;
    module().buffers.insert(pointer, buffer);
    pointer
}

#[no_mangle]
pub extern "C" fn pintle_free(pointer: usize) {
    module().buffers.remove(&pointer);
}

#[no_mangle]
pub extern "C" fn pintle_error() -> i64 {
    let m = module();
    let text = m.fault.clone();
    m.span(text)
}

#[no_mangle]
pub extern "C" fn pintle_describe() -> i64 {
    let m = module();
    let list: Vec<String> = m
        .plugins
        .iter()
        .map(|p| {
            let mut s = format!(r#"{{"name":"{}","scope":"{}""#, p.name, p.scope);
            match p.answer {
                Answer::Filter(_) => s += r#","kind":"predicate""#,
                Answer::Score(_) => {
                    s += &format!(r#","kind":"priority","normalize":"{}""#, p.normalize)
                }
            }
            if !p.reads.is_empty() {
                s += &format!(r#","reads":["{}"]"#, p.reads.join(r#"",""#));
            }
            s + "}"
        })
        .collect();
    m.span(format!(
        r#"{{"contract":1,"plugins":[{}]}}"#,
        list.join(",")
    ))
}

/// # Safety
/// The host passes a buffer of pintle_alloc.
#[no_mangle]
pub unsafe extern "C" fn pintle_configure(plugin: u32, pointer: *mut u8, size: u32) -> i32 {
    let m = module();
    let (name, configure) = match m.plugins.get(plugin as usize) {
        Some(p) => (p.name, p.configure),
        None => return m.no_plugin(),
    };
    let text = String::from_utf8_lossy(view(pointer, size)).into_owned();
    let wrong = match configure {
        Some(configure) => configure(&text),
        None if size == 0 => Ok(()),
        None => Err(format!("{} takes no configuration", name)),
    };
    match wrong {
        Ok(()) => 0,
        Err(why) => m.fail(FAILED, why),
    }
}

/// # Safety
/// The host passes a buffer of pintle_alloc.
#[no_mangle]
pub unsafe extern "C" fn pintle_apply(pointer: *mut u8, size: u32) -> i32 {
    let m = module();
    match m.cluster.apply(view(pointer, size)) {
        Ok(()) => 0,
        Err(Malformed) => m.fail(MALFORMED, "malformed delta"),
    }
}

/// # Safety
/// The host passes buffers of pintle_alloc.
#[no_mangle]
pub unsafe extern "C" fn pintle_filter(
    plugin: u32,
    class: u32,
    nodes: *mut u32,
    n: u32,
    out: *mut u32,
) -> i32 {
    let m = module();
    let filter = match m.plugins.get(plugin as usize).map(|p| p.answer) {
        Some(Answer::Filter(filter)) => filter,
        _ => return m.no_plugin(),
    };
    let pod = match m.cluster.classes.get(&class) {
        Some(pod) => pod,
        None => return m.no_class(),
    };
    for (index, out) in view(nodes, n).iter().zip(view(out, n)) {
        let node = match m.cluster.node(*index) {
            Some(node) => node,
            None => return m.no_node(),
        };
        *out = match filter(&Request {
            pod,
            node,
            cluster: &m.cluster,
        }) {
            Some(why) => m.plugins[plugin as usize].verdict(why),
            None => 0,
        };
    }
    0
}

/// # Safety
/// The host passes buffers of pintle_alloc.
#[no_mangle]
pub unsafe extern "C" fn pintle_score(
    plugin: u32,
    class: u32,
    nodes: *mut u32,
    n: u32,
    out: *mut i64,
) -> i32 {
    let m = module();
    let score = match m.plugins.get(plugin as usize).map(|p| p.answer) {
        Some(Answer::Score(score)) => score,
        _ => return m.no_plugin(),
    };
    let pod = match m.cluster.classes.get(&class) {
        Some(pod) => pod,
        None => return m.no_class(),
    };
    for (index, out) in view(nodes, n).iter().zip(view(out, n)) {
        let node = match m.cluster.node(*index) {
            Some(node) => node,
            None => return m.no_node(),
        };
        *out = score(&Request {
            pod,
            node,
            cluster: &m.cluster,
        });
    }
    0
}

/// # Safety
/// The host passes buffers of pintle_alloc.
#[no_mangle]
pub unsafe extern "C" fn pintle_normalize(
    plugin: u32,
    class: u32,
    nodes: *mut u32,
    n: u32,
    scores: *mut i64,
) -> i32 {
    let m = module();
    let rewrite = match m.plugins.get(plugin as usize).and_then(|p| p.rewrite) {
        Some(rewrite) => rewrite,
        None => return m.no_plugin(),
    };
    let pod = match m.cluster.classes.get(&class) {
        Some(pod) => pod,
        None => return m.no_class(),
    };
    let list: Option<Vec<&Node>> = view(nodes, n).iter().map(|i| m.cluster.node(*i)).collect();
    match list {
        Some(list) => rewrite(pod, &list, view(scores, n)),
        None => return m.no_node(),
    }
    0
}

#[no_mangle]
pub extern "C" fn pintle_reason(plugin: u32, verdict: u32) -> i64 {
    let m = module();
    let words = m
        .plugins
        .get(plugin as usize)
        .and_then(|p| p.words.get((verdict as usize).wrapping_sub(1)));
    let text = words.cloned().unwrap_or_default();
    m.span(text)
}
