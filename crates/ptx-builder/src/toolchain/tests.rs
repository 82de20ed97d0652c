use super::*;
use std::os::unix::fs::PermissionsExt;

/// Installs a fake `rustc` that reports `version`.
fn install_fake(root: &Path, version: &str, sources: Option<&str>) {
    let bin = root.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let script = format!(
        "#!/bin/sh\ncase $1 in -vV) echo 'release: {version}';; --print) echo '{}';; esac\n",
        root.display()
    );
    for program in ["rustc", "cargo"] {
        fs::write(bin.join(program), &script).unwrap();
        fs::set_permissions(bin.join(program), fs::Permissions::from_mode(0o755)).unwrap();
    }
    if let Some(version) = sources {
        let rust = root.join("lib/rustlib/src/rust");
        fs::create_dir_all(rust.join("library")).unwrap();
        fs::create_dir_all(rust.join("src")).unwrap();
        fs::write(rust.join("library/Cargo.lock"), "").unwrap();
        fs::write(rust.join("src/version"), version).unwrap();
    }
}

struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("rust-toolchain.toml"), "[toolchain]\nchannel = \"nightly-2026-05-20\"\n")
            .unwrap();
        Self { root }
    }

    fn nightly(self, name: &str, version: &str, sources: Option<&str>) -> Self {
        install_fake(&self.root.path().join("toolchains").join(name), version, sources);
        self
    }

    fn system(self, version: &str, sources: Option<&str>) -> Self {
        install_fake(&self.root.path().join("usr"), version, sources);
        self
    }

    fn discover(&self) -> Result<Toolchain> {
        let root = self.root.path();
        let search = Search { toolchains: Some(root.join("toolchains")), system: vec![root.join("usr/bin")] };
        Toolchain::discover_in(root, &search)
    }
}

const PINNED: &str = "nightly-2026-05-20-x86_64-unknown-linux-gnu";
const OTHER: &str = "nightly-x86_64-unknown-linux-gnu";

#[test]
fn the_pinned_nightly_comes_first() {
    let place =
        Place::new().nightly(PINNED, "1.97.0-nightly", Some("1.97.0")).system("1.96.0", Some("1.96.0"));
    assert_eq!(place.discover().unwrap().origin, Origin::Pinned(PINNED.into()));
}

#[test]
fn then_a_system_compiler_then_another_nightly() {
    let place = Place::new().nightly(OTHER, "1.97.0-nightly", Some("1.97.0"));
    assert_eq!(place.discover().unwrap().origin, Origin::Nightly(OTHER.into()));
    let place = place.system("1.96.0", Some("1.96.0"));
    assert_eq!(place.discover().unwrap().origin, Origin::System);
}

#[test]
fn a_pinned_nightly_without_sources_is_passed_over() {
    let place = Place::new().nightly(PINNED, "1.97.0-nightly", None).system("1.96.0", Some("1.96.0"));
    assert_eq!(place.discover().unwrap().origin, Origin::System);
}

#[test]
fn what_does_not_serve_is_named_with_its_reason_and_the_remedy() {
    let reason = |place: Place| place.discover().unwrap_err().to_string();
    assert!(reason(Place::new().system("1.95.0", Some("1.95.0"))).contains("1.95.0 is older than 1.96"));
    assert!(reason(Place::new().system("1.96.0", None)).contains("lacks its library sources"));
    assert!(
        reason(Place::new().system("1.96.0", Some("1.97.0"))).contains("has the library sources of 1.97.0")
    );
    let nothing = reason(Place::new());
    for remedy in [
        "cargo xtask setup",
        "install nightly-2026-05-20 --component rust-src",
        "rustc-web cargo-web rust-web-src",
    ] {
        assert!(nothing.contains(remedy), "{nothing}");
    }
}

#[test]
fn a_proxy_of_rustup_is_no_system_compiler() {
    let place = Place::new().system("1.96.0", Some("1.96.0"));
    fs::write(place.root.path().join("usr/bin/rustup"), "").unwrap();
    assert!(place.discover().is_err());
}

#[test]
fn versions_compare_as_numbers() {
    for (version, recent) in
        [("1.96.0", true), ("1.100.0-nightly", true), ("2.0.0", true), ("1.95.9", false), ("0.99.0", false)]
    {
        assert_eq!(is_recent(version), recent, "{version}");
    }
}

#[test]
fn a_dated_nightly_is_a_channel_of_its_own() {
    assert!(is_of_channel(PINNED, "nightly-2026-05-20") && is_of_channel(OTHER, "nightly"));
    assert!(is_of_channel("nightly", "nightly"));
    assert!(!is_of_channel(PINNED, "nightly") && !is_of_channel(OTHER, "nightly-2026-05-20"));
}
