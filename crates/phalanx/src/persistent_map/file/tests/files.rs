//! Names, locks and space, on the file system of the machine.
#![cfg(unix)]
use super::script::{PAGE, header, options};
use crate::Error;
use crate::persistent_map::file::system::allocated;
use crate::persistent_map::file::*;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{TryRecvError, channel};
use tempfile::TempDir;

/// Asserts that a result is a fault of a kind, whose message has the path and these words.
macro_rules! refuses {
    ($result:expr, $path:expr, $kind:pat $(, $words:expr)* $(,)?) => {{
        let error: Error = $result.map(drop).unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, Error::PersistentFile { fault: $kind, .. }), "{said}");
        assert!(said.contains($path.to_str().unwrap()), "`{said}` does not say the path");
        $(assert!(said.contains($words), "`{said}` does not say `{}`", $words);)*
    }};
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn names(folder: &TempDir) -> Vec<String> {
    let names = std::fs::read_dir(folder.path()).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_file_has_what_was_written() {
    let folder = folder();
    let path = folder.path().join("map");
    let (mut file, contents) = PersistentFile::open_or_create(&path, &options()).unwrap();
    assert_eq!((contents.epoch, contents.source), (Epoch(0), Source::Epoch));
    assert_eq!(names(&folder), ["map"]);
    let pages: Vec<u8> = (0..2 * PAGE).map(|at| (at / 7) as u8).collect();
    let numbered = [(2, &pages[PAGE..]), (0, &pages[..PAGE])];
    assert_eq!(file.commit(numbered, &header(1)).unwrap(), Epoch(1));
    file.grow(2).unwrap();
    let mut commit = file.begin().unwrap();
    commit.write(3, &pages).unwrap();
    assert_eq!(commit.finish(&header(2)).unwrap(), Epoch(2));
    assert_eq!(file.file_bytes(), path.metadata().unwrap().len());
    drop(file);
    let report = check_file(&path).unwrap();
    assert_eq!((report.epoch, report.pages, report.written_pages), (Epoch(2), 5, 4));
    assert!(report.to_string().contains("epoch 2: 4 of 5 pages"), "{report}");
    let (file, contents) = PersistentFile::open_or_create(&path, &options()).unwrap();
    assert_eq!((contents.epoch, &contents.header[..]), (Epoch(2), &header(2)[..]));
    assert_eq!((file.pages(), file.header(), file.epoch()), (5, &header(2)[..], Epoch(2)));
    let mut found = vec![1; 5 * PAGE];
    file.load(0, &mut found).unwrap();
    let expected = [&pages[..PAGE], &[0; PAGE], &pages[PAGE..], &pages].concat();
    assert!(found == expected);
    assert!(file.is_current(2, &pages[PAGE..]) && !file.is_current(2, &pages[..PAGE]));
}

/// The working regions are parts of the file that nothing else uses.
#[test]
fn working_regions_keep_their_bytes() {
    let folder = folder();
    let path = folder.path().join("map");
    let mut file = PersistentFile::create(&path, &options()).unwrap();
    file.grow(2).unwrap();
    let regions = file.working();
    assert_eq!(regions.iter().map(|region| region.page).collect::<Vec<_>>(), [0, 3]);
    for region in &regions {
        file.handle().write_all_at(&vec![0xee; region.bytes as usize], region.offset).unwrap();
    }
    let image = vec![3; 5 * PAGE];
    let mut commit = file.begin().unwrap();
    commit.write(0, &image).unwrap();
    commit.finish(&[]).unwrap();
    for region in &regions {
        let mut bytes = vec![0; region.bytes as usize];
        file.handle().read_exact_at(&mut bytes, region.offset).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 0xee));
    }
    let mut found = vec![0; 5 * PAGE];
    file.load(0, &mut found).unwrap();
    assert!(found == image);
}

