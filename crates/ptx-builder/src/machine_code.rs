//! Machine code of kernels, assembled from their PTX for the devices of one compute capability. Such a device
//! runs it without the driver's compiler.
use crate::ptxas::Ptxas;
use crate::{Error, Header, Ptx, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Ending of the names of packed files, instead of `.ptx`.
pub const ENDING: &str = ".cubin.zst";

/// Start of the line with the kernels of packed machine code. `gpu::Program` reads it.
const KERNELS: &str = "// machine code";

/// Start of a kernel in PTX.
const ENTRY: &str = ".visible .entry ";

/// Machine code of some kernels of a program.
#[derive(Clone, Debug)]
pub struct MachineCode {
    header: Header,
    kernels: Vec<Facts>,
    image: Vec<u8>,
}

/// Facts that a kernel's PTX tells: the comment that `#[kernel]` writes for sm_90 and later, before the
/// instruction that waits for the previous launch.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Facts {
    name: String,
    /// Maximum number of registers per thread; 0 for no bound.
    registers: u32,
    /// Size of the argument struct, in bytes.
    arguments: usize,
}

impl MachineCode {
    /// Returns the names of the kernels.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.kernels.iter().map(|kernel| kernel.name.as_str())
    }

    /// Returns the packed machine code: the header of the PTX, a line with the names of the kernels and the
    /// sizes of their arguments, and the image as a Zstandard frame of `compress`.
    pub fn pack(&self, compress: impl FnOnce(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let kernels = self.kernels.iter().map(|Facts { name, arguments, .. }| format!(" {name}:{arguments}"));
        let mut packed = format!("{}\n{KERNELS}{}\n", self.header, kernels.collect::<String>()).into_bytes();
        packed.extend(compress(&self.image));
        packed
    }
}

impl Ptxas {
    /// Assembles the kernels of `ptx` that `is_wanted` selects by name to machine code for the architecture
    /// of the PTX, each with its bound of registers. Kernels of other macros than `#[kernel]`, and those for
    /// architectures before sm_90, are left out.
    ///
    /// # Errors
    /// [`Error::Assemble`] with the output of `ptxas` when it rejects the PTX; [`Error::Io`] when it cannot
    /// be started, or when files are inaccessible.
    pub fn machine_code(&self, ptx: &Ptx, is_wanted: impl Fn(&str) -> bool) -> Result<MachineCode> {
        let (text, kernels) = bounded(ptx.text(), is_wanted);
        let draft = ptx.path().with_extension(format!("{}.bounded", std::process::id()));
        fs::write(&draft, text).map_err(Error::io(&draft))?;
        let image = self.assemble(&draft, &kernels, ptx);
        fs::remove_file(&draft).map_err(Error::io(&draft))?;
        Ok(MachineCode { header: ptx.header().clone(), kernels, image: image? })
    }

    fn assemble(&self, draft: &Path, kernels: &[Facts], ptx: &Ptx) -> Result<Vec<u8>> {
        let (arch, image) = (ptx.header().arch, draft.with_extension("image"));
        let names: Vec<_> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        let mut command = Command::new(self.path());
        command.args(["--gpu-name", &arch.to_string(), "--entry", &names.join(",")]);
        command.arg("--output-file").arg(&image).arg(draft);
        let output = command.output().map_err(Error::io(self.path()))?;
        if !output.status.success() {
            let log = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(Error::Assemble { path: ptx.path().to_owned(), arch, log });
        }
        let bytes = fs::read(&image).map_err(Error::io(&image))?;
        fs::remove_file(&image).map_err(Error::io(&image))?;
        Ok(bytes)
    }
}

/// Returns the text with a directive for the bound of each wanted kernel, and these kernels.
fn bounded(text: &str, is_wanted: impl Fn(&str) -> bool) -> (String, Vec<Facts>) {
    let mut parts = text.split(ENTRY);
    let mut bounded = parts.next().unwrap_or_default().to_owned();
    let mut kernels = Vec::new();
    for part in parts {
        bounded.push_str(ENTRY);
        match (facts(part).filter(|kernel| is_wanted(&kernel.name)), part.split_once("\n{")) {
            (Some(kernel), Some((head, body))) if kernel.registers > 0 => {
                bounded.push_str(&format!("{head}\n.maxnreg {}\n{{{body}", kernel.registers));
                kernels.push(kernel);
            }
            (kernel, _) => {
                bounded.push_str(part);
                kernels.extend(kernel);
            }
        }
    }
    (bounded, kernels)
}

/// Reads the comment of a kernel whose PTX begins after [`ENTRY`].
fn facts(part: &str) -> Option<Facts> {
    let (_, comment) = part.split_once("// registers=")?;
    let (registers, arguments) = comment.lines().next()?.split_once(" arguments=")?;
    let name = part.split('(').next()?.trim().to_owned();
    Some(Facts { name, registers: registers.parse().ok()?, arguments: arguments.trim().parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "// header\n.visible .entry one(\n\t.param .b64 a\n)\n{\n\
        \t// registers=40 arguments=8\n\tret;\n}\n\
        .visible .entry two()\n{\n\t// registers=0 arguments=0\n\tret;\n}\n\
        .visible .entry other()\n{\n\tret;\n}\n";

    #[test]
    fn bounds_become_directives() {
        let (text, kernels) = bounded(TEXT, |_| true);
        assert_eq!(text, TEXT.replace("a\n)\n{", "a\n)\n.maxnreg 40\n{"));
        let [one, two] = [("one", 40, 8), ("two", 0, 0)].map(|(name, registers, arguments)| Facts {
            name: name.to_owned(),
            registers,
            arguments,
        });
        assert_eq!(kernels, [one, two.clone()]);
        assert_eq!(bounded(TEXT, |name| name == "two"), (TEXT.to_owned(), vec![two]));
    }

    #[test]
    fn packed_code_lists_its_kernels() {
        let header: Header = "// phalanx-ptx source=a compiler=1 arch=sm_90 features=".parse().unwrap();
        let code = MachineCode { header, kernels: bounded(TEXT, |_| true).1, image: vec![1, 2] };
        assert_eq!(code.kernels().collect::<Vec<_>>(), ["one", "two"]);
        let packed = code.pack(|image| image.iter().rev().copied().collect());
        let lines: Vec<_> = packed.splitn(3, |&byte| byte == b'\n').collect();
        assert_eq!((lines[1], lines[2]), (&b"// machine code one:8 two:0"[..], &[2, 1][..]));
    }
}
