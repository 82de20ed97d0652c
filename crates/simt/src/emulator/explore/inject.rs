//! Injection of faults: which operations they change, stores that are delayed, and the past values of words.
use super::super::detect::order::GranuleMap;
use super::super::fault::{Change, Fault};
use super::super::lane::Lane;
use super::super::memory::access::Access;
use super::super::mutant::{self, Executed, Operation, Record};
use super::super::site::Site;
use crate::{Order, Scope};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// Faults that concern one source location, by their indices.
#[derive(Default)]
struct Concerned {
    /// Faults of the operations at the location.
    here: Vec<usize>,
    /// Faults that refer to the location as their `until` or `from`.
    referring: Vec<usize>,
}

/// A delayed store of a lane.
struct LateStore {
    lane: u32,
    fault: usize,
    access: Access,
    value: u128,
    /// Whether the lane has written at another site since.
    is_passed: bool,
}

/// Value of some bytes before a write.
struct Overwritten {
    address: usize,
    bytes: usize,
    value: u128,
}

/// The faults of a run.
pub struct Injector {
    faults: Vec<Fault>,
    /// Faults by the address of the location.
    concerned: RefCell<GranuleMap<Rc<Concerned>>>,
    late: RefCell<Vec<LateStore>>,
    /// All writes of the run, if any fault needs past values.
    log: RefCell<Vec<Overwritten>>,
    logs: bool,
    /// Length of the log when a lane last passed the `from` of a fault.
    marks: RefCell<HashMap<(u32, usize), usize>>,
    /// Value that each warp last read from or wrote to a word, if any fault needs this: by the number of its
    /// first lane, the address and the size.
    seen: RefCell<HashMap<(u32, usize, usize), u128>>,
    sees: bool,
    /// The operation that the running lane executes.
    executed: Cell<Option<Executed>>,
    /// Record of the sites that are executed.
    record: Option<&'static Record>,
}

impl Injector {
    /// Returns an injector of these faults and of the process's mutant, if there are any or if the executed
    /// sites are recorded.
    pub fn new(faults: &[Fault]) -> Option<Self> {
        let faults: Vec<_> = faults.iter().chain(mutant::mutant()).cloned().collect();
        let record = mutant::record();
        let logs = faults.iter().any(|fault| matches!(fault.change, Change::Early { .. }));
        let sees = faults.iter().any(|fault| matches!(fault.change, Change::Recall));
        (!faults.is_empty() || record.is_some()).then(|| Self {
            faults,
            concerned: RefCell::default(),
            late: RefCell::default(),
            log: RefCell::default(),
            logs,
            marks: RefCell::default(),
            seen: RefCell::default(),
            sees,
            executed: Cell::default(),
            record,
        })
    }

    /// Returns the faults as text.
    pub fn texts(&self) -> Vec<String> {
        self.faults.iter().map(Fault::to_string).collect()
    }

    fn concerned(&self, site: Site) -> Rc<Concerned> {
        let mut known = self.concerned.borrow_mut();
        known
            .entry(std::ptr::from_ref(site).addr())
            .or_insert_with(|| Rc::new(self.find_concerned(site)))
            .clone()
    }

    fn find_concerned(&self, site: Site) -> Concerned {
        let mut found = Concerned::default();
        for (index, fault) in self.faults.iter().enumerate() {
            if fault.site.is_at(site) {
                found.here.push(index);
            }
            if let Change::Late { until: other } | Change::Early { from: other } = &fault.change
                && other.is_at(site)
            {
                found.referring.push(index);
            }
        }
        found
    }

    /// Returns the first result of `select` for a fault of the operations at `site`.
    fn find<T>(&self, site: Site, select: impl Fn(usize, &Fault) -> Option<T>) -> Option<T> {
        let concerned = self.concerned(site);
        concerned.here.iter().find_map(|&index| {
            let fault = &self.faults[index];
            let is_meant = fault.only.is_none() || fault.only == self.executed.get();
            let result = if is_meant { select(index, fault) } else { None };
            result.inspect(|_| self.count(index))
        })
    }

    /// Counts an effect of a fault, and records the first of the process's mutant, which follows all others.
    fn count(&self, index: usize) {
        let is_mutant = mutant::mutant().is_some() && index + 1 == self.faults.len();
        if self.faults[index].count() && is_mutant {
            self.record.iter().for_each(|record| record.effect());
        }
    }

    /// Notes that an access is executed, before faults change it.
    pub fn execute(&self, operation: Operation, access: &Access) {
        let executed = Executed::of(operation, access);
        self.executed.set(Some(executed));
        self.record.iter().for_each(|record| record.add(access.site, executed));
    }

    /// Notes that a fence, a barrier or a bound is executed.
    pub fn execute_at(&self, operation: Operation, scope: Scope, site: Site) {
        let access = Access { address: 0, bytes: 0, order: Order::Relaxed, scope, site };
        self.execute(operation, &access);
    }

    /// Returns the access with the order and the scope that a fault requires.
    pub fn reorder(&self, access: &Access) -> Access {
        let order = self.find(access.site, |_, fault| match fault.change {
            Change::Order(order) => Some(order).filter(|order| *order != access.order),
            Change::Weaken(order) => Some(order).filter(|order| is_stronger(access.order, *order)),
            _ => None,
        });
        let scope = self.narrow(access.site, access.scope);
        Access { order: order.unwrap_or(access.order), scope, ..*access }
    }

    /// Returns the scope that a fault requires.
    pub fn narrow(&self, site: Site, scope: Scope) -> Scope {
        let narrower = self.find(site, |_, fault| match fault.change {
            Change::Narrow(narrow) => Some(narrow).filter(|narrow| (*narrow as u8) < scope as u8),
            _ => None,
        });
        narrower.unwrap_or(scope)
    }

