//! The id by which ranks find each other.
use crate::{Error, Result};
use nccl_late::UniqueId;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time between two looks for the file.
const NAP: Duration = Duration::from_millis(5);

/// Creates the name of a new exchange by NCCL, which one rank passes to all others.
///
/// ```
/// match exchange::nccl_id() {
///     Ok(id) => assert_eq!(id.to_bytes().len(), 128),
///     Err(error) => println!("{error}"), // it says what to install
/// }
/// ```
///
/// # Errors
/// [`Error::NoNccl`] when NCCL cannot be used; [`Error::Nccl`] when there is no network interface.
pub fn nccl_id() -> Result<UniqueId> {
    let nccl = nccl_late::library().map_err(Clone::clone)?;
    let failed = |code| Error::Nccl { call: "ncclGetUniqueId", cause: nccl.describe(code) };
    nccl.unique_id().map_err(failed)
}

/// Passes the name of a new exchange by NCCL from rank 0 to all others, through a file. Rank 0 creates the
/// name and writes the file, which appears when it is complete; the others wait for it, at most `patience`.
/// The folder is one that all processes can access.
///
/// A file serves one exchange. Rank 0 refuses a file that exists, since the others may have read it already;
/// the caller removes it when all ranks have joined.
///
/// ```no_run
/// # use exchange::{Exchange, Limits};
/// # let (rank, ranks, device) = (0, 2, gpu::Device::auto());
/// let id = exchange::nccl_id_by_file("/shared/job-17/id", rank, std::time::Duration::from_secs(60))?;
/// let exchange = Exchange::nccl(&id, (rank, ranks), &device, Limits::default())?;
/// # Ok::<(), exchange::Error>(())
/// ```
///
/// # Errors
/// [`Error::IdFile`] if the file cannot be written or read, exists before rank 0 writes it, has another size
/// than an id, or does not appear in time; on rank 0 also as [`nccl_id`], while the others wait in vain.
///
/// # Concurrency
/// Ranks call it at the same time, in any order. Only one of them may be rank 0.
///
/// # Cost
/// Rank 0 writes 128 bytes. The others look for the file every 5 ms.
pub fn nccl_id_by_file(path: impl AsRef<Path>, rank: usize, patience: Duration) -> Result<UniqueId> {
    match rank {
        0 => publish(path.as_ref(), nccl_id),
        _ => read(path.as_ref(), patience),
    }
}

fn failed(path: &Path, cause: impl ToString) -> Error {
    Error::IdFile { path: path.to_owned(), cause: cause.to_string() }
}

fn publish(path: &Path, create: impl FnOnce() -> Result<UniqueId>) -> Result<UniqueId> {
    if path.try_exists().map_err(|error| failed(path, error))? {
        return Err(failed(path, "it exists, and may be that of an earlier exchange"));
    }
    let (id, mut draft) = (create()?, path.as_os_str().to_owned());
    draft.push(".draft");
    fs::write(&draft, id.to_bytes()).map_err(|error| failed(draft.as_ref(), error))?;
    fs::rename(&draft, path).map_err(|error| failed(path, error))?;
    Ok(id)
}

fn read(path: &Path, patience: Duration) -> Result<UniqueId> {
    let start = Instant::now();
    loop {
        match fs::read(path) {
            Ok(bytes) => {
                let size = format!("it has {} bytes, and an id has 128", bytes.len());
                let bytes = <[u8; 128]>::try_from(bytes).map_err(|_| failed(path, size))?;
                return Ok(UniqueId::from_bytes(bytes));
            }
            // The folder may appear later, too.
            Err(error) if error.kind() == ErrorKind::NotFound && start.elapsed() < patience => sleep(NAP),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(failed(path, format!("rank 0 has not written it within {patience:?}")));
            }
            Err(error) => return Err(failed(path, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expect_cause(result: Result<UniqueId>, path: &Path, part: &str) {
        match result.unwrap_err() {
            Error::IdFile { path: found, cause } => {
                assert!(found == path && cause.contains(part), "{}: {cause}", found.display());
            }
            error => panic!("{error}"),
        }
    }

    #[test]
    fn the_others_wait_for_the_id_of_rank_0() {
        let folder = tempfile::tempdir().unwrap();
        let (path, id) = (folder.path().join("later/id"), UniqueId::from_bytes([7; 128]));
        std::thread::scope(|scope| {
            let ranks = [1, 2].map(|rank| {
                let path = &path;
                scope.spawn(move || nccl_id_by_file(path, rank, Duration::from_secs(20)))
            });
            sleep(Duration::from_millis(50));
            fs::create_dir(path.parent().unwrap()).unwrap();
            assert_eq!(publish(&path, || Ok(id)).unwrap(), id);
            ranks.into_iter().for_each(|rank| assert_eq!(rank.join().unwrap().unwrap(), id));
        });
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no draft is left");
        expect_cause(publish(&path, || unreachable!("the file exists")), &path, "earlier exchange");
    }

    #[test]
    fn files_that_do_not_come_or_are_damaged_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("id");
        let short = Duration::from_millis(20);
        expect_cause(nccl_id_by_file(&path, 1, short), &path, "has not written it within 20ms");
        fs::write(&path, [1; 127]).unwrap();
        expect_cause(nccl_id_by_file(&path, 1, short), &path, "127 bytes");
        expect_cause(nccl_id_by_file(folder.path(), 1, short), folder.path(), "directory");
        let nowhere = folder.path().join("nowhere/id");
        let draft = folder.path().join("nowhere/id.draft");
        expect_cause(publish(&nowhere, || Ok(UniqueId::from_bytes([1; 128]))), &draft, "No such file");
    }
}
