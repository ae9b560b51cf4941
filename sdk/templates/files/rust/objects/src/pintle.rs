//! The module's side of sdk/ABI.md, version 1: controllers and admission plugins.
//! An author defines one function, `plugins`, that names what the module holds
//! (see lib.rs).

#![allow(dead_code)]

use std::collections::HashMap;

use crate::json::{find, find_string, quote};

/// The object that a controller is asked about; it may be gone.
pub struct Key {
    pub namespace: String,
    pub name: String,
}

/// What a controller makes of a key: 0 is done, n asks again after n
/// milliseconds, an error with back-off.
pub type Outcome = Result<u32, String>;

/// A request as admission webhooks get it; object is what shall be stored, old
/// what is, both empty where they do not apply.
pub struct Review {
    pub request: String,
    pub operation: String,
    pub namespace: String,
    pub name: String,
    pub object: String,
    pub old: String,
    changes: Vec<String>,
    warnings: Vec<String>,
}

impl Review {
    /// A warning that the user sees whatever is decided.
    pub fn warn(&mut self, text: &str) {
        self.warnings.push(quote(text));
    }

    /// Mutators: puts JSON at a pointer, whose parent must be there.
    pub fn set(&mut self, pointer: &str, json: &str) {
        self.changes.push(format!(
            r#"{{"op":"add","path":{},"value":{}}}"#,
            quote(pointer),
            json
        ));
    }

