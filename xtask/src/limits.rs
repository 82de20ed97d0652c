//! Resource limits of kernels: no local memory, and no more registers than `kernels-gpu/register_limits.toml`
//! permits.
use anyhow::{Context, Result, bail};
use ptx_builder::{EntryReport, PtxasReport};
use serde::Deserialize;
use std::fs;
use std::path::Path;

/// Contents of the limits file: a limit for all kernels, and exceptions with reasons.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Registers per thread.
    registers: u32,
    /// Kernels that may use more.
    #[serde(default, rename = "exception")]
    exceptions: Vec<Exception>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    /// Symbol, in which `*` matches any characters.
    kernels: String,
    registers: u32,
    /// Reason, for readers of the file.
    #[allow(dead_code)]
    reason: String,
}

impl Limits {
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    }

    fn of(&self, kernel: &str) -> u32 {
        let exception = self.exceptions.iter().find(|exception| matches(&exception.kernels, kernel));
        exception.map_or(self.registers, |exception| exception.registers)
    }

    /// Fails with a list of all kernels that exceed their limits.
    pub fn check(&self, report: &PtxasReport) -> Result<()> {
        let complaints: Vec<_> = report.entries.iter().filter_map(|entry| self.complaint(entry)).collect();
        if complaints.is_empty() {
            return Ok(());
        }
        bail!("for {}:\n  {}", report.arch, complaints.join("\n  "))
    }

    fn complaint(&self, entry: &EntryReport) -> Option<String> {
        let limit = self.of(&entry.name);
        if entry.uses_local_memory() {
            let EntryReport { name, stack_bytes, spill_store_bytes, spill_load_bytes, .. } = entry;
            return Some(format!(
                "{name}: local memory ({stack_bytes} bytes of stack, {spill_store_bytes} spilt, \
                 {spill_load_bytes} read back)"
            ));
        }
        (entry.registers > limit)
            .then(|| format!("{}: {} registers, limit {limit}", entry.name, entry.registers))
    }

    /// Fails if an exception matches no kernel and can be removed.
    pub fn check_exceptions(&self, kernels: &[&str]) -> Result<()> {
        let is_unused =
            |exception: &&Exception| !kernels.iter().any(|kernel| matches(&exception.kernels, kernel));
        match self.exceptions.iter().find(is_unused) {
            Some(unused) => bail!("no kernel is called {}: remove the exception", unused.kernels),
            None => Ok(()),
        }
    }
}

/// Returns whether `name` matches `pattern`, in which `*` matches any characters.
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => {
            let rest = name.strip_prefix(head);
            rest.is_some_and(|rest| {
                (0..=rest.len()).any(|skipped| rest.get(skipped..).is_some_and(|rest| matches(tail, rest)))
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ptx_builder::Arch;

    const FILE: &str =
        "registers = 40\n[[exception]]\nkernels = \"insert__*_u64\"\nregisters = 48\nreason = \"two keys\"\n";

    fn limits() -> Limits {
        toml::from_str(FILE).unwrap()
    }

    fn report(name: &str, registers: u32, stack_bytes: u32) -> PtxasReport {
        let entry = EntryReport { name: name.into(), registers, stack_bytes, ..EntryReport::default() };
        PtxasReport { arch: Arch::Sm90, entries: vec![entry] }
    }

    #[test]
    fn stars_stand_for_any_letters() {
        assert!(matches("insert__*_u64", "insert__line_u64"));
        assert!(matches("*", "anything") && matches("a*", "a") && matches("*b*", "abc"));
        assert!(!matches("insert__*_u64", "insert__line_u32") && !matches("a", "ab"));
    }

    #[test]
    fn a_kernel_with_too_many_registers_fails() {
        assert!(limits().check(&report("get", 40, 0)).is_ok());
        let complaint = limits().check(&report("get", 41, 0)).unwrap_err().to_string();
        assert!(
            complaint.contains("get: 41 registers, limit 40") && complaint.contains("sm_90"),
            "{complaint}"
        );
    }

    #[test]
    fn an_exception_raises_the_limit_of_its_kernels_only() {
        assert!(limits().check(&report("insert__line_u64", 48, 0)).is_ok());
        assert!(limits().check(&report("insert__line_u32", 48, 0)).is_err());
    }

    #[test]
    fn local_memory_fails_whatever_the_registers() {
        let complaint = limits().check(&report("get", 8, 16)).unwrap_err().to_string();
        assert!(complaint.contains("16 bytes of stack"), "{complaint}");
    }

    #[test]
    fn an_exception_without_a_kernel_fails() {
        assert!(limits().check_exceptions(&["insert__line_u64"]).is_ok());
        assert!(limits().check_exceptions(&["get"]).is_err());
    }
}
