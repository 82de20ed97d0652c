//! Zstandard frames of packed programs.
use std::collections::HashMap;
use std::io::Read;
use std::sync::{Mutex, PoisonError};

/// First bytes of a frame.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Last bytes of a frame that others continue: an empty last block.
const END: [u8; 3] = [1, 0, 0];
/// Start of the line before blocks that continue a frame. Then follow the architecture that the frame is for,
/// and the number of bytes of its contents.
const AFTER: &[u8] = b"// after ";

/// Blocks that continue the frame of another file.
#[derive(Debug, Clone, Copy)]
pub struct Blocks {
    /// The architecture of that file.
    pub arch: u32,
    /// Size of that frame's contents in bytes.
    before: usize,
    blocks: &'static [u8],
}

/// Splits a packed file into its second line, without its `start`, and the frame behind that line. Returns
/// `None` for other files.
pub fn split(file: &'static [u8], start: &str) -> Option<(&'static str, &'static [u8])> {
    let mut lines = file.splitn(3, |&byte| byte == b'\n').skip(1);
    let names = std::str::from_utf8(lines.next()?).ok()?.strip_prefix(start)?;
    Some((names, lines.next().filter(|frame| frame.starts_with(&MAGIC) || frame.starts_with(AFTER))?))
}

impl Blocks {
    /// Reads what follows the second line of a packed file, unless that is a frame.
    pub fn new(packed: &'static [u8]) -> Option<Self> {
        let mut lines = packed.strip_prefix(AFTER)?.splitn(2, |&byte| byte == b'\n');
        let (arch, before) = std::str::from_utf8(lines.next()?).ok()?.split_once(' ')?;
        Some(Self { arch: arch.parse().ok()?, before: before.parse().ok()?, blocks: lines.next()? })
    }

    /// Returns the contents, which are kept for the rest of the process; `frame` is that of the other file.
    pub fn unpacked_after(self, frame: &'static [u8]) -> Result<&'static [u8], String> {
        let first = frame.strip_suffix(&END).ok_or("the frame before it does not end with an empty block")?;
        let both = kept(self.blocks, || contents(first.chain(self.blocks)))?;
        both.get(self.before..).ok_or_else(|| "it ends before its start".to_owned())
    }
}

/// Returns the contents of a frame. They are kept for the rest of the process, for all of its devices.
pub fn unpacked(frame: &'static [u8]) -> Result<&'static [u8], String> {
    kept(frame, || contents(frame))
}

/// Returns what `unpack` has made of `packed`, now or before.
fn kept(
    packed: &'static [u8],
    unpack: impl FnOnce() -> Result<Vec<u8>, String>,
) -> Result<&'static [u8], String> {
    static CONTENTS: Mutex<Option<HashMap<usize, &'static [u8]>>> = Mutex::new(None);
    let mut known = CONTENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(&contents) = known.get(&packed.as_ptr().addr()) {
        return Ok(contents);
    }
    Ok(*known.entry(packed.as_ptr().addr()).or_insert(unpack()?.leak()))
}

fn contents(frame: impl Read) -> Result<Vec<u8>, String> {
    let mut contents = Vec::new();
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(frame).map_err(|error| error.to_string())?;
    decoder.read_to_end(&mut contents).map_err(|error| error.to_string())?;
    Ok(contents)
}
