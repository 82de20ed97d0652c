//! Libraries that are missing, old, reduced or complete. The libraries are built by the tests.
use nccl_late::{Code, Error, Library, OLDEST, PATH_VARIABLE, UniqueId, Version, library};
use std::path::{Path, PathBuf};
use std::process::Command;

/// All functions of NCCL that the crate needs, with small bodies that show how they were called.
const FUNCTIONS: [(&str, &str); 13] = [
    ("ncclGetVersion", "int ncclGetVersion(int *v) { *v = VERSION; return 0; }"),
    (
        "ncclGetUniqueId",
        "int ncclGetUniqueId(struct id *id) { for (int i = 0; i < 128; i++) id->bytes[i] = i; return 0; }",
    ),
    (
        "ncclCommInitRank",
        "int ncclCommInitRank(void **c, int n, struct id id, int r) {\n\
         *c = (void *)16; return n == 5 && r == 3 && id.bytes[127] == 127 ? 0 : 5; }",
    ),
    (
        "ncclCommGetAsyncError",
        "int ncclCommGetAsyncError(void *c, int *state) { *state = c == (void *)16 ? 6 : 0; return 0; }",
    ),
    ("ncclCommAbort", "int ncclCommAbort(void *c) { return c == (void *)16 ? 0 : 4; }"),
    ("ncclCommDestroy", "int ncclCommDestroy(void *c) { return c == (void *)16 ? 0 : 4; }"),
    ("ncclCommFinalize", "int ncclCommFinalize(void *c) { return c == (void *)16 ? 7 : 4; }"),
    ("ncclGroupStart", "int ncclGroupStart(void) { return 0; }"),
    ("ncclGroupEnd", "int ncclGroupEnd(void) { return 7; }"),
    (
        "ncclSend",
        "int ncclSend(const char *p, size_t n, int t, int to, void *c, void *s) {\n\
         return p[n - 1] == 9 && t == 1 && to == 2 && c == (void *)16 && s == (void *)32 ? 0 : 4; }",
    ),
    (
        "ncclRecv",
        "int ncclRecv(char *p, size_t n, int t, int from, void *c, void *s) {\n\
         p[n - 1] = 9; return t == 1 && from == 1 && c == (void *)16 && s == (void *)32 ? 0 : 4; }",
    ),
    (
        "ncclAllGather",
        "int ncclAllGather(const long *p, long *q, size_t n, int t, void *c, void *s) {\n\
         q[0] = p[n - 1]; return t == 5 && c == (void *)16 && s == (void *)32 ? 0 : 4; }",
    ),
    (
        "ncclGetErrorString",
        "const char *ncclGetErrorString(int code) { return code == 6 ? \"remote process exited\" : 0; }",
    ),
];

const TYPES: &str = "#include <stddef.h>\n\
    struct id { char bytes[128]; };\n";

/// Builds a library that reports a version, with the functions whose names pass the filter. Returns `None` if
/// there is no C compiler.
fn build(folder: &Path, version: u32, has: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let (source, library) = (folder.join("nccl.c"), folder.join("libnccl.so.2"));
    let bodies = FUNCTIONS.iter().filter(|(name, _)| has(name)).map(|(_, body)| format!("{body}\n"));
    std::fs::write(&source, format!("#define VERSION {version}\n{TYPES}{}", bodies.collect::<String>()))
        .unwrap();
    match Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status() {
        Ok(status) => assert!(status.success(), "cc failed on the library"),
        Err(error) => println!("skipped: no C compiler ({error})"),
    }
    library.exists().then_some(library)
}

