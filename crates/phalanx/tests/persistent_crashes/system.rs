//! The calls by which the library changes files, recorded below it: this program has its own `pwrite64`,
//! `fdatasync` and so on, which the linker prefers to those of the C library. So the recorded library is the
//! one that users have.
//!
//! A recorded file is mapped as a whole, and mappings of its parts are parts of this one. The emulator
//! records the stores to it. Before and after each call a launch without effect makes it notice what the host
//! has written, so its record has the calls and the stores of kernels in their order.
use gpu::Device;
use libc::{c_char, c_int, c_void, off64_t, size_t, ssize_t};
use simt::Grid;
use simt::emulator::StoreLog;
use std::ffi::{CStr, OsStr};
use std::fs::{File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes to which recorded files are extended. The library uses the part that it has allocated.
pub const BYTES: usize = 352 << 10;

/// A call that changes files. A file is named by its number in the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    Write { file: usize, offset: usize, bytes: Vec<u8> },
    Sync { file: usize },
    Link { name: String, file: usize },
    Rename { from: String, to: String },
    Unlink { name: String },
    SyncFolder,
}

/// Fault of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It omits every second sync of each file, from this one on.
    Sync(usize),
    /// It omits all syncs of the files after the first one.
    LaterFiles,
    /// It omits syncs of the folder, from this one on.
    Folder(usize),
}

/// A recorded file.
struct Recorded {
    id: (u64, u64),
    /// First byte of its mapping.
    address: usize,
    before: Vec<u8>,
    syncs: usize,
}

/// A recorded call, and the number of events that the emulator had recorded before it returned.
pub type Event = (usize, Access);

struct State {
    folder: PathBuf,
    device: Device,
    fault: Option<Fault>,
    files: Vec<Recorded>,
    folder_syncs: usize,
    events: Vec<Event>,
}

static STATES: Mutex<Vec<State>> = Mutex::new(Vec::new());

fn states() -> MutexGuard<'static, Vec<State>> {
    STATES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A record of the changes of the files in a folder, while a device in exploring mode uses them. Maps on the
/// files must be dropped before it.
pub struct Recorder {
    folder: PathBuf,
    device: Device,
}

impl Recorder {
    /// Begins a record. The folder must not be in use by another one.
    pub fn start(folder: &Path, device: &Device, fault: Option<Fault>) -> Self {
        let (folder, device) = (folder.canonicalize().unwrap(), device.clone());
        let (files, folder_syncs, events) = (Vec::new(), 0, Vec::new());
        let (of, on) = (folder.clone(), device.clone());
        states().push(State { folder: of, device: on, fault, files, folder_syncs, events });
        Self { folder, device }
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(states().iter_mut().find(|state| state.folder == self.folder).expect("it is recording"))
    }

    /// Adds a file that exists.
    pub fn add(&self, path: &Path) {
        let file = File::options().read(true).write(true).open(path).unwrap();
        self.with(|state| state.add(file.as_raw_fd(), &file.metadata().unwrap()));
    }

    /// Returns the numbers of recorded events of the emulator, and of calls.
    pub fn now(&self) -> (usize, usize) {
        note(&self.device);
        let emulator = self.device.emulator_handle().unwrap();
        (emulator.store_events(), self.with(|state| state.events.len()))
    }

    /// Ends the emulator's record.
    pub fn take_stores(&self) -> StoreLog {
        self.device.emulator_handle().unwrap().take_stores().unwrap()
    }

    /// Returns the calls so far, and the contents of each file when it was added.
    pub fn calls(&self) -> (Vec<Event>, Vec<Vec<u8>>) {
        self.with(|state| {
            (state.events.clone(), state.files.iter().map(|file| file.before.clone()).collect())
        })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let mut states = states();
        let found = states.iter().position(|state| state.folder == self.folder);
        let state = found.map(|index| states.swap_remove(index));
        drop(states);
        for file in state.into_iter().flat_map(|state| state.files) {
            // SAFETY: the mapping is the recorder's, and maps that used a part of it are gone.
            unsafe { libc::syscall(libc::SYS_munmap, file.address, BYTES) };
        }
    }
}