    /// Returns the bound that a fault requires.
    pub fn shift(&self, site: Site, bound: u32) -> u32 {
        let shifted = self.find(site, |_, fault| match fault.change {
            Change::Bound(by) => Some(by(bound)).filter(|other| *other != bound),
            _ => None,
        });
        shifted.unwrap_or(bound)
    }

    /// Returns `true` if a fault leaves the operation out.
    pub fn skips(&self, site: Site) -> bool {
        self.find(site, |_, fault| matches!(fault.change, Change::Skip).then_some(())).is_some()
    }

    /// Returns `true` if a fault splits the read-modify-write.
    pub fn tears(&self, access: &Access) -> bool {
        self.execute(Operation::Update, access);
        self.find(access.site, |_, fault| matches!(fault.change, Change::Tear).then_some(())).is_some()
    }

    /// Returns the word that is written instead of `new` to memory that holds `old`; `None` if a fault leaves
    /// the write out.
    pub fn replace(&self, access: &Access, old: u128, new: u128) -> Option<u128> {
        (!self.skips(access.site)).then(|| self.substitute(access, old, new))
    }

    /// Returns the word that a fault puts in place of `word`, which is written to memory that holds `old` or
    /// loaded from it.
    pub fn substitute(&self, access: &Access, old: u128, word: u128) -> u128 {
        let other = self.find(access.site, |_, fault| match fault.change {
            Change::Replace(by) => Some(by(old, word)).filter(|other| *other != word),
            _ => None,
        });
        other.unwrap_or(word)
    }

    /// Keeps a store for later, if a fault requires this.
    pub fn delay(&self, lane: u32, access: &Access, value: u128) -> bool {
        let is_late = |index, fault: &Fault| {
            matches!(fault.change, Change::Late { .. } | Change::Swap).then_some(index)
        };
        let Some(fault) = self.find(access.site, is_late) else { return false };
        self.late.borrow_mut().push(LateStore { lane, fault, access: *access, value, is_passed: false });
        true
    }

    /// Notes that a lane has written: its stores that wait for the next write at another site are due.
    pub fn wrote(&self, lane: u32, site: Site) {
        for store in self.late.borrow_mut().iter_mut().filter(|store| store.lane == lane) {
            let waits = matches!(self.faults[store.fault].change, Change::Swap);
            store.is_passed |= waits && store.access.site != site;
        }
    }

    /// Takes a lane's delayed stores that are due after it has executed `site`; all if `site` is `None`.
    pub fn take_due(&self, lane: u32, site: Option<Site>) -> Vec<(Access, u128)> {
        let mut late = self.late.borrow_mut();
        if late.is_empty() {
            return Vec::new();
        }
        let concerned = site.map(|site| self.concerned(site));
        let is_due = |store: &mut LateStore| {
            let is_reached = |at: &Rc<Concerned>| store.is_passed || at.referring.contains(&store.fault);
            store.lane == lane && concerned.as_ref().is_none_or(is_reached)
        };
        late.extract_if(.., is_due).map(|store| (store.access, store.value)).collect()
    }

    /// Records that a lane executes `site` now.
    pub fn pass(&self, lane: u32, site: Site) {
        if self.logs {
            let now = self.log.borrow().len();
            let mut marks = self.marks.borrow_mut();
            marks.extend(self.concerned(site).referring.iter().map(|&fault| ((lane, fault), now)));
        }
    }

    /// Records a write to bytes that hold `value`.
    pub fn overwrite(&self, access: &Access, value: u128) {
        if self.logs {
            let Access { address, bytes, .. } = *access;
            self.log.borrow_mut().push(Overwritten { address, bytes, value });
        }
    }

    /// Returns the past value of a word that holds `newest`, if a fault makes the lane read it.
    pub fn read_early(&self, lane: &Lane, access: &Access, newest: u128) -> Option<u128> {
        self.find(access.site, |index, fault| {
            let past = match fault.change {
                Change::Early { .. } => {
                    let mark = *self.marks.borrow().get(&(lane.number, index))?;
                    self.value_at(mark, access, newest)
                }
                Change::Recall => *self.seen.borrow().get(&seen_by(lane, access))?,
                _ => return None,
            };
            Some(past).filter(|value| *value != newest)
        })
    }

    /// Notes that a lane has read or written `value`.
    pub fn see(&self, lane: &Lane, access: &Access, value: u128) {
        if self.sees {
            self.seen.borrow_mut().insert(seen_by(lane, access), value);
        }
    }

    /// Returns the value of a word before all writes of the log from `mark` on.
    fn value_at(&self, mark: usize, access: &Access, newest: u128) -> u128 {
        let mut value = newest.to_le_bytes();
        for write in self.log.borrow()[mark..].iter().rev() {
            let old = write.value.to_le_bytes();
            for (i, byte) in value.iter_mut().enumerate().take(access.bytes) {
                let offset = (access.address + i).wrapping_sub(write.address);
                *byte = if offset < write.bytes { old[offset] } else { *byte };
            }
        }
        u128::from_le_bytes(value)
    }
}

/// Returns the key of a word that the lane's warp accesses.
fn seen_by(lane: &Lane, access: &Access) -> (u32, usize, usize) {
    (lane.number - lane.lane, access.address, access.bytes)
}

/// Returns `true` if the first order has all guarantees of the second and more.
fn is_stronger(order: Order, than: Order) -> bool {
    match than {
        Order::Weak => order != Order::Weak,
        Order::Relaxed => !matches!(order, Order::Weak | Order::Relaxed),
        Order::Acquire | Order::Release => order == Order::AcqRel,
        Order::AcqRel => false,
    }
}
