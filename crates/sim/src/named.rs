//! Values that are typed by name: one table for each kind, from which all else follows.

/// There is nothing of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {what} '{name}': {known}")]
pub struct NoSuchName {
    /// What it should have been: "kind of faults".
    pub what: &'static str,
    /// The typed name.
    pub name: String,
    /// What can be typed.
    pub known: String,
}

/// An enum whose values have names: `Self::ALL`, `name`, and `FromStr`, from one table.
macro_rules! named {
    (
        #[what = $what:literal]
        $(#[$about:meta])*
        pub enum $kind:ident { $($(#[doc = $doc:literal])* $value:ident = $name:literal,)+ }
    ) => {
        $(#[$about])*
        pub enum $kind { $($(#[doc = $doc])* $value,)+ }

        impl $kind {
            /// All of them.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// As it is typed.
            pub fn name(self) -> &'static str {
                match self { $(Self::$value => $name,)+ }
            }

            /// What it is, as its documentation says.
            pub fn description(self) -> &'static str {
                match self { $(Self::$value => concat!($($doc),*).trim_ascii(),)+ }
            }

            /// All names, with commas between them.
            pub fn names() -> String {
                [$($name),+].join(", ")
            }
        }

        impl std::str::FromStr for $kind {
            type Err = crate::named::NoSuchName;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                let found = Self::ALL.into_iter().find(|value| value.name() == name);
                found.ok_or_else(|| crate::named::NoSuchName {
                    what: $what,
                    name: name.to_owned(),
                    known: Self::names(),
                })
            }
        }
    };
}

pub(crate) use named;