impl State {
    /// Extends and maps a file, and begins to record the stores to it.
    fn add(&mut self, fd: c_int, metadata: &Metadata) {
        let (access, fixed) = (libc::PROT_READ | libc::PROT_WRITE, 0usize);
        // A mapping of the library's own handle would keep its lock.
        let file = File::options().read(true).write(true).open(format!("/proc/self/fd/{fd}")).unwrap();
        let fd = file.as_raw_fd();
        // SAFETY: the descriptor is that of an open file, whose bytes up to the new end are mapped where the
        // system likes.
        let address = unsafe {
            assert_eq!(libc::ftruncate64(fd, BYTES as off64_t), 0, "the file can be extended");
            libc::syscall(libc::SYS_mmap, fixed, BYTES, access, libc::MAP_SHARED, fd, 0)
        };
        assert_ne!(address, -1, "the file can be mapped");
        let address = address as usize;
        // SAFETY: the bytes stay mapped until the recorder is dropped, after the record has been taken.
        let before = unsafe {
            let bytes = std::slice::from_raw_parts(address as *const u8, BYTES).to_vec();
            self.device.emulator_handle().unwrap().record_stores(address as *const u8, BYTES);
            bytes
        };
        self.files.push(Recorded { id: id(metadata), address, before, syncs: 0 });
    }

    fn name(&self, path: &Path) -> Option<String> {
        Some(path.strip_prefix(&self.folder).ok()?.to_str()?.to_owned())
    }

    /// Counts a sync of a file. Returns whether it is executed.
    fn syncs(&mut self, file: usize) -> bool {
        let number = self.files[file].syncs;
        self.files[file].syncs += 1;
        match self.fault {
            // The first one is that of the creation.
            Some(Fault::Sync(first)) => number == 0 || number % 2 != first % 2,
            Some(Fault::LaterFiles) => file == 0,
            _ => true,
        }
    }
}

fn id(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Does nothing, beside making the emulator notice what the host has written.
#[simt::kernel]
fn nothing(_unused: u32) {}

fn note(device: &Device) {
    device.emulator_handle().unwrap().launch(Grid::new(1, 1), Nothing { _unused: 0 }).unwrap();
}

/// Returns the metadata and the path of an open file.
fn describe(fd: c_int) -> Option<(Metadata, PathBuf)> {
    let link = PathBuf::from(format!("/proc/self/fd/{fd}"));
    Some((std::fs::metadata(&link).ok()?, std::fs::read_link(link).ok()?))
}

/// Returns the device and the number of a recorded file.
fn find(fd: c_int) -> Option<(Device, (u64, u64), usize)> {
    if states().is_empty() {
        return None;
    }
    let id = id(&describe(fd)?.0);
    let states = states();
    let numbered = |state: &State| state.files.iter().position(|file| file.id == id);
    states.iter().find_map(|state| Some((state.device.clone(), id, numbered(state)?)))
}

/// Shows the record that has a file, if it is still there.
fn with_file(id: (u64, u64), see: impl FnOnce(&mut State)) {
    let mut states = states();
    if let Some(state) = states.iter_mut().find(|state| state.files.iter().any(|file| file.id == id)) {
        see(state);
    }
}

/// Records a call that was executed.
fn record(device: &Device, id: (u64, u64), access: Access) {
    note(device);
    let stores = device.emulator_handle().unwrap().store_events();
    with_file(id, |state| state.events.push((stores, access)));
}

/// # Safety
/// - As of the system's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(fd: c_int, from: *const c_void, len: size_t, offset: off64_t) -> ssize_t {
    let found = find(fd);
    found.iter().for_each(|(device, ..)| note(device));
    // SAFETY: the caller's obligation.
    let written = unsafe { libc::syscall(libc::SYS_pwrite64, fd, from, len, offset) };
    if let (Some((device, id, file)), Ok(len)) = (found, usize::try_from(written)) {
        // SAFETY: the system has read these bytes.
        let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), len) }.to_vec();
        record(&device, id, Access::Write { file, offset: offset as usize, bytes });
    }
    written as ssize_t
}

/// # Safety
/// - As of the system's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    let Some((device, id, file)) = find(fd) else {
        // SAFETY: the caller's obligation.
        return unsafe { libc::syscall(libc::SYS_fdatasync, fd) } as c_int;
    };
    let mut is_executed = false;
    with_file(id, |state| is_executed = state.syncs(file));
    if is_executed {
        record(&device, id, Access::Sync { file });
    }
    0
}

