//! What a controller and a mutating plugin can ask for and say, all of it.

mod host;
mod json;
mod pintle;

use json::{find, find_number, find_string, items, quote};
use pintle::{Key, Outcome, Plugin, Review};

fn see(key: &Key) -> Outcome {
    let seen = host::get("v1/configmaps", &key.namespace, &key.name).map_err(|e| e.message)?;
    let text = find_string(&seen, "/data/text").unwrap_or_default();
    let pods = host::list("v1/pods", &key.namespace, "app=web").map_err(|e| e.message)?;
    let list = items(&pods, "/items");
    for item in &list {
        let patch = format!(r#"{{"metadata":{{"labels":{{"seen":{}}}}}}}"#, quote(&text));
        let name = find_string(item, "/metadata/name").unwrap_or_default();
        let _ = host::patch("v1/pods", &key.namespace, &name, "status", "merge", &patch);
    }
    if find_string(&pods, "/items/1/metadata/name").as_deref() != Some("b")
        || find(&pods, "/items/2").is_some()
    {
        return Err("the second of two items is b".to_string());
    }
    let percent = find_number(&pods, "/percent").unwrap_or(0);
    let _ = host::update("v1/configmaps", &key.namespace, "", &seen);
    let message = format!("{} pods of {}%", list.len(), percent);
    let _ = host::event(&seen, "Normal", "Seen", &message);
    host::log(host::WARN, &text);
    if host::now() != 0 {
        return Err("it is not 1970".to_string());
    }
    match host::delete("v1/configmaps", &key.namespace, &key.name) {
        Err(e) => Err(format!("{} {}: {}", e.code, e.reason, e.message)),
        Ok(_) => Ok(1500),
    }
}

fn change(r: &mut Review) -> Result<(), String> {
    let x = find_string(&r.object, "/metadata/annotations/x~1y").unwrap_or_default();
    r.warn("a \"warning\"");
    r.set("/metadata/labels/a~1b", &quote(&x));
    r.remove("/spec/x");
    match x.as_str() {
        "no" => Err("no is \"no\"".to_string()),
        _ => Ok(()),
    }
}

fn configured(json: &str) -> Result<(), String> {
    if json.is_empty() || find(json, "/size").is_some() {
        return Ok(());
    }
    Err("size is missing".to_string())
}

fn plugins() -> Vec<Plugin> {
    let mut seer = Plugin::controller("seer", "v1/configmaps", see);
    seer.owns = vec!["v1/pods", "apps/v1/replicasets"];
    let mut changer = Plugin::mutator("changer", &["v1/pods"], change);
    changer.configure = Some(configured);
    vec![seer, changer]
}
