//! Reads the cluster's secret from a file that only its owner may read.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::peer::Secret;

/// No secret is longer.
const SECRET_BYTES_MAX: u64 = 4096;
/// … or shorter: an eavesdropper on one handshake can try short secrets offline.
const SECRET_BYTES_MIN: usize = 16;
/// A secret of fewer different bytes is a pattern, such as one letter repeated.
const DISTINCT_BYTES_MIN: usize = 5;
/// Bits of a file's mode that let others than its owner at it.
const OTHERS: u32 = 0o077;

/// How a secret is made.
const RECIPE: &str = "(umask 077; head -c 32 /dev/urandom | base64 > FILE)";

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error(
        "cannot read the secret of the cluster from {}: {source}. All nodes share one; make it \
         with `{RECIPE}`", path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others may read or change the file.
    #[error(
        "the secret of the cluster in {} is open to other users of this machine (mode {mode:03o}): \
         `chmod 600 {}`, and make a new one if they may have read it",
        path.display(), path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// There is nothing in the file.
    #[error("the secret of the cluster in {} is empty: make one with `{RECIPE}`", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// It can be guessed.
    #[error(
        "the secret of the cluster in {} can be guessed: it has {bytes} bytes, {distinct} of them \
         different, and needs at least {SECRET_BYTES_MIN}, {DISTINCT_BYTES_MIN} of them different. \
         Make one with `{RECIPE}` and copy it to every node", path.display()
    )]
    Weak {
        /// The file.
        path: PathBuf,
        /// Bytes of the secret, without white space at its ends.
        bytes: usize,
        /// How many different bytes are among them.
        distinct: usize,
    },
    /// The secret repeats a short piece.
    #[error(
        "the secret of the cluster in {} can be guessed: it is a piece of {piece} bytes, repeated. \
         Make one with `{RECIPE}` and copy it to every node", path.display()
    )]
    Repeated {
        /// The file.
        path: PathBuf,
        /// How long the piece is.
        piece: usize,
    },
    /// The file is something else.
    #[error(
        "{} is longer than {SECRET_BYTES_MAX} bytes, the limit of a secret",
        path.display()
    )]
    TooLong {
        /// The file.
        path: PathBuf,
    },
}

/// Reads the secret. If the node `is_of_a_cluster`, a weak secret only gives a warning: older
/// versions accepted it, and a rolling upgrade must not stop there.
///
/// # Errors
/// [`SecretError`], with what to do.
pub fn read(path: &Path, is_of_a_cluster: bool) -> Result<Secret, SecretError> {
    let unreadable = |source| SecretError::Unreadable { path: path.into(), source };
    let file = File::open(path).map_err(unreadable)?;
    let meta = file.metadata().map_err(unreadable)?;
    if meta.is_file() && meta.mode() & OTHERS != 0 {
        return Err(SecretError::Exposed { path: path.into(), mode: meta.mode() & 0o777 });
    }
    let mut text = Vec::new();
    file.take(SECRET_BYTES_MAX + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > SECRET_BYTES_MAX {
        return Err(SecretError::TooLong { path: path.into() });
    }
    if text.trim_ascii().is_empty() {
        return Err(SecretError::Empty { path: path.into() });
    }
    match check_strength(path, text.trim_ascii()) {
        Err(weak) if is_of_a_cluster => tracing::warn!(
            "{weak}, while all are stopped. This node belongs to a cluster already, and starts \
             with this secret"
        ),
        checked => checked?,
    }
    Ok(Secret::new(&text))
}

/// Refuses secrets that an attacker would try first. It cannot judge whether others are random.
fn check_strength(path: &Path, secret: &[u8]) -> Result<(), SecretError> {
    let (bytes, distinct) = (secret.len(), secret.iter().collect::<BTreeSet<_>>().len());
    if bytes < SECRET_BYTES_MIN || distinct < DISTINCT_BYTES_MIN {
        return Err(SecretError::Weak { path: path.into(), bytes, distinct });
    }
    let repeats = |piece: &usize| secret.iter().skip(*piece).eq(&secret[..bytes - piece]);
    match (1..SECRET_BYTES_MIN).find(repeats).filter(|piece| 2 * piece <= bytes) {
        Some(piece) => Err(SecretError::Repeated { path: path.into(), piece }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_its_owners_secret_is_taken() {
        let dir = std::env::temp_dir().join(format!("carillon-secret-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("secret");
        let write = |text: &[u8], mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            read(&path, false)
        };
        assert!(read(&path, false).unwrap_err().to_string().contains("/dev/urandom"));
        let ours = b" a secret of ours\n";
        assert!(write(ours, 0o600).unwrap() == Secret::new(b"a secret of ours"));
        assert!(matches!(write(b" \n", 0o600), Err(SecretError::Empty { .. })));
        assert!(matches!(write(&[b'x'; 5000], 0o600), Err(SecretError::TooLong { .. })));
        for mode in [0o644, 0o640, 0o604, 0o622] {
            let error = write(ours, mode).unwrap_err().to_string();
            assert!(error.contains("chmod 600") && error.contains(&format!("{mode:o}")), "{error}");
        }
        assert!(write(ours, 0o400).is_ok());
        assert!(matches!(
            read(&dir, true),
            Err(SecretError::Exposed { .. } | SecretError::Unreadable { .. })
        ));
        let weak: [&[u8]; 5] =
            [b"x", &[0; 3], b"fifteen letters\n", &[b'x'; 64], b" abcabcabcabcabcabcabc "];
        for text in weak {
            let error = write(text, 0o600).unwrap_err();
            assert!(matches!(error, SecretError::Weak { .. }), "{error}");
            assert!(read(&path, true).unwrap() == Secret::new(text), "it was taken before");
            assert!(error.to_string().contains("/dev/urandom"), "{error}");
        }
        let error = write(b"passwordpassword\n", 0o600).unwrap_err().to_string();
        assert!(error.contains("a piece of 8 bytes, repeated"), "{error}");
        fs::remove_dir_all(dir).unwrap();
    }
}
