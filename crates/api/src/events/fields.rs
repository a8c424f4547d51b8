//! Writes the fields of one JSON object, in the order of the calls.

use keyspace::{NodeId, Timestamp};

/// The longest string; a longer one is cut.
const TEXT_BYTES_MAX: usize = 1 << 10;
/// The longest list; a longer one is cut.
pub(super) const LIST_MAX: usize = 64;

/// See the module's documentation.
pub(super) struct Fields(String);

impl Fields {
    /// An object that begins with a type.
    pub fn new(event_type: &str) -> Self {
        let mut fields = Self(String::with_capacity(256));
        fields.0.push('{');
        fields.text("type", event_type);
        fields
    }

    /// An object in a list.
    fn nested() -> Self {
        Self("{".to_owned())
    }

    fn name(&mut self, name: &str) {
        if !self.0.ends_with('{') {
            self.0.push(',');
        }
        self.0.push('"');
        self.0.push_str(name);
        self.0.push_str("\":");
    }

    pub fn text(&mut self, name: &str, text: &str) {
        self.name(name);
        self.0.push_str(&quoted(text));
    }

    pub fn number(&mut self, name: &str, number: impl Into<u64>) {
        self.name(name);
        self.0.push_str(&number.into().to_string());
    }

    pub fn fraction(&mut self, name: &str, number: f64) {
        self.name(name);
        match number.is_finite() {
            true => self.0.push_str(&format!("{number:.3}")),
            false => self.0.push_str("null"),
        }
    }

    pub fn flag(&mut self, name: &str, flag: bool) {
        self.name(name);
        self.0.push_str(if flag { "true" } else { "false" });
    }

    pub fn null(&mut self, name: &str) {
        self.name(name);
        self.0.push_str("null");
    }

    pub fn node(&mut self, name: &str, node: NodeId) {
        self.text(name, &format!("{:016x}", node.0));
    }

    pub fn time(&mut self, name: &str, at: Timestamp) {
        self.text(name, &at.0.to_string());
    }

    /// A key: a string, or its base64.
    pub fn key(&mut self, name: &str, key: &[u8]) {
        match std::str::from_utf8(key) {
            Ok(text) => self.text(name, text),
            Err(_) => {
                let mut bytes = Self::nested();
                bytes.text("base64", &keyspace::base64::encode(key));
                self.json(name, &bytes.end());
            }
        }
    }

    /// What is JSON already.
    pub fn json(&mut self, name: &str, json: &str) {
        self.name(name);
        self.0.push_str(json);
    }

    pub fn numbers(&mut self, name: &str, numbers: impl IntoIterator<Item = u64>) {
        self.list(name, numbers.into_iter().map(|number| number.to_string()));
    }

    pub fn nodes(&mut self, name: &str, nodes: &[NodeId]) {
        self.list(name, nodes.iter().map(|node| quoted(&format!("{:016x}", node.0))));
    }

    /// A list of objects.
    pub fn objects<T>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        write: impl Fn(&mut Self, T),
    ) {
        let object = |item| {
            let mut object = Self::nested();
            write(&mut object, item);
            object.end()
        };
        self.list(name, items.into_iter().map(object));
    }

    fn list(&mut self, name: &str, items: impl Iterator<Item = String>) {
        self.name(name);
        let items: Vec<String> = items.take(LIST_MAX).collect();
        self.0.push('[');
        self.0.push_str(&items.join(","));
        self.0.push(']');
    }

    /// All of it.
    pub fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

fn quoted(text: &str) -> String {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let json = |text: &str| serde_json::to_string(text).expect("a string becomes JSON");
    match end == text.len() {
        true => json(text),
        false => json(&format!("{}…", &text[..end])),
    }
}

#[cfg(test)]
#[test]
fn objects_are_json_whatever_strings_hold() {
    let mut fields = Fields::new("t");
    fields.text("line", "a\n\"b\"\u{7}");
    fields.text("long", &"ü".repeat(TEXT_BYTES_MAX));
    fields.key("text", b"k");
    fields.key("bytes", b"\xff");
    fields.fraction("none", f64::NAN);
    fields.numbers("numbers", 0..1000);
    fields.objects("objects", [1u64, 2], |object, item| object.number("n", item));
    let json = fields.end();
    assert!(!json.contains(char::is_control));
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(read["line"], "a\n\"b\"\u{7}");
    assert_eq!(read["long"].as_str().unwrap().chars().count(), TEXT_BYTES_MAX / 2 + 1);
    assert_eq!((&read["text"], &read["bytes"]["base64"]), (&"k".into(), &"/w==".into()));
    assert!(read["none"].is_null());
    assert_eq!(read["numbers"].as_array().unwrap().len(), LIST_MAX);
    assert_eq!(read["objects"][1]["n"], 2);
}
