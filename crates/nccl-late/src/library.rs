//! The loaded library and its functions.
use crate::error::Error;
use crate::functions::Functions;
use crate::types::{Code, Communicator, DataType, OLDEST, UniqueId, Version};
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

/// Environment variable that names the library to load instead of `libnccl.so.2`.
pub const PATH_VARIABLE: &str = "PHALANX_LIBNCCL";

/// Name for which the dynamic loader searches without the variable.
const NAME: &str = "libnccl.so.2";

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, symbol: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

const RTLD_NOW: c_int = 2;

/// The loaded NCCL, with all functions of this crate. It stays loaded until the process ends.
///
/// Functions return NCCL's status. Communicators are of mode blocking: a call returns when its work has been
/// submitted, and it may wait for other ranks before. [`abort`](Self::abort), called by another thread, makes
/// it return an error.
#[derive(Debug)]
pub struct Library {
    path: String,
    version: Version,
    functions: Functions,
}

/// Returns NCCL, which the first call loads: the library that [`PATH_VARIABLE`] names, or `libnccl.so.2`.
///
/// # Errors
/// As [`Library::open`]. The result never changes within a process.
pub fn library() -> Result<&'static Library, &'static Error> {
    static LIBRARY: OnceLock<Result<Library, Error>> = OnceLock::new();
    let open = || Library::open(&std::env::var_os(PATH_VARIABLE).unwrap_or_else(|| NAME.into()));
    LIBRARY.get_or_init(open).as_ref()
}

/// Loading.
impl Library {
    /// Loads the library with the given path, or with a name for which the dynamic loader searches. Most
    /// callers want [`library`], which does so once.
    ///
    /// ```
    /// use nccl_late::{Error, Library};
    ///
    /// let error = Library::open("/nonexistent/libnccl.so.2".as_ref()).unwrap_err();
    /// assert!(matches!(error, Error::NotFound { .. }));
    /// ```
    ///
    /// # Errors
    /// [`Error::NotFound`] when it cannot be loaded; [`Error::TooOld`] when it is older than [`OLDEST`];
    /// [`Error::Missing`], with all names, when it lacks functions; [`Error::NoVersion`] when it fails to
    /// report its version.
    pub fn open(path: &OsStr) -> Result<Self, Error> {
        let handle = load(path).map_err(|reason| Error::NotFound { reason })?;
        let path = path.display().to_string();
        let version = version(handle, &path)?;
        if version < OLDEST {
            return Err(Error::TooOld { path, found: version });
        }
        // SAFETY: the symbols of a library that reports a version of NCCL have NCCL's signatures.
        match unsafe { Functions::load(|name| symbol(handle, name)) } {
            Ok(functions) => Ok(Self { path, version, functions }),
            Err(symbols) => Err(Error::Missing { path, symbols }),
        }
    }

    /// Returns the name passed to the dynamic loader: a path, or a name that it searched for.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the version of the library.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns NCCL's explanation of a status, and its number.
    pub fn describe(&self, code: Code) -> String {
        // SAFETY: takes any number and returns a static text or null.
        let text = unsafe { (self.functions.error_string)(code) };
        if text.is_null() {
            return code.to_string();
        }
        // SAFETY: not null, hence a C string that lives as long as the library.
        let text = unsafe { CStr::from_ptr(text) };
        format!("{} ({code})", text.to_string_lossy())
    }
}

/// Communicators.
impl Library {
    /// Creates the id of a new communicator. The calling process then listens for the other ranks.
    ///
    /// # Errors
    /// A [`Code`] other than success: there is no network interface.
    pub fn unique_id(&self) -> Result<UniqueId, Code> {
        let mut id = UniqueId::from_bytes([0; 128]);
        // SAFETY: the call writes 128 bytes.
        match unsafe { (self.functions.get_unique_id)(&mut id) } {
            Code::SUCCESS => Ok(id),
            code => Err(code),
        }
    }

    /// Makes rank `rank` of a communicator of `ranks` ranks, of mode blocking, on the CUDA device that is
    /// current in the calling thread. Returns NCCL's status and the handle, which is null if the call failed.
    ///
    /// The call returns when all ranks have made it. It never returns if one of them does not, and nothing
    /// can end it: a caller that must not hang makes it in a thread of its own.
    ///
    /// # Safety
    /// - A CUDA context is current in the calling thread and outlives the communicator.
    pub unsafe fn init_rank(&self, id: UniqueId, ranks: c_int, rank: c_int) -> (Code, Communicator) {
        let mut made = Communicator(std::ptr::null_mut());
        // SAFETY: the call writes the handle; the context is the caller's obligation.
        let code = unsafe { (self.functions.init_rank)(&mut made, ranks, id, rank) };
        (code, made)
    }

    /// Returns the state of the communicator: success, in progress, or the error of an earlier call or of
    /// running work.
    ///
    /// # Safety
    /// - The communicator is neither destroyed nor aborted.
    pub unsafe fn async_error(&self, communicator: Communicator) -> Code {
        let mut state = Code::SUCCESS;
        // SAFETY: the call writes a status; the handle is the caller's obligation.
        match unsafe { (self.functions.async_error)(communicator, &mut state) } {
            Code::SUCCESS => state,
            code => code,
        }
    }

