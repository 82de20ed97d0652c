//! Images in which keys have two items each, as crashes leave them: recovery keeps the one of lower rank.
use super::{Copies, DUPLICATES, Finding, Model, SEED, Setting, World, check_marks, fill_table};
use crate::common::Rng;
use phalanx_kernels::persistent::{Hashed, Place, Search};
use simt::Instance;

/// Rank of a slot in the order in which recovery prefers items, and the slot's place.
type Slot = ((u32, u32), Place);

impl<C: Search + Instance> World<C> {
    /// Returns the slots in which a key may be, those of lower rank first.
    fn slots_of(&self, key: u64) -> Vec<Slot> {
        let hashed = Hashed::of(&self.keys[key as usize], SEED);
        let mut slots = Vec::new();
        for (location, above) in
            (0..C::HASHES).flat_map(|hash| (0..C::LEVELS).map(move |above| (hash, above)))
        {
            let number = hashed.bucket(location, self.geometry.buckets(above));
            slots.extend((0..C::SLOTS).map(|slot| {
                let place = self.geometry.place((above, number), slot);
                ((C::LEVELS - 1 - above, number * C::SLOTS + slot), place)
            }));
        }
        slots.sort_by_key(|slot| slot.0);
        slots.dedup();
        slots
    }

    /// Returns the words of an item in a copy of the levels, and those of its slot bit.
    fn item_in(&self, place: Place) -> (std::ops::Range<usize>, usize) {
        let page = (place.page * self.geometry.page_words()) as usize;
        let words = self.geometry.item_words() as usize;
        let first = page + self.geometry.bits_words() as usize + place.index as usize * words;
        (first..first + words, page + place.index as usize / 32)
    }

    /// Returns the words of all pages.
    fn pages(&self) -> Copies {
        let pages = (0..).zip(&self.levels).flat_map(|(above, level)| {
            let words: Vec<u32> = level.read().unwrap();
            let pages = words.chunks(self.geometry.page_words() as usize).map(<[u32]>::to_vec);
            (0..).zip(pages).map(move |(page, words)| (above, page, words)).collect::<Copies>()
        });
        pages.collect()
    }

    /// Copies the item of a key to another of its slots that has none, with another value. Returns the tag of
    /// the item that recovery keeps, or `None` if no slot is free.
    fn add_twin(&mut self, rng: &mut Rng, (key, tag): (u64, u32)) -> Option<u32> {
        let mut levels: Vec<Vec<u32>> = self.levels.iter().map(|level| level.read().unwrap()).collect();
        let slots = self.slots_of(key);
        let value = self.value(key, tag);
        let is_taken = |&(_, place): &Slot| {
            levels[place.above as usize][self.item_in(place).1] >> (place.index % 32) & 1 != 0
        };
        let has_item = |slot: &Slot| {
            let item = &levels[slot.1.above as usize][self.item_in(slot.1).0];
            is_taken(slot) && item[2 * C::KEY_WORDS as usize..].starts_with(&value)
        };
        let from = *slots.iter().find(|slot| has_item(slot))?;
        let free: Vec<Slot> = slots.iter().filter(|slot| !is_taken(slot)).copied().collect();
        if free.is_empty() {
            return None;
        }
        let to = rng.pick(&free);
        let mut item = levels[from.1.above as usize][self.item_in(from.1).0].to_vec();
        let other = tag + 1000;
        item[2 * C::KEY_WORDS as usize..][..self.value_words].copy_from_slice(&self.value(key, other));
        let (words, bits) = self.item_in(to.1);
        let level = &mut levels[to.1.above as usize];
        level[words].copy_from_slice(&item);
        level[bits] |= 1 << (to.1.index % 32);
        self.levels[to.1.above as usize].write(level).unwrap();
        Some(if to.0 < from.0 { other } else { tag })
    }
}

/// Fills a table, gives some keys a second item, and rebuilds the fingerprints. Returns the number of second
/// items.
pub fn recover_twins<C: Search + Instance>(seed: u64, setting: &Setting) -> Result<usize, Finding> {
    let (mut rng, mut world) = (Rng::new(seed), World::<C>::new(setting));
    let (mut model, mut twins) = (Model::new(), 0);
    fill_table(&world, &mut rng, (&mut model, &mut 1))?;
    for (key, tag) in model.clone() {
        if rng.below(2) == 0
            && let Some(kept) = world.add_twin(&mut rng, (key, tag))
        {
            model.insert(key, kept);
            twins += 1;
        }
    }
    let before = world.pages();
    world.dirty.fill_bytes(0).unwrap();
    let removed = world.rebuild()?[DUPLICATES] as usize;
    check_marks(&world, &before)?;
    if removed != twins {
        return Err(Finding::Memory(format!("recovery removes {removed} of {twins} second items")));
    }
    let found = world.contents()?;
    if found == model {
        return Ok(twins);
    }
    Err(Finding::Memory(format!("recovery finds {found:?} in place of {model:?}")))
}
