//! The kernels that the crate `phalanx` ships as machine code: `kernels-gpu/machine_code.toml`.
use crate::limits::matches;
use anyhow::{Context, Result, bail};
use ptx_builder::{Arch, MachineCode, Ptx, Ptxas};
use rayon::prelude::*;
use serde::Deserialize;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Contents of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shipped {
    arch: String,
    /// Symbols, in which `*` matches any characters.
    kernels: Vec<String>,
}

impl Shipped {
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    }

    /// Assembles the kernels, a module for each file of PTX. Fails if a symbol of the list matches no kernel.
    pub fn assemble<'a>(&self, ptxas: &Ptxas, built: &'a [Ptx]) -> Result<Vec<(&'a Ptx, MachineCode)>> {
        let arch: Arch = self.arch.parse()?;
        let files: Vec<_> = built.iter().filter(|ptx| ptx.header().arch == arch).collect();
        let mut parts = HashMap::<&str, usize>::new();
        files.iter().flat_map(|ptx| ptx.entries()).for_each(|name| *parts.entry(name).or_default() += 1);
        // Kernels without types are in every part: alone, they are not worth a file.
        let is_own = |name: &str| self.has(name) && parts[name] == 1;
        let files: Vec<_> = files.into_iter().filter(|ptx| ptx.entries().any(is_own)).collect();
        let assemble = |ptx: &&'a Ptx| Ok((*ptx, ptxas.machine_code(ptx, |name| self.has(name))?));
        let code = files.par_iter().map(assemble).collect::<Result<Vec<_>>>()?;
        self.check(&code.iter().flat_map(|(_, code)| code.kernels()).collect::<Vec<_>>())?;
        Ok(code)
    }

    fn has(&self, name: &str) -> bool {
        self.kernels.iter().any(|pattern| matches(pattern, name))
    }

    /// Fails if a symbol of the list matches none of these kernels.
    fn check(&self, kernels: &[&str]) -> Result<()> {
        match self.kernels.iter().find(|pattern| !kernels.iter().any(|name| matches(pattern, name))) {
            Some(unused) => bail!("no kernel is called {unused}: remove it from machine_code.toml"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_without_a_kernel_fails() {
        let shipped: Shipped =
            toml::from_str("arch = \"sm_90\"\nkernels = [\"get__*\", \"fill\"]\n").unwrap();
        assert!(shipped.has("get__line") && !shipped.has("fill_all"));
        assert!(shipped.check(&["get__line", "fill"]).is_ok());
        let error = shipped.check(&["get__line"]).unwrap_err().to_string();
        assert!(error.contains("fill"), "{error}");
    }
}
