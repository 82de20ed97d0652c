//! Saved maps: a header, the keys, the values, and a checksum.
//!
//! ```text
//! "PHXMAP" · version u16 · key bits u32 · value bits u32 · pairs u64 · keys · values · CRC-32 of all before
//! ```
//!
//! All numbers are little-endian. The order of pairs means nothing, and so does the kind of table that wrote them.
use super::{Builder, Growth, HashMap, Key, Outcome, Value};
use crate::{Error, Result};
use std::io::{Read, Write};

const MAGIC: &[u8; 6] = b"PHXMAP";
const VERSION: u16 = 1;
/// Pairs that are handed to the device at a time.
const BATCH: usize = 1 << 22;

fn writing(source: std::io::Error) -> Error {
    Error::Io { doing: "writing", source }
}

fn reading(source: std::io::Error) -> Error {
    match source.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::Format("it ends too early".into()),
        _ => Error::Io { doing: "reading", source },
    }
}

/// A reader or writer, and the checksum of what went through it.
struct Checked<S> {
    stream: S,
    checksum: crc32fast::Hasher,
}

impl<S> Checked<S> {
    fn new(stream: S) -> Self {
        Self { stream, checksum: crc32fast::Hasher::new() }
    }
}

impl<S: Write> Checked<S> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.checksum.update(bytes);
        self.stream.write_all(bytes).map_err(writing)
    }
}

impl<S: Read> Checked<S> {
    fn take(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.stream.read_exact(bytes).map_err(reading)?;
        self.checksum.update(bytes);
        Ok(())
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.take(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads words without trusting their announced number: memory grows with what is really there.
    fn words<T: Value>(&mut self, count: usize) -> Result<Vec<T>> {
        let mut words = Vec::new();
        while words.len() < count {
            let mut part = vec![T::from_u64(0); (count - words.len()).min(BATCH)];
            self.take(bytemuck::cast_slice_mut(&mut part))?;
            words.append(&mut part);
        }
        Ok(words)
    }
}

impl<K: Key + Value, V: Value> HashMap<K, V> {
    /// Writes the map: version, checksum and all pairs.
    ///
    /// # Errors
    /// [`Error::Io`] when the writer fails; the device's.
    pub fn save(&self, writer: impl Write) -> Result<()> {
        let (keys, values) = self.export()?;
        let mut writer = Checked::new(writer);
        writer.put(MAGIC)?;
        writer.put(&VERSION.to_le_bytes())?;
        writer.put(&K::BITS.to_le_bytes())?;
        writer.put(&V::BITS.to_le_bytes())?;
        writer.put(&(keys.len() as u64).to_le_bytes())?;
        writer.put(bytemuck::cast_slice(&keys))?;
        writer.put(bytemuck::cast_slice(&values))?;
        let checksum = writer.checksum.finalize().to_le_bytes();
        writer.stream.write_all(&checksum).map_err(writing)?;
        writer.stream.flush().map_err(writing)
    }

    /// Reads a map that [`Self::save`] wrote, into one with the builder's parameters but room for all pairs.
    ///
    /// # Errors
    /// [`Error::Format`] when it is none, of another version or other types, or damaged; [`Error::Io`]; those of
    /// [`Builder::build`].
    pub fn load(reader: impl Read, builder: Builder<K, V>) -> Result<Self> {
        let mut reader = Checked::new(reader);
        let pairs = header(&mut reader, K::BITS, V::BITS)?;
        let (keys, values) = (reader.words::<K>(pairs)?, reader.words::<V>(pairs)?);
        let mut expected = [0; 4];
        reader.stream.read_exact(&mut expected).map_err(reading)?;
        if reader.checksum.finalize() != u32::from_le_bytes(expected) {
            return Err(Error::Format("its checksum is wrong: it is damaged".into()));
        }
        // The pairs find room, whatever the policy is afterwards: in another order of insertion a full table may refuse some.
        let growth = builder.growth;
        let mut map = builder.capacity(pairs.max(1)).growth(Growth::Doubling).build()?;
        for (keys, values) in keys.chunks(BATCH).zip(values.chunks(BATCH)) {
            let outcomes = map.insert_new(keys, values)?;
            if outcomes.iter().any(|&outcome| outcome != Outcome::Inserted) {
                return Err(Error::Format(
                    "a key comes twice, or the device has no room for all pairs".into(),
                ));
            }
        }
        map.growth = growth;
        Ok(map)
    }
}

/// Reads the header of a map of these types; gives how many pairs follow.
fn header<R: Read>(reader: &mut Checked<R>, key_bits: u32, value_bits: u32) -> Result<usize> {
    let wrong = |what: String| Err(Error::Format(what));
    if reader.number::<6>()? != *MAGIC {
        return wrong("it does not begin with PHXMAP".into());
    }
    let version = u16::from_le_bytes(reader.number()?);
    if version != VERSION {
        return wrong(format!("its version is {version}, and this is version {VERSION}"));
    }
    let bits = (u32::from_le_bytes(reader.number()?), u32::from_le_bytes(reader.number()?));
    if bits != (key_bits, value_bits) {
        return wrong(format!(
            "its keys and values have {bits:?} bits, and ({key_bits}, {value_bits}) were asked for"
        ));
    }
    usize::try_from(u64::from_le_bytes(reader.number()?)).or_else(|_| wrong("it has too many pairs".into()))
}
