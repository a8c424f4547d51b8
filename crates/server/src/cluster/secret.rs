//! Where does the secret of a cluster come from? A file that only its owner may read.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::peer::Secret;

/// No secret is longer.
const SECRET_BYTES_MAX: u64 = 4096;
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
    /// The file is something else.
    #[error(
        "{} is longer than {SECRET_BYTES_MAX} bytes, which no secret of a cluster is",
        path.display()
    )]
    TooLong {
        /// The file.
        path: PathBuf,
    },
}

/// Reads the secret.
///
/// # Errors
/// [`SecretError`], with what to do.
pub fn read(path: &Path) -> Result<Secret, SecretError> {
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
    let secret = Secret::new(&text);
    if secret.is_empty() { Err(SecretError::Empty { path: path.into() }) } else { Ok(secret) }
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
            read(&path)
        };
        assert!(read(&path).unwrap_err().to_string().contains("/dev/urandom"));
        assert!(write(b" of ours\n", 0o600).unwrap() == Secret::new(b"of ours"));
        assert!(matches!(write(b" \n", 0o600), Err(SecretError::Empty { .. })));
        assert!(matches!(write(&[b'x'; 5000], 0o600), Err(SecretError::TooLong { .. })));
        for mode in [0o644, 0o640, 0o604, 0o622] {
            let error = write(b"of ours", mode).unwrap_err().to_string();
            assert!(error.contains("chmod 600") && error.contains(&format!("{mode:o}")), "{error}");
        }
        assert!(write(b"of ours", 0o400).is_ok());
        assert!(matches!(
            read(&dir),
            Err(SecretError::Exposed { .. } | SecretError::Unreadable { .. })
        ));
        fs::remove_dir_all(dir).unwrap();
    }
}
