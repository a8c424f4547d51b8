//! Which events a viewer wants.

use crate::event::EventType;

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// A bit for each type.
    types: u64,
    keyspace: Option<Box<str>>,
}

impl Default for Filter {
    fn default() -> Self {
        Self { types: u64::MAX, keyspace: None }
    }
}

impl Filter {
    /// Events of these types only.
    pub fn of_types(types: impl IntoIterator<Item = EventType>) -> Self {
        let types = types.into_iter().fold(0, |bits, one| bits | 1 << one as u64);
        Self { types, keyspace: None }
    }

    /// The same, of one keyspace only.
    pub fn in_keyspace(self, keyspace: Option<Box<str>>) -> Self {
        Self { keyspace, ..self }
    }

    /// The types, unless all are wanted.
    pub fn types(&self) -> Option<impl Iterator<Item = EventType> + use<>> {
        let types = self.types;
        let wanted = move |one: &EventType| types & 1 << *one as u64 != 0;
        (types != u64::MAX).then(|| EventType::ALL.iter().copied().filter(wanted))
    }

    /// The keyspace, if only one is wanted.
    pub fn keyspace(&self) -> Option<&str> {
        self.keyspace.as_deref()
    }

    /// Whether an event passes.
    pub fn passes(&self, event_type: EventType, keyspace: Option<&str>) -> bool {
        self.types & 1 << event_type as u64 != 0
            && self.keyspace.as_deref().is_none_or(|wanted| keyspace == Some(wanted))
    }

    /// Whether samples may pass.
    pub fn passes_samples(&self) -> bool {
        [EventType::Request, EventType::Transaction]
            .iter()
            .any(|sample| self.types & 1 << *sample as u64 != 0)
    }
}

#[cfg(test)]
#[test]
fn type_and_keyspace_both_have_to_fit() {
    let all = Filter::default();
    assert!(all.passes(EventType::Link, None) && all.passes_samples() && all.types().is_none());
    let some = Filter::of_types([EventType::Split, EventType::Request]);
    assert!(some.passes(EventType::Split, Some("a")) && !some.passes(EventType::Merged, Some("a")));
    let both = some.in_keyspace(Some("a".into()));
    assert!(both.passes(EventType::Split, Some("a")));
    assert!(!both.passes(EventType::Split, Some("b")) && !both.passes(EventType::Split, None));
    assert!(both.types().is_some_and(|types| types.eq([EventType::Split, EventType::Request])));
    assert!(both.passes_samples() && !Filter::of_types([EventType::Link]).passes_samples());
}
