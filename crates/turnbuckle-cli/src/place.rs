//! The data folder: made on first use, owned by one process at a time.

use crate::config::Settings;
use crate::error::CliError;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

/// The database of sessions, in the data folder.
pub const SESSIONS: &str = "turnbuckle.db";
/// The desk's database, in the data folder.
pub const DESK: &str = "desk.db";
const LOCK: &str = "turnbuckle.lock";

/// Makes the data folder when it is not there, readable by its owner only.
///
/// # Errors
/// When it cannot be made.
pub fn open(settings: &Settings) -> Result<PathBuf, CliError> {
    let folder = settings.data.value.clone();
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&folder).map_err(CliError::io(format!(
        "the data folder {} (set {}) cannot be made; choose another with --data",
        folder.display(),
        settings.data.source
    )))?;
    Ok(folder)
}

/// Holds the data folder for this process. Dropping it, or the process's end in any way, gives the folder back.
#[derive(Debug)]
pub struct Ownership {
    _file: File,
}

impl Ownership {
    /// Takes the folder.
    ///
    /// # Errors
    /// [`CliError::InUse`] when another process holds it.
    pub fn take(folder: &Path) -> Result<Self, CliError> {
        let path = folder.join(LOCK);
        let what = || format!("the lock {} cannot be taken", path.display());
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(CliError::io(what()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // Only for the message: where the number cannot be read, the message goes without.
                let _ = file.read_to_string(&mut pid);
                let pid = Some(pid.trim().to_owned()).filter(|p| !p.is_empty());
                return Err(CliError::InUse { folder: folder.to_owned(), pid });
            }
            Err(TryLockError::Error(e)) => return Err(CliError::io(what())(e)),
        }
        file.set_len(0).and_then(|()| file.rewind()).map_err(CliError::io(what()))?;
        write!(file, "{}", std::process::id()).map_err(CliError::io(what()))?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_owner_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = Ownership::take(folder.path()).unwrap();
        let error = Ownership::take(folder.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        assert!(error.contains("--data"), "{error}");
        drop(first);
        Ownership::take(folder.path()).unwrap();
    }
}