#[track_caller]
fn expect_parts(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

#[test]
fn no_library_is_an_error_that_says_what_to_install() {
    let error = Library::open("/nonexistent/libnccl.so.2".as_ref()).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    expect_parts(&error, &["/nonexistent/libnccl.so.2", "libnccl2", PATH_VARIABLE]);
    let empty = Library::open("".as_ref()).unwrap_err();
    expect_parts(&empty, &["PHALANX_LIBNCCL is empty"]);
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.so");
    std::fs::write(&text, "no library").unwrap();
    for path in [text.as_path(), folder.path(), Path::new("a\0b")] {
        assert!(matches!(Library::open(path.as_os_str()), Err(Error::NotFound { .. })), "{path:?}");
    }
}

#[test]
fn an_old_library_is_an_error_that_names_both_versions() {
    for (version, name) in [(21_705, "2.17.5"), (2804, "2.8.4")] {
        let folder = tempfile::tempdir().unwrap();
        // An old library lacks functions, too; that it is old explains this.
        let Some(path) = build(folder.path(), version, |name| name != "ncclCommFinalize") else { return };
        let error = Library::open(path.as_os_str()).unwrap_err();
        assert_eq!(
            error,
            Error::TooOld { path: path.display().to_string(), found: Version::from_code(version) }
        );
        expect_parts(&error, &[name, "2.18.0", path.to_str().unwrap(), PATH_VARIABLE]);
    }
}

#[test]
fn a_library_that_lacks_functions_is_an_error_that_names_them_all() {
    for (name, _) in FUNCTIONS {
        let folder = tempfile::tempdir().unwrap();
        let Some(path) = build(folder.path(), 22_807, |function| function != name) else { return };
        let error = Library::open(path.as_os_str()).unwrap_err();
        assert_eq!(error, Error::Missing { path: path.display().to_string(), symbols: vec![name] });
        expect_parts(&error, &[name, PATH_VARIABLE]);
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = build(folder.path(), 22_807, |name| !name.starts_with("ncclGroup")) else { return };
    let error = Library::open(path.as_os_str()).unwrap_err();
    expect_parts(&error, &["ncclGroupStart, ncclGroupEnd"]);
}

#[test]
fn a_library_that_reports_no_version_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = build(folder.path(), 0, |_| false) else { return };
    let error = Library::open(path.as_os_str()).unwrap_err();
    assert_eq!(error, Error::Missing { path: path.display().to_string(), symbols: vec!["ncclGetVersion"] });
}

#[test]
fn calls_reach_the_library_with_their_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = build(folder.path(), 21_800, |_| true) else { return };
    let nccl = Library::open(path.as_os_str()).unwrap();
    assert_eq!((nccl.version(), nccl.path()), (OLDEST, path.to_str().unwrap()));
    let id = nccl.unique_id().unwrap();
    assert_eq!(id.to_bytes(), std::array::from_fn(|i| i as u8));
    let (mut bytes, mut words) = ([0u8; 4], [0u64; 1]);
    let stream = std::ptr::without_provenance_mut(32);
    // SAFETY: the functions of this library only look at their arguments.
    unsafe {
        assert_eq!(nccl.init_rank(id, 3, 5).0, Code(5));
        let (code, made) = nccl.init_rank(id, 5, 3);
        assert_eq!((code, made.0.addr()), (Code::SUCCESS, 16));
        assert_eq!(nccl.async_error(made), Code(6));
        assert_eq!(nccl.describe(nccl.async_error(made)), "remote process exited (status 6 of NCCL)");
        assert_eq!(nccl.group_start(), Code::SUCCESS);
        assert_eq!(nccl.receive(made, stream, 1, (bytes.as_mut_ptr().cast(), 4)), Code::SUCCESS);
        assert_eq!(nccl.send(made, stream, 2, (bytes.as_ptr().cast(), 4)), Code::SUCCESS);
        assert_eq!(nccl.all_gather(made, stream, words.as_mut_ptr(), ([3, 4].as_ptr(), 2)), Code::SUCCESS);
        assert_eq!(nccl.group_end(), Code::IN_PROGRESS);
        assert_eq!(nccl.finalize(made), Code::IN_PROGRESS);
        assert_eq!((nccl.destroy(made), nccl.abort(made)), (Code::SUCCESS, Code::SUCCESS));
    }
    assert_eq!((bytes, words), ([0, 0, 0, 9], [4]));
    assert_eq!(nccl.describe(Code(4)), "status 4 of NCCL");
    assert_ne!(id, UniqueId::from_bytes([0; 128]));
}

/// The only test that reads the variable, in a process of its own: it never changes within one.
#[test]
fn the_variable_names_the_library() {
    if std::env::var_os("EXPECT_FAKE").is_some() {
        let nccl = library().unwrap();
        assert_eq!(nccl.version(), Version::from_code(22_807));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = build(folder.path(), 22_807, |_| true) else { return };
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.arg("the_variable_names_the_library").env(PATH_VARIABLE, &path).env("EXPECT_FAKE", "1");
    let output = again.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
