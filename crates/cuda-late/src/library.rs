//! Look-up of the driver's library and its functions.
use crate::trampoline;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

/// Environment variable that names the library to load instead of `libcuda.so.1`.
pub const PATH_VARIABLE: &str = "PHALANX_LIBCUDA";

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, symbol: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

const RTLD_NOW: c_int = 2;

/// The loaded driver library. It stays loaded until the process ends.
#[derive(Debug)]
pub struct Library {
    handle: *mut c_void,
    path: String,
}

// SAFETY: the handle is only passed to `dlsym`, which any thread may call at any time.
unsafe impl Send for Library {}
// SAFETY: as for `Send`.
unsafe impl Sync for Library {}

impl Library {
    fn open(path: &OsStr) -> Result<Self, String> {
        if path.is_empty() {
            // The loader would return the program itself.
            return Err(format!("{PATH_VARIABLE} is empty"));
        }
        let name =
            CString::new(path.as_bytes()).map_err(|_| format!("{path:?}: the name holds a zero byte"))?;
        // SAFETY: `name` is a C string. Loading runs the library's constructors, as intended.
        let handle = unsafe { dlopen(name.as_ptr(), RTLD_NOW) };
        if handle.is_null() {
            Err(last_error())
        } else {
            Ok(Self { handle, path: path.display().to_string() })
        }
    }

    /// Returns the name passed to the dynamic loader: a path, or a name that it searched for.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is that of a loaded library, which is never closed.
        let address = unsafe { dlsym(self.handle, name.as_ptr()) };
        (!address.is_null()).then_some(address)
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

/// Error of [`library`]: the dynamic loader's reason for each name that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotFound {
    reasons: Vec<String>,
}

impl std::fmt::Display for NotFound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reasons.join("; "))
    }
}

impl std::error::Error for NotFound {}

/// Returns the driver's library, which is loaded by the first call of this function or of any driver
/// function.
///
/// # Errors
/// [`NotFound`] when it cannot be loaded. The result never changes within a process.
pub fn library() -> Result<&'static Library, &'static NotFound> {
    static LIBRARY: OnceLock<Result<Library, NotFound>> = OnceLock::new();
    trampoline::link();
    LIBRARY.get_or_init(find).as_ref()
}

fn find() -> Result<Library, NotFound> {
    let candidates = match std::env::var_os(PATH_VARIABLE) {
        Some(path) => vec![path],
        None => vec!["libcuda.so.1".into(), "libcuda.so".into()],
    };
    let mut reasons = Vec::new();
    for path in candidates {
        match Library::open(&path) {
            Ok(library) => return Ok(library),
            Err(reason) => reasons.push(reason),
        }
    }
    Err(NotFound { reasons })
}
