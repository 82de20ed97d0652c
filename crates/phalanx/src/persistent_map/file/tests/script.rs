//! A script of syncs, growth, closing and reopening, and the versions that it makes.
use super::disk::{Access, Disk};
use crate::persistent_map::file::superblock::HEADER;
use crate::persistent_map::file::*;

pub const PAGE: usize = 4096;
/// Id of the system's run in which the script executes.
pub const BOOT: [u8; 16] = [7; 16];

pub fn options() -> Options {
    Options {
        page_bytes: PAGE as u64,
        pages: 3,
        has_working: true,
        layout: LayoutId { hash: 42, key: "u64".into(), value: "u32".into() },
        owner: [1; 16],
        adopt: false,
        header: header(0),
        boot: Some(BOOT),
    }
}

/// Returns a header that differs from others in each sector.
pub fn header(version: u8) -> Vec<u8> {
    vec![version; HEADER]
}

/// Contents as a reader finds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub epoch: Epoch,
    pub header: Vec<u8>,
    pub source: Source,
    pub image: Vec<u8>,
}

impl Version {
    /// The new file.
    pub fn first() -> Self {
        let image = vec![0; options().pages as usize * PAGE];
        Self { epoch: Epoch(0), header: header(0), source: Source::Epoch, image }
    }

    /// Reads what a disk has.
    pub fn read(disk: impl BlockDevice) -> Result<Self, FileFault> {
        let (volume, Contents { epoch, source, header, .. }) = Volume::open(disk, &options())?;
        let mut image = vec![0; volume.geometry.pages() as usize * PAGE];
        volume.load(0, &mut image)?;
        Ok(Self { epoch, header, source, image })
    }
}

#[derive(Clone, Debug)]
pub enum Step {
    /// Writes pages, in this order.
    Sync(&'static [u64]),
    /// Writes pages, and drops the sync.
    Abandon(&'static [u64]),
    Grow(u64),
    Working(Working),
    /// Drops the volume, and opens it again.
    Reopen,
}

pub const SCRIPT: [Step; 13] = [
    Step::Sync(&[0, 2]),
    Step::Sync(&[0, 1, 0]),
    Step::Abandon(&[1, 2]),
    Step::Sync(&[2]),
    Step::Working(Working::InUse(BOOT)),
    Step::Sync(&[0]),
    Step::Grow(2),
    Step::Sync(&[4, 1]),
    Step::Sync(&[3, 4, 0]),
    Step::Reopen,
    Step::Sync(&[1]),
    Step::Working(Working::Closed(BOOT)),
    Step::Sync(&[]),
];

/// An execution of a script. `disk` is the recorded disk below the device.
pub struct Run<D> {
    pub volume: Option<Volume<D>>,
    pub device: D,
    pub disk: Disk,
    /// Versions so far, the first one first. The last one is current, except after an error.
    pub versions: Vec<Version>,
    /// The image of the last version, with the pages of later growth.
    pub image: Vec<u8>,
}

impl<D: BlockDevice + Clone> Run<D> {
    /// Formats the device.
    pub fn new(device: D, disk: Disk) -> Result<Self, FileFault> {
        let (volume, first) = (Volume::format(device.clone(), &options())?, Version::first());
        disk.note(Access::Return(0));
        Ok(Self { volume: Some(volume), device, disk, image: first.image.clone(), versions: vec![first] })
    }

    /// Executes steps up to the first error.
    pub fn all(&mut self, steps: &[Step]) -> Result<(), FileFault> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    pub fn step(&mut self, step: &Step) -> Result<(), FileFault> {
        match step {
            Step::Sync(pages) => self.sync(pages),
            Step::Abandon(pages) => self.write(pages, 99).map(drop),
            Step::Working(working) => self.set_working(*working),
            Step::Grow(pages) => {
                self.volume().grow(*pages)?;
                self.image.resize(self.image.len() + *pages as usize * PAGE, 0);
                Ok(())
            }
            Step::Reopen => {
                self.volume = None;
                self.volume = Some(Volume::open(self.device.clone(), &options())?.0);
                Ok(())
            }
        }
    }

    pub fn volume(&mut self) -> &mut Volume<D> {
        self.volume.as_mut().expect("the script has opened it")
    }

    /// Announces a version, executes a call that makes it, and says that it has returned.
    fn make(
        &mut self,
        version: Version,
        call: impl FnOnce(&mut Self) -> Result<(), FileFault>,
    ) -> Result<(), FileFault> {
        let number = self.versions.len();
        self.versions.push(version);
        self.disk.note(Access::Begin(number));
        call(self)?;
        self.disk.note(Access::Return(number));
        Ok(())
    }

    fn write(&mut self, pages: &[u64], version: u8) -> Result<Commit<'_, D>, FileFault> {
        let mut commit = self.volume().begin()?;
        for (order, &page) in pages.iter().enumerate() {
            commit.write(page, &contents(page, version, order))?;
        }
        Ok(commit)
    }

    fn sync(&mut self, pages: &[u64]) -> Result<(), FileFault> {
        let number = self.versions.len() as u8;
        let mut image = self.image.clone();
        for (order, &page) in pages.iter().enumerate() {
            image[page as usize * PAGE..][..PAGE].copy_from_slice(&contents(page, number, order));
        }
        let last = self.versions.last().expect("it has the first one").clone();
        let epoch = Epoch(last.epoch.0 + 1);
        let version = Version { epoch, header: header(number), image: image.clone(), ..last };
        self.make(version, |run| {
            let returned = run.write(pages, number)?.finish(&header(number))?;
            assert_eq!(returned, epoch);
            Ok(())
        })?;
        self.image = image;
        Ok(())
    }

    fn set_working(&mut self, working: Working) -> Result<(), FileFault> {
        let source = match working {
            Working::Unused => Source::Epoch,
            Working::InUse(_) => Source::Working { is_closed: false },
            Working::Closed(_) => Source::Working { is_closed: true },
        };
        let last = self.versions.last().expect("it has the first one").clone();
        self.make(Version { source, ..last }, |run| run.volume().set_working(working))
    }
}

/// Returns the contents of a page, no two sectors of which are equal.
fn contents(page: u64, version: u8, order: usize) -> Vec<u8> {
    let sector = |at: usize| [page as u8, version, order as u8, (at / 512) as u8][at % 4];
    (0..PAGE).map(sector).collect()
}
