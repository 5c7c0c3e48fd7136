//! A waiting client's bytes, cut into packets. Only packets that somebody wants are kept; the others pass by
//! without taking memory, however long they are.

use crate::{Malformed, frame, varint};

/// What to do with a packet of this id and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interest {
    Keep,
    Skip,
}

#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// The beginning of a packet, its length field included.
    held: Vec<u8>,
    /// The rest of a packet that nobody wants.
    skip: usize,
}

impl Inbox {
    /// Takes bytes off the front of `bytes` up to the next packet that `judge` wants, and gives its id and fields.
    /// `judge` sees each packet's id and its fields' size, in bytes, before these are kept. `None`: all bytes are taken.
    pub fn next(
        &mut self,
        bytes: &mut &[u8],
        judge: impl Fn(i32, usize) -> Result<Interest, Malformed>,
    ) -> Result<Option<(i32, Vec<u8>)>, Malformed> {
        loop {
            let skipped = self.skip.min(bytes.len());
            *bytes = bytes.get(skipped..).unwrap_or_default();
            self.skip -= skipped;

            let Some(start) = self.start()? else {
                let Some((first, rest)) = bytes.split_first() else { return Ok(None) };
                self.held.push(*first);
                *bytes = rest;
                continue;
            };
            let missing = start.whole - self.held.len();
            if self.held.len() == start.fields
                && judge(start.id, start.whole - start.fields)? == Interest::Skip
            {
                self.held.clear();
                self.skip = missing;
                continue;
            }
            if missing > 0 && bytes.is_empty() {
                return Ok(None);
            }
            let (taken, rest) = bytes.split_at(missing.min(bytes.len()));
            self.held.extend_from_slice(taken);
            *bytes = rest;
            if self.held.len() == start.whole {
                let fields = self.held.split_off(start.fields);
                self.held = Vec::new();
                return Ok(Some((start.id, fields)));
            }
        }
    }

    #[cfg(test)]
    pub const fn held(&self) -> usize {
        self.held.capacity()
    }

    /// The held packet's size and id, once they are there.
    fn start(&self) -> Result<Option<Start>, Malformed> {
        let Some(header) = frame::header(&self.held, usize::MAX)? else { return Ok(None) };
        let body = self.held.get(header.size..).unwrap_or_default();
        match varint::read(body.get(..header.body).unwrap_or(body))? {
            Some((id, size)) => {
                Ok(Some(Start { id, fields: header.size + size, whole: header.size + header.body }))
            }
            None if body.len() >= header.body => Err(Malformed::Truncated),
            None => Ok(None),
        }
    }
}

struct Start {
    id: i32,
    /// Where the fields begin.
    fields: usize,
    whole: usize,
}
