//! Generated values, kept until the statements that use them are written.

/// The position of one generator's values: one value, or several for a list.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slot {
    first: u32,
    count: u32,
}

/// The values of one repetition of a step; the next repetition reuses the memory.
#[derive(Debug, Default)]
pub struct GeneratedValues {
    /// Integers, and the positions of texts.
    values: Vec<i64>,
    text: Vec<u8>,
    slots: Vec<Slot>,
}

/// A state to return to: see [`GeneratedValues::mark`].
#[derive(Clone, Copy)]
pub struct Mark {
    values: usize,
    text: usize,
}

impl GeneratedValues {
    pub fn new(slots: usize) -> Self {
        Self { slots: vec![Slot::default(); slots], ..Self::default() }
    }

    #[inline]
    pub fn clear(&mut self) {
        self.values.clear();
        self.text.clear();
    }

    #[inline]
    pub fn mark(&self) -> Mark {
        Mark { values: self.values.len(), text: self.text.len() }
    }

    /// Drop the values generated after the mark.
    #[inline]
    pub fn back_to(&mut self, mark: Mark) {
        self.values.truncate(mark.values);
        self.text.truncate(mark.text);
    }

    /// Assign the next `count` values that are pushed to `slot`.
    #[inline]
    pub fn begin(&mut self, slot: u16, count: u32) {
        self.slots[usize::from(slot)] = Slot { first: place(self.values.len()), count };
    }

    #[inline]
    pub fn push(&mut self, value: i64) {
        self.values.push(value);
    }

    /// Push a text: `write` writes it at the start of a buffer of `room` bytes and returns its
    /// length.
    #[inline]
    pub fn push_text(&mut self, room: usize, write: impl FnOnce(&mut [u8]) -> usize) {
        let start = self.text.len();
        self.text.resize(start + room, 0);
        let length = write(&mut self.text[start..]);
        self.text.truncate(start + length);
        self.values.push(i64::from(place(start)) << 32 | i64::from(place(start + length)));
    }

    #[inline]
    pub fn push_bytes(&mut self, text: &[u8]) {
        self.push_text(text.len(), |out| {
            out.copy_from_slice(text);
            text.len()
        });
    }

    /// Return the `count` integers pushed last.
    #[inline]
    pub fn newest(&self, count: usize) -> &[i64] {
        &self.values[self.values.len() - count..]
    }

    #[inline]
    pub fn count(&self, slot: u16) -> u32 {
        self.slots[usize::from(slot)].count
    }

    /// Push the values in a slot of another set; `are_texts` is whether they are texts.
    pub fn push_from(&mut self, others: &Self, slot: u16, are_texts: bool) {
        if are_texts {
            others.texts(slot).for_each(|text| self.push_bytes(text));
        } else {
            self.values.extend_from_slice(others.integers(slot));
        }
    }

    /// Return the first integer in a slot.
    #[inline]
    pub fn integer(&self, slot: u16) -> i64 {
        self.values[self.slots[usize::from(slot)].first as usize]
    }

    #[inline]
    pub fn integers(&self, slot: u16) -> &[i64] {
        let Slot { first, count } = self.slots[usize::from(slot)];
        &self.values[first as usize..][..count as usize]
    }

    #[inline]
    pub fn texts(&self, slot: u16) -> impl Iterator<Item = &[u8]> {
        self.integers(slot).iter().map(|&ends| {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            // both are positions in `texts`
            let (start, end) = ((ends.cast_unsigned() >> 32) as usize, ends as u32 as usize);
            &self.text[start..end]
        })
    }
}

/// Convert a position: 32 bits suffice, because all values of a repetition fit into a packet.
#[inline]
fn place(index: usize) -> u32 {
    u32::try_from(index).expect("a statement's values take less than 4 GB")
}
