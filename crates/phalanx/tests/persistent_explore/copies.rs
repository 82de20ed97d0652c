//! Copies of pages beside nothing, and beside changes of slot bits that tiny tables do not have.
use super::{Finding, Model, Setting, World, check_copies, fill_table, parts};
use crate::common::Rng;
use gpu::{Device, Grid};
use phalanx_kernels::persistent::Search;
use phalanx_kernels::persistent::pages::{PageCopies, PersistentCopyPages};
use simt::emulator::Launch;
use simt::{GlobalSlice, Instance, Order, Scope, kernel};

/// Plays a round, and then copies all pages while nothing else runs. Requires that all copies are consistent,
/// and that no page is marked.
pub fn copy_alone<C: Search + Instance>(seed: u64, setting: &Setting) -> Result<(), Finding> {
    let (mut rng, world) = (Rng::new(seed), World::<C>::new(setting));
    let (mut model, mut tag) = (Model::new(), 1);
    fill_table(&world, &mut rng, (&mut model, &mut tag))?;
    world.round(&parts(&mut rng, &mut tag), false)?;
    let (_, copies) = world.round(&[], true)?;
    let after = world.contents()?;
    if copies.len() < world.dirty.len() || world.dirty.read().unwrap().contains(&1) {
        return Err(Finding::Copy(format!("{} pages of {}", copies.len(), world.dirty.len())));
    }
    check_copies(&world, (&after, &after), &[], &copies)
}

/// Words of slot bits in a page of [`copy_bits`], and the number of its words.
const BITS_WORDS: u32 = 32;
const PAGE_WORDS: u32 = 2 * BITS_WORDS;

/// Sets a bit of a page and marks the page, as changes do.
#[kernel]
pub fn set_bit(page: GlobalSlice<u32>, dirty: GlobalSlice<u32>, word: u32) {
    page.at(word as usize).fetch_or(1, Order::Release, Scope::Device);
    dirty.at(0).fetch_or(1, Order::Release, Scope::Device);
}

/// Copies a page while another thread changes one of its slot bits, which another thread copies than the one
/// that clears the mark. Requires that a consistent copy has the change, or that the page is marked. Returns
/// whether the copy is consistent and has the change.
pub fn copy_bits(seed: u64, setting: &Setting) -> Result<bool, Finding> {
    let device = Device::emulator(setting.options());
    let [level, copies] = [(), ()].map(|()| device.zeroed::<u32>(PAGE_WORDS as usize).unwrap());
    let [list, dirty, whole] = [(), (), ()].map(|()| device.zeroed::<u32>(1).unwrap());
    let pages = PageCopies {
        level: level.global(),
        list: list.global(),
        dirty: dirty.global(),
        words: (PAGE_WORDS, BITS_WORDS),
        copies: copies.global(),
        whole: whole.global(),
    };
    let word = Rng::new(seed).below(u64::from(BITS_WORDS)) as u32;
    let change = SetBit { page: level.global(), dirty: dirty.global(), word };
    let launches = vec![
        Launch::new(Grid::new(1, 32), PersistentCopyPages { pages }),
        Launch::new(Grid::new(1, 1), change),
    ];
    let emulator = device.emulator_handle().expect("an emulator");
    emulator.launch_all(launches).map_err(Finding::Machine)?;
    let has_change = copies.read().unwrap() == level.read().unwrap();
    let [is_whole, is_marked] = [&whole, &dirty].map(|word| word.read().unwrap()[0] != 0);
    if is_whole && !has_change && !is_marked {
        return Err(Finding::Copy(format!("a change of word {word} is lost")));
    }
    Ok(is_whole && has_change)
}
