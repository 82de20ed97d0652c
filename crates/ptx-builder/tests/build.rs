//! Tests the build of small device crates outside of this workspace.
use ptx_builder::{Arch, Error, Header, Origin, Ptx, PtxBuilder, Sources, Toolchain};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PRELUDE: &str = "#![no_std]\n#![feature(abi_ptx)]\n\
    #[panic_handler]\nfn panic(_: &core::panic::PanicInfo) -> ! { loop {} }\n";
const FILL: &str =
    "#[unsafe(no_mangle)]\npub unsafe extern \"ptx-kernel\" fn fill(out: *mut u32) { unsafe { *out = 7 } }\n";

/// A device crate in a temporary folder.
struct Crate {
    folder: TempDir,
}

impl Crate {
    fn new(name: &str, code: &str) -> Self {
        let made = Self { folder: tempfile::tempdir().unwrap() };
        made.write("Cargo.toml", &format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n"));
        made.write("src/lib.rs", &format!("{PRELUDE}{code}"));
        made
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn hash(&self) -> String {
        Sources::of(self.path()).unwrap().hash().unwrap()
    }

    fn builder(&self) -> PtxBuilder {
        PtxBuilder::new(self.path()).target_dir(target())
    }

    fn build(&self) -> Result<Ptx, Error> {
        self.builder().build()
    }

    fn build_without_compiler(&self) -> Result<Ptx, Error> {
        self.builder().toolchain(no_compiler()).build()
    }
}

/// Returns a toolchain that fails when it is used.
fn no_compiler() -> Toolchain {
    let nothing = PathBuf::from("/nonexistent");
    Toolchain {
        rustc: nothing.join("rustc"),
        cargo: nothing.join("cargo"),
        version: "0".into(),
        origin: Origin::System,
    }
}

/// Returns the folder in which the workspace's device code is built, where `core` is compiled once.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("ptx")
}

#[test]
fn a_crate_is_built_once_and_again_when_a_source_changes() {
    let device = Crate::new("ptx-test-once", FILL);
    let built = device.build().unwrap();
    assert_eq!(built.entries().collect::<Vec<_>>(), ["fill"]);
    assert!(built.header().is_fresh(&device.hash(), Arch::Sm80));
    assert_eq!(built.text().parse::<Header>().unwrap(), *built.header());

    let again = device.build_without_compiler().unwrap();
    assert_eq!(again.text(), built.text());

    device.write("src/lib.rs", &format!("{PRELUDE}{}", FILL.replace("fn fill", "fn refill")));
    assert!(matches!(device.build_without_compiler(), Err(Error::Io { .. })));
    assert_eq!(device.build().unwrap().entries().collect::<Vec<_>>(), ["refill"]);
}

#[test]
fn shipped_ptx_is_taken_when_it_is_fresh_or_alone() {
    let device = Crate::new("ptx-test-shipped", FILL);
    let built = device.build().unwrap();
    let shipped = tempfile::tempdir().unwrap();
    let name = format!("{}.zst", built.path().file_name().unwrap().to_string_lossy());
    let packed = built.pack(<[u8]>::to_vec);
    assert!(packed.ends_with(built.text().as_bytes()) && packed.starts_with(b"// phalanx-ptx source="));
    assert!(packed.windows(16).any(|line| line == b"// entries fill\n"));
    fs::write(shipped.path().join(name), packed).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let builder = || {
        let builder = device.builder().target_dir(elsewhere.path()).shipped(shipped.path());
        builder.toolchain(no_compiler())
    };

    assert!(builder().locate().unwrap().starts_with(shipped.path()));
    assert!(builder().arch(Arch::Sm90).locate().is_err(), "it is for sm_80");
    assert!(builder().features(["more"]).locate().is_err(), "it is without features");

    device.write("src/more.rs", "");
    assert!(builder().locate().is_err(), "it is stale");
    assert!(device.builder().shipped(shipped.path()).locate().unwrap().ends_with(built.path()));

    let alone = PtxBuilder::new("/nonexistent").shipped(shipped.path()).toolchain(no_compiler());
    assert!(alone.locate().unwrap().starts_with(shipped.path()));
}

#[test]
fn features_are_part_of_what_is_built() {
    let device = Crate::new("ptx-test-features", FILL);
    let more = FILL.replace("fill", "more");
    let manifest = fs::read_to_string(device.path().join("Cargo.toml")).unwrap();
    device.write("Cargo.toml", &format!("{manifest}[features]\ndefault = [\"x\"]\nx = []\ny = []\n"));
    device.write("src/lib.rs", &format!("{PRELUDE}{FILL}#[cfg(feature = \"x\")]\n{more}"));
    let names = |builder: PtxBuilder| {
        let ptx = builder.build().unwrap();
        let mut names: Vec<_> = ptx.entries().map(str::to_owned).collect();
        names.sort();
        (names, ptx.path().to_owned())
    };
    let (default, path) = names(device.builder());
    assert_eq!(default, ["fill", "more"]);
    let (without, other) = names(device.builder().features(["y"]));
    assert_eq!(without, ["fill"]);
    assert!(path != other && other.to_string_lossy().ends_with(".y.sm_80.ptx"), "{}", other.display());
    assert_eq!(names(device.builder()).0, default, "each has its own file");
}

#[test]
fn what_was_built_may_be_removed() {
    let device = Crate::new("ptx-test-removed", FILL);
    let built = device.build().unwrap();
    fs::remove_file(built.path()).unwrap();
    fs::remove_file(built.path().with_extension("s")).unwrap();
    assert_eq!(device.build().unwrap().text(), built.text());
}

#[test]
fn variables_of_an_outer_cargo_do_not_reach_the_device_build() {
    let device = Crate::new("ptx-test-leaks", FILL);
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "builds_the_folder_that_the_environment_names"])
        .envs([
            ("RUSTFLAGS", "--no-such-flag"),
            ("RUSTC_WRAPPER", "/nonexistent"),
            ("RUSTUP_TOOLCHAIN", "none"),
        ])
        .envs([("CARGO_ENCODED_RUSTFLAGS", "--no-such-flag"), ("CARGO_BUILD_TARGET", "none")])
        .env("PTX_TEST_FOLDER", device.path())
        .status();
    assert!(status.unwrap().success());
    assert!(device.build_without_compiler().is_ok(), "the other process built it");
}