/// # Safety
/// - As of the system's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    let folder = if states().is_empty() { None } else { describe(fd).map(|(_, path)| path) };
    let mut states = states();
    if let Some(state) = states.iter_mut().find(|state| folder.as_ref() == Some(&state.folder)) {
        state.folder_syncs += 1;
        if !matches!(state.fault, Some(Fault::Folder(first)) if state.folder_syncs > first) {
            let stores = state.device.emulator_handle().unwrap().store_events();
            state.events.push((stores, Access::SyncFolder));
        }
        return 0;
    }
    drop(states);
    // SAFETY: the caller's obligation.
    unsafe { libc::syscall(libc::SYS_fsync, fd) as c_int }
}

/// # Safety
/// - As of the system's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn fallocate(fd: c_int, mode: c_int, offset: off64_t, len: off64_t) -> c_int {
    // SAFETY: the caller's obligation.
    let result = unsafe { libc::syscall(libc::SYS_fallocate, fd, mode, offset, len) as c_int };
    if result == 0
        && !states().is_empty()
        && let Some((metadata, path)) = describe(fd)
    {
        let mut states = states();
        let is_new = |state: &&mut State| {
            path.starts_with(&state.folder) && state.files.iter().all(|file| file.id != id(&metadata))
        };
        if let Some(state) = states.iter_mut().find(is_new) {
            assert!(offset == 0 && (len as usize) < BYTES, "a new file of at most {BYTES} bytes");
            state.add(fd, &metadata);
        }
    }
    result
}

/// # Safety
/// - As of the system's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn mmap64(
    address: *mut c_void,
    len: size_t,
    access: c_int,
    flags: c_int,
    fd: c_int,
    offset: off64_t,
) -> *mut c_void {
    let found = if fd >= 0 { find(fd) } else { None };
    if let Some((_, id, file)) = found {
        let end = offset as usize + len;
        assert!(end <= BYTES, "a file of {end} bytes or more");
        let mut start = 0;
        with_file(id, |state| start = state.files[file].address + offset as usize);
        return start as *mut c_void;
    }
    // SAFETY: the caller's obligation.
    unsafe { libc::syscall(libc::SYS_mmap, address, len, access, flags, fd, offset) as *mut c_void }
}

/// # Safety
/// - As of the system's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(address: *mut c_void, len: size_t) -> c_int {
    let is_of = |file: &Recorded| (file.address..file.address + BYTES).contains(&(address as usize));
    if states().iter().any(|state| state.files.iter().any(is_of)) {
        return 0;
    }
    // SAFETY: the caller's obligation.
    unsafe { libc::syscall(libc::SYS_munmap, address, len) as c_int }
}

/// Returns a path of an argument.
///
/// # Safety
/// - It points to a text that ends with 0.
unsafe fn path_of(text: *const c_char) -> PathBuf {
    // SAFETY: the caller's obligation.
    PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(text) }.to_bytes()))
}

/// Records a change of names in the folder of `path`.
fn record_name(path: &Path, access: impl FnOnce(&State) -> Option<Access>) {
    let mut states = states();
    if let Some(state) = states.iter_mut().find(|state| path.starts_with(&state.folder))
        && let Some(access) = access(state)
    {
        let stores = state.device.emulator_handle().unwrap().store_events();
        state.events.push((stores, access));
    }
}

/// # Safety
/// - As of the system's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the caller's obligation, here and below.
    let result = unsafe { libc::syscall(libc::SYS_rename, from, to) as c_int };
    // SAFETY: as above.
    let [from, to] = unsafe { [path_of(from), path_of(to)] };
    if result == 0 {
        record_name(&to, |state| Some(Access::Rename { from: state.name(&from)?, to: state.name(&to)? }));
    }
    result
}

/// # Safety
/// - As of the system's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(name: *const c_char) -> c_int {
    // SAFETY: the caller's obligation, here and below.
    let result = unsafe { libc::syscall(libc::SYS_unlink, name) as c_int };
    // SAFETY: as above.
    let path = unsafe { path_of(name) };
    if result == 0 {
        record_name(&path, |state| Some(Access::Unlink { name: state.name(&path)? }));
    }
    result
}

/// # Safety
/// - As of the system's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn linkat(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's obligation, here and below.
    let result = unsafe { libc::syscall(libc::SYS_linkat, from_folder, from, to_folder, to, flags) as c_int };
    // SAFETY: as above.
    let path = unsafe { path_of(to) };
    if result == 0 && !states().is_empty() {
        let linked = std::fs::metadata(&path).map(|metadata| id(&metadata));
        record_name(&path, |state| {
            let file = state.files.iter().position(|file| linked.as_ref().is_ok_and(|&id| id == file.id))?;
            Some(Access::Link { name: state.name(&path)?, file })
        });
    }
    result
}
