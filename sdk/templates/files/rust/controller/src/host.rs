//! What a controller may ask of its host (sdk/ABI.md, "Controllers"). The manifest
//! names the functions that are used; the plugin's rules say of which objects.
//!
//! A resource is v1/configmaps or apps/v1/deployments; the namespace is empty for
//! objects without one, and objects are JSON.

#![allow(dead_code)]

use crate::json::{find, find_number, find_string, quote};

/// The API's refusal: a code such as 404 with a reason (NotFound) and a message.
#[derive(Debug)]
pub struct Refusal {
    pub code: i64,
    pub reason: String,
    pub message: String,
}

/// The object, or why not.
pub type Answer = Result<String, Refusal>;

pub fn get(resource: &str, namespace: &str, name: &str) -> Answer {
    ask(raw::get, about(resource, namespace, name))
}

/// The selector is one of labels, or empty; the answer is a list, whose items are
/// at /items.
pub fn list(resource: &str, namespace: &str, selector: &str) -> Answer {
    let request = about(resource, namespace, "") + &field("labelSelector", selector);
    ask(raw::list, request)
}

pub fn create(resource: &str, namespace: &str, object: &str) -> Answer {
    let request = about(resource, namespace, "") + &with("object", object);
    ask(raw::create, request)
}

/// The subresource is status, or empty.
pub fn update(resource: &str, namespace: &str, subresource: &str, object: &str) -> Answer {
    let request = about(resource, namespace, "") + &field("subresource", subresource);
    ask(raw::update, request + &with("object", object))
}

/// The form is json, merge, strategic or apply.
pub fn patch(
    resource: &str,
    namespace: &str,
    name: &str,
    subresource: &str,
    form: &str,
    patch: &str,
) -> Answer {
    let request = about(resource, namespace, name) + &field("subresource", subresource);
    ask(
        raw::patch,
        request + &field("patchType", form) + &with("patch", patch),
    )
}

pub fn delete(resource: &str, namespace: &str, name: &str) -> Answer {
    ask(raw::delete, about(resource, namespace, name))
}

/// An event about an object as get answers it; its type is Normal or Warning.
pub fn event(object: &str, of_type: &str, reason: &str, message: &str) -> Answer {
    let mut request = format!("{{\"type\":{}", quote(of_type));
    for (name, pointer) in [
        ("apiVersion", "/apiVersion"),
        ("kind", "/kind"),
        ("namespace", "/metadata/namespace"),
        ("name", "/metadata/name"),
        ("uid", "/metadata/uid"),
    ] {
        request += &field(name, &find_string(object, pointer).unwrap_or_default());
    }
    ask(
        raw::event,
        request + &field("reason", reason) + &field("message", message),
    )
}

pub const DEBUG: i32 = -4;
pub const INFO: i32 = 0;
pub const WARN: i32 = 4;
pub const ERROR: i32 = 8;

/// A record of the kernel's log.
pub fn log(level: i32, message: &str) {
    let record = format!("{{\"level\":{},\"message\":{}}}", level, quote(message));
    // SAFETY: the host reads the record before it returns.
    unsafe { raw::log(record.as_ptr(), record.len() as u32) }
}

/// Nanoseconds since 1970.
pub fn now() -> i64 {
    // SAFETY: it takes nothing.
    unsafe { raw::now() }
}

mod raw {
    #[link(wasm_import_module = "pintle_host")]
    extern "C" {
        pub fn get(request: *const u8, size: u32) -> u32;
        pub fn list(request: *const u8, size: u32) -> u32;
        pub fn create(request: *const u8, size: u32) -> u32;
        pub fn update(request: *const u8, size: u32) -> u32;
        pub fn patch(request: *const u8, size: u32) -> u32;
        pub fn delete(request: *const u8, size: u32) -> u32;
        pub fn event(request: *const u8, size: u32) -> u32;
        pub fn log(record: *const u8, size: u32);
        pub fn now() -> i64;
        pub fn answer(into: *mut u8, size: u32);
    }
}

fn field(name: &str, value: &str) -> String {
    if value.is_empty() {
        return String::new();
    }
    format!(",\"{}\":{}", name, quote(value))
}

fn with(name: &str, json: &str) -> String {
    format!(",\"{}\":{}", name, json)
}

fn about(resource: &str, namespace: &str, name: &str) -> String {
    format!("{{\"resource\":{}", quote(resource))
        + &field("namespace", namespace)
        + &field("name", name)
}

#[inline(always)]
fn ask(function: unsafe extern "C" fn(*const u8, u32) -> u32, request: String) -> Answer {
    let request = request + "}";
    // SAFETY: the host reads the request before it returns, and writes as many
    // bytes as it said.
    let data = unsafe {
        let size = function(request.as_ptr(), request.len() as u32);
        let mut data = vec![0u8; size as usize];
        if size > 0 {
            raw::answer(data.as_mut_ptr(), size);
        }
        data
    };
    let text = String::from_utf8_lossy(&data);
    match find(&text, "/status") {
        None => Ok(find(&text, "/object").unwrap_or_default().to_string()),
        Some(status) => Err(Refusal {
            code: find_number(status, "/code").unwrap_or(500),
            reason: find_string(status, "/reason").unwrap_or_default(),
            message: find_string(status, "/message").unwrap_or_default(),
        }),
    }
}
