//! The description of the paths is whole: every path and method of the table, every name that it refers to.

use std::collections::BTreeSet;

use chancery_doors::http::{openapi, routes};
use serde_json::Value;

/// The description as it is published.
fn published() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

// interface 2
#[test]
fn every_path_and_method_is_published_and_no_other() {
    let mut told = BTreeSet::new();
    for (path, methods) in published()["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            told.insert(format!("{} {path}", method.to_uppercase()));
        }
    }
    let of_table = |route: &chancery_doors::http::Route| format!("{} {}", route.method, route.path);
    let served: BTreeSet<String> = routes().iter().map(of_table).collect();
    assert_eq!(told, served);
    assert_eq!(openapi::undescribed(), Vec::<String>::new());
}

#[test]
fn what_is_published_is_what_is_served() {
    let is_same = published() == openapi::document();
    assert!(is_same, "chancery schema openapi > docs/openapi.json");
}

// interface 2
#[test]
fn the_page_of_paths_lists_each_once_with_its_rule() {
    let page = openapi::page();
    for route in routes() {
        let row = format!("| `{} {}` | {} |", route.method, route.path, route.what);
        assert_eq!(page.matches(&row).count(), 1, "{row}");
    }
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    assert_eq!(rows.count(), routes().len());
    assert!(page.contains("| `GET /admin/keys` | lists keys | a token with `admin` |"));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/endpoints.md");
    let is_same = std::fs::read_to_string(path).unwrap() == page;
    assert!(
        is_same,
        "chancery schema openapi --markdown > docs/endpoints.md"
    );
}

fn references(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            into.extend(
                members
                    .get("$ref")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            );
            members.values().for_each(|value| references(value, into));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, into)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_component_is_used() {
    let document = openapi::document();
    let mut used = BTreeSet::new();
    references(&document, &mut used);
    for reference in &used {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    for kind in ["schemas", "parameters", "responses"] {
        for name in document["components"][kind].as_object().unwrap().keys() {
            let reference = format!("#/components/{kind}/{name}");
            assert!(used.contains(&reference), "{reference} is used by nobody");
        }
    }
}

// CH-NET-4, CH-ID-2: whoever needs a token is told so, with its scope.
#[test]
fn security_is_what_the_rules_of_the_table_say() {
    use chancery_doors::http::Rule;
    let document = openapi::document();
    for route in routes() {
        let method = route.method.as_str().to_lowercase();
        let operation = &document["paths"][route.path][method];
        let asks = operation["security"] == serde_json::json!([{"token": []}]);
        let needs = matches!(route.rule, Rule::Token(_) | Rule::Principal(_));
        assert_eq!(asks, needs, "{}", route.path);
        let told = operation["responses"].as_object().unwrap();
        // Others may have it too: a signature that does not verify is 401 as well.
        assert!(told.contains_key("401") || !needs, "{}", route.path);
        if matches!(route.rule, Rule::Token(_)) {
            assert!(
                operation["description"]
                    .as_str()
                    .unwrap()
                    .starts_with("Needs a token")
            );
        }
    }
}