/// Second half of the test above; on its own it has nothing to build.
#[test]
fn builds_the_folder_that_the_environment_names() {
    if let Some(folder) = std::env::var_os("PTX_TEST_FOLDER") {
        PtxBuilder::new(folder).target_dir(target()).build().unwrap();
    }
}

#[test]
fn a_crate_that_does_not_compile_says_why() {
    let device = Crate::new("ptx-test-broken", "fn broken() -> u32 { \"text\" }\n");
    let error = device.build().unwrap_err().to_string();
    assert!(error.contains("ptx-test-broken does not compile for sm_80"), "{error}");
    assert!(error.contains("mismatched types"), "{error}");
}

#[test]
fn functions_that_are_not_there_are_named() {
    let code = "unsafe extern \"C\" { fn elsewhere(); }\n\
        #[unsafe(no_mangle)]\npub unsafe extern \"ptx-kernel\" fn call() { unsafe { elsewhere() } }\n";
    let error = Crate::new("ptx-test-unresolved", code).build().unwrap_err();
    assert!(matches!(&error, Error::Unresolved { names, .. } if names == &["elsewhere"]), "{error}");
}

#[test]
fn a_folder_that_is_no_crate_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(PtxBuilder::new(folder.path()).build(), Err(Error::Io { .. })));
    fs::write(folder.path().join("Cargo.toml"), "[workspace]\n").unwrap();
    assert!(matches!(PtxBuilder::new(folder.path()).build(), Err(Error::NotACrate { .. })));
}

#[test]
fn the_hash_is_of_the_contents_wherever_they_lie() {
    let (one, other) = (Crate::new("ptx-test-hash", FILL), Crate::new("ptx-test-hash", FILL));
    assert_eq!(one.hash(), other.hash());
    other.write("src/deep/file.rs", "");
    assert_ne!(one.hash(), other.hash());
    one.write("src/deep/file.rs", "// more");
    assert_ne!(one.hash(), other.hash());
    one.write("src/deep/file.rs", "");
    assert_eq!(one.hash(), other.hash());
}

#[test]
fn the_hash_covers_path_dependencies_and_leaves_out_what_only_the_host_compiles() {
    let device = Crate::new("ptx-test-depends", FILL);
    device.write(
        "part/Cargo.toml",
        "[package]\nname = \"part\"\n[package.metadata.ptx]\nhost-only = [\"src/host\"]\n",
    );
    device.write("part/src/lib.rs", "");
    let depends = "[package]\nname = \"ptx-test-depends\"\n\
        [target.'cfg(any())'.dependencies]\npart = { path = \"part\" }\n";
    device.write("Cargo.toml", depends);
    let before = device.hash();
    device.write("part/src/host/mod.rs", "// for the host");
    assert_eq!(device.hash(), before);
    device.write("part/src/lib.rs", "// for the device");
    assert_ne!(device.hash(), before);
}

#[test]
fn the_hash_covers_the_locked_versions_of_what_the_crate_depends_on() {
    let device = Crate::new("ptx-test-locked", FILL);
    let manifest = "[package]\nname = \"ptx-test-locked\"\n\
        [dependencies]\nparts = { package = \"bytemuck\", version = \"1\" }\n";
    device.write("Cargo.toml", manifest);
    let lock = |name: &str, version: &str| {
        device.write(
            "Cargo.lock",
            &format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\nsource = \"registry\"\n"),
        );
        device.hash()
    };
    assert_ne!(lock("bytemuck", "1.0.0"), lock("bytemuck", "1.0.1"));
    assert_eq!(lock("rand", "1.0.0"), lock("rand", "1.0.1"));
}
