//! Ordering guarantees of session operations: a lane that has requested an operation sets a flag when it is
//! done, and a lane that has seen the flag looks up the key.
//!
//! Other lanes of their tiles write and read the pair. The session must therefore order the accesses of those
//! lanes with the accesses of the requesting lanes, as if the requesting lanes had performed the operation
//! themselves.
use crate::common::seeds;
use crate::world::HasFixture;
use gpu::{Device, Grid};
use phalanx_kernels::keyed::{Cooperation, Insert, Kind, PerLane, Scalar, Session, Slot};
use simt::emulator::{Launch, Options, Schedule};
use simt::{Convergence, GlobalSlice, Kernel, Order, Scope, Thread, Tile, fence};
use std::marker::PhantomData;

/// Number of times that the flag is polled.
const POLLS: u32 = 1000;
/// Key, and its two values.
const KEY: u64 = 5;
const VALUES: [u64; 2] = [77, 78];

/// Cooperation, seen from a lane that requests an operation.
pub trait Asking<M: Kind>: Cooperation<M> {
    /// Returns the cooperation of the calling lane.
    fn here() -> Self;
    /// Returns whether the calling lane must submit the operation that lane `owner` of its warp requests.
    fn brings(owner: u32) -> bool;
}

impl<M: Kind> Asking<M> for PerLane {
    fn here() -> Self {
        Self
    }

    fn brings(owner: u32) -> bool {
        Thread::lane() == owner
    }
}

impl<M: Kind, C: Convergence, const W: u32> Asking<M> for Tile<W, C>
where
    Self: Cooperation<M>,
{
    fn here() -> Self {
        Self::this()
    }

    fn brings(owner: u32) -> bool {
        Thread::lane() / W == owner / W
    }
}

/// Kernel whose first block writes the pair and sets the flag, and whose second block polls the flag.
struct Publish<M: Kind, T> {
    map: M::View,
    flag: GlobalSlice<u32>,
    /// Output: whether the flag was seen, and the value found then, or all ones.
    out: GlobalSlice<u64>,
    owner: u32,
    team: PhantomData<fn() -> T>,
}

impl<M: Kind, T> Clone for Publish<M, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Kind, T> Copy for Publish<M, T> {}

impl<M: Kind, T: Asking<M> + 'static> Kernel for Publish<M, T> {
    const PROGRAM: &'static str = "explore";
    const NAME: &'static str = "publish";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        M::enter(self.map);
        let mut session = Session::<M, T>::new(self.map, T::here());
        if Thread::block_index() == 0 {
            self.show(&mut session);
        } else {
            self.check(&mut session);
        }
        session.finish();
        M::leave(self.map);
    }
}

impl<M: Kind, T: Asking<M>> Publish<M, T> {
    fn show(&self, session: &mut Session<M, T>) {
        for value in VALUES {
            let value = M::Value::from_u64(value);
            session.execute(T::brings(self.owner), Insert, M::Key::from_u64(KEY), value);
        }
        if Thread::lane() == self.owner {
            fence(Scope::Device);
            self.flag.at(0).store(1, Order::Relaxed, Scope::Device);
        }
    }

    fn check(&self, session: &mut Session<M, T>) {
        let mine = Thread::lane() == self.owner;
        let load = || self.flag.at(0).load(Order::Acquire, Scope::Device);
        let seen = mine && (0..POLLS).any(|_| load() == 1);
        // Other lanes of the tile may have to submit the operation too. The shuffle informs them and orders
        // nothing.
        let seen = Tile::<32>::lockstep().shuffle(seen, self.owner);
        let found = session.get((seen && T::brings(self.owner)).then_some(M::Key::from_u64(KEY)));
        if mine {
            self.out.write(0, seen.into());
            self.out.write(1, found.map_or(u64::MAX, Scalar::to_u64));
        }
    }
}

/// Runs [`Publish`] under many schedules, in a structure of `buckets` buckets: a thread that has seen the
/// flag must find the last value.
pub fn are_published<M: HasFixture, T: Asking<M> + 'static>(buckets: u32, count: u64) {
    let mut looked = 0;
    for seed in seeds(count) {
        let options = Options {
            stale_l1: true,
            weak_memory: M::WEAK,
            cas128: !M::Slot::PUBLISHES,
            ..Options::explore(Schedule::Random { seed })
        };
        let device = Device::emulator(options);
        let memory = M::memory(&device, buckets).expect("memory");
        let (flag, out) =
            (device.zeroed::<u32>(1).expect("memory"), device.zeroed::<u64>(2).expect("memory"));
        let map = M::view(&memory, buckets);
        let owner = seed as u32 % M::TILE;
        let kernel =
            Publish::<M, T> { map, flag: flag.global(), out: out.global(), owner, team: PhantomData };
        let launch = Launch::new(Grid::new(2, 32), kernel);
        device.emulator_handle().expect("an emulator").launch_all(vec![launch]).expect("no failure");
        let out = out.read().expect("memory");
        looked += out[0];
        assert!(out[0] == 0 || out[1] == VALUES[1], "seed {seed}: the flag was seen, and {}", out[1]);
    }
    assert!(looked > 0, "some seed shows the flag");
}