#[test]
fn wrong_paths_are_refused() {
    let folder = folder();
    let path = folder.path().join("map");
    refuses!(PersistentFile::open(&path, &options()), path, FileFault::Missing, "open_or_create");
    refuses!(check_file(&path), path, FileFault::Missing);
    for open in [open_as_path, |path: &Path| PersistentFile::create(path, &options()).map(drop)] {
        refuses!(open(folder.path()), folder.path(), FileFault::NotAFile { found: "folder" }, "folder");
        let null = Path::new("/dev/null");
        refuses!(open(null), null, FileFault::NotAFile { .. }, "device or pipe");
    }
    let nowhere = folder.path().join("none/map");
    refuses!(PersistentFile::create(&nowhere, &options()), nowhere, FileFault::NoFolder, "create the folder");
    let none = Path::new("");
    refuses!(PersistentFile::create(none, &options()), none, FileFault::NoName, "name");
    let ends = folder.path().join("new/");
    refuses!(PersistentFile::create(&ends, &options()), ends, FileFault::NoName, "name");
    PersistentFile::create(&path, &options()).unwrap();
    refuses!(PersistentFile::create(&path, &options()), path, FileFault::Exists, "open");
    assert_eq!(names(&folder), ["map"]);
}

fn open_as_path(path: &Path) -> Result<()> {
    PersistentFile::open(path, &options()).map(drop)
}

#[test]
fn read_only_files_are_refused() {
    let folder = folder();
    let path = folder.path().join("map");
    PersistentFile::create(&path, &options()).unwrap();
    let mut permissions = path.metadata().unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&path, permissions).unwrap();
    refuses!(PersistentFile::open(&path, &options()), path, FileFault::ReadOnly, "read-only");
    assert!(check_file(&path).is_ok(), "a check writes nothing");
}

/// More room than any disk has. The names of the attempt are gone.
#[test]
fn a_full_disk_is_an_error() {
    let folder = folder();
    let path = folder.path().join("map");
    let huge = Options { page_bytes: 16 << 20, pages: 1 << 28, ..options() };
    refuses!(PersistentFile::create(&path, &huge), path, FileFault::Full { .. }, "no room");
    assert!(names(&folder).is_empty());
    let mut file = PersistentFile::create(&path, &options()).unwrap();
    refuses!(file.grow((1 << 31) - 1), path, FileFault::Full { .. }, "no room");
    assert_eq!((file.pages(), file.commit([], &[]).unwrap()), (3, Epoch(1)));
}

#[test]
fn files_that_are_truncated_while_open_are_refused() {
    let folder = folder();
    let path = folder.path().join("map");
    let mut file = PersistentFile::create(&path, &options()).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(20_000).unwrap();
    refuses!(file.commit([], &[]), path, FileFault::Truncated { found: 20_000, .. }, "20000 found");
    drop(file);
    refuses!(PersistentFile::open(&path, &options()), path, FileFault::Truncated { .. });
}

/// A copy may have holes where the file has zeros.
#[test]
fn holes_are_filled() {
    let folder = folder();
    let path = folder.path().join("map");
    let bytes = PersistentFile::create(&path, &options()).unwrap().file_bytes();
    let sparse = folder.path().join("sparse");
    let copy = File::create(&sparse).unwrap();
    copy.set_len(bytes).unwrap();
    copy.write_all_at(&std::fs::read(&path).unwrap()[..16 << 10], 0).unwrap();
    assert!(allocated(&copy).unwrap() < bytes, "the file system has holes");
    let (mut file, _) = PersistentFile::open(&sparse, &options()).unwrap();
    assert!(allocated(file.handle()).unwrap() >= bytes);
    assert_eq!(file.commit([], &[]).unwrap(), Epoch(1));
}

#[test]
fn a_file_is_opened_once() {
    let folder = folder();
    let path = folder.path().join("map");
    let file = PersistentFile::create(&path, &options()).unwrap();
    let process = format!("this process ({}) uses", std::process::id());
    refuses!(PersistentFile::open(&path, &options()), path, FileFault::InUse { .. }, &process);
    refuses!(check_file(&path), path, FileFault::InUse { .. }, &process);
    drop(file);
    let (file, _) = PersistentFile::open(&path, &options()).unwrap();
    refuses!(PersistentFile::open(&path, &options()), path, FileFault::InUse { .. }, &process);
    drop(file);
    assert!(check_file(&path).is_ok());
}

