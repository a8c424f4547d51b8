//! Checks of names and settings that do not depend on the catalogue's content.

use super::{
    CatalogueError, CatalogueOp, Durability, KEYSPACE_REPLICAS_MAX, KeyspaceOptions,
    NAME_BYTES_MAX, RETENTION_MS_MAX,
};

/// Whether a name may be one of a keyspace.
///
/// # Errors
/// [`CatalogueError::BadName`].
pub fn check_name(name: &str) -> Result<(), CatalogueError> {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let good = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(letter);
    if good { Ok(()) } else { Err(CatalogueError::BadName { name: name.into() }) }
}

/// Whether a new keyspace may have that name: [`check_name`], and not `.`, `..` or any digits but
/// those of `0` to `15`. Older versions allowed such names, so logs and directories may have them,
/// and apply accepts them. A proposer checks this before it proposes.
///
/// # Errors
/// [`CatalogueError::BadName`], [`CatalogueError::NumberedName`].
pub fn check_new_name(name: &str) -> Result<(), CatalogueError> {
    check_name(name)?;
    if matches!(name, "." | "..") {
        return Err(CatalogueError::BadName { name: name.into() });
    }
    if name.bytes().all(|byte| byte.is_ascii_digit()) && !is_made_on_use(name) {
        return Err(CatalogueError::NumberedName { name: name.into() });
    }
    Ok(())
}

impl CatalogueOp<'_> {
    /// Whether it may be proposed: what is wrong whatever the catalogue has need not be in a log.
    ///
    /// # Errors
    /// As [`check_new_name`], [`check_options`],
    /// [`LibraryOp::check_proposal`](super::LibraryOp::check_proposal) and
    /// [`LeaseOp::check_proposal`](crate::LeaseOp::check_proposal).
    pub fn check_proposal(&self) -> Result<(), CatalogueError> {
        match self {
            CatalogueOp::Create { name, options } => {
                check_new_name(name)?;
                check_options(options)
            }
            CatalogueOp::Library(op) => op.check_proposal(),
            CatalogueOp::Lease(op) => op.check_proposal(),
            _ => Ok(()),
        }
    }
}

/// Whether a keyspace of this name is made on first use, as Redis's databases are: `0` to `15`.
pub fn is_made_on_use(name: &str) -> bool {
    name.parse::<u8>().is_ok_and(|number| number < 16 && name == number.to_string())
}

/// Whether a new keyspace may be so.
///
/// # Errors
/// `RetentionTooLong`, `BadReplicas`, `NeedsSync`, `BadVolume`.
pub fn check_options(options: &KeyspaceOptions) -> Result<(), CatalogueError> {
    check_replicas(options.replicas)?;
    check_invariants(options)
}

/// Whether so many replicas may be chosen.
pub(super) fn check_replicas(replicas: u8) -> Result<(), CatalogueError> {
    let good = replicas <= KEYSPACE_REPLICAS_MAX && replicas % 2 == 1;
    if good { Ok(()) } else { Err(CatalogueError::BadReplicas { replicas }) }
}

/// Whether a keyspace that is there may be so: other than what can be chosen, its number of
/// replicas may be even.
pub(super) fn check_invariants(options: &KeyspaceOptions) -> Result<(), CatalogueError> {
    let &KeyspaceOptions { retention_ms, replicas, durability, .. } = options;
    if retention_ms > RETENTION_MS_MAX {
        return Err(CatalogueError::RetentionTooLong { retention_ms });
    }
    if !(1..=KEYSPACE_REPLICAS_MAX).contains(&replicas) {
        return Err(CatalogueError::BadReplicas { replicas });
    }
    if replicas > 1 && durability != Durability::Sync {
        return Err(CatalogueError::NeedsSync { replicas });
    }
    options.volume.map_or(Ok(()), |volume| volume.check(durability))
}