    pub fn remove(&mut self, pointer: &str) {
        self.changes
            .push(format!(r#"{{"op":"remove","path":{}}}"#, quote(pointer)));
    }
}

#[derive(Clone, Copy)]
enum Answer {
    Reconcile(fn(&Key) -> Outcome),
    /// An error refuses the request, with these words.
    Validate(fn(&mut Review) -> Result<(), String>),
    Mutate(fn(&mut Review) -> Result<(), String>),
}

/// One plugin of the module.
pub struct Plugin {
    name: &'static str,
    resources: Vec<&'static str>,
    answer: Answer,
    /// Controllers: resources whose owner is asked about as well.
    pub owns: Vec<&'static str>,
    /// Admission plugins: CREATE, UPDATE, DELETE, CONNECT.
    pub operations: Vec<&'static str>,
    /// Takes the configuration as JSON, empty where it is set back.
    pub configure: Option<fn(&str) -> Result<(), String>>,
}

impl Plugin {
    fn new(name: &'static str, resources: &[&'static str], answer: Answer) -> Plugin {
        Plugin {
            name,
            resources: resources.to_vec(),
            answer,
            owns: Vec::new(),
            operations: vec!["CREATE", "UPDATE"],
            configure: None,
        }
    }

    /// Is asked about each object of a resource, v1/configmaps or apps/v1/deployments.
    pub fn controller(
        name: &'static str,
        resource: &'static str,
        reconcile: fn(&Key) -> Outcome,
    ) -> Plugin {
        Plugin::new(name, &[resource], Answer::Reconcile(reconcile))
    }

    /// May refuse requests about the resources.
    pub fn validator(
        name: &'static str,
        resources: &[&'static str],
        review: fn(&mut Review) -> Result<(), String>,
    ) -> Plugin {
        Plugin::new(name, resources, Answer::Validate(review))
    }

    /// May change what shall be stored, or refuse it.
    pub fn mutator(
        name: &'static str,
        resources: &[&'static str],
        review: fn(&mut Review) -> Result<(), String>,
    ) -> Plugin {
        Plugin::new(name, resources, Answer::Mutate(review))
    }

    fn description(&self) -> String {
        let phase = match self.answer {
            Answer::Reconcile(_) => {
                let mut s = format!(
                    r#"{{"name":"{}","kind":"controller","for":"{}""#,
                    self.name, self.resources[0]
                );
                if !self.owns.is_empty() {
                    s += &format!(r#","owns":{}"#, list(&self.owns));
                }
                return s + "}";
            }
            Answer::Validate(_) => "validating",
            Answer::Mutate(_) => "mutating",
        };
        format!(
            r#"{{"name":"{}","kind":"admission","phase":"{}","rules":[{{"operations":{},"resources":{}}}]}}"#,
            self.name,
            phase,
            list(&self.operations),
            list(&self.resources)
        )
    }
}

fn list(texts: &[&str]) -> String {
    format!(r#"["{}"]"#, texts.join(r#"",""#))
}

// The exports of sdk/ABI.md. A module has one thread, and the host calls it one
// call at a time.

struct Module {
    plugins: Vec<Plugin>,
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
            said: String::new(),
            fault: String::new(),
            buffers: HashMap::new(),
        })
    }
}

const PLUGIN: i32 = -1;
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

    fn answer(&self, plugin: u32) -> Option<Answer> {
        self.plugins.get(plugin as usize).map(|p| p.answer)
    }
}

/// A text that the host wrote.
unsafe fn text(pointer: *const u8, size: u32) -> String {
    if size == 0 {
        return String::new();
    }
    String::from_utf8_lossy(std::slice::from_raw_parts(pointer, size as usize)).into_owned()
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
    let admits = m
        .plugins
        .iter()
        .any(|p| !matches!(p.answer, Answer::Reconcile(_)));
    let list: Vec<String> = m.plugins.iter().map(Plugin::description).collect();
    // Admission is of the second contract.
    m.span(format!(
        r#"{{"contract":{},"plugins":[{}]}}"#,
        if admits { 2 } else { 1 },
        list.join(",")
    ))
}

/// # Safety
/// The host passes a buffer of pintle_alloc.
#[no_mangle]
pub unsafe extern "C" fn pintle_configure(plugin: u32, pointer: *const u8, size: u32) -> i32 {
    let m = module();
    let (name, configure) = match m.plugins.get(plugin as usize) {
        Some(p) => (p.name, p.configure),
        None => return m.no_plugin(),
    };
    let wrong = match configure {
        Some(configure) => configure(&text(pointer, size)),
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
pub unsafe extern "C" fn pintle_reconcile(plugin: u32, pointer: *const u8, size: u32) -> i64 {
    let reconcile = match module().answer(plugin) {
        Some(Answer::Reconcile(reconcile)) => reconcile,
        _ => return module().no_plugin() as i64,
    };
    let key = text(pointer, size);
    let key = Key {
        namespace: find_string(&key, "/namespace").unwrap_or_default(),
        name: find_string(&key, "/name").unwrap_or_default(),
    };
    match reconcile(&key) {
        Ok(after) => after as i64,
        Err(why) => module().fail(FAILED, why) as i64,
    }
}

/// # Safety
/// The host passes a buffer of pintle_alloc.
#[no_mangle]
pub unsafe extern "C" fn pintle_admit(plugin: u32, pointer: *const u8, size: u32) -> i64 {
    let m = module();
    let (review, mutates) = match m.answer(plugin) {
        Some(Answer::Validate(review)) => (review, false),
        Some(Answer::Mutate(review)) => (review, true),
        _ => {
            m.no_plugin();
            return 0;
        }
    };
    let request = text(pointer, size);
    let some = |pointer: &str| {
        let json = find(&request, pointer).filter(|json| *json != "null");
        json.unwrap_or_default().to_string()
    };
    let mut r = Review {
        operation: find_string(&request, "/operation").unwrap_or_default(),
        namespace: find_string(&request, "/namespace").unwrap_or_default(),
        name: find_string(&request, "/name").unwrap_or_default(),
        object: some("/object"),
        old: some("/oldObject"),
        changes: Vec::new(),
        warnings: Vec::new(),
        request: String::new(),
    };
    r.request = request;
    if r.operation.is_empty() {
        m.fail(FAILED, "the request is no AdmissionRequest");
        return 0;
    }
    let refused = review(&mut r).err();
    if !r.changes.is_empty() && !mutates {
        m.fail(
            FAILED,
            "a validator changed the object; make it a Plugin::mutator",
        );
        return 0;
    }
    let mut out = String::from(r#"{"allowed":true"#);
    if let Some(why) = refused {
        out = format!(
            r#"{{"allowed":false,"status":{{"code":403,"reason":"Forbidden","message":{}}}"#,
            quote(&why)
        );
    } else if !r.changes.is_empty() {
        let patch = base64(format!("[{}]", r.changes.join(",")).as_bytes());
        out += &format!(r#","patchType":"JSONPatch","patch":"{}""#, patch);
    }
    if !r.warnings.is_empty() {
        out += &format!(r#","warnings":[{}]"#, r.warnings.join(","));
    }
    m.span(out + "}")
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let mut v = 0u32;
        for i in 0..3 {
            v = v << 8 | *three.get(i).unwrap_or(&0) as u32;
        }
        for i in 0..4 {
            let letter = LETTERS[(v >> (18 - 6 * i) & 63) as usize] as char;
            out.push(if i <= three.len() { letter } else { '=' });
        }
    }
    out
}

// What only plugins of the scheduler need.

#[no_mangle]
pub extern "C" fn pintle_apply(_pointer: u32, _size: u32) -> i32 {
    0
}

#[no_mangle]
pub extern "C" fn pintle_filter(_plugin: u32, _class: u32, _nodes: u32, _n: u32, _out: u32) -> i32 {
    module().no_plugin()
}

#[no_mangle]
pub extern "C" fn pintle_score(_plugin: u32, _class: u32, _nodes: u32, _n: u32, _out: u32) -> i32 {
    module().no_plugin()
}

#[no_mangle]
pub extern "C" fn pintle_normalize(
    _plugin: u32,
    _class: u32,
    _nodes: u32,
    _n: u32,
    _scores: u32,
) -> i32 {
    module().no_plugin()
}

#[no_mangle]
pub extern "C" fn pintle_reason(_plugin: u32, _verdict: u32) -> i64 {
    0
}
