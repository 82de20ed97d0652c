//! The variant behaves as `std::collections::HashMap` does, its schedules are explored, and it is measured,
//! all on the emulator.
use phalanx_kernels::keyed::kernels::Get;
use phalanx_test_variant::{LinearTable, SYMBOLS, cache};
use ptx_builder::{Arch, PtxBuilder};
use simt::Kernel;
use std::collections::BTreeSet;
use std::process::Command;

phalanx_testing::conformance_suite! { conformance: LinearTable }

phalanx_testing::explore! { linear: LinearTable, 100; }

/// The package's PTX has all kernels of hash maps and of cache tables for its variants, and no other entries.
#[test]
fn the_package_builds_to_ptx() {
    let builder = PtxBuilder::new(env!("CARGO_MANIFEST_DIR")).arch(Arch::Sm80);
    let ptx = builder.build().unwrap_or_else(|error| panic!("{error}"));
    let entries: BTreeSet<_> = ptx.entries().collect();
    assert_eq!(entries, SYMBOLS.iter().chain(cache::SYMBOLS).copied().collect());
    assert!(entries.contains(&*Get::<LinearTable>::symbol()));
}

/// A suite selects the variant by name, and the records contain it.
#[test]
fn the_variant_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let (suite, records) = (folder.path().join("linear.toml"), folder.path().join("records.jsonl"));
    std::fs::write(&suite, include_str!("linear.toml")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_phalanx-test-variant"))
        .args(["run", "--device", "emulator", "--quick"])
        .arg(&suite)
        .arg("--json")
        .arg(&records)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let records = std::fs::read_to_string(&records).unwrap();
    assert_eq!(records.lines().count(), 3, "{records}");
    for record in records.lines() {
        assert!(record.contains(r#""variant":"linear3_64_2x4_u32_u32""#), "{record}");
        assert!(record.contains(r#""verified":true"#), "{record}");
    }
}