/// A process that only checks a file is not the one whose number the file has.
#[test]
fn a_check_is_no_use() {
    let folder = folder();
    let path = folder.path().join("map");
    drop(PersistentFile::create(&path, &options()).unwrap());
    let checking = File::open(&path).unwrap();
    checking.lock_shared().unwrap();
    refuses!(PersistentFile::open(&path, &options()), path, FileFault::InUse { process: None });
}

/// Without the time of the start, the mapped part may be newer than the last epoch.
#[test]
fn an_unknown_start_of_the_system_is_refused() {
    let folder = folder();
    let path = folder.path().join("map");
    let unknown = Options { boot: None, ..options() };
    let mut file = PersistentFile::create(&path, &options()).unwrap();
    file.set_working(Working::Closed(options().boot.unwrap())).unwrap();
    drop(file);
    refuses!(PersistentFile::open(&path, &unknown), path, FileFault::BootId, "boot_id");
    refuses!(PersistentFile::open_or_create(&path, &unknown), path, FileFault::BootId);
    let (mut file, contents) = PersistentFile::open(&path, &options()).unwrap();
    assert_eq!(contents.source, Source::Working { is_closed: true });
    file.set_working(Working::Unused).unwrap();
    drop(file);
    assert_eq!(PersistentFile::open(&path, &unknown).unwrap().1.source, Source::Epoch);
}

/// A device owns the file once it says so, not when it opens it.
#[test]
fn an_adoption_is_complete_or_changes_nothing() {
    let folder = folder();
    let path = folder.path().join("map");
    drop(PersistentFile::create(&path, &options()).unwrap());
    let other = Options { owner: [2; 16], ..options() };
    refuses!(PersistentFile::open(&path, &other), path, FileFault::OtherDevice { .. }, "adopt");
    let adopting = || PersistentFile::open(&path, &Options { adopt: true, ..other.clone() }).unwrap().0;
    drop(adopting());
    assert_eq!(check_file(&path).unwrap().owner, [1; 16]);
    adopting().set_owner([2; 16]).unwrap();
    assert_eq!(check_file(&path).unwrap().owner, [2; 16]);
    assert!(PersistentFile::open(&path, &other).is_ok());
}

/// Another file at the path stays, whoever uses it.
#[test]
fn a_file_that_has_lost_its_path_is_not_replaced() {
    let folder = folder();
    let path = folder.path().join("map");
    let mut first = PersistentFile::create(&path, &options()).unwrap();
    std::fs::remove_file(&path).unwrap();
    refuses!(first.begin(), path, FileFault::Replaced, "another file");
    let mut second = PersistentFile::create(&path, &options()).unwrap();
    let mut new = first.create_beside(&options()).unwrap();
    refuses!(new.take_path(&first), path, FileFault::Replaced, "another file");
    std::fs::remove_file(new.path()).unwrap();
    assert_eq!(second.commit([], &[]).unwrap(), Epoch(1));
    drop((first, second));
    assert_eq!((check_file(&path).unwrap().epoch, names(&folder)), (Epoch(1), vec!["map".to_owned()]));
}

#[test]
fn a_file_beside_another_has_its_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    // The longest name that file systems allow.
    let path = folder.path().join("x".repeat(255));
    let old = PersistentFile::create(&path, &options()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o664)).unwrap();
    let mut file = old.create_beside(&options()).unwrap();
    file.take_path(&old).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o664);
    assert_eq!(names(&folder), ["x".repeat(255)]);
}

#[test]
fn a_link_to_nothing_is_refused() {
    let folder = folder();
    let path = folder.path().join("map");
    std::os::unix::fs::symlink(folder.path().join("nothing"), &path).unwrap();
    for opened in [
        PersistentFile::open(&path, &options()).map(drop),
        PersistentFile::create(&path, &options()).map(drop),
        PersistentFile::open_or_create(&path, &options()).map(drop),
    ] {
        refuses!(opened, path, FileFault::NotAFile { .. }, "link to nothing");
    }
}

#[test]
fn a_file_replaces_another() {
    let folder = folder();
    let [path, new] = ["map", "new"].map(|name| folder.path().join(name));
    let old = PersistentFile::create(&path, &options()).unwrap();
    let more = Options { pages: 9, ..options() };
    let mut file = PersistentFile::create(&new, &more).unwrap();
    file.take_path(&old).unwrap();
    file.sync_path().unwrap();
    drop(old);
    assert_eq!((file.path(), names(&folder)), (&*path, vec!["map".to_owned()]));
    refuses!(PersistentFile::open(&path, &options()), path, FileFault::InUse { .. });
    drop(file);
    assert_eq!(PersistentFile::open(&path, &options()).unwrap().0.pages(), 9);
}

