//! Opening of a file: the restart of a program.
use super::files::{self, File, pair_count};
use super::items::{Key, Numbered, Value};
use super::run::{check_contents, named, quantile};
use super::table;
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Context, Result, ensure};
use gpu::{Buffer, Tier};
use phalanx::PersistentMap;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom};
use std::time::Instant;

/// Prepared case: a file with `pairs` pairs. After each opening, `n` of them are looked up.
pub struct Open<'a, K, V> {
    gpu: &'a Gpu,
    case: Case,
    numbered: Numbered,
    map: Option<PersistentMap<K, V>>,
    /// Bytes of the image, and of the file.
    bytes: [u64; 2],
    /// Milliseconds of the last opening, and of getting memory alone, each time.
    ms: f64,
    memory_ms: Vec<f64>,
    // Dropped after the map.
    file: File,
}

impl<'a, K: Key, V: Value> Open<'a, K, V> {
    /// Creates the file.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the case is invalid, or the file does not fit its folder.
    pub fn new(gpu: &'a Gpu, case: &Case) -> Result<Self> {
        let (file, numbered) = (File::new(case)?, Numbered::new(case.seed));
        ensure!(case.n <= u64::from(pair_count(case)?), "more pairs are looked up than there are");
        let map: PersistentMap<K, V> = files::create(gpu, case, &file)?;
        let stats = map.stats()?;
        drop(map);
        let bytes = [
            (stats.pages * stats.page_bytes) as u64,
            OpenOptions::new().read(true).open(file.path())?.metadata()?.len(),
        ];
        let case = case.clone();
        Ok(Self { gpu, case, numbered, map: None, bytes, ms: 0.0, memory_ms: Vec::new(), file })
    }

    /// Returns the milliseconds that it takes to get the memory of the image: to map and register as many
    /// bytes of the file, or to allocate them.
    fn time_memory(&self) -> Result<f64> {
        let words = (self.bytes[0] / 4) as usize;
        let is_mapped = self.case.choice("durability", &[("machine", false), ("process", true)])?;
        let start = Instant::now();
        let memory: Buffer<u32> = if is_mapped {
            let mut file = OpenOptions::new().read(true).write(true).open(self.file.path())?;
            // The mapped part is the last one.
            let offset = file.seek(SeekFrom::End(0))?.saturating_sub(self.bytes[0]) / PAGE * PAGE;
            // SAFETY: the file has these bytes, and nothing shortens it meanwhile.
            unsafe { self.gpu.device.map_file_at(&file, self.file.path(), offset, words)? }
        } else {
            let storage = [("device", Tier::Device), ("pinned", Tier::Pinned)];
            self.gpu.device.buffer_on(self.case.choice("storage", &storage)?, words)?
        };
        let ms = start.elapsed().as_secs_f64() * 1e3;
        drop(memory);
        Ok(ms)
    }
}

/// Bytes of a page of the operating system.
const PAGE: u64 = 4096;

impl<K: Key, V: Value> Benchmark for Open<'_, K, V> {
    fn restore(&mut self) -> Result<()> {
        self.map = None;
        let ms = self.time_memory()?;
        self.memory_ms.push(ms);
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        let builder = table::builder(self.gpu, &self.case, 1)?;
        let start = Instant::now();
        let map = builder.open(self.file.path())?;
        self.gpu.device.synchronize()?;
        self.ms = start.elapsed().as_secs_f64() * 1e3;
        self.map = Some(map);
        Ok(())
    }

    fn own_ms(&self) -> Option<f64> {
        Some(self.ms)
    }

    fn verify(&mut self) -> Result<Verified> {
        let (gpu, numbered, n) = (self.gpu, self.numbered.clone(), self.case.n as u32);
        let all = pair_count(&self.case)?;
        let map = self.map.as_mut().context("the map is not open")?;
        let len = map.len()?;
        ensure!(len == all as usize, "the file has {len} pairs, not {all}");
        check_contents(gpu, map, &numbered, all - n..all, &|_| Some(0))?;
        map.check()?;
        Ok(Verified::all(n as usize))
    }

    fn operations(&self) -> u64 {
        self.case.n
    }

    fn metrics(&self) -> Vec<Metric> {
        let memory_ms = quantile(&self.memory_ms, 0.5);
        let counted = BTreeMap::from([
            ("memory_ms", memory_ms),
            ("beyond_memory_ms", (self.ms - memory_ms).max(0.0)),
            ("image_bytes", self.bytes[0] as f64),
            ("file_bytes", self.bytes[1] as f64),
        ]);
        vec![Metric::TableBytes(self.bytes[0]), named(counted)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::first_case;
    use crate::machine::DeviceChoice;

    #[test]
    fn a_file_with_other_pairs_is_a_fault() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let case = first_case("gphash/restart", 0);
        let mut open = Open::<[u64; 1], [u64; 1]>::new(&gpu, &case).unwrap();
        open.restore().unwrap();
        open.launch().unwrap();
        assert_eq!(open.verify().unwrap().succeeded, case.n);
        let map = open.map.as_ref().unwrap();
        let last = <[u64; 1] as Key>::of(open.numbered.word(299));
        assert_eq!(map.update(&[last], &[[7]]).unwrap().count(phalanx::Outcome::Replaced), 1);
        assert!(open.verify().unwrap_err().to_string().contains("key 299"));
        assert_eq!(open.map.as_ref().unwrap().remove(&[last]).unwrap(), [true]);
        assert!(open.verify().unwrap_err().to_string().contains("299 pairs"));
        let path = open.file.path().to_owned();
        assert!(path.exists());
        drop(open);
        assert!(!path.exists(), "the file remains");
    }
}