    /// Ends all work of the communicator without waiting for other ranks, and frees it. A call of another
    /// thread that is inside NCCL with this communicator returns an error. The abort itself may hang in some
    /// versions, so callers should bound it: make it in a thread of its own.
    ///
    /// # Safety
    /// - The communicator is neither destroyed nor aborted, and no call begins with it from now on.
    pub unsafe fn abort(&self, communicator: Communicator) -> Code {
        // SAFETY: the caller's obligations.
        unsafe { (self.functions.abort)(communicator) }
    }

    /// Flushes the communicator: waits for its submitted work.
    ///
    /// # Safety
    /// - The communicator is neither finalized, destroyed nor aborted.
    pub unsafe fn finalize(&self, communicator: Communicator) -> Code {
        // SAFETY: the caller's obligations.
        unsafe { (self.functions.finalize)(communicator) }
    }

    /// Frees a communicator that was finalized with success.
    ///
    /// # Safety
    /// - The communicator is neither destroyed nor aborted, and not used afterwards.
    pub unsafe fn destroy(&self, communicator: Communicator) -> Code {
        // SAFETY: the caller's obligations.
        unsafe { (self.functions.destroy)(communicator) }
    }
}

/// Messages.
impl Library {
    /// Begins a group of calls in this thread.
    pub fn group_start(&self) -> Code {
        // SAFETY: takes no arguments, and changes a counter of the thread.
        unsafe { (self.functions.group_start)() }
    }

    /// Ends the group, and submits its calls.
    ///
    /// # Safety
    /// - The communicators of the calls in the group are neither destroyed nor aborted.
    pub unsafe fn group_end(&self) -> Code {
        // SAFETY: the caller's obligation.
        unsafe { (self.functions.group_end)() }
    }

    /// Submits a message of `bytes` bytes at the device address `from` to rank `to`, which must receive as
    /// many.
    ///
    /// # Safety
    /// - The communicator is neither destroyed nor aborted, and `stream` is a `CUstream` of its device.
    /// - The bytes are device memory of the communicator's device until the stream has executed the call, and
    ///   nothing writes them meanwhile.
    pub unsafe fn send(
        &self,
        communicator: Communicator,
        stream: *mut c_void,
        to: c_int,
        (from, bytes): (*const c_void, usize),
    ) -> Code {
        // SAFETY: the caller's obligations.
        unsafe { (self.functions.send)(from, bytes, DataType::U8, to, communicator, stream) }
    }

    /// Submits the receipt of a message of `bytes` bytes from rank `from` at the device address `to`.
    ///
    /// # Safety
    /// - As [`send`](Self::send), and nothing reads the bytes until the stream has executed the call.
    pub unsafe fn receive(
        &self,
        communicator: Communicator,
        stream: *mut c_void,
        from: c_int,
        (to, bytes): (*mut c_void, usize),
    ) -> Code {
        // SAFETY: the caller's obligations.
        unsafe { (self.functions.receive)(to, bytes, DataType::U8, from, communicator, stream) }
    }

    /// Submits an all-gather: `words` words at `from` of each rank, in the order of the ranks, at `to` of
    /// all.
    ///
    /// # Safety
    /// - As [`send`](Self::send) for `from`, and as [`receive`](Self::receive) for the words of all ranks at
    ///   `to`.
    pub unsafe fn all_gather(
        &self,
        communicator: Communicator,
        stream: *mut c_void,
        to: *mut u64,
        (from, words): (*const u64, usize),
    ) -> Code {
        let (from, to, of) = (from.cast(), to.cast(), DataType::U64);
        // SAFETY: the caller's obligations.
        unsafe { (self.functions.all_gather)(from, to, words, of, communicator, stream) }
    }
}

/// Loads a library, or returns the reason why it cannot be.
fn load(path: &OsStr) -> Result<*mut c_void, String> {
    if path.is_empty() {
        // The loader would return the program itself.
        return Err(format!("{PATH_VARIABLE} is empty"));
    }
    let name = CString::new(path.as_bytes()).map_err(|_| format!("{path:?}: the name has a zero byte"))?;
    // SAFETY: `name` is a C string. Loading runs the library's constructors, as intended.
    let handle = unsafe { dlopen(name.as_ptr(), RTLD_NOW) };
    if handle.is_null() { Err(last_error()) } else { Ok(handle) }
}

/// Returns the address of a symbol of a loaded library.
fn symbol(handle: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the handle is that of a loaded library, which is never closed.
    let address = unsafe { dlsym(handle, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// Returns the version that a library reports.
fn version(handle: *mut c_void, path: &str) -> Result<Version, Error> {
    let path = || path.to_owned();
    let Some(address) = symbol(handle, c"ncclGetVersion") else {
        return Err(Error::Missing { path: path(), symbols: vec!["ncclGetVersion"] });
    };
    // SAFETY: the function of this name has this signature.
    let get =
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int) -> Code>(address) };
    let mut code = 0;
    // SAFETY: the call writes an `int`.
    match unsafe { get(&mut code) } {
        Code::SUCCESS => Ok(Version::from_code(u32::try_from(code).unwrap_or(0))),
        code => Err(Error::NoVersion { path: path(), code }),
    }
}

fn last_error() -> String {
    // SAFETY: takes no arguments; the text, if any, lives until this thread's next call of the dynamic
    // loader.
    let text = unsafe { dlerror() };
    if text.is_null() {
        return "the dynamic loader gave no reason".to_owned();
    }
    // SAFETY: not null, hence a C string, copied before the next call.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
