//! The secret of a cluster: its nodes prove to each other that they know it.

/// The secret that all nodes of a cluster share.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(pub(crate) Vec<u8>);

impl Secret {
    /// The text of a secret file, without white space around it.
    pub fn new(text: &[u8]) -> Self {
        Self(text.trim_ascii().to_vec())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_empty() { "no secret" } else { "a secret" })
    }
}
