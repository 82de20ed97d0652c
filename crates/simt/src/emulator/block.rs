//! A block in execution: its warps and lanes, its barrier, its end, and the analysis of deadlocks.
use super::collective::{Group, Operand, complete_without, lanes_of};
use super::failure::{Absent, Failure, FailureKind, Party, Whereabouts};
use super::lane::{Lane, Place};
use super::launch::{BlockId, Launch};
use super::memory::arrays::SharedMemory;
use super::site::Site;
use super::worker::Worker;
use simt_macros::device;
use std::cell::{Cell, OnceCell};
use std::panic::Location;

/// Up to 32 lanes, with masks of the runnable and the waiting ones.
pub struct Warp {
    /// Lanes that exist in this warp.
    pub exists: u32,
    /// Lanes that can run.
    pub ready: Cell<u32>,
    /// Lanes that have yielded in this pass (fast mode).
    pub yielded: Cell<u32>,
    pub ended: Cell<u32>,
    at_barrier: Cell<u32>,
    /// Groups in use, one bit per slot.
    pub open: Cell<u32>,
    pub groups: [Cell<Group>; 32],
    pub operands: [Cell<Operand>; 32],
    pub results: [Cell<u32>; 32],
    first_thread: u32,
}

impl Warp {
    fn new(first_thread: u32, threads: u32) -> Self {
        let lanes = (threads - first_thread).min(32);
        let exists = u32::MAX >> (32 - lanes);
        Self {
            exists,
            ready: Cell::new(exists),
            yielded: Cell::new(0),
            ended: Cell::new(0),
            at_barrier: Cell::new(0),
            open: Cell::new(0),
            groups: [const { Cell::new(Group::EMPTY) }; 32],
            operands: Default::default(),
            results: Default::default(),
            first_thread,
        }
    }
}

/// Outcome of a pass over a block's warps.
pub enum Pass {
    /// All lanes have ended.
    Finished,
    /// All lanes that can run wait for progress of others.
    Yielded,
    /// The launch has failed.
    Failed,
}

/// A lane that waits forever, the kind of its failure, and the lane responsible for it.
type Blamed<'a> = (&'a Lane, FailureKind, Option<Party>);

/// A block in execution. Boxed, because lanes point to it.
pub struct Block {
    pub launch: usize,
    pub index: u32,
    pub threads: u32,
    pub grid_size: u32,
    /// Number of its first lane in the run.
    pub first_number: u32,
    pub warps: Box<[Warp]>,
    lanes: OnceCell<Box<[Lane]>>,
    ended: Cell<u32>,
    arrived: Cell<u32>,
    pub shared: SharedMemory,
    worker: *const Worker,
}

impl Block {
    /// Creates a block whose lanes are ready to start. `worker` must outlive it.
    pub fn new(worker: &Worker, id: BlockId, first_number: u32) -> Box<Self> {
        let grid = worker.run.launches[id.launch].grid;
        let block = Box::new(Self {
            launch: id.launch,
            index: id.block,
            threads: grid.threads,
            grid_size: grid.blocks,
            first_number,
            warps: (0..grid.threads).step_by(32).map(|first| Warp::new(first, grid.threads)).collect(),
            lanes: OnceCell::new(),
            ended: Cell::new(0),
            arrived: Cell::new(0),
            shared: SharedMemory::default(),
            worker,
        });
        let lane = |thread| Lane::new(&block, &block.warps[thread as usize / 32], worker, thread);
        let lanes = (0..grid.threads).map(lane).collect();
        block.lanes.get_or_init(|| lanes);
        block
    }

    pub fn lane(&self, thread: u32) -> &Lane {
        &self.lanes()[thread as usize]
    }

    #[device]
    pub fn lanes(&self) -> &[Lane] {
        self.lanes.get().map_or(&[], |lanes| lanes)
    }

    fn worker(&self) -> &Worker {
        // SAFETY: the worker outlives its blocks, as `new` requires.
        unsafe { &*self.worker }
    }

    fn launch(&self) -> &Launch {
        &self.worker().run.launches[self.launch]
    }

    pub fn kernel_name(&self) -> &str {
        &self.launch().name
    }

