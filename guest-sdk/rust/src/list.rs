//! Lists of messages. A message is copied to the module when it is first read.

use crate::{host, Error, List, Message};
use alloc::{format, rc::Rc, vec, vec::Vec};

/// The maximum number of messages fetched in one host call.
const BLOCK: i32 = 64;

/// A cache of a list's messages across hooks.
struct Pulled {
    revision: i64,
    known: Vec<Option<Rc<Message>>>,
    from: i32,
    to: i32,
    block: i32,
}

// A module has one thread.
static mut PULLED: [Option<Pulled>; 2] = [None, None];

fn pulled(list: &List) -> &'static mut Pulled {
    let slot = unsafe { &mut (*core::ptr::addr_of_mut!(PULLED))[(list.list & 1) as usize] };
    let mut known = Vec::new();
    if let Some(p) = slot {
        if p.revision == list.revision {
            return slot.as_mut().unwrap();
        }
        known = core::mem::take(&mut p.known);
        let same = list.changed_since(p.revision);
        known.truncate(same as usize);
    }
    known.resize(list.total.max(0) as usize, None);
    slot.insert(Pulled { revision: list.revision, known, from: 0, to: 0, block: 0 })
}

impl List {
    pub fn len(&self) -> i32 {
        self.total
    }

    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Returns message `i`, from 0. Messages are fetched in blocks, which grow while they
    /// are read in one direction, and cached until they change.
    pub fn at(&self, i: i32) -> Result<Rc<Message>, Error> {
        if i < 0 || i >= self.total {
            return Err(Error::invalid(format!("there is no message {} in a list of {}", i, self.total)));
        }
        if let Some(items) = &self.items {
            if let Some(message) = items.get(i as usize) {
                return Ok(Rc::new(message.clone()));
            }
        }
        let p = pulled(self);
        if let Some(message) = &p.known[i as usize] {
            return Ok(message.clone());
        }
        let (on, back) = (p.block > 0 && i == p.to, p.block > 0 && i == p.from - 1);
        p.block = if on || back { (p.block * 4).min(BLOCK) } else { 1 };
        p.from = if back { (i - p.block + 1).max(0) } else { i };
        p.to = if back { i + 1 } else { (i + p.block).min(self.total) };
        while p.known[p.from as usize].is_some() {
            p.from += 1;
        }
        while p.known[p.to as usize - 1].is_some() {
            p.to -= 1;
        }
        let got = host::messages(self.list, p.from, p.to)?;
        if got.len() != (p.to - p.from) as usize {
            return Err(Error::internal("the host gave another number of messages than it was asked for"));
        }
        for (message, slot) in got.into_iter().zip(&mut p.known[p.from as usize..]) {
            *slot = Some(Rc::new(message));
        }
        p.known[i as usize].clone().ok_or_else(|| Error::internal("a message is missing"))
    }

    /// The last message, if there is one.
    pub fn last(&self) -> Result<Option<Rc<Message>>, Error> {
        if self.is_empty() {
            return Ok(None);
        }
        self.at(self.total - 1).map(Some)
    }

    /// Returns the index of the first message that changed since an earlier revision: the
    /// length if nothing changed, 0 if the revision is unknown.
    pub fn changed_since(&self, revision: i64) -> i32 {
        host::changed(self.list, revision).clamp(0, self.total)
    }
}

impl crate::ListPatch {
    /// A list of one message, for the module's own model calls.
    pub fn just(message: Message) -> Self {
        crate::ListPatch::Whole(vec![message])
    }
}
