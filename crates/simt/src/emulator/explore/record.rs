//! The record of stores to memory that survives the process.
use super::super::crash::StoreLog;
use super::super::detect::order::Timestamp;
use super::super::lane::Lane;
use super::super::memory::access::Access;
use super::Explorer;
use crate::{Order, Scope};

impl Explorer {
    /// Records a store that the lane is about to execute. A release of system scope settles what precedes it.
    pub fn record(&self, lane: &Lane, access: &Access, word: u128) {
        if self.stores.borrow().is_none() {
            return;
        }
        if matches!(access.order, Order::Release | Order::AcqRel) {
            self.settle(lane, access.scope);
        }
        let timestamp = match &self.memory {
            Some(memory) => memory.borrow_mut().orders.timestamp(lane.number),
            None => Timestamp { lane: lane.number, epoch: 0 },
        };
        if let Some(stores) = &mut *self.stores.borrow_mut() {
            stores.store(access, word, timestamp, (lane.block_index, lane.thread));
        }
    }

    /// Settles the stores that happen before the lane's fence, if its scope is the system.
    pub fn settle(&self, lane: &Lane, scope: Scope) {
        let mut stores = self.stores.borrow_mut();
        let Some(stores) = stores.as_mut().filter(|_| scope == Scope::System) else { return };
        stores.settle(|timestamp| match &self.memory {
            Some(memory) => memory.borrow().orders.knows(lane.number, timestamp),
            None => timestamp.lane == lane.number,
        });
    }

    /// Ends the launch in the record, and returns the record.
    pub fn end_record(&self) -> Option<StoreLog> {
        let mut stores = self.stores.take()?;
        stores.settle(|_| true);
        Some(stores)
    }
}
