//! The document at `/openapi.json`: as the file in docs, and true of the router.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use api::http::openapi::document;
use serde_json::Value;

use super::*;

/// Set by `make golden`.
const UPDATE: &str = "UPDATE_GOLDENFILES";

#[test]
fn golden_document_is_the_file_in_docs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, document()).unwrap();
    }
    let file = fs::read_to_string(path).unwrap();
    let differs = file.lines().zip(document().lines().map(str::to_owned)).find(|(a, b)| a != b);
    assert!(file == document(), "`make golden` writes it anew; the first line: {differs:?}");
}

#[test]
fn the_document_is_served() {
    let server = serve(options());
    let reply = ask(&server, "GET", "/openapi.json", b"");
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    let served: Value = serde_json::from_slice(&reply.body).unwrap();
    let wanted: Value = serde_json::from_str(&document()).unwrap();
    assert_eq!(served, wanted);
}

/// Of each path: the router allows just the methods that the document has.
#[test]
fn documented_methods_are_those_of_the_router() {
    let server = serve(options());
    let document: Value = serde_json::from_str(&document()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 15);
    for (path, item) in paths {
        let mut documented: BTreeSet<String> =
            item.as_object().unwrap().keys().map(|method| method.to_uppercase()).collect();
        if documented.contains("GET") {
            documented.insert("HEAD".to_owned());
        }
        let reply = ask(&server, "TRACE", path, b"");
        assert_eq!((reply.status, reply.problem().as_str()), (405, "unknown-method"), "{path}");
        let allowed = reply.header("allow").unwrap().split(',');
        let allowed: BTreeSet<String> = allowed.map(|method| method.trim().to_owned()).collect();
        assert_eq!(allowed, documented, "{path}");
    }
}

/// Of each operation: a name of its own, words, and replies with an error that are problems.
#[test]
fn operations_say_what_they_do() {
    let document: Value = serde_json::from_str(&document()).unwrap();
    let mut names = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{name} is the name of two operations");
            assert!(operation["summary"].as_str().is_some_and(|text| text.len() > 10), "{name}");
            assert_eq!(operation["tags"].as_array().unwrap().len(), 1, "{name}");
            for (status, reply) in operation["responses"].as_object().unwrap() {
                assert!(reply["description"].as_str().is_some_and(|text| !text.is_empty()));
                let is_problem = reply["content"].get("application/problem+json").is_some();
                assert_eq!(is_problem, status.as_str() >= "400", "{method} {path}: {status}");
            }
        }
    }
}

/// Every place that refers to a part of the document finds it.
#[test]
fn references_lead_somewhere() {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|member| references(member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }
    let document: Value = serde_json::from_str(&document()).unwrap();
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 100);
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}