/// Starts this test program again, to execute one test as another process.
fn child(test: &str, path: &Path) -> (Child, impl Iterator<Item = String>) {
    let name = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&name, "--exact", "--nocapture"]).env("PHALANX_TEST_FILE", path);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(|line| line.ok());
    (child, lines)
}

/// Returns the path with which [`child`] started this process.
fn path_of_child() -> Option<PathBuf> {
    std::env::var_os("PHALANX_TEST_FILE").map(PathBuf::from)
}

/// Does something only in the process of a test below: uses a file until it is killed.
#[test]
fn child_that_uses_a_file() {
    let Some(path) = path_of_child() else { return };
    let mut file = PersistentFile::create(&path, &options()).unwrap();
    file.set_working(Working::InUse(options().boot.unwrap())).unwrap();
    println!("\ncreated");
    std::thread::park();
}

/// The lock of a killed process ends. What it wrote to the working region is there.
#[test]
fn a_killed_process_leaves_no_lock() {
    let folder = folder();
    let path = folder.path().join("map");
    let (mut child, mut lines) = child("child_that_uses_a_file", &path);
    assert!(lines.any(|line| line.contains("created")));
    let process = format!("process {} uses", child.id());
    refuses!(PersistentFile::open(&path, &options()), path, FileFault::InUse { .. }, &process);
    refuses!(PersistentFile::create(&path, &options()), path, FileFault::Exists);
    child.kill().unwrap();
    child.wait().unwrap();
    let (_, contents) = PersistentFile::open(&path, &options()).unwrap();
    assert_eq!(contents.source, Source::Working { is_closed: false });
}

const RACES: usize = 40;

/// Does something only in the process of a test below: says which files it has created.
#[test]
fn child_that_creates_files() {
    let Some(folder) = path_of_child() else { return };
    for number in 0..RACES {
        match PersistentFile::create(folder.join(number.to_string()), &options()) {
            Ok(_) => println!("\ncreated {number}."),
            Err(Error::PersistentFile { fault: FileFault::Exists, .. }) => println!("\nexists {number}."),
            Err(error) => println!("\nerror {error}"),
        }
    }
}

#[test]
fn one_of_two_processes_creates_a_file() {
    let folder = folder();
    let mut children = [0, 1].map(|_| child("child_that_creates_files", folder.path()));
    let said = children.each_mut().map(|(_, lines)| lines.collect::<Vec<_>>());
    children.iter_mut().for_each(|(child, _)| assert!(child.wait().unwrap().success()));
    for number in 0..RACES {
        let says = |word: &str| said.each_ref().map(|lines| lines.contains(&format!("{word} {number}.")));
        assert_eq!(says("created").map(|is| !is), says("exists"), "{said:?}");
        assert_eq!(says("created").iter().filter(|&&is| is).count(), 1, "file {number}");
        PersistentFile::open(folder.path().join(number.to_string()), &options()).unwrap();
    }
    assert_eq!(names(&folder).len(), RACES, "no other name is left");
}

/// A file that appears between two looks at its path is a file, not a link that leads to nothing.
#[test]
fn a_file_that_appears_is_no_link() {
    let folder = folder();
    let path = folder.path().join("map");
    std::thread::scope(|scope| {
        // The thread ends when this end of the channel is dropped, also by a panic.
        let (_running, ended) = channel::<()>();
        scope.spawn({
            let path = path.clone();
            move || {
                while ended.try_recv() == Err(TryRecvError::Empty) {
                    File::create(&path).unwrap();
                    std::fs::remove_file(&path).unwrap();
                }
            }
        });
        for _ in 0..20_000 {
            let fault = match PersistentFile::open(&path, &options()) {
                Err(Error::PersistentFile { fault, .. }) => fault,
                other => panic!("{other:?}"),
            };
            assert!(!matches!(fault, FileFault::NotAFile { .. }), "{fault}");
        }
    });
}