    /// Runs the kernel body for the calling lane.
    pub fn run_body(&self) {
        (self.launch().body)();
    }

    /// Runs the lanes until each of them has yielded, waits or has ended (fast mode).
    pub fn pass(&self) -> Pass {
        const ROUNDS: u32 = 64;
        for _ in 0..ROUNDS {
            let mut ran = false;
            for warp in &self.warps {
                ran |= self.run_warp_turn(warp);
                if self.worker().run.has_failed() {
                    return Pass::Failed;
                }
            }
            if !ran {
                break;
            }
        }
        self.warps.iter().for_each(|warp| warp.yielded.set(0));
        if self.is_finished() {
            return Pass::Finished;
        }
        if self.warps.iter().all(|warp| warp.ready.get() == 0) {
            self.worker().run.fail(self.deadlock());
            return Pass::Failed;
        }
        Pass::Yielded
    }

    /// Runs the lanes of a warp, round-robin, until every lane that can run has yielded. Returns `true` if
    /// any ran.
    fn run_warp_turn(&self, warp: &Warp) -> bool {
        let worker = self.worker();
        let mut ran = false;
        worker.start_turn();
        loop {
            let batch = warp.ready.get() & !warp.yielded.get();
            if batch == 0 || worker.run.has_failed() {
                break;
            }
            ran = true;
            lanes_of(batch).for_each(|lane| self.lanes()[warp.first_thread as usize + lane].resume());
        }
        worker.end_turn();
        ran
    }

    pub fn is_finished(&self) -> bool {
        self.ended.get() == self.threads
    }

    /// Makes lanes of a warp runnable.
    #[device]
    pub fn wake(&self, warp: &Warp, lanes: u32) {
        warp.ready.set(warp.ready.get() | lanes);
        if let Some(explorer) = self.worker().explorer() {
            lanes_of(lanes)
                .for_each(|lane| explorer.wake(self.first_number + warp.first_thread + lane as u32));
        }
    }

    /// Executes the barrier of the block for `lane`.
    pub fn barrier(&self, lane: &Lane, site: Site) {
        lane.step(site);
        let warp = lane.warp();
        if self.ended.get() > 0 && self.worker().detect().collectives {
            let missing = self.absent_where(|lane| matches!(lane.place.get(), Place::Ended));
            lane.fail(FailureKind::BarrierMismatch { missing }, site, None);
        }
        warp.at_barrier.set(warp.at_barrier.get() | lane.bit());
        self.arrived.set(self.arrived.get() + 1);
        if self.arrived.get() + self.ended.get() == self.threads {
            self.release(Some(lane));
        } else {
            lane.wait(Place::Barrier(site));
        }
    }

    /// Wakes all lanes that wait at the barrier. `last`, the lane that arrived last, does not wait.
    fn release(&self, last: Option<&Lane>) {
        if let Some(explorer) = self.worker().explorer() {
            let here = self
                .warps
                .iter()
                .flat_map(|w| lanes_of(w.at_barrier.get()).map(|l| w.first_thread + l as u32));
            explorer.synchronize(here.map(|thread| self.first_number + thread));
        }
        self.arrived.set(0);
        for warp in &self.warps {
            let mine = last.filter(|lane| std::ptr::eq(lane.warp(), warp)).map_or(0, Lane::bit);
            self.wake(warp, warp.at_barrier.take() & !mine);
        }
    }

    /// Handles the return of a lane's kernel function.
    pub fn lane_ended(&self, lane: &Lane) {
        let warp = lane.warp();
        lane.place.set(Place::Ended);
        warp.ended.set(warp.ended.get() | lane.bit());
        warp.ready.set(warp.ready.get() & !lane.bit());
        self.ended.set(self.ended.get() + 1);
        let worker = self.worker();
        worker.progressed();
        if self.arrived.get() > 0 || warp.open.get() != 0 {
            self.lane_left(lane);
        }
        if let Some(explorer) = worker.explorer() {
            explorer.ended(lane);
        }
    }

