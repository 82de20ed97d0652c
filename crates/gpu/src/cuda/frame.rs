//! Zstandard frames of packed programs.
use std::collections::HashMap;
use std::io::Read;
use std::sync::{Mutex, PoisonError};

/// First bytes of a frame.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Splits a packed file into its second line, without its `start`, and the frame behind that line. Returns
/// `None` for other files.
pub fn split(file: &'static [u8], start: &str) -> Option<(&'static str, &'static [u8])> {
    let mut lines = file.splitn(3, |&byte| byte == b'\n').skip(1);
    let names = std::str::from_utf8(lines.next()?).ok()?.strip_prefix(start)?;
    Some((names, lines.next().filter(|frame| frame.starts_with(&MAGIC))?))
}

/// Returns the contents of a frame. They are kept for the rest of the process, for all of its devices.
pub fn unpacked(frame: &'static [u8]) -> Result<&'static [u8], String> {
    static CONTENTS: Mutex<Option<HashMap<usize, &'static [u8]>>> = Mutex::new(None);
    let mut known = CONTENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(&contents) = known.get(&frame.as_ptr().addr()) {
        return Ok(contents);
    }
    let mut contents = Vec::new();
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(frame).map_err(|error| error.to_string())?;
    decoder.read_to_end(&mut contents).map_err(|error| error.to_string())?;
    Ok(*known.entry(frame.as_ptr().addr()).or_insert(contents.leak()))
}
