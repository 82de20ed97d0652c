//! PTX of programs: plain or packed, parsed on first use.
use super::frame::{self, Blocks};
use crate::ptx::{Entry, Module};
use std::sync::OnceLock;

/// Start of the line that lists the kernels of packed PTX, after the line of the header.
const ENTRIES: &str = "// entries ";

/// PTX of a program for one architecture.
#[derive(Debug)]
pub struct Text {
    ptx: &'static [u8],
    /// The file whose frame the packed PTX continues, if it does.
    before: Option<&'static [u8]>,
    /// Names of the kernels, if the PTX is packed.
    entries: Option<&'static str>,
    module: OnceLock<Result<Module<'static>, String>>,
}

impl Text {
    /// Reads the list of kernels of packed PTX, and nothing of plain text. `files` are those of the program,
    /// by architecture.
    pub fn new(ptx: &'static [u8], files: &[(u32, &'static [u8])]) -> Self {
        let packed = frame::split(ptx, ENTRIES);
        let before = packed.and_then(|(_, packed)| {
            let arch = Blocks::new(packed)?.arch;
            let mut of_arch = files.iter().filter(|(other, _)| *other == arch).map(|&(_, file)| file);
            of_arch.find(|file| frame::split(file, ENTRIES).is_some())
        });
        Self { ptx, before, entries: packed.map(|(entries, _)| entries), module: OnceLock::new() }
    }

    /// Returns the kernel `name` as a separate module, if it is here, or the cause if the text is damaged.
    /// Unpacks and parses the text on first use.
    pub fn cut(&self, name: &str) -> Result<Option<Entry>, String> {
        let may_have = self.entries.is_none_or(|entries| entries.split(' ').any(|entry| entry == name));
        if !may_have {
            return Ok(None);
        }
        Ok(self.module()?.cut(name))
    }

    /// Returns the names of the kernels, or the cause if the text is damaged.
    pub fn entries(&self) -> Result<Vec<&'static str>, String> {
        match self.entries {
            Some(entries) => Ok(entries.split(' ').collect()),
            None => Ok(self.module()?.entries().collect()),
        }
    }

    fn module(&self) -> Result<&Module<'static>, String> {
        self.module
            .get_or_init(|| text(self.ptx, self.before).map(Module::new))
            .as_ref()
            .map_err(String::clone)
    }
}

/// Returns PTX as text; `before` is the file whose frame it continues.
fn text(ptx: &'static [u8], before: Option<&'static [u8]>) -> Result<&'static str, String> {
    let packed = frame::split(ptx, ENTRIES).map(|(_, packed)| (packed, Blocks::new(packed)));
    let text = match packed {
        None => ptx,
        Some((frame, None)) => frame::unpacked(frame)?,
        Some((_, Some(blocks))) => {
            let first = before.and_then(|file| frame::split(file, ENTRIES));
            let first =
                first.ok_or_else(|| format!("it needs the PTX for sm_{}, which is not here", blocks.arch))?;
            blocks.unpacked_after(first.1)?
        }
    };
    std::str::from_utf8(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `.visible .entry one() { ret; }` as a frame with one block that is not compressed.
    const PACKED: &[u8] = b"// header\n// entries one two\n\
        \x28\xb5\x2f\xfd\x20\x1f\xf9\x00\x00.visible .entry one() { ret; }\n";

    #[test]
    fn packed_text_is_unpacked_when_a_kernel_of_it_is_asked_for() {
        let text = Text::new(PACKED, &[]);
        assert_eq!(text.entries().unwrap(), ["one", "two"]);
        assert!(text.cut("three").unwrap().is_none() && text.module.get().is_none());
        assert!(text.cut("one").unwrap().unwrap().text.contains(".entry one"));
        assert!(text.cut("two").unwrap().is_none(), "listed, but not there");
        let again = Text::new(PACKED, &[]);
        let texts = [&text, &again].map(|text| text.module().unwrap().cut("one").unwrap());
        assert_eq!(texts[0], texts[1]);
    }

    /// `.entry one() { ret; }`, continued by `.entry two() { ret; }`, as blocks that are not compressed.
    const FIRST: &[u8] = b"// header\n// entries one\n\
        \x28\xb5\x2f\xfd\x00\x58\xa8\x00\x00.entry one() { ret; }\x01\x00\x00";
    const SECOND: &[u8] = b"// header\n// entries two\n// after 90 21\n\xa9\x00\x00.entry two() { ret; }";

    #[test]
    fn text_may_continue_the_frame_of_another_architecture() {
        let files = [(80, SECOND), (90, FIRST)];
        let [second, first] = files.map(|(_, file)| Text::new(file, &files));
        assert_eq!(text(first.ptx, first.before).unwrap(), ".entry one() { ret; }");
        assert_eq!(text(second.ptx, second.before).unwrap(), ".entry two() { ret; }");
        assert_eq!((first.entries().unwrap(), second.entries().unwrap()), (vec!["one"], vec!["two"]));
        let alone = Text::new(SECOND, &[(80, SECOND)]).cut("two").unwrap_err();
        assert!(alone.contains("sm_90"), "{alone}");
        assert!(Text::new(SECOND, &[(90, PACKED)]).cut("two").is_err(), "it ends with no empty block");
    }

    #[test]
    fn plain_text_is_parsed() {
        let text = Text::new(b".visible .entry one() { ret; }", &[]);
        assert_eq!(text.entries().unwrap(), ["one"]);
        assert!(text.cut("one").unwrap().is_some() && text.cut("two").unwrap().is_none());
    }

    #[test]
    fn damaged_text_is_an_error() {
        const CUT: &[u8] = PACKED.split_at(PACKED.len() - 8).0;
        assert!(Text::new(CUT, &[]).cut("one").is_err());
        assert!(Text::new(b"\xff\xfe", &[]).cut("one").is_err());
    }
}