    /// Handles the end of a lane while others wait.
    #[cold]
    fn lane_left(&self, lane: &Lane) {
        let warp = lane.warp();
        let mut open = lanes_of(warp.open.get());
        let expected = open.find(|&slot| warp.groups[slot].get().mask & lane.bit() != 0);
        if !self.worker().detect().collectives {
            if expected.is_some() {
                complete_without(lane, Location::caller());
            }
            if self.arrived.get() > 0 && self.arrived.get() + self.ended.get() == self.threads {
                self.release(None);
            }
            return;
        }
        let blamed = expected.map(|slot| self.stuck_group(warp, slot)).or_else(|| self.stuck_barrier());
        if let Some(blamed) = blamed {
            lane.end_launch(self.blame(blamed));
        }
    }

    /// Returns the failure that explains why no lane of the block can make progress.
    pub fn deadlock(&self) -> Failure {
        let stuck = self.warps.iter().find(|warp| warp.open.get() != 0);
        let group = stuck.map(|warp| self.stuck_group(warp, warp.open.get().trailing_zeros() as usize));
        let blamed = group.or_else(|| self.stuck_barrier()).filter(|_| self.worker().detect().collectives);
        let waits = |lane: &&Lane| lane.place.get().site().is_some();
        let hung = || self.lanes().iter().find(waits).unwrap_or(self.lane(0));
        self.blame(
            blamed.unwrap_or_else(|| (hung(), FailureKind::Hang { steps: self.worker().steps() }, None)),
        )
    }

    fn blame(&self, (lane, kind, other): Blamed<'_>) -> Failure {
        lane.failure(kind, lane.place.get().site().map(Into::into), other)
    }

    /// Returns the failure of a group that waits for missing lanes.
    fn stuck_group(&self, warp: &Warp, slot: usize) -> Blamed<'_> {
        let group = warp.groups[slot].get();
        let missing = group.mask & !group.arrived & !warp.ready.get();
        let lane = self.lane(warp.first_thread + group.arrived.trailing_zeros());
        let other = lanes_of(missing).find_map(|missing| self.party_in(warp, missing as u32));
        let missing = self.absent(warp, missing);
        (lane, FailureKind::MissingLane { collective: group.kind.name(), mask: group.mask, missing }, other)
    }

    /// Returns the failure of the barrier, if a lane waits there.
    fn stuck_barrier(&self) -> Option<Blamed<'_>> {
        let lane = self
            .lanes()
            .iter()
            .find(|lane| matches!(lane.place.get(), Place::Barrier(_)) && !lane.is_ready())?;
        let missing =
            self.absent_where(|lane| lane.warp().at_barrier.get() & lane.bit() == 0 && !lane.is_ready());
        Some((lane, FailureKind::BarrierMismatch { missing }, None))
    }

    /// Describes lanes of a warp as absent.
    pub fn absent(&self, warp: &Warp, lanes: u32) -> Vec<Absent> {
        lanes_of(lanes).map(|lane| absent(self.lane(warp.first_thread + lane as u32))).collect()
    }

    fn absent_where(&self, is: impl Fn(&Lane) -> bool) -> Vec<Absent> {
        self.lanes().iter().filter(|lane| is(lane)).map(absent).collect()
    }

    /// Describes a lane as the other party of a failure, if it waits.
    pub fn party_in(&self, warp: &Warp, lane: u32) -> Option<Party> {
        let lane = self.lane(warp.first_thread + lane);
        match lane.place.get() {
            _ if lane.is_ready() => None,
            Place::Collective(kind, site) => Some(lane.party(&format!("wait at {}", kind.name()), site)),
            Place::Barrier(site) => Some(lane.party("wait at the barrier of the block", site)),
            Place::Ready | Place::Ended => None,
        }
    }
}

fn absent(lane: &Lane) -> Absent {
    let whereabouts = match lane.place.get() {
        Place::Ended => Whereabouts::Ended,
        _ if lane.is_ready() => Whereabouts::Running,
        Place::Collective(kind, site) => Whereabouts::Waiting { at: kind.name(), location: site.into() },
        Place::Barrier(site) => {
            Whereabouts::Waiting { at: "the barrier of the block", location: site.into() }
        }
        Place::Ready => Whereabouts::Running,
    };
    Absent { thread: lane.thread, whereabouts }
}
